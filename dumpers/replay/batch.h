// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/trace/dump.h"
#include "dumpers/replay/sweep.h"

namespace repro_check::replay {

/// A call in a recording of a batch, and the same call in a recording of one of its items, or of
/// several. Of the latter only shapes and numbers are asked: its items may be others.
struct BatchCall {
  std::uint64_t op = 0;
  std::uint64_t alone = 0;
};

/// A call that gives an item alone another result than in the batch.
struct BatchDifference {
  std::uint64_t op = 0;
  std::uint64_t item = 0;
  std::optional<SweptOutput> output;  ///< the one that differs most; empty = none is measured
};

struct BatchOutcome {
  std::uint64_t items = 0;           ///< as large as what is alone; 0 where no call has any
  std::vector<std::uint64_t> tried;  ///< items, ascending
  std::uint64_t judged = 0;          ///< calls that give each item a result of its own
  std::uint64_t told_apart = 0;  ///< of those, where the items that were tried have other results
  std::uint64_t without_items = 0;         ///< calls that no item goes into
  std::vector<BatchDifference> differing;  ///< by op
  std::vector<std::uint64_t> mixing;      ///< calls whose result for one item depends on the others
  std::vector<std::uint64_t> unrepeated;  ///< calls that give another result than the recorded
  std::vector<UnsweptCall> unswept;
};

/// Executes the recorded calls of a batch again, each by itself: once as recorded, then with the
/// first, a middle and the last item of its inputs alone, in tensors that lie in memory as those of
/// the other recording do. Where an item stands in a tensor is told by shapes: in the dimension
/// that is as many times larger as there are items. If an item alone has another result, the call
/// is made with copies of the item in the place of the others, and, if the difference is more than
/// rounding, with all items a place further: where that changes what the item gets, the call mixes
/// items, which is no fault. So do calls that draw random numbers.
/// @throws core::Error{kDumpDamaged}
BatchOutcome sweep_batch(const core::DumpSource& batch,
                         const core::DumpSource& alone,
                         std::span<const BatchCall> calls);

}  // namespace repro_check::replay
