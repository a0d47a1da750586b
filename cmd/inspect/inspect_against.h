// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cmd/inspect/inspect_json.h"
#include "cmd/inspect/inspect_values.h"
#include "cmd/inspect/inspect_views.h"
#include "comparators/report/report.h"
#include "core/trace/dump_source.h"

namespace repro_check::cmd {

/// A tensor of one operator in two dumps, bit by bit.
struct TensorPair {
  std::uint64_t op = 0;
  std::uint64_t other_op = 0;  ///< its counterpart
  std::string operator_name;
  core::TensorRecord tensor;
  core::TensorRecord other;
  bool equal = false;
  std::string difference;  ///< where no values were compared: what differs all the same
  /// Of both, where they were read, the same dtype and shape.
  std::optional<TensorValues> values;
  std::optional<TensorValues> other_values;
  std::optional<comparators::TensorMetrics> metrics;  ///< where values differ
};

/// Reads values where digests differ, where `part` asks for some of them, and where `show` does.
/// @throws core::Error{kNotComparable} when there is no such operator or tensor in one of them, or
///         nothing says whether they are equal; core::Error{kDumpDamaged}
TensorPair compare_tensor(const core::DumpSource& dump,
                          std::uint64_t op,
                          const core::DumpSource& other,
                          const TensorQuery& query);

/// Positions of elements, differing ones first, each group in order.
std::vector<std::uint64_t> differing_first(const TensorPair& pair, std::uint64_t most);

/// What there is to say of one element of a pair.
struct ElementPair {
  std::vector<std::int64_t> index;
  std::string here;  ///< shortest text that reads back
  std::string there;
  std::string here_bits;
  std::string there_bits;
  double distance = 0;               ///< absolute error
  std::optional<std::uint64_t> ulp;  ///< floating dtypes alone, and no NaN or infinity
};

/// @param position  below pair.values->count(); both values are there
ElementPair element_pair(const TensorPair& pair, std::uint64_t position);
OrderedJson element_pair_json(const TensorPair& pair, std::uint64_t position);

/// The verdict, and with query.values elements, differing ones first.
std::string against_view(const core::DumpSource& dump,
                         const core::DumpSource& other,
                         const TensorPair& pair,
                         const TensorQuery& query,
                         ViewForm form);

}  // namespace repro_check::cmd
