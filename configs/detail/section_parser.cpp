// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "configs/detail/byte_size.h"
#include "configs/detail/keys.h"
#include "configs/detail/run_parser.h"

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

/// Negated, so that a NaN, should JSON ever carry one, is refused as well.
std::optional<double> read_tolerance(const ObjectReader& object,
                                     std::string_view key,
                                     Problems& problems) {
  const auto node = object.find(key);
  if (!node) return std::nullopt;
  const auto value = read_number(*node, problems);
  if (value && !(*value >= 0)) {
    report_unexpected(*node, "a number of 0 or more", problems);
    return std::nullopt;
  }
  return value;
}

/// One tolerance without the other would silently mean 0 to some and a default to others, so both
/// are demanded; under the bitwise policy they would have no effect, so they are refused.
void read_tolerances(const ObjectReader& object, Problems& problems, CompareSpec& compare) {
  compare.rtol = read_tolerance(object, "rtol", problems);
  compare.atol = read_tolerance(object, "atol", problems);
  const bool rtol = object.has("rtol");
  const bool atol = object.has("atol");
  if (rtol != atol) {
    problems.add(child_pointer(object.pointer(), rtol ? "rtol" : "atol"),
                 fmt::format("\"{}\" must be given with it; without both the dtype's defaults hold",
                             rtol ? "atol" : "rtol"));
  } else if (rtol && compare.policy == PolicyKind::kBitwise) {
    problems.add(child_pointer(object.pointer(), "rtol"),
                 R"(the bitwise policy has no tolerance; add "policy": "tolerance")");
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

void read_compare(const Node& node, Problems& problems, CompareSpec& compare) {
  const ObjectReader object(node, kCompareKeys, problems);
  bool policy_known = true;
  if (const auto member = object.find("policy")) {
    const auto policy = read_choice(*member, kPolicyKinds, problems);
    policy_known = policy.has_value();
    assign(policy, compare.policy);
  }
  if (!policy_known) compare.policy = PolicyKind::kTolerance;  // nothing more to say about it
  read_tolerances(object, problems, compare);
  if (const auto member = object.find("equal_nan")) {
    compare.equal_nan = read_choice(*member, kEqualNans, problems);
  }
  if (const auto member = object.find("align")) {
    assign(read_choice(*member, kAlignModes, problems), compare.align);
  }
  if (const auto member = object.find("order")) {
    assign(read_choice(*member, kOperatorOrders, problems), compare.order);
  }
  if (const auto member = object.find("signed_zero")) {
    const auto index = read_name(*member, kSignedZeroNames, problems);
    if (index) compare.signed_zero_distinct = *index == 1;
  }
}

void read_report(const Node& node, Problems& problems, ReportSpec& report) {
  const ObjectReader object(node, kReportKeys, problems);
  // A single format is short for a list of one.
  const auto member = object.find("format");
  if (!member) return;
  report.formats.clear();
  if (member->json->is_string()) {
    if (const auto index = read_name(*member, kReportFormats, problems)) {
      report.formats.emplace_back(kReportFormats[*index]);
    }
    return;
  }
  if (!member->json->is_array() || member->json->empty()) {
    report_unexpected(
        *member, fmt::format("one or a list of {}", fmt::join(kReportFormats, ", ")), problems);
    return;
  }
  for (std::size_t i = 0; i < member->json->size(); ++i) {
    const Node item = member->item(i);
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

}  // namespace repro_check::configs::detail
