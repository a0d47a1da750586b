// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/metrics.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <numeric>
#include <utility>

#include "comparators/measure/leaf_pass.h"
#include "comparators/measure/samples.h"
#include "core/error.h"

namespace repro_check::comparators {
namespace {

constexpr std::size_t kPart = core::kDigestChunk;
/// Parts a thread must have to do before it is worth waking.
constexpr std::uint64_t kPartsToShare = 2;

constexpr std::size_t kBaseline = 0;
constexpr std::size_t kCandidate = 1;

/// One part of both sides.
struct PairPart {
  std::uint64_t first = 0;  ///< index of its first element
  std::span<const std::byte> baseline;
  std::span<const std::byte> candidate;
};

// Sums of squares that leave the range of double are made again, each operand scaled by the
// exponent of its own maximum. Source: E. Anderson, TOMS algorithm 978.

/// Greatest magnitudes over finite pairs; d may be infinite.
struct Range {
  double b = 0;
  double c = 0;
  double d = 0;

  void merge(const Range& other) noexcept {
    b = std::max(b, other.b);
    c = std::max(c, other.c);
    d = std::max(d, other.d);
  }
};

/// What operands are multiplied by, as exponents of 2.
struct Scale {
  explicit Scale(const Range& range) noexcept
      : b(of(range.b)),
        c(of(range.c)),
        d(of(std::isinf(range.d) ? std::max(range.b, range.c) : range.d)),
        half(std::isinf(range.d) ? 0.5 : 1.0) {}

  int b;
  int c;
  int d;
  double half;  ///< 0.5 where a difference overflows and is made of halves

 private:
  /// Exponent that brings `most` to the neighbourhood of 1.
  static int of(double most) noexcept {
    return most == 0 || !std::isfinite(most) ? 0 : std::ilogb(most);
  }
};

/// What a worker keeps to itself.
struct WorkerState {
  std::unique_ptr<LeafPass> pass;
  std::vector<Sample> samples;           ///< that differ
  std::vector<Sample> beyond;            ///< that fail the policy, where others pass it
  std::unique_ptr<LeafPass> of_element;  ///< judges one
  Range range;
};

/// Of one leaf.
Range range_of(const LeafPass& pass, const PairLeaf& leaf) {
  Range range;
  pass.for_each_finite(leaf, [&](std::size_t /*part*/, double b, double c) {
    range.merge({std::abs(b), std::abs(c), std::abs(c - b)});
  });
  return range;
}

/// Its sums of squares and products, scaled; no other.
LeafTotals scaled_squares(const LeafPass& pass, const PairLeaf& leaf, const Scale& scale) {
  LeafSums sums;
  pass.for_each_finite(leaf, [&](std::size_t part, double b, double c) {
    const std::size_t lane = part % kLanes;
    const double scaled_b = std::ldexp(b, -scale.b);
    const double scaled_c = std::ldexp(c, -scale.c);
    const double scaled_d = std::ldexp(scale.half * c - scale.half * b, -scale.d);
    sums.d2[lane] += scaled_d * scaled_d;
    sums.b2[lane] += scaled_b * scaled_b;
    sums.c2[lane] += scaled_c * scaled_c;
    sums.bc[lane] += scaled_b * scaled_c;
  });
  return totals_of(sums);
}

void check(core::TensorView baseline, core::TensorView candidate, std::uint64_t count) {
  if (baseline.dtype == core::Dtype::kUnknown) {
    throw core::Error(core::ErrorKind::kUnsupportedDtype,
                      "a tensor of an unknown dtype has no values to compare");
  }
  const std::uint64_t bytes = count * core::element_size(baseline.dtype);
  if (baseline.dtype != candidate.dtype || !std::ranges::equal(baseline.shape, candidate.shape) ||
      baseline.bytes.size() != bytes || candidate.bytes.size() != bytes) {
    throw core::internal_error(
        "metrics were asked for two tensors that do not have one dtype, one shape "
        "and the bytes they need");
  }
}

}  // namespace

/// One walk, or several, over all parts of one pair.
class PairMeasurer::Scan {
 public:
  /// @param buffers  one for each thread
  Scan(std::span<Buffers> buffers, const MeasureRequest& request)
      : buffers_(buffers), request_(request) {
    states_.resize(std::clamp<std::uint64_t>(parts_ / kPartsToShare, 1, buffers.size()));
    for (WorkerState& state : states_) state.pass = make_pass(request_.dtype, request.policy);
    leaves_.resize((bytes_ / element_ + kMetricLeaf - 1) / kMetricLeaf);
    for (std::size_t side : {kBaseline, kCandidate}) {
      if (!parts_of(side).verified()) result_.chunks.at(side).resize(parts_);
    }
  }

  PairMeasurement run() {
    walk([this](unsigned worker, const PairPart& part) { measure(states_[worker], part); }, true);
    LeafPass& all = *states_.front().pass;
    for (std::size_t i = 1; i < states_.size(); ++i) {
      all.findings.merge(states_[i].pass->findings);
    }
    for (const LeafTotals& leaf : leaves_) add_sums(leaf, all.findings.totals.sums);
    if (!failed() && all.needs_rescue()) rescue(all);
    all.findings.metrics.elements = bytes_ / element_;
    all.finish();
    result_.metrics = all.findings.metrics;
    take_samples();
    return std::move(result_);
  }

 private:
  [[nodiscard]] const core::ContentParts& parts_of(std::size_t side) const {
    return side == kBaseline ? *request_.baseline : *request_.candidate;
  }

  [[nodiscard]] bool failed() const {
    return result_.failures[kBaseline] != nullptr || result_.failures[kCandidate] != nullptr;
  }

  /// Gives every part to some worker, each worker's in ascending order.
  void walk(const std::function<void(unsigned, const PairPart&)>& take, bool digest) {
    std::atomic<std::uint64_t> next{0};
    const auto work = [&](unsigned worker) {
      for (;;) {
        const std::uint64_t part = next.fetch_add(1, std::memory_order_relaxed);
        if (part >= parts_ || stop_.load(std::memory_order_relaxed)) return;
        const auto left = read(worker, kBaseline, part, digest);
        const auto right = read(worker, kCandidate, part, digest);
        if (stop_.load(std::memory_order_relaxed)) return;
        take(worker, {part * (kPart / element_), left, right});
      }
    };
    core::run_workers(static_cast<unsigned>(states_.size()), work);
  }

  std::span<const std::byte> read(unsigned worker,
                                  std::size_t side,
                                  std::uint64_t part,
                                  bool digest) {
    const std::uint64_t begin = part * kPart;
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(kPart, bytes_ - begin));
    const std::span<std::byte> room = buffers_[worker].at(side).room(size);
    try {
      std::span<const std::byte> bytes = parts_of(side).read(begin, room);
      if (digest && !parts_of(side).verified()) {
        result_.chunks.at(side)[part] = core::digest_leaf(bytes);
      }
      // Content lent at an odd address is copied: the passes read whole elements.
      constexpr std::uintptr_t kAlignment = 8;
      if (reinterpret_cast<std::uintptr_t>(bytes.data()) % kAlignment != 0 && !bytes.empty()) {
        std::memcpy(room.data(), bytes.data(), size);
        bytes = room;
      }
      return bytes;
    } catch (...) {
      const std::lock_guard lock(mutex_);
      result_.failures.at(side) = std::current_exception();
      stop_.store(true, std::memory_order_relaxed);
      return {};
    }
  }

  template <typename Take>
  void for_each_leaf(const PairPart& part, const Take& take) const {
    const std::size_t count = part.baseline.size() / element_;
    for (std::size_t at = 0; at < count; at += kMetricLeaf) {
      take(PairLeaf{part.baseline.data() + at * element_,
                    part.candidate.data() + at * element_,
                    std::min(kMetricLeaf, count - at),
                    part.first + at});
    }
  }

  void measure(WorkerState& state, const PairPart& part) {
    for_each_leaf(part, [&](const PairLeaf& leaf) {
      const TensorMetrics& metrics = state.pass->findings.metrics;
      const std::uint64_t before = metrics.n_diff;
      const std::uint64_t failed = metrics.n_beyond;
      leaves_[leaf.first / kMetricLeaf] = totals_of(state.pass->measure(leaf));
      if (state.samples.size() < request_.max_samples && metrics.n_diff != before) {
        sample(leaf, state.samples, {});
      }
      if (state.beyond.size() < request_.max_samples && metrics.n_beyond != failed) {
        sample(leaf, state.beyond, [&](const std::byte* from, const std::byte* to) {
          return is_beyond(state, from, to);
        });
      }
    });
  }

  bool is_beyond(WorkerState& state, const std::byte* from, const std::byte* to) const {
    if (state.of_element == nullptr) state.of_element = make_pass(request_.dtype, request_.policy);
    const std::uint64_t before = state.of_element->findings.metrics.n_beyond;
    state.of_element->measure({from, to, 1, 0});
    return state.of_element->findings.metrics.n_beyond != before;
  }

  void sample(const PairLeaf& leaf, std::vector<Sample>& into, const WantedElement& wanted) const {
    const std::size_t bytes = leaf.count * element_;
    add_differences({request_.dtype, request_.shape, {leaf.baseline, bytes}},
                    {request_.dtype, request_.shape, {leaf.candidate, bytes}},
                    leaf.first,
                    request_.max_samples,
                    into,
                    wanted);
  }

  /// Each worker has the first ones of what it saw, so the first ones of all are among them.
  void take_samples() {
    const bool any_beyond = result_.metrics.n_beyond != 0;
    std::vector<Sample>& samples = result_.samples;
    for (WorkerState& state : states_) {
      std::ranges::move(any_beyond ? state.beyond : state.samples, std::back_inserter(samples));
    }
    std::ranges::sort(samples, {}, &Sample::flat_index);
    if (samples.size() > request_.max_samples) samples.resize(request_.max_samples);
  }

  void rescue(LeafPass& all) {
    walk(
        [&](unsigned worker, const PairPart& part) {
          for_each_leaf(part, [&](const PairLeaf& leaf) {
            states_[worker].range.merge(range_of(all, leaf));
          });
        },
        false);
    Range range;
    for (const WorkerState& state : states_) range.merge(state.range);
    const Scale scale(range);
    walk(
        [&](unsigned /*worker*/, const PairPart& part) {
          for_each_leaf(part, [&](const PairLeaf& leaf) {
            leaves_[leaf.first / kMetricLeaf] = scaled_squares(all, leaf, scale);
          });
        },
        false);
    LeafTotals squares;
    for (const LeafTotals& leaf : leaves_) add_sums(leaf, squares);
    PairTotals& totals = all.findings.totals;
    totals.sums.d2 = squares.d2;
    totals.sums.b2 = squares.b2;
    totals.sums.c2 = squares.c2;
    totals.sums.bc = squares.bc;
    totals.b_exponent = scale.b;
    totals.c_exponent = scale.c;
    totals.d_exponent = scale.half < 1.0 ? scale.d + 1 : scale.d;
  }

  std::span<Buffers> buffers_;
  const MeasureRequest& request_;
  std::size_t element_ = core::element_size(request_.dtype);
  std::uint64_t bytes_ = request_.baseline->size();
  std::uint64_t parts_ = std::max<std::uint64_t>(1, (bytes_ + kPart - 1) / kPart);
  std::vector<WorkerState> states_;
  std::vector<LeafTotals> leaves_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  PairMeasurement result_;
};

PairMeasurement PairMeasurer::measure(const MeasureRequest& request) {
  return Scan(buffers_, request).run();
}

std::vector<PairMeasurement> PairMeasurer::measure_each(
    const std::vector<MeasureRequest>& requests) {
  // The largest first, so that all threads end at about the same time.
  std::vector<std::size_t> order(requests.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, std::greater<>(), [&](std::size_t i) { return requests[i].baseline->size(); });
  std::vector<PairMeasurement> found(requests.size());
  std::atomic<std::size_t> next{0};
  const auto workers = std::clamp<std::size_t>(requests.size(), 1, buffers_.size());
  core::run_workers(static_cast<unsigned>(workers), [&](unsigned worker) {
    const std::span<Buffers> own(&buffers_[worker], 1);
    for (std::size_t at = next++; at < order.size(); at = next++) {
      const std::size_t i = order[at];
      found[i] = Scan(own, requests[i]).run();
    }
  });
  return found;
}

TensorMetrics measure(core::TensorView baseline,
                      core::TensorView candidate,
                      const ElementPolicy& policy,
                      unsigned threads) {
  check(baseline, candidate, static_cast<std::uint64_t>(core::element_count(baseline.shape)));
  const core::MemoryParts left(baseline.bytes);
  const core::MemoryParts right(candidate.bytes);
  const std::vector<std::int64_t> shape(baseline.shape.begin(), baseline.shape.end());
  return PairMeasurer(threads).measure({baseline.dtype, shape, &left, &right, policy, 0}).metrics;
}

}  // namespace repro_check::comparators
