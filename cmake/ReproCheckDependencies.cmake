# SPDX-License-Identifier: Apache-2.0
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(spdlog REQUIRED)
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
