// SPDX-License-Identifier: Apache-2.0
// Without arguments: the JSON report of every handmade report and of many random ones, one document
// a line. With FORMAT DIR: every document of a format as a file of its own, DIR/NAME-EXIT.FORMAT,
// for programs that judge formats; `junit-strict` is JUnit in its strict dialect.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

#include "cmd/render/render.h"
#include "comparators/compare.h"
#include "tests/cmd/render_reports.h"

namespace {

using repro_check::cmd::DocumentOptions;
using repro_check::comparators::Report;

constexpr std::uint32_t kRandomReports = 100;

void print_json() {
  for (const auto& each : repro_check::tests::handmade_reports()) {
    std::fputs(repro_check::cmd::render_json(each.report, each.options).c_str(), stdout);
  }
  for (std::uint32_t seed = 0; seed < kRandomReports; ++seed) {
    const auto report = repro_check::tests::random_report(seed);
    std::fputs(repro_check::cmd::render_json(report, {}).c_str(), stdout);
  }
}

int write_files(std::string_view format, const std::filesystem::path& directory) {
  const bool is_strict = format == "junit-strict";
  const auto* row = repro_check::cmd::find_format(is_strict ? "junit" : format);
  if (row == nullptr) return 2;
  DocumentOptions options;
  options.subject = "bert";
  options.source_root = "/home/ann/project";
  options.strict_junit = is_strict;
  const auto write = [&](const std::string& name, const Report& report) {
    const int code = static_cast<int>(repro_check::comparators::exit_code_of(report));
    const std::string file = name + "-" + std::to_string(code) + "." + std::string(format);
    std::ofstream(directory / file, std::ios::binary) << row->render({&report, 1}, options);
  };
  for (const auto& each : repro_check::tests::handmade_reports()) write(each.name, each.report);
  for (std::uint32_t seed = 0; seed < kRandomReports; ++seed) {
    write("random_" + std::to_string(seed), repro_check::tests::random_report(seed));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3) return write_files(argv[1], argv[2]);
  print_json();
  return 0;
}
