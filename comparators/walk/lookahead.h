// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "comparators/align/pairing.h"
#include "comparators/judge/tensor_judge.h"
#include "comparators/measure/records.h"
#include "comparators/walk/walk.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::comparators {

inline bool will_be_measured(const core::TensorRecord& from, const core::TensorRecord& to) {
  return from.state == core::ContentState::kHashed && to.state == core::ContentState::kHashed &&
         from.digest != to.digest && same_form(from, to);
}

inline bool has_contents(const core::DumpSource& source) {
  return source.manifest().trace.contents != 0;
}

/// Where operators differ, reads on in the order of the walk and has the outputs that differ
/// measured together: most are too small to keep more than one thread busy. It changes how long a
/// comparison takes, and nothing else. Everything is borrowed.
class Lookahead {
 public:
  Lookahead(const WalkContext& context, std::span<const OpPair> events)
      : context_(context), events_(events) {}

  /// To be called for every event before it is walked.
  void reach(std::size_t at) {
    if (!useful_ || !expected_ || at < end_) return;
    expected_ = false;
    end_ = at;
    std::vector<TensorJudge::Upcoming> upcoming;
    std::uint64_t bytes = 0;
    const std::size_t last = std::min(at + kEvents, events_.size());
    while (end_ < last && bytes < kBytes) bytes += add_outputs(events_[end_++], upcoming);
    context_.judge.measure_ahead(upcoming);
  }

  /// An operator differs, so that more of them probably will.
  void expect_more() noexcept { expected_ = true; }

 private:
  static constexpr std::size_t kEvents = 256;
  /// A side: enough that all threads end at about the same time.
  static constexpr std::uint64_t kBytes = std::uint64_t{128} << 20U;

  /// @return bytes a side
  std::uint64_t add_outputs(const OpPair& event, std::vector<TensorJudge::Upcoming>& into) {
    if (!event.matched()) return 0;
    core::OpRecord from;
    core::OpRecord to;
    const auto damage = damage_in([&] {
      from = context_.baseline.op(event.baseline);
      to = context_.candidate.op(event.candidate);
    });
    if (damage) return 0;  // the walk says so
    const auto left = tensors_of(from, core::TensorRole::kOutput);
    const auto right = tensors_of(to, core::TensorRole::kOutput);
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      if (!will_be_measured(*left[i], *right[i])) continue;
      const RuleBook::Choice choice = context_.judge.rules().choose_for_output(from, *left[i]);
      if (!choice.judges() || choice.policy->flush_subnormals) continue;
      into.push_back({left[i]->content_key(), right[i]->content_key(), choice});
      bytes += core::content_size(into.back().baseline);
    }
    return bytes;
  }

  const WalkContext& context_;
  std::span<const OpPair> events_;
  /// The run in float64 is asked for one output after the other.
  bool useful_ = context_.options.fp64 == nullptr && context_.judge.same_algorithm() &&
                 has_contents(context_.baseline) && has_contents(context_.candidate);
  bool expected_ = false;
  std::size_t end_ = 0;  ///< of what was looked at
};

}  // namespace repro_check::comparators
