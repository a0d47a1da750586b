// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "dumpers/capture/engine/operator_plan.h"
#include "dumpers/capture/engine/values.h"

namespace repro_check::capture {

/// What the record of an exchange holds: see core::kCollectiveRecord.
struct EnteredExchange {
  NamedValues values;
  NamedValues follows;
};

/// The process groups of a program, and what this rank has exchanged in them. Not thread safe.
class Exchanges {
 public:
  /// @param group  address of the c10d::ProcessGroup; null = known by its name alone
  void name_group(const void* group, const std::string& name);

  /// @param plan       of an exchange
  /// @param arguments  of the call, before it is made
  EnteredExchange enter(const OperatorPlan& plan, const c10::IValue* arguments);

 private:
  /// Empty where nobody named it.
  [[nodiscard]] std::string group_of(const c10::IValue& group) const;

  std::unordered_map<const void*, std::string> groups_;
  std::map<std::pair<std::string, Exchange>, std::int64_t> entered_;
};

}  // namespace repro_check::capture
