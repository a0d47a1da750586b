// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/digest/digest.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators::detail {

/// An operator call in two digests, to find equal ones among many.
struct OpPrints {
  core::Digest inputs;  ///< arguments, input tensors, seed and place of the generator
  core::Digest results;
};

/// @return empty where there is no result to compare: none at all, none with a content, or one
///         that was left out of the recording
std::optional<OpPrints> op_prints(const core::OpRecord& record);

}  // namespace repro_check::comparators::detail
