// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/rounding.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "core/tensor/dtype.h"
#include "core/tensor/element_number.h"
#include "core/trace/record_tensors.h"
#include "dumpers/replay/call_results.h"

namespace repro_check::replay {
namespace {

/// More of a condition than an operator that is sound has on usual inputs.
constexpr double kFragile = 1000;

/// Root mean square of the finite numbers of a recorded output.
double size_of(const core::DumpSource& dump, const core::TensorRecord& tensor) {
  std::vector<std::byte> content;
  dump.read_content(tensor.content_key(), content);
  double squares = 0;
  double finite = 0;
  for (const double number : core::numbers_of(tensor.dtype, content)) {
    if (!std::isfinite(number)) continue;
    squares += number * number;
    ++finite;
  }
  return finite == 0 ? 0 : std::sqrt(squares / finite);
}

double share_of(const SweptOutput& output) {
  return static_cast<double>(output.differing) / static_cast<double>(output.elements);
}

}  // namespace

Rounding rounding_of(const core::DumpSource& dump, RepeatedCall& call) {
  Rounding rounding;
  const core::OpRecord& record = call.record();
  for (const CallArguments::Nudge& nudge : call.nudges()) {
    const CallSink& made = call.run({.nudged = nudge.memory});
    for (const OutputDistance& distance : measure_outputs(dump, record, made, false)) {
      if (distance.differing == 0) continue;
      const core::TensorRecord& output =
          *core::find_tensor(record, core::TensorRole::kOutput, distance.slot);
      SweptOutput found;
      found.slot = distance.slot;
      found.elements = distance.elements;
      found.differing = distance.differing;
      found.argument = nudge.slot;
      if (!core::is_floating(output.dtype) && !core::is_complex(output.dtype)) {
        const bool is_worse = !rounding.decided || share_of(*rounding.decided) < share_of(found);
        if (is_worse) rounding.decided = std::move(found);
        continue;
      }
      const double size = size_of(dump, output);
      if (size == 0 || !distance.rmse) continue;
      found.condition = *distance.rmse / size / nudge.size;
      const double known = rounding.moved ? *rounding.moved->condition : kFragile;
      if (*found.condition > known) rounding.moved = std::move(found);
    }
  }
  return rounding;
}

}  // namespace repro_check::replay
