// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>
#include <type_traits>
#include <vector>

#include "comparators/measure/leaf_pass.h"
#include "core/system/instruction_set.h"

namespace repro_check::comparators {
namespace {

// How each dtype becomes what the inner loop takes: a float (exact for 32 bits and fewer) or a
// double, and its place on the number line.

template <core::Dtype kDtype, typename Bits>
struct WideFormat {
  using Raw = Bits;
  using Value = std::conditional_t<sizeof(Bits) == sizeof(double), double, float>;
  using Order = std::conditional_t<sizeof(Bits) == sizeof(double), std::int64_t, std::int32_t>;
  static constexpr auto kMagnitude = static_cast<Raw>(core::row_of(kDtype).layout.sign() - 1);
  static constexpr auto kInfinity = static_cast<Raw>(core::row_of(kDtype).layout.special());

  explicit WideFormat(core::Dtype /*dtype*/) noexcept {}

  [[nodiscard]] static Raw pad() noexcept { return 0; }
  [[nodiscard]] static bool finite(Raw raw) noexcept { return (raw & kMagnitude) < kInfinity; }
  [[nodiscard]] static bool nan(Raw raw) noexcept { return (raw & kMagnitude) > kInfinity; }
  [[nodiscard]] static Value value(Raw raw) noexcept {
    if constexpr (kDtype == core::Dtype::kFloat16) {
      return core::finite_half_to_float(raw);
    } else if constexpr (kDtype == core::Dtype::kBFloat16) {
      return core::bfloat_to_float(raw);
    } else {
      return std::bit_cast<Value>(raw);
    }
  }
  /// Sign-magnitude to a number line on which neighbours differ by 1.
  [[nodiscard]] static Order order(Raw raw) noexcept {
    const auto magnitude = static_cast<Order>(raw & kMagnitude);
    return raw > kMagnitude ? -magnitude : magnitude;
  }
};

struct ByteFormat {
  using Raw = std::uint8_t;
  using Value = float;
  using Order = std::int32_t;
  const core::ByteFloat* table;

  explicit ByteFormat(core::Dtype dtype) noexcept : table(&core::byte_float(dtype)) {}

  [[nodiscard]] Raw pad() const noexcept { return table->pad; }
  [[nodiscard]] bool finite(Raw raw) const noexcept { return table->finite[raw]; }
  [[nodiscard]] bool nan(Raw raw) const noexcept { return table->nan[raw]; }
  [[nodiscard]] Value value(Raw raw) const noexcept { return table->value[raw]; }
  [[nodiscard]] Order order(Raw raw) const noexcept { return table->order[raw]; }
};

static_assert(kMetricLeaf % kBlock == 0 && kBlock % kLanes == 0);

/// Measures pairs of a real floating dtype: takes out what is not finite,
/// hands blocks to the inner loop, and looks again at the blocks that hold something new.
template <typename Format>
class FloatPass final : public LeafPass {
  using Raw = typename Format::Raw;
  using Value = typename Format::Value;
  using Order = typename Format::Order;
  using Pairs = std::conditional_t<sizeof(Value) == sizeof(double), WidePairs, NarrowPairs>;
  static constexpr std::size_t kJointCodes = kUlpCodes << kRelBits;

 public:
  FloatPass(core::Dtype dtype, const ElementPolicy& of_elements)
      : LeafPass(of_elements),
        format_(dtype),
        min_normal_(core::row_of(dtype).layout.min_normal()),
        max_finite_(core::row_of(dtype).layout.max_finite()) {}

  LeafSums measure(const PairLeaf& leaf) override {
    const auto* baseline = reinterpret_cast<const Raw*>(leaf.baseline);
    const auto* candidate = reinterpret_cast<const Raw*>(leaf.candidate);
    BlockSums sums{};
    for (std::size_t at = 0; at < leaf.count; at += kBlock) {
      const std::size_t size = std::min(kBlock, leaf.count - at);
      add_block(baseline + at, candidate + at, size, leaf.first + at, sums);
    }
    take_codes();
    return sums;
  }

  void finish() override { findings.finish(policy, {}); }

  /// No narrower dtype can leave the range of double's squares.
  [[nodiscard]] bool needs_rescue() const override {
    return sizeof(Raw) == sizeof(double) && out_of_range(findings.totals);
  }
  void for_each_finite(const PairLeaf& leaf, const TakePart& take) const override {
    const auto* baseline = reinterpret_cast<const Raw*>(leaf.baseline);
    const auto* candidate = reinterpret_cast<const Raw*>(leaf.candidate);
    for (std::size_t i = 0; i < leaf.count; ++i) {
      if (!format_.finite(baseline[i]) || !format_.finite(candidate[i])) continue;
      take(i,
           static_cast<double>(format_.value(baseline[i])),
           static_cast<double>(format_.value(candidate[i])));
    }
  }

 private:
  /// One table of both errors of a pair: one increment a pair, whose neighbours go to the other
  /// copy and need not wait for it.
  void count_codes(std::size_t size) {
    if (joint_.empty()) joint_.resize(2 * kJointCodes);
    std::uint32_t* even = joint_.data();
    std::uint32_t* odd = even + kJointCodes;
    for (std::size_t i = 0; i < size; i += 2) {
      ++even[static_cast<std::size_t>(block_codes_[i])];
      ++odd[static_cast<std::size_t>(block_codes_[i + 1])];
    }
    codes_used_ = true;
  }

  void take_codes() noexcept {
    if (!codes_used_) return;
    for (std::size_t code = 0; code < kJointCodes; ++code) {
      const std::uint64_t count = std::uint64_t{joint_[code]} + joint_[kJointCodes + code];
      if (count == 0) continue;
      findings.totals.codes.ulp.at(code >> kRelBits) += count;
      findings.totals.codes.rel.at(code & ((std::size_t{1} << kRelBits) - 1)) += count;
    }
    std::ranges::fill(joint_, 0U);
    codes_used_ = false;
  }

  void add_block(const Raw* baseline,
                 const Raw* candidate,
                 std::size_t size,
                 std::uint64_t first,
                 BlockSums& sums) {
    const bool equal = std::memcmp(baseline, candidate, size * sizeof(Raw)) == 0;
    findings.metrics.n_finite += size;
    // The loops see for themselves what is not finite in the numbers as they are.
    const bool loops_look = sizeof(Raw) == sizeof(Value) && !equal;
    const bool special =
        !loops_look && (any_special(baseline, size) || (!equal && any_special(candidate, size)));
    const bool as_they_are = !special && size % kLanes == 0;
    if (as_they_are && add_finite(baseline, candidate, size, equal, first, sums)) return;
    clean(baseline, candidate, size, first);
    const std::size_t padded = (size + kLanes - 1) / kLanes * kLanes;
    add_finite(clean_baseline_.data(), clean_candidate_.data(), padded, equal, first, sums);
  }

  /// False where the pairs are not all finite: then nothing was added.
  bool add_finite(const Raw* baseline,
                  const Raw* candidate,
                  std::size_t size,
                  bool equal,
                  std::uint64_t first,
                  BlockSums& sums) {
    const Value* values = values_of(baseline, size, 0);
    if (equal) {
      findings.totals.n_rel += squares(values, size, sums);
      return true;
    }
    const Pairs pairs = pairs_of_block(baseline, candidate, values, size);
    const BlockFindings found = loop(pairs, sums);
    if (found.special != 0) return false;
    count_codes(size);
    take(found, pairs, first);
    return true;
  }

  /// Float32 and float64 are what the loops take.
  [[nodiscard]] const Value* values_of(const Raw* raw,
                                       std::size_t size,
                                       std::size_t side) noexcept {
    if constexpr (sizeof(Raw) == sizeof(Value)) {
      return reinterpret_cast<const Value*>(raw);
    } else {
      for (std::size_t i = 0; i < size; ++i) values_[side][i] = format_.value(raw[i]);
      return values_[side].data();
    }
  }

  [[nodiscard]] Pairs pairs_of_block(const Raw* baseline,
                                     const Raw* candidate,
                                     const Value* baseline_values,
                                     std::size_t size) noexcept {
    const Value* candidate_values = values_of(candidate, size, 1);
    if constexpr (sizeof(Value) == sizeof(double)) {
      return {baseline_values, candidate_values, size};
    } else if constexpr (sizeof(Raw) == sizeof(Value)) {
      return {baseline_values, candidate_values, nullptr, nullptr, size};
    } else {
      for (std::size_t i = 0; i < size; ++i) orders_[0][i] = format_.order(baseline[i]);
      for (std::size_t i = 0; i < size; ++i) orders_[1][i] = format_.order(candidate[i]);
      return {baseline_values, candidate_values, orders_[0].data(), orders_[1].data(), size};
    }
  }

  [[nodiscard]] bool any_special(const Raw* raw, std::size_t size) const noexcept {
    unsigned special = 0;
    for (std::size_t i = 0; i < size; ++i) special |= format_.finite(raw[i]) ? 0U : 1U;
    return special != 0U;
  }

  /// Copies the block, with pairs of 0 for padding and in the place of every NaN and Inf, which are
  /// counted here.
  void clean(const Raw* baseline, const Raw* candidate, std::size_t size, std::uint64_t first) {
    clean_baseline_.fill(format_.pad());
    clean_candidate_.fill(format_.pad());
    for (std::size_t i = 0; i < size; ++i) {
      const Raw from = baseline[i];
      const Raw to = candidate[i];
      if (format_.finite(from) && format_.finite(to)) {
        clean_baseline_[i] = from;
        clean_candidate_[i] = to;
        continue;
      }
      --findings.metrics.n_finite;
      const ValueClass left = class_of(from);
      const ValueClass right = class_of(to);
      findings.count_special(left, right, from == to, first + i, policy);
      const bool below =
          format_.finite(from) && std::abs(static_cast<double>(format_.value(from))) < max_finite_;
      if (right.inf && below) ++findings.metrics.saturated;
    }
  }

  [[nodiscard]] ValueClass class_of(Raw raw) const noexcept {
    return {format_.nan(raw), !format_.finite(raw) && !format_.nan(raw)};
  }

  [[nodiscard]] BlockPolicy block_policy() const noexcept {
    constexpr double kUnwanted = std::numeric_limits<double>::infinity();
    return {policy.rtol,
            policy.atol,
            findings.totals.needed_rtol,
            policy.atol > 0 ? findings.totals.given_rtol : kUnwanted,
            policy.rtol > 0 ? findings.totals.given_atol : kUnwanted,
            min_normal_,
            max_finite_,
            policy.max_ulp,
            policy.signed_zero_distinct};
  }
  BlockFindings loop(const NarrowPairs& pairs, BlockSums& sums) {
    return block_loops().narrow(pairs, block_policy(), sums, block_codes_.data());
  }
  BlockFindings loop(const WidePairs& pairs, BlockSums& sums) {
    return block_loops().wide(pairs, block_policy(), sums, block_codes_.data());
  }
  static std::uint64_t squares(const float* values, std::size_t size, BlockSums& sums) {
    return block_loops().narrow_squares(values, size, sums);
  }
  static std::uint64_t squares(const double* values, std::size_t size, BlockSums& sums) {
    return block_loops().wide_squares(values, size, sums);
  }

  void take(const BlockFindings& found, const Pairs& pairs, std::uint64_t first) noexcept {
    findings.totals.n_rel += found.n_rel;
    findings.totals.outside_1e3 += found.outside_1e3;
    findings.totals.outside_5e3 += found.outside_5e3;
    findings.totals.n_unequal += found.unequal;
    findings.totals.ulp_max = std::max(findings.totals.ulp_max, found.ulp_max);
    findings.totals.ulp_sum += (UInt128{found.ulp_high} << 32U) + found.ulp_low;
    findings.metrics.zero_baseline += found.zero_base;
    findings.metrics.n_diff += found.differ;
    findings.metrics.n_beyond += found.beyond;
    findings.metrics.zero_sign_only += found.differ - found.unequal;
    findings.metrics.flips += found.flips;
    findings.metrics.flushed += found.flushed;
    findings.metrics.saturated += found.saturated;
    if (found.differ != 0 &&
        (!findings.metrics.first_diff || *findings.metrics.first_diff > first)) {
      note_first(findings.metrics.first_diff, first + first_hit(pairs, false));
    }
    if (found.beyond != 0 &&
        (!findings.metrics.first_beyond || *findings.metrics.first_beyond > first)) {
      note_first(findings.metrics.first_beyond, first + first_hit(pairs, true));
    }
    const bool news = found.max_abs > findings.totals.max_abs ||
                      found.max_rel > findings.totals.max_rel || found.short_of_rtol != 0 ||
                      found.short_of_given != 0 ||
                      (found.zero_base != 0 && !findings.totals.first_zero_base);
    if (!news) return;
    for (std::size_t i = 0; i < pairs.count; ++i) {
      const auto base = static_cast<double>(pairs.baseline[i]);
      const double abs = std::abs(static_cast<double>(pairs.candidate[i]) - base);
      findings.refine(abs, std::abs(base), first + i, policy);
    }
  }

  /// In ULP.
  [[nodiscard]] std::uint64_t order_distance(const Pairs& pairs, std::size_t i) const noexcept {
    std::int64_t from = 0;
    std::int64_t to = 0;
    if constexpr (sizeof(Raw) == sizeof(Value)) {
      from = format_.order(std::bit_cast<Raw>(pairs.baseline[i]));
      to = format_.order(std::bit_cast<Raw>(pairs.candidate[i]));
    } else {
      from = pairs.baseline_order[i];
      to = pairs.candidate_order[i];
    }
    return static_cast<std::uint64_t>(std::max(from, to)) -
           static_cast<std::uint64_t>(std::min(from, to));
  }

  [[nodiscard]] std::size_t first_hit(const Pairs& pairs, bool beyond) const noexcept {
    for (std::size_t i = 0; i < pairs.count; ++i) {
      const auto base = static_cast<double>(pairs.baseline[i]);
      const auto other = static_cast<double>(pairs.candidate[i]);
      const double abs = std::abs(other - base);
      const bool zero_sign = abs == 0 && std::signbit(base) != std::signbit(other);
      const bool differs = abs > 0 || zero_sign;
      const bool fails = abs > policy.atol + policy.rtol * std::abs(base) ||
                         order_distance(pairs, i) > policy.max_ulp ||
                         (zero_sign && policy.signed_zero_distinct);
      if (beyond ? fails : differs) return i;
    }
    return pairs.count;
  }

  Format format_;
  double min_normal_;
  double max_finite_;
  std::array<Raw, kBlock> clean_baseline_{};
  std::array<Raw, kBlock> clean_candidate_{};
  std::array<std::array<Value, kBlock>, 2> values_{};
  std::array<std::array<Order, kBlock>, 2> orders_{};
  std::array<std::int32_t, kBlock> block_codes_{};
  std::vector<std::uint32_t> joint_;  ///< of a leaf; made when something differs
  bool codes_used_ = false;
};

}  // namespace

std::unique_ptr<LeafPass> make_float_pass(core::Dtype dtype, const ElementPolicy& policy) {
  using core::Dtype;
  switch (dtype) {
    case Dtype::kFloat32:
      return std::make_unique<FloatPass<WideFormat<Dtype::kFloat32, std::uint32_t>>>(dtype, policy);
    case Dtype::kBFloat16:
      return std::make_unique<FloatPass<WideFormat<Dtype::kBFloat16, std::uint16_t>>>(dtype,
                                                                                      policy);
    case Dtype::kFloat16:
      return std::make_unique<FloatPass<WideFormat<Dtype::kFloat16, std::uint16_t>>>(dtype, policy);
    case Dtype::kFloat64:
      return std::make_unique<FloatPass<WideFormat<Dtype::kFloat64, std::uint64_t>>>(dtype, policy);
    default:
      return std::make_unique<FloatPass<ByteFormat>>(dtype, policy);
  }
}

const BlockLoops& block_loops() noexcept {
  static const std::array<BlockLoops, 3> loops{
      avx512_block_loops(), avx2_block_loops(), portable_block_loops()};
  static const BlockLoops& fastest = core::detail::runnable(loops).front();
  return fastest;
}

}  // namespace repro_check::comparators
