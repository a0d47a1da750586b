// SPDX-License-Identifier: Apache-2.0
#include "comparators/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace repro_check::comparators {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

}  // namespace

std::optional<RelBounds> rel_percentile(const RelHistogram& histogram, double share) noexcept {
  std::uint64_t all = histogram.zero + histogram.infinite;
  for (const std::uint64_t count : histogram.exponents) all += count;
  if (all == 0) return std::nullopt;
  const double wanted = share * static_cast<double>(all);
  std::uint64_t seen = histogram.zero;
  if (static_cast<double>(seen) >= wanted) return RelBounds{0, 0};
  for (std::size_t i = 0; i < histogram.exponents.size(); ++i) {
    seen += histogram.exponents[i];
    if (static_cast<double>(seen) < wanted) continue;
    const int exponent = RelHistogram::kLeast + static_cast<int>(i);
    return RelBounds{
        i == 0 ? 0.0 : std::ldexp(1.0, exponent),
        exponent == RelHistogram::kGreatest ? kInfinity : std::ldexp(1.0, exponent + 1)};
  }
  return RelBounds{kInfinity, kInfinity};
}

const core::OpRecord& shown_record(const OpDivergence& op) noexcept {
  return op.baseline_index ? op.baseline : op.candidate;
}

std::uint64_t shown_index(const OpDivergence& op) noexcept {
  return op.baseline_index ? *op.baseline_index : op.candidate_index.value_or(0);
}

std::string_view module_of(const core::OpRecord& record) noexcept {
  return record.site ? std::string_view(record.site->module_path) : std::string_view();
}

bool is_word_of(std::string_view words, std::string_view word) noexcept {
  while (!words.empty()) {
    const std::string_view first = words.substr(0, words.find(' '));
    if (first == word) return !word.empty();
    words.remove_prefix(std::min(first.size() + 1, words.size()));
  }
  return false;
}

std::string counted(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string operator_text(const core::OpRecord& record) {
  return record.op ? record.op->full_name() : std::string("unknown operator");
}

std::string op_text(const core::OpRecord& record) {
  std::string text = fmt::format("op {} {}", record.index, operator_text(record));
  if (!module_of(record).empty()) text += fmt::format(" ({})", module_of(record));
  return text;
}

core::OpRecord head_of(const core::OpRecord& record) {
  core::OpRecord head;
  head.index = record.index;
  head.op = record.op;
  head.site = record.site;
  head.phase = record.phase;
  head.step = record.step;
  head.rank = record.rank;
  return head;
}

}  // namespace repro_check::comparators
