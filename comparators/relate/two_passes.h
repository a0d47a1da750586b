// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "comparators/relate/arrival.h"
#include "comparators/relate/forward_pass.h"
#include "comparators/relate/judgement.h"
#include "comparators/relate/log_probabilities.h"
#include "comparators/relate/related_modules.h"
#include "comparators/relate/row_map.h"
#include "comparators/relate/weights.h"
#include "comparators/report/finding.h"
#include "core/error.h"

namespace repro_check::comparators {

/// The numbers of a stored content.
/// @throws core::Error{kNotComparable} where it is not stored
std::vector<double> read_numbers(const core::DumpSource& dump, const core::ContentKey& content);

/// A forward pass of one dump, with the weights that it read.
struct PassSide {
  ForwardPass pass;
  WeightSide weights;      ///< as they were at its end, and before; of one dump
  bool has_later = false;  ///< the dump has forward passes behind it

  [[nodiscard]] const core::DumpSource& dump() const { return *weights.dumps.front(); }
  /// As read_numbers().
  [[nodiscard]] std::vector<double> numbers(const PassTensor& tensor) const;
};

/// @param number  of the pass, from 0
/// @param count   so many passes from there on, put together; not 0
/// @throws core::Error{kNotComparable} for a dump without values, without as many passes, or with
///         passes that do not belong together
PassSide read_side(std::unique_ptr<core::DumpSource> dump,
                   std::size_t number,
                   std::size_t count = 1);

/// Two forward passes, and what belongs together in them.
struct TwoPasses {
  PassSide a;
  PassSide b;
  std::vector<RelatedWeight> relations;  ///< by B's weights
  RelatedModules related;
  std::optional<RowMap> tokens;       ///< of what was looked up; empty where nothing was
  std::vector<std::int64_t> given;    ///< by A's row: the numbers of the largest table
  bool are_rows_related = true;       ///< false: it is not proved that both were given the same
  std::optional<std::size_t> unlike;  ///< then the call of B of whose input that is said
  std::optional<std::size_t> logits;  ///< index into related.modules

  [[nodiscard]] ReadNumbers numbers_a() const;
  [[nodiscard]] ReadNumbers numbers_b() const;
  [[nodiscard]] const RowMap* rows() const { return tokens ? &*tokens : nullptr; }
};

TwoPasses relate_passes(PassSide a, PassSide b);

/// Why nothing is said of whether two passes agree.
enum class NoVerdict : std::uint8_t {
  kNone,
  kNothingRelated,  ///< less than must be
  kOtherInputs,     ///< not the same rows
  kNothingJudged,   ///< rows or features of all related modules are cut otherwise
  kNoMeasure,       ///< A's own error is as large as its values
  kBehindCut,       ///< beyond the floor behind an operator that float64 did not execute
};

struct RelateReport {
  std::vector<JudgedModule> modules;  ///< in the order of A's operators
  std::uint64_t unjudged = 0;
  double least = 0;  ///< share of B's elements whose module has to be related
  NoVerdict no_verdict = NoVerdict::kNone;
  double worst_within = 0;  ///< ratio of the worst module that is within the floor
  std::optional<LogProbabilities> tokens;
  std::vector<Finding> findings;  ///< faults first, in the order of A's operators

  [[nodiscard]] std::uint64_t count(ModuleState state) const;
  [[nodiscard]] bool has_diverged() const;
};

/// @param shadow  of an output of A, by judged_calls(); asked only where it is needed
/// @param cuts    operators of A, by op index, that float64 did not execute: between one and the
///                next related output A's own error is not known
RelateReport judge_passes(const TwoPasses& passes,
                          double least,
                          const std::function<ShadowValues(std::size_t)>& shadow,
                          const std::vector<std::uint64_t>& cuts = {});

/// Whether enough is related, and rows are, for a shadow to be asked.
NoVerdict can_be_judged(const TwoPasses& passes, double least);

core::ExitCode exit_code_of(const RelateReport& report);

/// `model.layers.0.self_attn.q_proj + model.layers.0.self_attn.k_proj`
std::string names_of(const RelatedModule& module, const ForwardPass& a);

}  // namespace repro_check::comparators
