// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comparators/cause/cause.h"
#include "comparators/judge/op_judge.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {

/// What the outputs of one run's operators hold of NaN, or of infinities, and where it began. NaN
/// made of infinities began there, whatever made those.
class NonFiniteTally {
 public:
  enum class Kind { kNan, kInfinity };

  explicit NonFiniteTally(Kind kind) : kind_(kind) {}

  /// To be told every operator, in trace order. What is not counted holds none, here.
  void see(const core::OpRecord& record);

  /// How many outputs and elements, and what made the first; null where there are none.
  [[nodiscard]] std::optional<Phrase> phrase() const;

 private:
  [[nodiscard]] std::uint64_t count_in(const core::TensorRecord& tensor) const;
  [[nodiscard]] bool asked_for(const core::OpRecord& record) const;

  Kind kind_;
  std::uint64_t outputs_ = 0;
  std::uint64_t elements_ = 0;
  std::string made_;  ///< by the first operator whose inputs held none, and nobody asked for it
  std::vector<Field> first_;  ///< the first one that holds any, and why it does
};

/// What a person should know even when the verdict is a pass.
class Observations {
 public:
  /// To be told every matched pair, in trace order.
  void see(const JudgedCall& call);
  /// One that has no counterpart.
  void see_alone(const core::OpRecord& record, bool in_baseline);

  /// The same for what either run reads of memory that nobody has written, returned values too.
  void note_unwritten(const JudgedCall& call, const Evidence& evidence);

  /// Which outputs hold NaN or infinity: one of each that both runs say, or of each run.
  [[nodiscard]] Phrases non_finite() const;

  /// How often memory is read that nobody has written, and by whom first; null where it never is.
  [[nodiscard]] std::optional<Finding> unwritten() const;

  /// Further ones; those of the two runs themselves come last.
  [[nodiscard]] Phrases warnings(const core::RunManifest& baseline,
                                 const core::RunManifest& candidate) const;

 private:
  /// Operators counted, and the first of them in words.
  struct Tally {
    std::uint64_t count = 0;
    FieldValue first;

    template <typename First>
    void add(const First& of) {
      if (count++ == 0) first = of();
    }
  };

  /// What is counted of one run.
  struct Side {
    NonFiniteTally nan{NonFiniteTally::Kind::kNan};
    NonFiniteTally infinity{NonFiniteTally::Kind::kInfinity};
    std::uint64_t unstored = 0;  ///< tensors with a digest alone, of the matched operators
  };

  std::uint64_t zeros_ = 0;
  std::uint64_t counted_ = 0;
  Tally absorbed_;
  Tally told_otherwise_;
  Tally strides_;
  Tally alias_;
  std::optional<Finding> unwritten_;  ///< of the first time
  std::uint64_t unwritten_times_ = 0;
  Side baseline_;
  Side candidate_;
  std::uint64_t uncounted_ = 0;  ///< outputs of floats of which neither run knows it
};

}  // namespace repro_check::comparators
