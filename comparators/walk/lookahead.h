// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "comparators/align/events.h"
#include "comparators/judge/tensor_judge.h"
#include "comparators/report/compare_options.h"
#include "core/trace/dump_source.h"

namespace repro_check::comparators::detail {

/// Where operators differ, reads on in the order of the walk and has the outputs that differ
/// measured together: most are too small to keep more than one thread busy. It changes how long a
/// comparison takes, and nothing else. Everything is borrowed.
class Lookahead {
 public:
  Lookahead(const core::DumpSource& baseline,
            const core::DumpSource& candidate,
            const CompareOptions& options,
            std::span<const Event> events,
            TensorJudge& judge);

  /// To be called for every event before it is walked.
  void reach(std::size_t at);
  /// An operator differs, so that more of them probably will.
  void expect_more() noexcept { expected_ = true; }

 private:
  /// @return bytes a side
  std::uint64_t add_outputs(const Event& event, std::vector<TensorJudge::Upcoming>& into);

  const core::DumpSource& baseline_;
  const core::DumpSource& candidate_;
  std::span<const Event> events_;
  TensorJudge& judge_;
  bool useful_;
  bool expected_ = false;
  std::size_t end_ = 0;  ///< of what was looked at
};

}  // namespace repro_check::comparators::detail
