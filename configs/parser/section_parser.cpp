// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "configs/parser/byte_size.h"
#include "configs/parser/keys.h"
#include "configs/parser/run_parser.h"

namespace repro_check::configs::detail {
namespace {

constexpr std::int64_t kWidestWindow = 1'000'000'000;

/// A list replaces the preset's as a whole: patterns of two authors rarely add up.
void read_patterns(const Node& node, Problems& problems, std::vector<std::string>& into) {
  if (!node.json->is_array()) {
    report_unexpected(node, R"(a list of patterns, such as ["aten::*", "encoder.*"])", problems);
    return;
  }
  into.clear();
  for (std::size_t i = 0; i < node.json->size(); ++i) {
    if (auto text = read_text(node.item(i), "a pattern, such as \"aten::*\"", problems)) {
      into.push_back(std::move(*text));
    }
  }
}

/// [[3, 11], [40, 40]]; written by us, so that one message does for all that can be wrong.
void read_ranges(const Node& node, Problems& problems, core::OpRanges& into) {
  const auto is_range = [](const Json& item) {
    return item.is_array() && item.size() == 2 && item[0].is_number_unsigned() &&
           item[1].is_number_unsigned() && item[0] <= item[1];
  };
  const bool whole = node.json->is_array() && std::ranges::all_of(*node.json, is_range);
  if (whole) {
    into.clear();
    for (const Json& item : *node.json) {
      into.push_back({item[0].get<std::uint64_t>(), item[1].get<std::uint64_t>()});
    }
  }
  if (!whole || into != core::united(into)) {
    report_unexpected(node, "ascending [first, last] pairs of op indices", problems);
  }
}

std::optional<core::SliceRule> read_slice(const Node& node, Problems& problems) {
  const ObjectReader object(node, kSliceKeys, problems);
  if (!object.is_object()) return std::nullopt;
  // No tensor has more.
  constexpr IntegerRange kCount{1, std::int64_t{1} << 40U, ""};
  core::SliceRule rule;
  if (const auto member = object.find("elements")) {
    assign(read_integer(*member, kCount, problems), rule.elements);
  } else {
    object.report_missing(
        "elements", ": so many are stored of a tensor that is too large", problems);
  }
  if (const auto member = object.find("stride")) {
    assign(read_integer(*member, kCount, problems), rule.stride);
  }
  if (const auto member = object.find("above")) rule.above = read_byte_size(*member, 0, problems);
  return rule;
}

/// What a configuration and a request have in common.
void read_dump_members(const ObjectReader& object, const ParseContext& context, DumpSpec& dump) {
  Problems& problems = context.problems;
  if (const auto member = object.find("directory")) {
    assign(read_path(*member, PathKind::kDirectoryToMake, "a directory for dumps", context),
           dump.directory);
  }
  if (const auto member = object.find("depth")) {
    assign(read_choice(*member, kDumpDepths, problems), dump.depth);
  }
  if (const auto member = object.find("browse")) {
    assign(read_choice(*member, kBrowseModes, problems), dump.browse);
  }
  if (const auto member = object.find("verify_inputs")) {
    assign(read_bool(*member, problems), dump.verify_inputs);
  }
  if (const auto member = object.find("include")) read_patterns(*member, problems, dump.include);
  if (const auto member = object.find("exclude")) read_patterns(*member, problems, dump.exclude);
  if (const auto member = object.find("memory")) {
    assign(read_byte_size(*member, kLeastDumpMemory, problems), dump.memory);
  }
  if (const auto member = object.find("max_bytes")) {
    dump.max_bytes = read_byte_size(*member, 0, problems);
  }
  if (const auto member = object.find("slice")) dump.slice = read_slice(*member, problems);
  if (const auto member = object.find("reference")) {
    dump.reference =
        read_path(*member, PathKind::kDirectoryToMake, "the directory of a dump", context);
  }
}

/// A single format is short for a list of one.
void read_formats(const Node& node, Problems& problems, ReportSpec& report) {
  report.formats.clear();
  if (node.json->is_string()) {
    if (const auto index = read_name(node, kReportFormats, problems)) {
      report.formats.emplace_back(kReportFormats[*index]);
    }
    return;
  }
  if (!node.json->is_array() || node.json->empty()) {
    report_unexpected(
        node, fmt::format("one or a list of {}", fmt::join(kReportFormats, ", ")), problems);
    return;
  }
  for (std::size_t i = 0; i < node.json->size(); ++i) {
    const Node item = node.item(i);
    const auto index = read_name(item, kReportFormats, problems);
    if (!index) continue;
    // Twice the same would write one file twice.
    const std::string_view format = kReportFormats[*index];
    if (std::find(report.formats.begin(), report.formats.end(), format) != report.formats.end()) {
      problems.add(item.pointer, fmt::format("{} is in the list already", format));
    } else {
      report.formats.emplace_back(format);
    }
  }
}

}  // namespace

void read_dump(const Node& node, const ParseContext& context, DumpSpec& dump, RecordingPlan& plan) {
  const ObjectReader object(node, kDumpKeys, context.problems);
  if (const auto member = object.find("level")) {
    if (const auto index = read_name(*member, kLevelNames, context.problems)) {
      const bool fixed = *index < kDumpLevels.size();
      plan.level = fixed ? LevelChoice::kFixed : LevelChoice::kAuto;
      if (fixed) dump.level = kDumpLevels[*index];
    }
  }
  if (const auto member = object.find("window")) {
    assign(read_integer(*member, {0, kWidestWindow, ""}, context.problems), plan.window);
  }
  read_dump_members(object, context, dump);
}

void read_resolved_dump(const Node& node, const ParseContext& context, DumpSpec& dump) {
  const ObjectReader object(node, kResolvedDumpKeys, context.problems);
  if (const auto member = object.find("level")) {
    assign(read_choice(*member, kDumpLevels, context.problems), dump.level);
  }
  if (const auto member = object.find("keep_ops")) {
    read_ranges(*member, context.problems, dump.keep_ops);
  }
  read_dump_members(object, context, dump);
}

void read_report(const Node& node, const ParseContext& context, ReportSpec& report) {
  const ObjectReader object(node, kReportKeys, context.problems);
  if (const auto member = object.find("format")) read_formats(*member, context.problems, report);
  const auto files = object.find("files");
  if (!files) return;
  const ObjectReader by_format(*files, kReportFileFormats, context.problems);
  for (const std::string_view format : kReportFileFormats) {
    const auto member = by_format.find(format);
    if (!member) continue;
    const auto file = read_path(*member, PathKind::kFileToMake, "a file to write", context);
    if (file) report.files.emplace(format, *file);
  }
}

}  // namespace repro_check::configs::detail
