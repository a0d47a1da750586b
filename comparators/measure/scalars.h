// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comparators/measure/policy.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators::detail {

/// A scalar argument or result that is not the same in two calls.
struct ScalarDifference {
  std::string name;  ///< argument name, or `result 0`; of a returned value its path
  std::string baseline;
  std::string candidate;
  bool beyond = true;  ///< fails the policy; arguments are always compared exactly

  /// `p: 0.1 against 0.2`
  [[nodiscard]] std::string text() const;
};

/// Exact equality of everything but tensors, which have records of their own: any tensor is equal
/// to any other here, but not to None.
bool same_scalars(const core::Value& baseline, const core::Value& candidate);

/// @param ignore_symbols  leave out devices, layouts and the like, which say where and not what
std::vector<ScalarDifference> differing_arguments(const core::OpRecord& baseline,
                                                  const core::OpRecord& candidate,
                                                  bool ignore_symbols);

/// What a number keeps to, and the dtype of the tensor it came from.
struct ScalarPolicy {
  ElementPolicy element;
  core::Dtype dtype = core::Dtype::kFloat64;
};

/// The policy of the result in one slot (`0`, of a returned value its path); empty where it is not
/// to be judged.
using PolicyOfResult = std::function<std::optional<ScalarPolicy>(std::string_view slot)>;

/// Results other than tensors. Real numbers are judged by their policy, all else is exact.
/// @param policy_of  asked for differing results only, and for NaN
std::vector<ScalarDifference> differing_results(const core::OpRecord& baseline,
                                                const core::OpRecord& candidate,
                                                const PolicyOfResult& policy_of);

/// Whether a value is a tensor, or a list of nothing but tensors.
bool is_tensor(const core::Value& value);

/// A scalar as a report shows it, cut where it is long.
std::string short_text(const core::Value& value);

/// The results that are no tensors, as a report shows them: `True`; empty where there are none.
std::string results_text(const core::OpRecord& record);

/// Whether a record returned anything that is not a tensor.
bool has_scalar_results(const core::OpRecord& record);

}  // namespace repro_check::comparators::detail
