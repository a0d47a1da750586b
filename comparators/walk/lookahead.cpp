// SPDX-License-Identifier: Apache-2.0
#include "comparators/walk/lookahead.h"

#include <algorithm>

#include "comparators/judge/op_tensors.h"
#include "core/content/content_size.h"
#include "core/error.h"

namespace repro_check::comparators::detail {
namespace {

constexpr std::size_t kEvents = 256;
/// A side: enough that all threads end at about the same time.
constexpr std::uint64_t kBytes = std::uint64_t{128} << 20U;

bool will_be_measured(const core::TensorRecord& from, const core::TensorRecord& to) {
  return from.state == core::ContentState::kHashed && to.state == core::ContentState::kHashed &&
         from.digest != to.digest && from.dtype == to.dtype && from.shape == to.shape &&
         from.layout == to.layout && from.attributes == to.attributes;
}

bool has_contents(const core::DumpSource& source) { return source.manifest().trace.contents != 0; }

}  // namespace

Lookahead::Lookahead(const core::DumpSource& baseline,
                     const core::DumpSource& candidate,
                     const CompareOptions& options,
                     std::span<const Event> events,
                     TensorJudge& judge)
    : baseline_(baseline),
      candidate_(candidate),
      events_(events),
      judge_(judge),
      // The run in float64 is asked for one output after the other.
      useful_(options.fp64 == nullptr && judge.same_algorithm() && has_contents(baseline) &&
              has_contents(candidate)) {}

void Lookahead::reach(std::size_t at) {
  if (!useful_ || !expected_ || at < end_) return;
  expected_ = false;
  end_ = at;
  std::vector<TensorJudge::Upcoming> upcoming;
  std::uint64_t bytes = 0;
  const std::size_t last = std::min(at + kEvents, events_.size());
  while (end_ < last && bytes < kBytes) bytes += add_outputs(events_[end_++], upcoming);
  judge_.measure_ahead(upcoming);
}

std::uint64_t Lookahead::add_outputs(const Event& event, std::vector<TensorJudge::Upcoming>& into) {
  if (!event.matched()) return 0;
  core::OpRecord from;
  core::OpRecord to;
  try {
    from = baseline_.op(event.baseline);
    to = candidate_.op(event.candidate);
  } catch (const core::Error& error) {
    if (error.kind() != core::ErrorKind::kDumpDamaged) throw;
    return 0;  // the walk says so
  }
  const auto left = tensors_of(from, core::TensorRole::kOutput);
  const auto right = tensors_of(to, core::TensorRole::kOutput);
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    if (!will_be_measured(*left[i], *right[i])) continue;
    const RuleBook::Choice choice = judge_.rules().choose_for_output(from, *left[i]);
    const bool judged =
        choice.policy != nullptr && choice.policy->kind != configs::PolicyKind::kIgnore;
    if (!judged || choice.policy->flush_subnormals) continue;
    into.push_back({left[i]->content_key(), right[i]->content_key(), choice});
    bytes += core::content_size(into.back().baseline);
  }
  return bytes;
}

}  // namespace repro_check::comparators::detail
