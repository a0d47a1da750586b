// SPDX-License-Identifier: Apache-2.0
#include "comparators/program/still_parameters.h"

#include <algorithm>
#include <cstddef>
#include <variant>

#include "core/text/text.h"
#include "core/trace/program_records.h"
#include "core/trace/record_names.h"

namespace repro_check::comparators {
namespace {

/// One step may leave a parameter alone, as a scheduler does that begins with a rate of 0.
constexpr std::uint32_t kTellingSteps = 3;

bool has_rate_of_zero(const core::OpRecord& record) {
  return std::ranges::any_of(record.arguments, [](const core::Argument& argument) {
    const auto* rate = std::get_if<double>(&argument.value.data);
    return rate != nullptr && *rate == 0 && argument.name.starts_with(core::kLearningRatePrefix);
  });
}

}  // namespace

std::string_view still_reason_name(StillReason reason) noexcept {
  return core::word_at("no optimizer|no gradient|unmoved", static_cast<std::size_t>(reason));
}

void StillParameterReader::see_step(const core::OpRecord& record) {
  has_zero_rate_ = has_rate_of_zero(record) && (has_zero_rate_ || steps_ == 0);
  ++steps_;
  for (const core::TensorRecord& tensor : record.tensors) {
    if (!core::is_output(tensor)) continue;
    const std::string_view slot = tensor.slot;
    const bool is_gradient = slot.starts_with(core::kGradientPrefix);
    if (!is_gradient && !slot.starts_with(core::kParameterPrefix)) continue;
    const std::string_view prefix = is_gradient ? core::kGradientPrefix : core::kParameterPrefix;
    const std::string_view name = slot.substr(prefix.size());
    auto found = seen_.find(name);
    if (found == seen_.end()) found = seen_.emplace(name, Seen{}).first;
    Seen& seen = found->second;
    if (tensor.state != core::ContentState::kHashed) {
      seen.moves = true;
    } else if (is_gradient) {
      seen.other_gradients =
          seen.other_gradients || (seen.has_gradient && seen.gradient != tensor.digest);
      seen.gradient = tensor.digest;
    } else {
      seen.moves = seen.moves || (seen.has_value && seen.value != tensor.digest);
      seen.value = tensor.digest;
      ++seen.steps;
    }
    (is_gradient ? seen.has_gradient : seen.has_value) = true;
  }
}

std::vector<StillParameter> StillParameterReader::finish(const core::RunManifest& manifest) const {
  std::vector<StillParameter> still;
  for (const core::EnvironmentFact& fact : manifest.environment) {
    if (!fact.name.starts_with(core::kUntrained)) continue;
    still.push_back({fact.name.substr(core::kUntrained.size()), StillReason::kNoOptimizer});
  }
  for (const auto& [name, seen] : seen_) {
    if (seen.moves || seen.steps < kTellingSteps) continue;
    if (!seen.has_gradient) still.push_back({name, StillReason::kNoGradient});
    if (seen.other_gradients && !has_zero_rate_) still.push_back({name, StillReason::kUnmoved});
  }
  std::ranges::sort(still);
  return still;
}

std::vector<StillParameter> still_parameters(const core::DumpSource& dump) {
  StillParameterReader reader;
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    if (dump.op_head(i).op->name == core::kStepRecord) reader.see_step(dump.op(i));
  }
  return reader.finish(dump.manifest());
}

}  // namespace repro_check::comparators
