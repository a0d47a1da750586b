// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "comparators/judge/op_tensors.h"
#include "comparators/judge/rule_book.h"
#include "comparators/measure/pair_measurer.h"
#include "comparators/measure/policy.h"
#include "comparators/measure/quantiser.h"
#include "comparators/measure/tensor_metadata.h"
#include "comparators/report/compare_options.h"
#include "comparators/report/report.h"
#include "core/trace/dump_source.h"

namespace repro_check::comparators::detail {

/// Whether values are looked at where digests differ.
enum class Depth {
  kDigests,   ///< say only that they differ
  kRemember,  ///< take metrics already made for the same pair of contents
  kValues,    ///< read the bytes and measure
};

/// Judges pairs of tensor records. Reads bytes only where digests differ, and the same pair of
/// contents (views, values handed on) only once.
class TensorJudge {
 public:
  TensorJudge(const core::DumpSource& baseline,
              const core::DumpSource& candidate,
              const CompareOptions& options);

  using Choice = RuleBook::Choice;

  /// @param where   for messages: `op 41 output 0`
  /// @param choice  the policy; what was remembered was judged by the one of that time
  TensorComparison judge(const RecordedPair& pair,
                         Depth depth,
                         const std::string& where,
                         const Choice& choice);

  /// Two contents that stand in one place, and the policy for them. Borrowed.
  struct Contents {
    const core::ContentKey& baseline;
    const core::ContentKey& candidate;
    const std::string& where;  ///< for messages: `op 41 output 0`
    const Choice& choice;
  };
  /// Metrics and samples of two contents of one dtype and shape, or of their slices where both have
  /// the same; empty when a side has no bytes.
  struct Measured {
    TensorMetrics metrics;
    std::vector<Sample> samples;
    std::optional<core::ContentSlice> slice;  ///< measured in that alone
    TensorVerdict verdict;                    ///< by the policy it was measured for
  };
  std::optional<Measured> measure_pair(const Contents& pair);

  /// A pair of contents of one dtype and shape that will most likely be judged soon.
  struct Upcoming {
    core::ContentKey baseline;
    core::ContentKey candidate;
    Choice choice;
  };
  /// Measures those whose bytes are there, all at the same time; judge() finds them measured, with
  /// the same result as without. What was measured ahead before, and not asked for, is forgotten.
  void measure_ahead(const std::vector<Upcoming>& pairs);

  /// Whether two contents are bit-equal; empty when their digests follow different rules and a side
  /// has no bytes.
  std::optional<bool> same_content(const core::ContentKey& baseline,
                                   const core::ContentKey& candidate,
                                   const std::string& where);

  /// Whether both dumps made their digests by the same rule.
  [[nodiscard]] bool same_algorithm() const noexcept { return same_algorithm_; }

  /// Whether the digest of this content of a side was verified here, or found wrong. What is small
  /// and right is soon verified again, and not remembered.
  [[nodiscard]] bool has_checked(const core::DumpSource& source,
                                 const core::ContentKey& key) const {
    return checked_.at(&source == &candidate_ ? kCandidate : kBaseline).contains(key);
  }

  struct Damage {
    std::string sentence;
    const core::DumpSource* source = nullptr;
  };
  /// What is damaged of the dumps, each sentence once.
  [[nodiscard]] const std::vector<Damage>& damage() const noexcept { return damage_; }
  /// @param source  whose it is; null where that is not known
  void note_damage(const core::DumpSource* source, const std::string& sentence);

  [[nodiscard]] RuleBook& rules() noexcept { return rules_; }
  [[nodiscard]] const RuleBook& rules() const noexcept { return rules_; }
  [[nodiscard]] const AttributeRules& attributes() const noexcept { return attributes_; }

 private:
  /// Of a pair of contents, and of the rule by which it was measured.
  using PairKey = std::tuple<core::ContentKey, core::ContentKey, std::int64_t>;
  static constexpr std::int64_t kAnyPolicy = -2;  ///< before all that there are
  static constexpr std::int64_t kExactly = std::numeric_limits<std::int64_t>::max();
  static std::int64_t policy_id(const Choice& choice) noexcept {
    if (choice.exact) return kExactly;
    return choice.rule ? static_cast<std::int64_t>(*choice.rule) : -1;
  }

  /// A content for reading; null where its bytes are not there, or damaged.
  std::unique_ptr<core::ContentParts> open(const core::DumpSource& source,
                                           const core::ContentKey& key,
                                           const std::string& where);
  /// The same of one that has to become `dtype` first, or lose its subnormals.
  std::unique_ptr<core::ContentParts> open_as(core::Dtype dtype,
                                              const core::DumpSource& source,
                                              bool flush,
                                              const core::ContentKey& key,
                                              const std::string& where);
  /// Whether `action` finds the content whole; what is damaged is noted.
  bool attempt(const core::DumpSource& source,
               const std::string& where,
               const std::function<void()>& action);
  /// One content, and what remembers which of its dump were verified.
  struct Side {
    const core::DumpSource& source;
    const core::ContentKey& key;
    std::set<core::ContentKey>& checked;
  };
  [[nodiscard]] Side side(const core::ContentKey& key, std::size_t which) {
    const core::DumpSource& source = which == kBaseline    ? baseline_
                                     : which == kCandidate ? candidate_
                                                           : *options_.fp64;
    return {source, key, checked_.at(which)};
  }
  struct Measure {
    core::Dtype dtype = core::Dtype::kUnknown;  ///< both sides become it first
    bool flush = false;                         ///< and lose their subnormals
    ElementPolicy policy;
    std::size_t samples = 0;
  };
  /// Both contents of a pair, and what was measured of them before they were verified.
  struct OpenPair {
    std::unique_ptr<core::ContentParts> baseline;
    std::unique_ptr<core::ContentParts> candidate;
    PairMeasurement found;
  };
  /// Empty where the bytes of a side are not what their digests say.
  std::optional<PairMeasurement> verified(OpenPair& pair,
                                          const Side& left,
                                          const Side& right,
                                          const std::string& where);
  /// Empty where the bytes of a side are not there, or damaged.
  std::optional<PairMeasurement> measure_sides(const Side& left,
                                               const Side& right,
                                               const Measure& how,
                                               const std::string& where);
  /// Of two dtypes, ULPs are those of the narrower, under every policy.
  void count_narrow_ulps(const Contents& pair, PairMeasurement& found);
  std::optional<Measured> measure_whole(const Contents& pair);
  std::optional<Measured> measure_slices(const Contents& pair);
  [[nodiscard]] Measure way_to_measure(core::Dtype baseline,
                                       core::Dtype candidate,
                                       const configs::PolicySpec& policy) const;
  /// @param why  set where it cannot be measured
  std::optional<Fp64Distance> fp64_distance(const Contents& pair, std::string& why);
  /// False where the policy asks for a floor or a result in float64 that there is not.
  bool judge_by_yardstick(const Contents& pair, Measured& measured, TensorComparison& comparison);
  void judge_slice(const Choice& choice, TensorComparison& comparison) const;
  [[nodiscard]] const Measured* remembered(const core::ContentKey& baseline,
                                           const core::ContentKey& candidate) const;
  void judge_values(Depth depth,
                    const std::string& where,
                    const Choice& choice,
                    TensorComparison& comparison);
  /// By the values that the integers stand for.
  void judge_dequantised(const RecordedPair& tensors,
                         const std::string& where,
                         const Choice& choice,
                         const QuantiserPair& quantisers,
                         TensorComparison& comparison);
  struct QuantisedSide {
    const core::DumpSource& source;
    const core::OpRecord& op;
    const core::TensorRecord& tensor;
  };
  /// Null where some of the bytes it takes are not there, or damaged.
  std::unique_ptr<core::ContentParts> open_dequantised(const QuantisedSide& side,
                                                       Quantiser quantiser,
                                                       const std::string& where);
  /// The scales or zero points of a tensor quantised by channel; empty where they are not there.
  std::vector<double> read_channels(const QuantisedSide& side,
                                    std::size_t axis,
                                    std::string_view ending,
                                    const std::string& where);
  void judge_unmeasured(Depth depth, const Choice& choice, TensorComparison& comparison) const;
  /// equal_nan "never": NaN fails even where the bits are equal.
  void judge_equal(const std::string& where, const Choice& choice, TensorComparison& comparison);

  const core::DumpSource& baseline_;
  const core::DumpSource& candidate_;
  const CompareOptions& options_;
  PairMeasurer measurer_;
  bool same_algorithm_ = true;
  RuleBook rules_;
  AttributeRules attributes_;
  std::map<PairKey, Measured> measured_;
  std::map<PairKey, OpenPair> ahead_;
  static constexpr std::size_t kBaseline = 0;
  static constexpr std::size_t kCandidate = 1;
  static constexpr std::size_t kFp64 = 2;
  std::array<std::set<core::ContentKey>, 3> checked_;
  std::vector<Damage> damage_;
};

}  // namespace repro_check::comparators::detail
