# SPDX-License-Identifier: Apache-2.0
# Debian packages, by `cpack -G DEB` in the build folder (scripts/package does all of it): repro-check,
# which needs no LibTorch, repro-check-recorder for the distribution's LibTorch, and
# python3-repro-check. What they depend on is what dpkg-shlibdeps finds.
set(package_files "${CMAKE_SOURCE_DIR}/cmake/package")
set(package_generated "${CMAKE_BINARY_DIR}/package")
set(package_components tool python)
# A LibTorch out of pip belongs to no package that the recorder's could depend on.
if(REPRO_CHECK_WITH_TORCH AND TORCH_INSTALL_PREFIX STREQUAL "/usr")
  list(APPEND package_components recorder)
endif()

set(REPRO_CHECK_MAINTAINER
    "The authors of repro-check <repro-check@invalid>"
    CACHE STRING "Who answers for the Debian packages: Name <address>")
string(TIMESTAMP REPRO_CHECK_PACKAGE_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file("${package_files}/changelog.in" "${package_generated}/changelog" @ONLY)
configure_file("${package_files}/METADATA.in" "${package_generated}/METADATA" @ONLY)

set(package_name_tool repro-check)
set(package_name_recorder repro-check-recorder)
set(package_name_python python3-repro-check)
foreach(component IN LISTS package_components)
  set(name "${package_name_${component}}")
  string(TOUPPER "${component}" key)
  set(CPACK_DEBIAN_${key}_PACKAGE_NAME "${name}")
  set(CPACK_DEBIAN_${key}_FILE_NAME DEB-DEFAULT)
  # Only a package has these two; an installed tree has LICENSE and CHANGELOG.md.
  install(
    FILES "${package_files}/copyright" "${package_generated}/changelog"
    DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${name}"
    COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()

# As pip would leave it, so that pytest finds the plugin.
set(python_folder lib/python3/dist-packages)
install(
  DIRECTORY "${CMAKE_SOURCE_DIR}/python/repro_check"
  DESTINATION "${python_folder}"
  COMPONENT python EXCLUDE_FROM_ALL
  FILES_MATCHING
  PATTERN "*.py"
  PATTERN "py.typed"
  PATTERN "__pycache__" EXCLUDE)
install(
  FILES "${package_generated}/METADATA" "${package_files}/entry_points.txt"
  DESTINATION "${python_folder}/repro_check-${PROJECT_VERSION}.dist-info"
  COMPONENT python EXCLUDE_FROM_ALL)
install(
  FILES "${CMAKE_SOURCE_DIR}/python/README.md"
  DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/${package_name_python}"
  COMPONENT python EXCLUDE_FROM_ALL)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME repro-check)
set(CPACK_PACKAGE_CONTACT "${REPRO_CHECK_MAINTAINER}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL ${package_components})
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS "${package_files}/compress.cmake")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

set(CPACK_COMPONENT_TOOL_DESCRIPTION
    "find the first operator in which two runs of a PyTorch model differ
Compares recordings of PyTorch models operator by operator, names the first
that differs, by how much and why, and gates CI on it.
.
Recordings are compared, inspected and verified without LibTorch. To make
them, install repro-check-recorder.")
set(CPACK_DEBIAN_TOOL_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_TOOL_PACKAGE_CONTROL_EXTRA "${package_files}/postinst" "${package_files}/prerm")
set(CPACK_DEBIAN_TOOL_PACKAGE_RECOMMENDS repro-check-recorder)
set(CPACK_DEBIAN_TOOL_PACKAGE_SUGGESTS python3-repro-check)

set(CPACK_COMPONENT_RECORDER_DESCRIPTION
    "recorder of repro-check for the distribution's LibTorch
Runs TorchScript models with the distribution's LibTorch and records every
operator for repro-check, which starts this program and is what one calls.")
set(CPACK_DEBIAN_RECORDER_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_RECORDER_PACKAGE_DEPENDS "repro-check (= ${PROJECT_VERSION})")
# LibTorch is content with the reference BLAS, which is slower by an order of magnitude.
set(CPACK_DEBIAN_RECORDER_PACKAGE_RECOMMENDS libopenblas0)

set(CPACK_COMPONENT_PYTHON_DESCRIPTION
    "recordings of repro-check in Python
Reads and writes the recordings of repro-check from Python, with a plugin for
pytest.")
set(CPACK_DEBIAN_PYTHON_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON_PACKAGE_DEPENDS "python3 (>= 3.9), python3-h5py, python3-numpy, python3-xxhash")
set(CPACK_DEBIAN_PYTHON_PACKAGE_RECOMMENDS repro-check)
set(CPACK_DEBIAN_PYTHON_PACKAGE_SUGGESTS "python3-pandas, python3-pytest")
include(CPack)
