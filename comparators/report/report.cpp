// SPDX-License-Identifier: Apache-2.0
#include "comparators/report/report.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "core/text/text.h"

namespace repro_check::comparators {

std::optional<RelBounds> rel_percentile(const RelHistogram& histogram, double share) noexcept {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
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

void forget_origins(Report& report) {
  report.coverage.propagated += std::exchange(report.coverage.origins, 0);
  report.origins.clear();
  report.origins_total = 0;
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

std::string_view data_verdict_name(DataVerdict verdict) noexcept {
  return core::word_at("equal|contents|reordered|other|length", static_cast<std::size_t>(verdict));
}

std::string_view state_name(StateKind kind) noexcept {
  return core::word_at(
      "batch|parameters|buffers|another module|generator of PyTorch|generator of the device|"
      "generator of NumPy|generator of random|generator of the loader|generator of the dataset|"
      "gradients|loss scale|state of the optimizer|step count of the optimizer|schedule",
      static_cast<std::size_t>(kind));
}

std::string_view restored_name(Restored outcome) noexcept {
  return core::word_at("right|not saved|not loaded|used up between|at another's place|not proven",
                       static_cast<std::size_t>(outcome));
}

std::optional<Finding> finding_of(const RestoredState& state) {
  if (!state.parts()) return std::nullopt;
  constexpr std::array kIds{FindingId::kStateNotSaved,
                            FindingId::kStateNotLoaded,
                            FindingId::kStateUsedUp,
                            FindingId::kStateMisplaced};
  const int behind = static_cast<int>(state.outcome) - static_cast<int>(Restored::kNotSaved);
  const bool is_other = state.kind == StateKind::kOtherModule;
  Finding finding{kIds.at(static_cast<std::size_t>(behind)), Finding::Weight::kProof};
  // Behind the operator that changed it, where that is known.
  const std::size_t comma = state.place.rfind(", ");
  finding.where.line = state.place.substr(comma == std::string::npos ? 0 : comma + 2);
  finding.with("state", std::string(state_name(state.kind)))
      .with("what", std::string(is_other ? "other module" : state_name(state.kind)))
      .with("is_batch", state.kind == StateKind::kBatch)
      .with("name", state.name)
      .with("detail", state.detail)
      .with("place", state.place)
      .with("items", state.items)
      .with("differing", state.differing);
  if (state.moved) finding.with("moved", *state.moved);
  return finding;
}

std::string_view cause_id(CauseKind kind) noexcept {
  return core::word_at(
      "|eval-against-train|input-data|weights|constant-differs|argument-differs|rng-stream|"
      "generator-algorithm|uninitialised-memory|race-on-a-tensor-in-use|flush-to-zero|overflow|"
      "ties-broken-differently|layout-differs|settings-differ|environment-differs|threads|"
      "nondeterministic-kernel|unexplained|propagated|amplified|received-from-another-rank|"
      "unobserved-write|computed-outside-of-operators|another-value-is-returned|"
      "another-structure-is-returned|dtype-promotion|mismatch|operator-differs|reordered|"
      "decomposed|loop|control-flow|missing|extra",
      static_cast<std::size_t>(kind));
}

std::optional<CauseKind> cause_of_id(std::string_view id) noexcept {
  for (int i = 1; i <= static_cast<int>(kLastCause); ++i) {
    const auto kind = static_cast<CauseKind>(i);
    if (cause_id(kind) == id) return kind;
  }
  return std::nullopt;
}

std::string counted(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string operator_text(const core::OpRecord& record) {
  return record.op ? record.op->full_name() : std::string("unknown operator");
}

std::string step_text(const GrowthStep& step) {
  const std::string module = step.module_path.empty() ? "" : fmt::format(" ({})", step.module_path);
  return fmt::format("op {} {}{}", step.op, step.operator_name, module);
}

std::string op_text(const core::OpRecord& record) {
  std::string text = fmt::format("op {} {}", record.index, operator_text(record));
  const std::string place = core::place_of(record.site.get());
  return place.empty() ? text : fmt::format("{} ({})", text, place);
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
