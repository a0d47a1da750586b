// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/trace/op_record.h"

namespace repro_check::store {

/// How many rows the records of a trace take in the tables that are written front to back.
struct RowCounts {
  std::uint64_t ops = 0;
  std::uint64_t values = 0;
  std::uint64_t tensors = 0;
  std::uint64_t stats = 0;
  std::uint64_t non_finite = 0;
  std::uint64_t substitutions = 0;
  std::uint64_t generators = 0;

  void add(const core::OpRecord& record);
};

}  // namespace repro_check::store
