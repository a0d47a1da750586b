// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// Whether ranks hand each other parts by a collective: `c10d::alltoall_base_`.
bool is_all_to_all(std::string_view op) noexcept;

/// Finds the parameters that work on what an all_to_all brought and the next one takes back, as
/// experts do, in the first step of a program. What is behind both is the rank's own again.
class ExchangedReader {
 public:
  /// @param record  of the first step, in their order
  void see(const core::OpRecord& record);
  std::set<std::string> finish() { return std::move(parameters_); }

 private:
  [[nodiscard]] bool is_away(const core::TensorRecord& tensor) const;

  std::map<std::int64_t, bool> away_;  ///< by op index: it made something of what came from others
  std::set<std::string> parameters_;
};

}  // namespace repro_check::comparators
