// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/observations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "comparators/measure/records.h"
#include "comparators/report/report.h"
#include "core/tensor/dtype.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

/// `argument self (state:mask)`
std::string argument_text(const core::TensorRecord& tensor) {
  const std::string name = tensor.name.empty() ? "" : fmt::format(" ({})", tensor.name);
  return fmt::format("argument {}{}", tensor.slot, name);
}

constexpr double kTrivialShare = 0.99;

/// What both runs say is said once.
void note_kind(std::string_view kind,
               const NonFiniteTally& baseline,
               const NonFiniteTally& candidate,
               Phrases& warnings) {
  const std::optional<Phrase> left = baseline.phrase();
  const std::optional<Phrase> right = candidate.phrase();
  const auto note = [&](const std::optional<Phrase>& of, std::string_view run) {
    if (!of) return;
    Phrase& phrase = warnings.emplace_back(*of);
    phrase.with("kind", std::string(kind));
    if (!run.empty()) phrase.with("run", std::string(run));
  };
  if (left == right) return note(left, "");
  note(left, "baseline");
  note(right, "candidate");
}

/// Outputs that may hold NaN, and of which neither recording says whether they do.
std::uint64_t uncounted(const core::OpRecord& baseline, const core::OpRecord& candidate) {
  const auto unknown = [](const core::OpRecord& record) {
    return static_cast<std::uint64_t>(
        std::ranges::count_if(record.tensors, [](const core::TensorRecord& tensor) {
          return core::is_output(tensor) && tensor.state == core::ContentState::kHashed &&
                 !tensor.non_finite() &&
                 (core::is_floating(tensor.dtype) || core::is_complex(tensor.dtype));
        }));
  };
  return std::min(unknown(baseline), unknown(candidate));
}

std::uint64_t unstored(const core::OpRecord& record) {
  return static_cast<std::uint64_t>(
      std::ranges::count_if(record.tensors, [](const core::TensorRecord& tensor) {
        return tensor.state == core::ContentState::kHashed && !tensor.stored;
      }));
}

/// What the two recordings were told to leave out.
/// @param tensors  without bytes, of the matched operators of each
void warn_of_limits(const core::RunManifest& baseline,
                    const core::RunManifest& candidate,
                    std::pair<std::uint64_t, std::uint64_t> tensors,
                    Phrases& warnings) {
  if (baseline.trace.include != candidate.trace.include ||
      baseline.trace.exclude != candidate.trace.exclude) {
    warnings.emplace_back("other-patterns");
  }
  for (const auto& [name, manifest, count] :
       {std::tuple{"baseline", &baseline, tensors.first},
        std::tuple{"candidate", &candidate, tensors.second}}) {
    const core::TraceSummary& trace = manifest->trace;
    if (!trace.bytes_limit_reached_at) continue;
    // Where something else can have left bytes out, nobody knows how many this did.
    const bool is_alone = trace.keep_ops.empty() && !trace.reference;
    warnings.push_back(Phrase("bytes-limit-reached",
                              {{"run", std::string(name)},
                               {"op", *trace.bytes_limit_reached_at},
                               {"tensors", is_alone ? count : 0}}));
  }
}

}  // namespace

std::uint64_t NonFiniteTally::count_in(const core::TensorRecord& tensor) const {
  const core::NonFinite counts = tensor.non_finite().value_or(core::NonFinite{});
  return kind_ == Kind::kNan ? counts.nans : counts.infs();
}

/// Somebody wrote it down, as a mask of -inf is.
bool NonFiniteTally::asked_for(const core::OpRecord& record) const {
  return std::ranges::any_of(record.arguments, [&](const core::Argument& argument) {
    const auto* number = std::get_if<double>(&argument.value.data);
    if (number == nullptr) return false;
    return kind_ == Kind::kNan ? std::isnan(*number) : std::isinf(*number);
  });
}

void NonFiniteTally::see(const core::OpRecord& record) {
  const core::TensorRecord* given = nullptr;
  bool unwritten = false;
  bool holds = false;
  for (const core::TensorRecord& tensor : record.tensors) {
    unwritten |= core::is_input(tensor) && tensor.state == core::ContentState::kUninitialised;
    const std::uint64_t count = count_in(tensor);
    if (count == 0) continue;
    if (core::is_input(tensor)) {
      if (given == nullptr) given = &tensor;
      continue;
    }
    holds = true;
    ++outputs_;
    elements_ += count;
  }
  if (!holds || !made_.empty()) return;
  const bool is_asked_for = asked_for(record);
  if (given == nullptr && !is_asked_for && !unwritten) {
    made_ = op_text(record);
  } else if (first_.empty()) {
    first_ = {{"holder", op_text(record)}};
    // NOLINTBEGIN(modernize-use-emplace): a field is written as everywhere, for
    // tests/lint/findings.py
    if (given != nullptr) {
      first_.push_back({"argument", argument_text(*given)});
    } else if (is_asked_for) {
      first_.push_back({"is_asked_for", true});
    } else {
      first_.push_back({"is_unwritten", true});
    }
    // NOLINTEND(modernize-use-emplace)
  }
}

std::optional<Phrase> NonFiniteTally::phrase() const {
  if (outputs_ == 0) return std::nullopt;
  Phrase phrase("outputs-not-finite", {{"outputs", outputs_}, {"elements", elements_}});
  if (!made_.empty()) return phrase.with("maker", made_);
  for (const Field& field : first_) phrase.fields.push_back(field);
  return phrase;
}

void Observations::see_alone(const core::OpRecord& record, bool in_baseline) {
  Side& side = in_baseline ? baseline_ : candidate_;
  side.nan.see(record);
  side.infinity.see(record);
}

void Observations::see(const JudgedCall& call) {
  const core::OpRecord& baseline = call.baseline;
  const core::OpRecord& candidate = call.candidate;
  const OpFindings& findings = call.findings;
  zeros_ += findings.zeros;
  counted_ += findings.counted;
  baseline_.unstored += unstored(baseline);
  candidate_.unstored += unstored(candidate);
  const auto name = [&] { return op_text(baseline); };
  if (findings.output_strides_differ) strides_.add(name);
  if (!findings.alias_differs.empty()) alias_.add([&] { return findings.alias_differs; });
  if (findings.outcome == OpOutcome::kEqual) {
    if (!findings.inputs.empty() && (findings.tally.tensors != 0 || has_scalar_results(baseline))) {
      absorbed_.add(name);
    } else if (!findings.arguments.empty() && !core::is_named_values(baseline) &&
               (findings.tally.tensors != 0 || has_scalar_results(baseline))) {
      told_otherwise_.add(name);
    }
  }
  see_alone(baseline, true);
  see_alone(candidate, false);
  uncounted_ += uncounted(baseline, candidate);
}

Phrases Observations::non_finite() const {
  Phrases warnings;
  note_kind("NaN", baseline_.nan, candidate_.nan, warnings);
  note_kind("Infinity", baseline_.infinity, candidate_.infinity, warnings);
  if (uncounted_ != 0) {
    warnings.push_back(Phrase("not-finite-uncounted", {{"outputs", uncounted_}}));
  }
  return warnings;
}

void Observations::note_unwritten(const JudgedCall& call, const Evidence& evidence) {
  auto what = describe_unwritten(call, evidence);
  if (!what || unwritten_times_++ != 0) return;
  unwritten_ = Finding{FindingId::kReadUnwritten, Finding::Weight::kSuspicion};
  unwritten_->where.step = call.baseline.step;
  unwritten_->where.op = call.baseline.index;
  unwritten_->where.line = core::line_text(call.baseline.site.get());
  if (!core::is_returned(call.baseline)) unwritten_->with("reader", op_text(call.baseline));
  for (Field& field : what->fields) unwritten_->fields.push_back(std::move(field));
}

std::optional<Finding> Observations::unwritten() const {
  std::optional<Finding> finding = unwritten_;
  if (finding) finding->with("times", unwritten_times_);
  return finding;
}

Phrases Observations::warnings(const core::RunManifest& baseline,
                               const core::RunManifest& candidate) const {
  Phrases warnings;
  const auto note = [&](const Tally& tally, std::string_view key) {
    if (tally.count == 0) return;
    warnings.push_back(Phrase(key, {{"operators", tally.count}, {"first", tally.first}}));
  };
  if (counted_ != 0 &&
      static_cast<double>(zeros_) >= kTrivialShare * static_cast<double>(counted_)) {
    warnings.push_back(Phrase("mostly-zeros", {{"zeros", zeros_}, {"elements", counted_}}));
  }
  note(absorbed_, "differing-inputs-absorbed");
  note(told_otherwise_, "other-arguments-absorbed");
  note(strides_, "other-layout-returned");
  note(alias_, "memory-shared-otherwise");
  warn_of_limits(baseline, candidate, {baseline_.unstored, candidate_.unstored}, warnings);
  for (const auto& [run, manifest] :
       {std::pair{"baseline", &baseline}, std::pair{"candidate", &candidate}}) {
    for (const std::string& text : manifest->warnings) {
      warnings.push_back(Phrase("recording-warns", {{"run", std::string(run)}, {"text", text}}));
    }
  }
  return warnings;
}

}  // namespace repro_check::comparators
