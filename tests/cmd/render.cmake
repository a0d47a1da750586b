# SPDX-License-Identifier: Apache-2.0
# Tests of cmd/render; included by the CMakeLists.txt of this folder.
add_library(repro_check_render_reports STATIC render_builders.cpp render_random.cpp
                                               render_reports.cpp)
target_link_libraries(
  repro_check_render_reports
  PUBLIC repro_check::render
  PRIVATE repro_check_warnings)

repro_check_test(
  cmd_render_test
  SOURCES
  render_documents_test.cpp
  render_format_test.cpp
  render_html_test.cpp
  render_json_test.cpp
  render_text_test.cpp
  report_reader_test.cpp
  words_test.cpp
  LINK
  repro_check_render_reports
  repro_check_fmt
  nlohmann_json::nlohmann_json
  LABELS
  unit
  golden)
target_compile_options(cmd_render_test PRIVATE ${REPRO_CHECK_FALSE_ALARMS})
target_compile_definitions(
  cmd_render_test
  PRIVATE REPRO_CHECK_RENDER_FIXTURES="${PROJECT_SOURCE_DIR}/tests/fixtures/render"
          REPRO_CHECK_DOCS="${PROJECT_SOURCE_DIR}/docs")

add_executable(repro_check_render_samples render_samples.cpp)
target_link_libraries(repro_check_render_samples PRIVATE repro_check_render_reports
                                                         repro_check_warnings)
repro_check_script(cmd_render_schema render_schema_test.py "$<TARGET_FILE:repro_check_render_samples>"
                   "${CMAKE_SOURCE_DIR}/docs/report.schema.json" LABELS unit golden)
repro_check_script(cmd_render_documents render_documents_test.py "$<TARGET_FILE:repro_check_render_samples>"
                   "${CMAKE_SOURCE_DIR}/tests/schemas" LABELS unit golden)
