# SPDX-License-Identifier: Apache-2.0
# What probe and recorder are built of on a user's machine, where none of ours fits the PyTorch there:
# sources that include LibTorch, and the rest as libraries.
set(kit "${CMAKE_BINARY_DIR}/libexec/repro-check/kit")
set(kit_generated "${CMAKE_BINARY_DIR}/kit")
set(kit_patterns core/*.h configs/*.h dumpers/journal/*.h dumpers/model_file/*.h dumpers/stub/*.h dumpers/probe/*.map)
foreach(room IN ITEMS capture exported probe replay torchscript)
  list(APPEND kit_patterns dumpers/${room}/*.cpp dumpers/${room}/*.h dumpers/${room}/*.inc)
endforeach()
file(READ "${CMAKE_SOURCE_DIR}/dumpers/python/repro_check_hooks/kit.py" kit_script)
foreach(room IN ITEMS capture/settings exported probe replay torchscript)
  if(NOT kit_script MATCHES "\"${room}\"")
    message(FATAL_ERROR "kit.py compiles no dumpers/${room}: what is built at first use would not be linked")
  endif()
endforeach()
list(TRANSFORM kit_patterns PREPEND "${CMAKE_SOURCE_DIR}/")
file(GLOB_RECURSE kit_sources CONFIGURE_DEPENDS RELATIVE "${CMAKE_SOURCE_DIR}" ${kit_patterns})
set(kit_archives recorder model_file configs store journal core)
list(TRANSFORM kit_archives PREPEND repro_check_)
list(TRANSFORM kit_archives REPLACE "(.+)" "$<TARGET_FILE:\\1>" OUTPUT_VARIABLE kit_archive_files)
list(TRANSFORM kit_archives REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE kit_objects)

# All of it linked, without what is compiled against LibTorch: tells which libraries that takes.
add_executable(repro_check_kit_trial ${kit_objects})
target_link_libraries(repro_check_kit_trial PRIVATE ${kit_archives} repro_check_options)
target_link_options(repro_check_kit_trial PRIVATE LINKER:--unresolved-symbols=ignore-all
                    LINKER:--as-needed "LINKER:-Map=${kit_generated}/trial.map")
set_target_properties(repro_check_kit_trial PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${kit_generated}"
                      OUTPUT_NAME trial LINKER_LANGUAGE CXX)

# The second is included by LibTorch's own headers, which do not bring it.
find_path(FMT_INCLUDE_DIR fmt/format.h REQUIRED)
find_path(NLOHMANN_INCLUDE_DIR nlohmann/json.hpp REQUIRED)
file(
  GENERATE
  OUTPUT "${kit_generated}/inputs.cmake"
  CONTENT
    "set(kit \"${kit}\")
set(root \"${CMAKE_SOURCE_DIR}\")
set(sources \"${kit_sources}\")
set(archives \"${kit_archive_files}\")
set(trial \"$<TARGET_FILE:repro_check_kit_trial>\")
set(map \"${kit_generated}/trial.map\")
set(headers \"${FMT_INCLUDE_DIR}/fmt;${NLOHMANN_INCLUDE_DIR}/nlohmann\")
set(strip \"${CMAKE_STRIP}\")
set(objdump \"${CMAKE_OBJDUMP}\")
set(version \"${PROJECT_VERSION}\")
")
set(stage "${CMAKE_SOURCE_DIR}/cmake/package/kit.cmake")
list(TRANSFORM kit_sources PREPEND "${CMAKE_SOURCE_DIR}/" OUTPUT_VARIABLE kit_source_files)
add_custom_command(
  OUTPUT "${kit}/id"
  COMMAND "${CMAKE_COMMAND}" "-DINPUTS=${kit_generated}/inputs.cmake" -P "${stage}"
  DEPENDS ${kit_source_files} ${kit_archives} repro_check_kit_trial "${stage}"
          "${kit_generated}/inputs.cmake"
  VERBATIM)
add_custom_target(repro_check_kit ALL DEPENDS "${kit}/id")
install(DIRECTORY "${kit}" DESTINATION "${CMAKE_INSTALL_LIBEXECDIR}/repro-check")
