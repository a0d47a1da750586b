// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/streams.h"

#include <algorithm>
#include <numeric>

namespace repro_check::comparators::detail {
namespace {

std::size_t hash(const StreamId& id) noexcept {
  const std::uint64_t number = (std::uint64_t{id.rank} << 32U) | id.lane;
  const std::uint64_t mixed = number * 0x9E37'79B9'7F4A'7C15U;
  return mixed ^ (mixed >> 32U);
}

}  // namespace

void Streams::add(const core::OpRecord& head, bool left_out) {
  if (left_out) {
    stream_of_.push_back(kNoStream);
    return;
  }
  const StreamId id{head.rank, head.lane};
  if (last_ == kNoStream || ids_[last_] != id) last_ = number_of(id);
  stream_of_.push_back(last_);
}

std::uint32_t Streams::number_of(const StreamId& id) {
  const auto known = static_cast<std::uint32_t>(ids_.size());
  const std::uint32_t number = slots_.find_or_add(
      hash(id),
      known,
      [&](std::uint32_t other) { return ids_[other] == id; },
      [&](std::uint32_t other) { return hash(ids_[other]); });
  if (number == known) ids_.push_back(id);
  return number;
}

void Streams::finish() {
  order_.resize(ids_.size());
  std::iota(order_.begin(), order_.end(), 0U);
  std::ranges::sort(order_, {}, [&](std::uint32_t number) { return ids_[number]; });
  core::LargeVector<std::uint32_t> next(ids_.size());  // by number, the place of its next op
  stream_of_.for_each([&](std::uint32_t number) {
    if (number != kNoStream) ++next[number];
  });
  begins_.reserve(order_.size() + 1);
  begins_.push_back(0);
  for (const std::uint32_t number : order_) {
    begins_.push_back(begins_.back() + next[number]);
    next[number] = begins_[begins_.size() - 2];
  }
  ops_.resize(begins_.back());
  std::uint32_t op = 0;
  stream_of_.for_each([&](std::uint32_t number) {
    if (number != kNoStream) ops_[next[number]++] = op;
    ++op;
  });
  stream_of_ = {};
}

std::span<const std::uint32_t> Streams::ops(std::size_t stream) const {
  return std::span(ops_).subspan(begins_[stream], begins_[stream + 1] - begins_[stream]);
}

core::LargeVector<std::uint32_t> Streams::ranks() const {
  core::LargeVector<std::uint32_t> ranks;
  for (std::size_t stream = 0; stream < size(); ++stream) {
    if (ranks.empty() || ranks.back() != id(stream).rank) ranks.push_back(id(stream).rank);
  }
  return ranks;
}

}  // namespace repro_check::comparators::detail
