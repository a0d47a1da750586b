// SPDX-License-Identifier: Apache-2.0
// How TensorJudge judges by the values that quantised integers stand for.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comparators/judge/op_tensors.h"
#include "comparators/judge/tensor_judge.h"
#include "comparators/measure/policy.h"
#include "core/digest/digest.h"
#include "core/system/aligned_buffer.h"

namespace repro_check::comparators::detail {
namespace {

using core::TensorRecord;

/// @throws core::Error{kDumpDamaged, kIo}
void verify_whole(const core::ContentParts& parts) {
  if (parts.verified()) return;
  core::AlignedBuffer buffer;
  std::vector<core::Digest> chunks;
  std::uint64_t begin = 0;
  do {
    const std::uint64_t size = std::min<std::uint64_t>(core::kDigestChunk, parts.size() - begin);
    chunks.push_back(core::digest_leaf(parts.read(begin, buffer.room(size))));
    begin += size;
  } while (begin < parts.size());
  parts.verify(chunks);
}

}  // namespace

std::vector<double> TensorJudge::read_channels(const QuantisedSide& side,
                                               std::size_t axis,
                                               std::string_view ending,
                                               const std::string& where) {
  const TensorRecord* part = find_part(side.op, side.tensor, ending);
  const std::int64_t channels = side.tensor.shape[axis];
  if (part == nullptr || part->state != core::ContentState::kHashed || channels > kMostChannels ||
      part->shape != std::vector<std::int64_t>{channels}) {
    return {};
  }
  const core::ContentKey key = part->content_key();
  std::vector<std::byte> bytes;
  const bool stored = side.source.has_content(key) &&
                      attempt(side.source, where, [&] { side.source.read_content(key, bytes); });
  if (!stored) return {};
  std::vector<double> numbers = channel_numbers({key.dtype, key.shape, bytes});
  if (numbers.size() != static_cast<std::size_t>(channels)) return {};
  return numbers;
}

std::unique_ptr<core::ContentParts> TensorJudge::open_dequantised(const QuantisedSide& side,
                                                                  Quantiser quantiser,
                                                                  const std::string& where) {
  if (quantiser.axis) {
    quantiser.scales = read_channels(side, *quantiser.axis, "scales", where);
    quantiser.zero_points = read_channels(side, *quantiser.axis, "zero_points", where);
  }
  if (quantiser.scales.empty() || quantiser.zero_points.empty()) return nullptr;
  auto integers = open(side.source, side.tensor.content_key(), where);
  const bool whole =
      integers != nullptr && attempt(side.source, where, [&] { verify_whole(*integers); });
  if (!whole) return nullptr;
  return std::make_unique<DequantisedParts>(
      std::move(integers), side.tensor.dtype, side.tensor.shape, std::move(quantiser));
}

void TensorJudge::judge_dequantised(const TensorPair& tensors,
                                    const std::string& where,
                                    const Choice& choice,
                                    const QuantiserPair& quantisers,
                                    TensorComparison& comparison) {
  const core::ContentKey from = tensors.baseline.content_key();
  const core::ContentKey to = tensors.candidate.content_key();
  OpenPair pair;
  pair.baseline = open_dequantised(
      {baseline_, tensors.baseline_op, tensors.baseline}, quantisers.baseline, where);
  pair.candidate = open_dequantised(
      {candidate_, tensors.candidate_op, tensors.candidate}, quantisers.candidate, where);
  if (!pair.baseline || !pair.candidate) {
    return judge_unmeasured(Depth::kValues, choice, comparison);
  }
  // The defaults of torch.testing.assert_close for quantised tensors are those of float32.
  pair.found = measurer_.measure(
      {{core::Dtype::kFloat64, from.shape, pair.baseline.get(), pair.candidate.get()},
       element_policy(*choice.policy, core::Dtype::kFloat32),
       options_.max_samples});
  auto found = verified(
      pair, {baseline_, from, checked_[kBaseline]}, {candidate_, to, checked_[kCandidate]}, where);
  if (!found) return judge_unmeasured(Depth::kValues, choice, comparison);
  TensorMetrics& m = found->metrics;
  m.ulp_max.reset();  // of integers there are none
  m.ulp_mean.reset();
  m.ulp_hist.reset();
  const TensorVerdict verdict = judge_metrics(*choice.policy, m);
  comparison.note = "by the values that the integers stand for";
  append_note(comparison.note, !verdict.why.empty(), verdict.why);
  comparison.outcome = verdict.passes ? TensorOutcome::kWithin : TensorOutcome::kBeyond;
  comparison.metrics = m;
  comparison.samples = std::move(found->samples);
}

}  // namespace repro_check::comparators::detail
