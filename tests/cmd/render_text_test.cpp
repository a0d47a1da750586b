// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <regex>
#include <sstream>

#include "cmd/render/render.h"
#include "cmd/render/text.h"
#include "core/text/text.h"
#include "tests/cmd/render_builders.h"
#include "tests/cmd/render_reports.h"
#include "tests/support/files.h"

namespace repro_check::cmd::render_text_test {
namespace {

constexpr std::uint32_t kRandomReports = 80;
constexpr std::size_t kColumns = 80;

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
    const core::Utf8Char character = core::first_char(rest);
    if (!character.valid || core::is_hostile(character.value)) {
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
      CHECK(columns(lines[i]) <= kColumns);
    }
  }
}

std::string without_colors(const std::string& text) {
  static const std::regex kColor("\x1b\\[[0-9;]*m");
  return std::regex_replace(text, kColor, "");
}

TEST_CASE("a module path that is all dots is a tree of bounded depth") {
  std::string dots;
  while (dots.size() < 320'000) dots += "a.";
  comparators::Report report =
      tests::base(comparators::Status::kDiverged, comparators::DivergenceKind::kOrigin);
  report.first_divergence =
      tests::divergence(41, "aten::add", {dots, "model.py", 1}, comparators::Relation::kOrigin);
  RenderOptions options;
  options.verbosity = 1;
  const std::clock_t begin = std::clock();  // of the processor: the machine may be busy
  CHECK(lines_of(render_text(report, options)).size() < 400);
  CHECK(std::clock() - begin < 30 * CLOCKS_PER_SEC);
}

TEST_CASE("every status and kind reads as agreed") {
  const bool update = std::getenv("REPRO_CHECK_UPDATE_GOLDEN") != nullptr;
  for (const tests::NamedReport& each : tests::handmade_reports()) {
    CAPTURE(each.name);
    RenderOptions options = each.options;
    options.columns = kColumns;
    const std::string text = render_text(each.report, options);
    if (update) {
      std::ofstream(golden_path(each.name), std::ios::binary) << text;
    }
    CHECK(text == test_support::read_file(golden_path(each.name)));
    check_lines(text);
    const bool is_short = options.verbosity <= 0 && !options.all;
    if (is_short) CHECK(lines_of(text).size() <= kDefaultReportLines);
  }
}

std::string without_spaces(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

TEST_CASE("at no width is anything left out") {
  for (const tests::NamedReport& each : tests::handmade_reports()) {
    CAPTURE(each.name);
    RenderOptions options = each.options;
    options.all = true;
    const std::string whole = render_text(each.report, options);
    for (const std::size_t columns : {60U, 80U, 160U}) {
      options.columns = columns;
      CHECK(without_spaces(render_text(each.report, options)) == without_spaces(whole));
    }
  }
}

bool says(const comparators::Report& report, const std::string& words) {
  const std::string text = render_text(report, {});
  std::string flat;
  std::istringstream in(text);
  for (std::string word; in >> word;) flat += word + " ";
  return flat.find(words) != std::string::npos;
}

TEST_CASE("a pass of programs says in its first line which seed repro-check set") {
  comparators::Report report =
      tests::base(comparators::Status::kReproducible, comparators::DivergenceKind::kNone);
  const auto says_seed = [&] { return headline(report).find("seed") != std::string::npos; };
  const auto give = [](comparators::RunSummary& run, std::uint64_t seed) {
    run.manifest.model_method = core::kProgramMethod;
    run.manifest.seed = seed;
    run.manifest.settings.push_back({"generator.cpu", "", std::to_string(seed)});
  };
  // Nobody else could seed a model.
  CHECK_FALSE(says_seed());
  for (comparators::RunSummary& run : report.runs) run.manifest.model_method = core::kProgramMethod;
  CHECK_FALSE(says_seed());
  for (comparators::RunSummary& run : report.runs) give(run, 3);
  CHECK(headline(report).starts_with("REPRODUCIBLE with seed 3 set by repro-check: "));
  give(report.runs.back(), 4);
  CHECK(headline(report).starts_with("REPRODUCIBLE with seeds 3, 4 set by repro-check: "));
}

TEST_CASE("a program that seeds nothing reads that first") {
  comparators::Report report =
      tests::base(comparators::Status::kDiverged, comparators::DivergenceKind::kRng);
  report.first_divergence.emplace();
  comparators::OpDivergence& first = *report.first_divergence;
  first.baseline_index = first.candidate_index = 2;
  first.baseline.op =
      std::make_shared<core::OperatorInfo>(core::OperatorInfo{"aten::normal_", "", false});
  first.baseline.step = 4;
  first.cause = {comparators::CauseKind::kRngStream,
                 {comparators::Phrase("process-not-seeded")},
                 comparators::Phrase("do-seed-program")};
  for (comparators::RunSummary& run : report.runs) run.manifest.model_method = core::kProgramMethod;
  CHECK(headline(report) == "DIVERGED at step 4: random numbers were not seeded");
  CHECK(says(report, "op parts at step 4, forward, op 2 aten::normal_"));
}

TEST_CASE("what drew in a pass is said with what its agreement rests on, and nothing else is") {
  comparators::Report report =
      tests::base(comparators::Status::kReproducible, comparators::DivergenceKind::kNone);
  CHECK_FALSE(says(report, "random"));
  report.draws = {1, {"cpu", "cuda:0"}, {7, 9}, {}, {}};
  CHECK(says(report,
             "random 1 operator drew from cpu, cuda:0 (seeds 7, 9): it agrees because both runs "
             "had the same seed"));
  report.runs.back().manifest.seed = 77;
  CHECK(says(report, "(seeds 7, 9), by which the model seeds its generators itself"));
  CHECK_FALSE(says(report, "same seed"));
  report.runs.back().manifest.seed = report.runs.front().manifest.seed;
  report.draws = {5, {"cpu"}, {1, 2, 3, 4}, {}, {}};
  CHECK(says(report, "random 5 operators drew from cpu (seeds 1, 2, 3, 4 and others): they agree"));
  report.repeat.emplace();
  CHECK(says(report, "because all runs had the same seed"));
  report.draws.parting = {
      comparators::Phrase("seeds-apart", {{"baseline", "1"}, {"candidate", "2"}})};
  CHECK(says(report, "5 operators drew from cpu; the generators started apart"));
  CHECK_FALSE(says(report, "same seed"));
  report.status = comparators::Status::kDiverged;
  CHECK_FALSE(says(report, "drew from"));
}

TEST_CASE("a first bit passed only where the list has every operator that did not") {
  comparators::Report report =
      tests::base(comparators::Status::kDiverged, comparators::DivergenceKind::kOrigin);
  report.coverage.within_policy = 2;
  report.coverage.equal -= 2;
  tests::set_diverged(report.coverage, 1, 0);
  report.first_divergence = tests::first_origin();
  report.divergences_total = 1;
  report.first_bit_difference = 40;
  CHECK(says(report, "op 40 of the baseline is the first that is not bit-identical; it passed"));
  // One more diverged than is listed, and it may be this one.
  tests::set_diverged(report.coverage, 1, 1);
  CHECK(says(report, "op 40 of the baseline is the first that is not bit-identical"));
  CHECK_FALSE(says(report, "it passed"));
  // Nor did what could not be judged pass.
  tests::set_diverged(report.coverage, 1, 0);
  report.coverage.not_judged = 1;
  CHECK_FALSE(says(report, "it passed"));
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

TEST_CASE("any report keeps to its columns") {
  for (std::uint32_t seed = 0; seed < kRandomReports; ++seed) {
    CAPTURE(seed);
    const comparators::Report report = tests::random_report(seed);
    RenderOptions options;
    options.columns = kColumns;
    options.config_path = "a b/config.json";
    options.logs = {{"a.log", "::error::x"}, {std::string(300, 'p'), std::string(300, 'q')}};
    const std::string text = render_text(report, options);
    check_lines(text);
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

TEST_CASE("a run is tried again as it was typed, and forced where it would be refused") {
  using comparators::Status;
  comparators::Report report;
  RenderOptions options;
  options.config_path = "config.json";
  options.config_flags = {"--seed", "7"};
  const auto next = [&](Status status) -> std::string {
    report.status = status;
    const std::string text = render_text(report, options);
    const std::size_t at = text.find("repro-check run ");
    return at == std::string::npos ? "" : text.substr(at, text.find('\n', at) - at);
  };
  const std::string again = "repro-check run -c config.json --seed 7";
  CHECK(next(Status::kIncomplete) == again);
  CHECK(next(Status::kDamaged) == again + " --force");
  options.config_path = "-";
  CHECK(next(Status::kIncomplete).empty());
}

}  // namespace
}  // namespace repro_check::cmd::render_text_test
