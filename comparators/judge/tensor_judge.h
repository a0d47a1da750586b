// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "comparators/judge/rule_book.h"
#include "comparators/measure/metrics.h"
#include "comparators/measure/policy.h"
#include "comparators/measure/records.h"
#include "comparators/report/compare_options.h"
#include "comparators/report/report.h"
#include "core/trace/dump.h"

namespace repro_check::comparators {

/// Whether values are looked at where digests differ.
enum class Depth {
  kRemember,  ///< take metrics already made for the same pair of contents, else say they differ
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

  /// Two contents that stand in one place. Borrowed.
  struct ContentKeys {
    const core::ContentKey& baseline;
    const core::ContentKey& candidate;
  };
  /// Metrics and samples of two contents of one dtype and shape, or of their slices where both have
  /// the same; empty when a side has no bytes.
  struct Measured {
    TensorMetrics metrics;
    std::vector<Sample> samples;
    std::optional<core::ContentSlice> slice;  ///< measured in that alone
    TensorVerdict verdict;                    ///< by the policy it was measured for
  };
  /// @param where  as for judge()
  std::optional<Measured> measure_pair(const ContentKeys& pair,
                                       const std::string& where,
                                       const Choice& choice);

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
  [[nodiscard]] bool same_device() const noexcept { return same_device_; }

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
  class Work;

  /// Of a pair of contents, and of the rule by which it was measured.
  using PairKey = std::tuple<core::ContentKey, core::ContentKey, std::int64_t>;
  static constexpr std::int64_t kAnyPolicy = -2;  ///< before all that there are

  /// Both contents of a pair, and what was measured of them before they were verified.
  struct OpenPair {
    std::unique_ptr<core::ContentParts> baseline;
    std::unique_ptr<core::ContentParts> candidate;
    PairMeasurement found;

    [[nodiscard]] MeasureRequest request(MeasureRequest how) const {
      how.baseline = baseline.get();
      how.candidate = candidate.get();
      return how;
    }
  };
  const core::DumpSource& baseline_;
  const core::DumpSource& candidate_;
  const CompareOptions& options_;
  PairMeasurer measurer_;
  bool same_algorithm_ =
      baseline_.manifest().trace.digest_algorithm == candidate_.manifest().trace.digest_algorithm;
  bool same_device_ = baseline_.manifest().device == candidate_.manifest().device;
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

}  // namespace repro_check::comparators
