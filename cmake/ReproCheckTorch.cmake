# SPDX-License-Identifier: Apache-2.0
# Finds LibTorch: CMAKE_PREFIX_PATH, else the python3 that has torch, else .venv (scripts/setup), else
# the system's own package. The first that can be used wins; the reason against the others is printed.
set(REPRO_CHECK_TORCH_PROBE
    "import importlib.util as u, os, sys
spec = u.find_spec('torch')
root = os.path.dirname(spec.origin) if spec and spec.origin else ''
prefix = os.path.join(root, 'share', 'cmake')
if not root or not os.path.isfile(os.path.join(prefix, 'Torch', 'TorchConfig.cmake')): sys.exit(0)
version = u.spec_from_file_location('v', os.path.join(root, 'version.py'))
module = u.module_from_spec(version)
version.loader.exec_module(module)
gpu = getattr(module, 'cuda', None) or getattr(module, 'hip', None) or ''
print(prefix, gpu, module.__version__, sep=';')
")

# A build of LibTorch for a GPU has a CMake package that fails hard where the GPU's own toolkit is not
# installed. Nothing of ours is compiled against that toolkit, so such a build is linked by hand.
macro(repro_check_torch_by_hand prefix version)
  cmake_path(SET TORCH_INSTALL_PREFIX NORMALIZE "${prefix}/../..")
  set(TORCH_INCLUDE_DIRS "${TORCH_INSTALL_PREFIX}/include"
                         "${TORCH_INSTALL_PREFIX}/include/torch/csrc/api/include")
  # libtorch.so holds no symbol: linking it is what brings the GPU's operators in.
  set(TORCH_LIBRARIES
      "-Wl,--no-as-needed" "${TORCH_INSTALL_PREFIX}/lib/libtorch.so" "-Wl,--as-needed"
      "${TORCH_INSTALL_PREFIX}/lib/libtorch_cpu.so" "${TORCH_INSTALL_PREFIX}/lib/libc10.so")
  set(TORCH_CXX_FLAGS "")
  set(Torch_VERSION "${version}")
  set(Torch_FOUND TRUE)
endmacro()

# LibTorch's package looks for its own parts in the system's folders first. With two installed it
# would link one half of each, so its prefix is put before them for the search.
macro(repro_check_find_torch)
  set(REPRO_CHECK_OLD_PREFIX_PATH "${CMAKE_PREFIX_PATH}")
  foreach(prefix IN ITEMS ${ARGN})
    cmake_path(SET REPRO_CHECK_ROOT NORMALIZE "${prefix}/../..")
    list(APPEND CMAKE_PREFIX_PATH "${prefix}")
    if(EXISTS "${REPRO_CHECK_ROOT}/lib/libc10.so")
      list(APPEND CMAKE_PREFIX_PATH "${REPRO_CHECK_ROOT}")
    endif()
  endforeach()
  unset(TORCH_LIBRARY CACHE)
  unset(C10_LIBRARY CACHE)
  find_package(Torch QUIET PATHS ${ARGN} NO_DEFAULT_PATH)
  set(CMAKE_PREFIX_PATH "${REPRO_CHECK_OLD_PREFIX_PATH}")
endmacro()

if(CMAKE_PREFIX_PATH OR DEFINED ENV{CMAKE_PREFIX_PATH})
  string(REPLACE ":" ";" REPRO_CHECK_ENV_PREFIXES "$ENV{CMAKE_PREFIX_PATH}")
  repro_check_find_torch(${CMAKE_PREFIX_PATH} ${REPRO_CHECK_ENV_PREFIXES})
endif()

find_program(REPRO_CHECK_PYTHON NAMES python3)
foreach(python IN ITEMS "${REPRO_CHECK_PYTHON}" "${CMAKE_SOURCE_DIR}/.venv/bin/python3")
  if(Torch_FOUND OR NOT EXISTS "${python}")
    continue()
  endif()
  execute_process(
    COMMAND "${python}" -c "${REPRO_CHECK_TORCH_PROBE}"
    OUTPUT_VARIABLE REPRO_CHECK_TORCH
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT REPRO_CHECK_TORCH)
    continue()
  endif()
  list(GET REPRO_CHECK_TORCH 0 REPRO_CHECK_TORCH_PREFIX)
  list(GET REPRO_CHECK_TORCH 1 REPRO_CHECK_TORCH_GPU)
  list(GET REPRO_CHECK_TORCH 2 REPRO_CHECK_TORCH_VERSION)
  if(REPRO_CHECK_TORCH_GPU)
    repro_check_torch_by_hand("${REPRO_CHECK_TORCH_PREFIX}" "${REPRO_CHECK_TORCH_VERSION}")
  else()
    repro_check_find_torch("${REPRO_CHECK_TORCH_PREFIX}")
  endif()
endforeach()

if(NOT Torch_FOUND)
  find_package(Torch QUIET)
endif()
if(NOT Torch_FOUND)
  message(
    FATAL_ERROR
      "LibTorch was not found. Run scripts/setup, or point CMAKE_PREFIX_PATH at it, or configure "
      "with -DREPRO_CHECK_WITH_TORCH=OFF to build the comparator alone.")
endif()
message(STATUS "LibTorch ${Torch_VERSION}: ${TORCH_INSTALL_PREFIX}")
if("${TORCH_CXX_FLAGS}" MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
  message(
    FATAL_ERROR
      "This LibTorch was built for the old C++ ABI of GCC, which the system's libraries do not "
      "speak. Take a release from 2.6 on, the cxx11-abi download, or the distribution's package "
      "(-DCMAKE_PREFIX_PATH=/usr).")
endif()

# LibTorch's headers are not held to our warnings; its flags (ABI) come from its own target.
add_library(repro_check_torch INTERFACE)
target_include_directories(repro_check_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
target_link_libraries(repro_check_torch INTERFACE ${TORCH_LIBRARIES})
separate_arguments(REPRO_CHECK_TORCH_FLAGS UNIX_COMMAND "${TORCH_CXX_FLAGS}")
target_compile_options(repro_check_torch INTERFACE ${REPRO_CHECK_TORCH_FLAGS})
if(REPRO_CHECK_SANITIZE MATCHES "undefined")
  # LibTorch hides the type information that this check needs of the classes we derive from.
  target_compile_options(repro_check_torch INTERFACE -fno-sanitize=vptr)
endif()

# repro_check_torch_headers(<target> <header ...> | REUSE_FROM <other>): LibTorch's headers take most of
# a unit's time. They are read once for many files: joined, or precompiled.
function(repro_check_torch_headers target)
  if(REPRO_CHECK_JOINED)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 48)
  elseif(ARGV1 STREQUAL "REUSE_FROM")
    target_precompile_headers(${target} REUSE_FROM ${ARGV2})
  else()
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()
