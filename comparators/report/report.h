// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "comparators/report/alignment.h"
#include "comparators/report/block_comparison.h"
#include "comparators/report/divergence.h"
#include "comparators/report/finding.h"
#include "comparators/report/measures.h"
#include "comparators/report/program.h"
#include "comparators/report/repeats.h"
#include "comparators/report/replay_evidence.h"
#include "comparators/report/restored.h"
#include "comparators/report/trail.h"
#include "configs/spec/compare_spec.h"
#include "core/digest/digest.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {

/// The operators that one module called, on either side.
struct ModuleTally {
  std::string path;  ///< as CallSite has it
  std::uint64_t operators = 0;
  std::uint64_t not_fine = 0;    ///< diverged, mismatched or missing
  std::uint64_t not_judged = 0;  ///< and those skipped
};

/// What `--check-observer` found of one run.
struct ObserverFinding {
  enum class Outcome {
    kUnchanged,
    kChanged,
    kNotJudged,   ///< it returns nothing, or draws what recording would have substituted
    kUnrepeated,  ///< the run without recording does not return the same twice
  };
  std::string run;
  Outcome outcome = Outcome::kUnchanged;
  std::uint64_t outputs = 0;  ///< tensors and other values the run returns
  std::string level;          ///< of the recording that changed one
  std::string output;         ///< the first that differs: `0.logits`
  std::string detail;         ///< `float32 [8, 10]: other bits`
  /// `op 2 aten::sum (model.py:5) reads memory that nobody has written`; empty where none does.
  std::string unwritten;
};

/// One rule of CompareSpec, and what it was good for.
struct RuleUse {
  std::string match;  ///< `operator aten::.*, dtype float16`
  std::string policy;
  std::uint64_t tensors = 0;  ///< outputs it judged, or ignored
};

/// The closed set of first words of a verdict.
enum class Status {
  kReproducible,
  kPartial,  ///< what was compared is reproducible; a dump is partial, so that is not all
  kDiverged,
  kDamaged,
  kIncomplete,
  kNotComparable,
  kNothingCompared,
  kRunFailed,
  kObserverEffect,  ///< recording changed what a run returned
  kStaleBaseline,   ///< what was accepted is about another model, input or configuration
  kNoBaseline,      ///< nothing was accepted for this platform
};

/// matched + missing = records of a side; equal + within_policy + diverged + mismatched + skipped +
/// not_judged = matched; tensors + metadata_only + ignored + not_judged_tensors = outputs. A sum
/// that does not hold is an internal error.
struct Coverage {
  std::uint64_t baseline_ops = 0;
  std::uint64_t candidate_ops = 0;
  std::uint64_t compared =
      0;  ///< matched and judged: equal + within_policy + diverged + mismatched
  std::uint64_t equal = 0;
  std::uint64_t within_policy = 0;
  std::uint64_t diverged = 0;
  std::uint64_t origins = 0;  ///< of diverged and mismatched
  std::uint64_t propagated = 0;
  std::uint64_t mismatched = 0;
  std::uint64_t missing_in_baseline = 0;
  std::uint64_t missing_in_candidate = 0;
  /// Of two releases of LibTorch, what each ran in the place of the other's, with equal results.
  std::uint64_t replaced_baseline = 0;
  std::uint64_t replaced_candidate = 0;
  std::uint64_t skipped = 0;  ///< no output content on either side (uninitialised, excluded)
  std::uint64_t without_content = 0;  ///< of those: there is none, and nothing was left out
  std::uint64_t not_judged = 0;       ///< content missing where the policy needs it
  std::uint64_t outputs = 0;          ///< output tensors of matched operators
  std::uint64_t tensors = 0;          ///< output tensors judged
  std::uint64_t metadata_only = 0;    ///< of one side only, or without content on both
  std::uint64_t ignored = 0;          ///< left out by a rule
  std::uint64_t not_judged_tensors = 0;
  std::uint64_t elements = 0;  ///< elements of those
  std::uint64_t bytes = 0;
  std::uint64_t sliced = 0;  ///< tensors that differ and were measured in a slice alone
  /// Operators that a program's compiler has put into regions. Nobody sees those that it fused, so
  /// that they are counted among no others: regions are compared by what goes in and what comes
  /// out.
  std::uint64_t fused_baseline = 0;
  std::uint64_t fused_candidate = 0;
};

/// What the calls returned (core::kReturnedOperator): judged as the outputs of operators are, call
/// by call whatever the alignment of the operators, and counted in no Coverage.
struct ReturnedValues {
  std::uint64_t baseline = 0;   ///< calls whose returned value is recorded; 0 = not recorded
  std::uint64_t candidate = 0;  ///< of the other dump
  std::uint64_t compared = 0;   ///< calls: equal + within_policy + diverged
  std::uint64_t equal = 0;
  std::uint64_t within_policy = 0;
  std::uint64_t diverged = 0;    ///< or of another structure
  std::uint64_t skipped = 0;     ///< left out by rules, or nothing to compare
  std::uint64_t not_judged = 0;  ///< content missing where the policy needs it
  std::uint64_t missing = 0;     ///< calls of one dump alone, where both recorded some
  std::uint64_t tensors = 0;     ///< judged, of those compared
  std::uint64_t others = 0;      ///< numbers, strings and the like, of those compared
  /// Paths of what only its type is known of (`out.stream`): nobody compared it.
  std::vector<std::string> opaque;
  /// The first call that is not fine; one that inherited it only where all of them did.
  std::optional<OpDivergence> first;

  /// Nothing of what was compared has a value.
  [[nodiscard]] bool is_opaque() const noexcept { return tensors + others == 0 && !opaque.empty(); }
};

/// The first operator of a rank that is not fine.
struct RankDivergence {
  std::uint32_t rank = 0;
  bool in_baseline = true;  ///< which of the two dumps `op` is a record of
  std::uint64_t op_index = 0;
  core::OpRecord op;  ///< head
};

/// Something that is not the same in the two dumps' surroundings.
struct Difference {
  std::string pointer;  ///< `threads.intra_op`, `env.MKL_CBWR`, `libtorch.version`
  std::string baseline;
  std::string candidate;
  bool affects_numbers = true;
};

/// A forward argument, parameter or buffer that differs.
struct NamedTensorDifference {
  core::NamedTensorKind kind = core::NamedTensorKind::kInput;
  std::string name;
  std::optional<core::Digest> baseline;  ///< of its bytes; empty where the run has no such one
  std::optional<core::Digest> candidate;
  Phrases note;  ///< `missing in candidate`, `shape differs: ...`, or empty
  std::optional<TensorMetrics> metrics;
  std::vector<Sample> samples;
};

struct RunSummary {
  std::string name;
  std::string location;
  std::string status = "complete";  ///< complete | partial | incomplete | damaged | failed
  std::string signal;
  std::string message;  ///< why it failed
  std::optional<std::uint64_t> last_op;
  std::string unfinished;      ///< directory of what a failed run has left; empty where nothing is
  core::RunManifest manifest;  ///< default-constructed when there is none
  /// Why the contents that manifest.trace.reference counts were not looked at; empty = they were.
  std::string missing_reference;
};

/// Everything a renderer needs. Divergence is data, never an error.
struct Report {
  Status status = Status::kNothingCompared;
  DivergenceKind kind = DivergenceKind::kNone;
  std::vector<Status> also;      ///< further statuses that hold, most severe first
  Phrases reasons;               ///< why it is so, one each
  std::vector<RunSummary> runs;  ///< baseline, candidate
  Coverage coverage;
  /// Of Coverage::without_content, those of the first 64 operators that have any.
  std::vector<OperatorCount> without_content;
  std::string policy;                              ///< `bitwise, NaN equals NaN`
  std::optional<configs::PolicyKind> policy_kind;  ///< empty where rules choose
  std::vector<RuleUse> rules;
  bool lacks_rule = false;  ///< an output that none of them speaks of, which no values mend
  Screened screened;
  std::vector<Difference> differences;
  std::vector<NamedTensorDifference> named_tensors;
  ReturnedValues returned;
  /// Where numbers were judged: then all other members are about the records that hold them.
  std::optional<NumbersSummary> numbers;
  std::optional<BlockComparison> blocks;  ///< of two recordings of blocks
  RandomDraws draws;
  std::optional<ResumeSummary> resume;  ///< where the candidate resumed from the baseline
  std::vector<StepSeries> steps;        ///< of a training, by kind and ordinal
  std::vector<DataComparison> data;     ///< of a program, by loader
  std::optional<OpDivergence> first_divergence;
  std::optional<ControlFlow> control_flow;
  AlignmentSummary alignment;
  NameMapUse name_map;
  /// That were compared, sorted; of more than 1,024 those in rank_divergences and the lowest.
  std::vector<std::uint32_t> ranks;
  /// The first 10,000, or 4 MiB of names, in the order of their first operators.
  std::vector<ModuleTally> modules;
  /// By rank, where there are several; of more than 1,024 those that part first.
  std::vector<RankDivergence> rank_divergences;
  /// Every further operator that is not fine, in trace order; bounded by CompareOptions::max_items.
  std::vector<OpDivergence> divergences;
  std::uint64_t divergences_total = 0;  ///< the first one included
  /// Baseline op index of the first output that is not bit-equal, within the policy or beyond it.
  std::optional<std::uint64_t> first_bit_difference;
  /// The first 63 places where a difference began, in trace order.
  std::vector<Origin> origins;
  std::uint64_t origins_total = 0;
  std::uint64_t final_values = 0;  ///< operators whose values no later one reads, differing or not
  Growth growth;
  Phrases warnings;
  /// What one of the recordings shows by itself.
  std::vector<Finding> findings;
  /// Under level auto, what each round of recordings said by itself, digests first: one or two.
  std::vector<Report> passes;
  /// Of N runs of one configuration, which this report is about as a whole: what is said of two
  /// runs is about the first and the one that differs most severely, the earliest of several.
  std::optional<RepeatSummary> repeat;
  std::optional<ReplayEvidence> replay;   ///< when it was asked for, and something diverged
  std::vector<ObserverFinding> observer;  ///< an entry a run; empty when nobody asked
  std::optional<Phrase> mend;             ///< what to do, where the reasons do not say it
  /// Every operator in a row, where CompareOptions::keep_trail asked for it; else null.
  std::shared_ptr<const OpTrail> trail;
  bool from_accepted = false;  ///< the first run is what a gate has accepted
  double seconds = 0;
};

/// Counts the places where a difference began as propagated: what made them was not compared.
void forget_origins(Report& report);

/// `1 operator`, `2 operators`.
std::string counted(std::uint64_t count, std::string_view noun);

}  // namespace repro_check::comparators
