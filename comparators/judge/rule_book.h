// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "comparators/align/pairing.h"
#include "comparators/report/report.h"
#include "configs/spec/compare_spec.h"
#include "configs/spec/noise_floors.h"
#include "core/system/memory.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// The results of a run in float64, found by the operators of the baseline.
class Fp64Reference {
 public:
  /// Aligns the two runs. Memory: 4 bytes an operator of the baseline once it is done.
  /// @param baseline, float64  both borrowed for the life of the reference
  /// @throws core::Error{kDumpDamaged}
  Fp64Reference(const core::DumpSource& baseline,
                const core::DumpSource& float64,
                const PairingOptions& options);

  /// @return null where the run in float64 has no such output, or it cannot be read; else valid
  ///         until the next call
  [[nodiscard]] const core::TensorRecord* find(const core::OpRecord& baseline,
                                               std::string_view slot);

  [[nodiscard]] const core::DumpSource& source() const noexcept { return float64_; }
  /// Operators of the baseline that the other run has too.
  [[nodiscard]] std::uint64_t matched() const noexcept { return matched_; }
  /// What could not be read of it, in words; empty = all that was asked for.
  [[nodiscard]] const std::string& damage() const noexcept { return damage_; }

 private:
  const core::DumpSource& float64_;
  Ops counterpart_;  ///< per op index of the baseline, or kUnmatched
  std::uint64_t matched_ = 0;
  core::OpRecord last_;  ///< read last: the outputs of one operator are asked for in a row
  std::uint32_t last_index_;
  std::string damage_;
};

/// Which policy judges which tensor: the first rule that matches.
class RuleBook {
 public:
  /// @param noise  floors for the policy noise; may be null
  RuleBook(const configs::CompareSpec& spec, const configs::NoiseFloors* noise);

  /// Borrows from the book and its specification.
  struct Choice {
    const configs::PolicySpec* policy = nullptr;  ///< null: no rule matches, and that is an error
    std::optional<std::size_t> rule;              ///< index; empty: the policy for all others
    /// Under noise; null: nothing is known of how far runs are apart here.
    const configs::OutputFloor* floor = nullptr;
    /// Under fp64: the same output in float64, valid until the next choice; null: there is none.
    const core::TensorRecord* fp64 = nullptr;
    bool exact = false;  ///< bitwise, whatever the rule says

    /// Whether a policy judges it: some rule speaks of it, and does not leave it out.
    [[nodiscard]] bool judges() const noexcept {
      return policy != nullptr && policy->kind != configs::PolicyKind::kIgnore;
    }
  };

  /// What a tensor is known by; what it is of a scalar is empty.
  struct Subject {
    std::string_view role;  ///< `output`, `result`
    std::string_view slot;
    core::Dtype dtype = core::Dtype::kUnknown;
    std::string_view device;
  };
  /// Remembered for the next time the same operator of the same module asks. Under noise a tensor
  /// without a floor, and under fp64 one without a result in float64, is one that `unmatched`
  /// speaks of.
  [[nodiscard]] Choice choose(const core::OpRecord& record, const Subject& subject);

  /// For one of its output tensors. What is_packed_values() is judged bitwise, whatever the rule
  /// that takes it says of numbers.
  [[nodiscard]] Choice choose_for_output(const core::OpRecord& record,
                                         const core::TensorRecord& output);

  /// For one of its input tensors, as choose_for_output() with fallback().
  [[nodiscard]] Choice choose_for_input(const core::OpRecord& record,
                                        const core::TensorRecord& input) const;

  /// The policy of what no rule is asked about: weights, and inputs that nothing produced.
  [[nodiscard]] Choice fallback() const noexcept;

  /// What made a value that a call returned.
  struct Maker {
    core::OpRecord op;
    core::TensorRecord output;

    [[nodiscard]] Subject subject() const {
      return {
          .role = "output", .slot = output.slot, .dtype = output.dtype, .device = output.device};
    }
  };
  /// Returned values are judged as where they were made, unless an earlier rule speaks of them.
  /// @param makers  by slot, of the record that is judged next
  void set_makers(std::map<std::string, Maker, std::less<>> makers) { makers_ = std::move(makers); }

  /// @param reference  borrowed for the life of the book
  void set_fp64(Fp64Reference* reference) noexcept { fp64_ = reference; }

  [[nodiscard]] bool has_rules() const noexcept { return !spec_.rules.empty(); }

  void count(const Choice& choice) noexcept;
  /// Every rule with the tensors it judged.
  [[nodiscard]] std::vector<RuleUse> uses() const;

 private:
  [[nodiscard]] std::optional<std::size_t> first_match(const core::OpRecord& record,
                                                       const Subject& subject) const;
  [[nodiscard]] Choice by_rule(const core::OpRecord& record, const Subject& subject);
  /// Null where nothing made it, or a rule speaks of it before it speaks of what made it.
  [[nodiscard]] const Maker* maker_of(const core::OpRecord& record, const Subject& subject) const;
  [[nodiscard]] Choice with_yardstick(Choice choice,
                                      const core::OpRecord& record,
                                      const Subject& subject) const;
  /// The same choice of rule for a content whose bytes are no numbers.
  [[nodiscard]] Choice exactly(const Choice& choice) const noexcept;
  [[nodiscard]] Choice choice_of(std::optional<std::size_t> rule) const noexcept;

  const configs::CompareSpec& spec_;
  const configs::NoiseFloors* noise_;
  Fp64Reference* fp64_ = nullptr;
  std::vector<std::uint64_t> counts_;
  std::map<std::string, Maker, std::less<>> makers_;
  std::string key_;  ///< kept for its memory
  std::unordered_map<std::string, std::optional<std::size_t>> known_;
};

/// Warns of every rule in Report::rules that matched nothing.
/// @throws core::Error{kUsage} instead, under CompareSpec::strict_rules
void report_unused_rules(const configs::CompareSpec& spec, Report& report);

using MaybePattern = std::optional<configs::NamePattern>;

/// What has no pattern takes everything. Of an operator, the name with its overload or without.
bool takes(const MaybePattern& pattern, std::string_view name);
bool takes_operator(const MaybePattern& pattern, const core::OpRecord& record);

/// `operator aten::.*, tensor output 0`; empty without patterns.
std::string describe_patterns(
    std::initializer_list<std::pair<std::string_view, const MaybePattern&>> patterns);

}  // namespace repro_check::comparators
