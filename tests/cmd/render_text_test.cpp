// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

#include "cmd/render/render.h"
#include "cmd/render/text.h"
#include "cmd/render/utf8.h"
#include "tests/cmd/render_reports.h"
#include "tests/support/files.h"

namespace repro_check::cmd {
namespace {

constexpr std::uint32_t kRandomReports = 80;

std::string golden_path(const std::string& name) {
  return std::string(REPRO_CHECK_RENDER_FIXTURES) + "/" + name + ".txt";
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    lines.push_back(line);
  }
  return lines;
}

// What a CI runner would obey, or a terminal.
bool is_dangerous(const std::string& line) {
  const std::size_t first = line.find_first_not_of(" \t");
  if (first != std::string::npos && line.compare(first, 2, "::") == 0) {
    return true;
  }
  if (line.find("##[") != std::string::npos || line.find("##vso[") != std::string::npos) {
    return true;
  }
  for (std::string_view rest = line; !rest.empty();) {
    const Utf8Char character = first_char(rest);
    if (!character.valid || is_hostile(character.value)) {
      return true;
    }
    rest.remove_prefix(character.bytes);
  }
  return false;
}

void check_lines(const std::string& text) {
  const std::vector<std::string> lines = lines_of(text);
  REQUIRE_FALSE(lines.empty());
  CHECK(text.back() == '\n');
  for (std::size_t i = 0; i < lines.size(); ++i) {
    CAPTURE(lines[i]);
    CHECK_FALSE(is_dangerous(lines[i]));
    if (i > 0 && !lines[i].starts_with("next: ")) {
      CHECK(columns(lines[i]) <= kReportColumns);
    }
  }
}

std::string without_colors(const std::string& text) {
  static const std::regex kColor("\x1b\\[[0-9;]*m");
  return std::regex_replace(text, kColor, "");
}

TEST_CASE("every status and kind reads as agreed") {
  const bool update = std::getenv("REPRO_CHECK_UPDATE_GOLDEN") != nullptr;
  for (const tests::NamedReport& each : tests::handmade_reports()) {
    CAPTURE(each.name);
    const std::string text = render_text(each.report, each.options);
    if (update) {
      std::ofstream(golden_path(each.name), std::ios::binary) << text;
    }
    CHECK(text == test_support::read_file(golden_path(each.name)));
    check_lines(text);
  }
}

TEST_CASE("the verdict line opens the text report and is all of a quiet one") {
  for (const tests::NamedReport& each : tests::handmade_reports()) {
    CAPTURE(each.name);
    RenderOptions quiet;
    quiet.verbosity = -1;
    CHECK(render_text(each.report, quiet) == headline(each.report) + "\n");
    CHECK(render_text(each.report, {}).starts_with(headline(each.report) + "\n"));
  }
}

TEST_CASE("any report keeps to its lines and columns") {
  for (std::uint32_t seed = 0; seed < kRandomReports; ++seed) {
    CAPTURE(seed);
    const comparators::Report report = tests::random_report(seed);
    RenderOptions options;
    options.config_path = "a b/config.json";
    options.logs = {{"a.log", "::error::x"}, {std::string(300, 'p'), std::string(300, 'q')}};
    const std::string text = render_text(report, options);
    check_lines(text);
    CHECK(lines_of(text).size() <= kDefaultReportLines);
    if (seed % 5 == 0) {
      options.verbosity = 2;
      options.all = true;
      check_lines(render_text(report, options));
    }
  }
}

TEST_CASE("colours add nothing but colours") {
  const std::regex allowed("\x1b\\[(0|1|2|1;3[123]|3[1456])m");
  for (const tests::NamedReport& each : tests::handmade_reports()) {
    CAPTURE(each.name);
    RenderOptions options = each.options;
    options.color = true;
    const std::string colored = render_text(each.report, options);
    CHECK(without_colors(colored) == render_text(each.report, each.options));
    CHECK(std::regex_replace(colored, allowed, "").find('\x1b') == std::string::npos);
    CHECK(colored.starts_with("\x1b[1;3"));
  }
}

TEST_CASE("a list that was cut says how much and how to see it") {
  comparators::Report report;
  report.status = comparators::Status::kDiverged;
  report.kind = comparators::DivergenceKind::kOrigin;
  comparators::OpDivergence op;
  op.baseline_index = op.candidate_index = 1;
  report.first_divergence = op;
  report.divergences.assign(40, op);
  report.divergences_total = 100;
  report.coverage.origins = report.coverage.diverged = 100;
  CHECK(render_text(report, {}).find("... and 89 more: --all\n") != std::string::npos);
  RenderOptions options;
  options.top = 25;
  CHECK(render_text(report, options).find("... and 74 more: --all\n") != std::string::npos);
  options.all = true;
  CHECK(render_text(report, options).find("... and 59 more: not kept in this report\n") !=
        std::string::npos);
}

TEST_CASE("next lines are commands for a verdict that leaves a question") {
  for (const tests::NamedReport& each : tests::handmade_reports()) {
    CAPTURE(each.name);
    std::size_t commands = 0;
    bool is_last = true;
    for (const std::string& line : lines_of(render_text(each.report, each.options))) {
      const bool is_command = line.starts_with("next: ");
      is_last = is_command || commands == 0;
      CHECK(is_last);
      commands += is_command ? 1 : 0;
    }
    CHECK(commands <= 2);
    if (each.report.status == comparators::Status::kReproducible || each.options.verbosity < 0) {
      CHECK(commands == 0);
    }
  }
}

}  // namespace
}  // namespace repro_check::cmd
