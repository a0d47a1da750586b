# SPDX-License-Identifier: Apache-2.0
find_package(Threads REQUIRED)

# For a wheel, which runs where none of these libraries is: all but glibc become part of the program.
# What is never called is left out before it is asked for, as the formats of libarchive that would take
# twenty further libraries.
if(REPRO_CHECK_STATIC)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  set(HDF5_USE_STATIC_LIBRARIES ON)
  add_link_options(-static-libgcc $<$<LINK_LANGUAGE:CXX>:-static-libstdc++> LINKER:--gc-sections)
endif()

find_package(fmt REQUIRED)
add_library(repro_check_fmt INTERFACE)
target_link_libraries(repro_check_fmt INTERFACE
                      $<IF:$<BOOL:${REPRO_CHECK_STATIC}>,fmt::fmt-header-only,fmt::fmt>)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
add_library(repro_check_spdlog INTERFACE)
if(REPRO_CHECK_STATIC)
  set_property(TARGET spdlog::spdlog_header_only
               PROPERTY INTERFACE_LINK_LIBRARIES Threads::Threads fmt::fmt-header-only)
  target_link_libraries(repro_check_spdlog INTERFACE spdlog::spdlog_header_only)
else()
  target_link_libraries(repro_check_spdlog INTERFACE spdlog::spdlog)
endif()
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)

# By pkg-config: not every distribution ships a CMake package of RE2.
pkg_check_modules(REPRO_CHECK_RE2 REQUIRED IMPORTED_TARGET re2)
add_library(repro_check_re2 INTERFACE)
target_link_libraries(repro_check_re2 INTERFACE PkgConfig::REPRO_CHECK_RE2)

find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
add_library(repro_check_xxhash INTERFACE)
target_include_directories(repro_check_xxhash SYSTEM INTERFACE "${XXHASH_INCLUDE_DIR}")

find_package(HDF5 1.10 REQUIRED COMPONENTS C)
if(REPRO_CHECK_STATIC)
  # Of what HDF5 is said to need, the others are glibc, and what only its reader of S3 calls.
  list(FILTER HDF5_C_LIBRARIES INCLUDE REGEX "/lib(hdf5|sz|z)\\.a$")
  find_library(AEC_LIBRARY aec REQUIRED)
  list(APPEND HDF5_C_LIBRARIES "${AEC_LIBRARY}")
endif()
add_library(repro_check_hdf5 INTERFACE)
target_include_directories(repro_check_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_link_libraries(repro_check_hdf5 INTERFACE ${HDF5_C_LIBRARIES})

# Packs the data of HTML reports as browsers unpack it.
find_package(ZLIB REQUIRED)

find_package(LibArchive 3.4 REQUIRED)
pkg_check_modules(REPRO_CHECK_ZSTD REQUIRED IMPORTED_TARGET libzstd>=1.4)
add_library(repro_check_archive INTERFACE)
target_link_libraries(repro_check_archive INTERFACE LibArchive::LibArchive PkgConfig::REPRO_CHECK_ZSTD)

if(REPRO_CHECK_WITH_TORCH)
  include(ReproCheckTorch)
endif()
