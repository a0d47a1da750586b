# SPDX-License-Identifier: Apache-2.0
# Settings and warnings as interface targets, linked privately by every target of ours.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()

# Headers are read once for several files. Developers compile each alone, which a small change makes
# up for, and which shows a missing #include. Files with options of their own stay alone.
set(CMAKE_UNITY_BUILD ${REPRO_CHECK_JOINED})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 24)

add_library(repro_check_options INTERFACE)
target_include_directories(repro_check_options INTERFACE "${CMAKE_SOURCE_DIR}")
# A comparison must not depend on whether the compiler fused a multiply and an add.
target_compile_options(repro_check_options INTERFACE -ffp-contract=off)
target_compile_definitions(repro_check_options INTERFACE REPRO_CHECK_VERSION="${PROJECT_VERSION}")
if(REPRO_CHECK_SANITIZE)
  target_compile_options(
    repro_check_options
    INTERFACE -fsanitize=${REPRO_CHECK_SANITIZE} -fno-omit-frame-pointer
              -fno-sanitize-recover=all)
  target_link_options(repro_check_options INTERFACE -fsanitize=${REPRO_CHECK_SANITIZE})
  # GCC takes what the sanitizers put around an optional for a use of what it does not hold.
  set(REPRO_CHECK_FALSE_ALARMS -Wno-maybe-uninitialized)
endif()

add_library(repro_check_warnings INTERFACE)
target_compile_options(
  repro_check_warnings
  INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wdouble-promotion
            $<$<BOOL:${REPRO_CHECK_DEVELOPER}>:-Werror>
            # GCC 12 takes the copies of short texts for ones that overlap (its bug 105651).
            $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
            # GCC takes a joined file for a header, whose types others may see.
            $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${REPRO_CHECK_JOINED}>>:-Wno-subobject-linkage>)

# What no recording and no comparison waits for is optimised no further than is quick to compile.
add_library(repro_check_quick INTERFACE)
target_compile_options(repro_check_quick INTERFACE $<$<CONFIG:Release>:-O1>)

# repro_check_library(<folder name> SOURCES ... PUBLIC ... PRIVATE ...): one static library a folder.
function(repro_check_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(repro_check_${name} STATIC ${ARG_SOURCES})
  add_library(repro_check::${name} ALIAS repro_check_${name})
  target_link_libraries(
    repro_check_${name}
    PUBLIC repro_check_options ${ARG_PUBLIC}
    PRIVATE repro_check_warnings ${ARG_PRIVATE})
endfunction()

# repro_check_by_instruction_set(<target> <source>...): sources of the target are compiled for every
# machine and again for those with AVX2 and AVX-512, each under a name of its own: see
# core/system/vectors.h.
function(repro_check_by_instruction_set target)
  set(avx2 -O3)
  set(avx512 -O3)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(APPEND avx2 -mavx2 -mfma -DREPRO_CHECK_VECTOR_BYTES=32)
    # GCC 12 takes the operands that its own header leaves undefined on purpose for a mistake.
    list(APPEND avx512 -mavx512f -mavx512dq -mavx512vl -mprefer-vector-width=512
                       -DREPRO_CHECK_VECTOR_BYTES=64 $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized>)
  endif()
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "-O3")
  foreach(source IN LISTS ARGN)
    get_filename_component(name "${source}" NAME_WE)
    foreach(set avx2 avx512)
      set(copy "${CMAKE_CURRENT_BINARY_DIR}/${name}_${set}.cpp")
      file(CONFIGURE OUTPUT "${copy}" CONTENT
           "#include \"${CMAKE_CURRENT_SOURCE_DIR}/${source}\"  // NOLINT(bugprone-suspicious-include)\n")
      target_sources(${target} PRIVATE "${copy}")
      set_source_files_properties("${copy}" PROPERTIES COMPILE_OPTIONS "${${set}};-DREPRO_CHECK_ISA=${set}")
    endforeach()
  endforeach()
endfunction()
