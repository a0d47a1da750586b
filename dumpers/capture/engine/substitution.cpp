// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/engine/substitution.h"

#include <optional>
#include <string>

#include "core/trace/value.h"

namespace repro_check::capture {
namespace {

constexpr const char* kReason = "disable_dropout";

/// None stands for true: `train` of native_dropout is optional.
bool close_flag(c10::IValue& value, std::string& from) {
  if (value.isNone()) {
    from = core::to_text({std::monostate{}});
  } else if (value.isBool() && value.toBool()) {
    from = core::to_text({true});
  } else {
    return false;
  }
  value = c10::IValue(false);
  return true;
}

bool close_probability(c10::IValue& value, double closed, std::string& from) {
  double open = closed;
  if (value.isDouble()) {
    open = value.toDouble();
  } else if (value.isInt()) {
    open = static_cast<double>(value.toInt());
  }
  if (open == closed) return false;
  from = core::to_text({open});
  value = c10::IValue(closed);
  return true;
}

}  // namespace

void close_doors(const OperatorPlan& plan,
                 torch::jit::Stack& stack,
                 std::vector<core::Substitution>& noted) {
  c10::IValue* arguments = arguments_of(plan, stack);
  for (const Door& door : plan.doors) {
    c10::IValue& value = arguments[door.argument];
    const std::string& name = plan.arguments[door.argument].name;
    std::string from;
    if (door.kind == DoorKind::kTrainFlag) {
      if (close_flag(value, from)) {
        noted.push_back({name, from, core::to_text({false}), kReason});
      }
    } else {
      const double closed = door.kind == DoorKind::kKeepProbability ? 1.0 : 0.0;
      if (close_probability(value, closed, from)) {
        noted.push_back({name, from, core::to_text({closed}), kReason});
      }
    }
  }
}

}  // namespace repro_check::capture
