// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comparators/report/finding.h"
#include "configs/spec/compare_spec.h"
#include "core/digest/digest.h"
#include "core/tensor/content.h"
#include "core/tensor/dtype.h"
#include "core/trace/block_row.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {

/// The chance of a wrong statement that is taken by default.
inline constexpr double kAlpha = 0.05;

/// Two probabilities, low <= high.
struct Interval {
  double low = 0;
  double high = 1;
};

/// How likely two runs are to differ, from how often each result came: 1 - sum n_j (n_j - 1) /
/// (n (n - 1)), unbiased when the runs are independent.
/// @param counts  runs that gave each of the distinct results
/// @return 0 to 1; 0 for fewer than two runs
double disagreement(std::span<const std::uint64_t> counts) noexcept;

/// Exact two-sided interval of the chance behind `hits` of `trials`.
/// @param hits   at most `trials`; no trials give [0, 1]
/// @param alpha  chance that the interval misses, shared by its two ends; above 0, below 1
/// Source: C. Clopper, E. Pearson, Biometrika 26 (1934).
Interval clopper_pearson(std::uint64_t hits, std::uint64_t trials, double alpha = kAlpha) noexcept;

/// Upper bound, with confidence 1 - alpha, of the chance of something that never came in `trials`
/// independent trials: 1 - alpha^(1/trials), about 3/trials. Of n runs that agree, n - 1 are trials
/// of "differs from the first": which result the first one gave is not known beforehand.
/// @return 1 for no trials
double undetected_share(std::uint64_t trials, double alpha = kAlpha) noexcept;

/// Runs in all after which a second result that comes with chance `share` has been seen, with
/// confidence 1 - alpha, beside the first one: the least n with (1-f)^n + f^n <= alpha.
/// @param share  of all runs; empty for 0, 1, NaN and what is outside
std::optional<std::uint64_t> runs_needed(double share, double alpha = kAlpha) noexcept;

/// Why an operator is not fine: the sections of docs/CAUSES.md.
enum class CauseKind : std::uint8_t {
  kNone,
  kMode,
  kInputData,
  kWeights,
  kConstant,
  kArgument,
  kRngStream,
  kGeneratorAlgorithm,
  kUninitialised,
  kRace,
  kFlushToZero,
  kOverflow,
  kTies,
  kLayout,
  kSettings,
  kEnvironment,
  kThreads,
  kNondeterministicKernel,
  kUnexplained,
  kPropagated,
  kAmplified,
  kReceived,
  kUnobservedWrite,
  kOutsideOperators,
  kOtherValue,
  kOtherStructure,
  kDtypePromotion,
  kMismatch,
  kOperatorDiffers,
  kReordered,
  kDecomposed,
  kLoop,
  kControlFlow,
  kMissing,
  kExtra,
};
inline constexpr CauseKind kLastCause = CauseKind::kExtra;

/// `rng-stream`: stable, for scripts and expectations; empty for kNone.
std::string_view cause_id(CauseKind kind) noexcept;
/// Null where none is called so. @param id  not empty
std::optional<CauseKind> cause_of_id(std::string_view id) noexcept;

/// Why an origin is an origin, or what made an input differ.
struct Cause {
  CauseKind kind = CauseKind::kNone;
  Phrases evidence;
  std::optional<Phrase> advice;  ///< what to change; null = what helps with every cause of its kind
  /// Further causes that hold as well, the likeliest first. Theirs are empty.
  std::vector<Cause> also = {};
  /// What could not be asked because its evidence is not in the dumps: `generator positions`.
  std::vector<std::string> not_recorded = {};

  Cause() = default;
  Cause(CauseKind of, Phrases shown) : kind(of), evidence(std::move(shown)) {}
  Cause(CauseKind of, Phrases shown, Phrase mend)
      : kind(of), evidence(std::move(shown)), advice(std::move(mend)) {}
};

/// What became of one operator, as a reader of the whole trace wants to see it.
enum class OpState : std::uint8_t {
  kEqual,
  kWithin,
  kOrigin,
  kPropagated,
  kMismatch,
  kBaselineOnly,
  kCandidateOnly,
  kSkipped,
  kNotJudged,
};

/// Of all outputs of one operator the greatest error; NaN where it is not known. The counts are of
/// elements, and of NaN and Inf on either side.
struct OpErrors {
  double max_abs = std::numeric_limits<double>::quiet_NaN();
  double max_rel = std::numeric_limits<double>::quiet_NaN();  ///< over nonzero baselines
  double l2_rel = std::numeric_limits<double>::quiet_NaN();
  std::optional<std::uint64_t> ulp_max;
  std::uint64_t differing = 0;
  std::uint64_t elements = 0;  ///< of the outputs that were measured
  std::uint64_t nan_baseline = 0;
  std::uint64_t nan_candidate = 0;
  std::uint64_t inf_baseline = 0;
  std::uint64_t inf_candidate = 0;
};

/// One operator, by numbers into the tables of its OpTrail.
struct TrailRow {
  static constexpr std::uint32_t kNone = UINT32_MAX;

  std::uint32_t baseline = kNone;   ///< op index; kNone where the baseline has none
  std::uint32_t candidate = kNone;  ///< the same of the candidate
  std::uint32_t op = 0;             ///< in OpTrail::operators
  std::uint32_t place = 0;          ///< in OpTrail::places
  std::uint32_t type = 0;           ///< in OpTrail::types: of its first output
  std::uint32_t errors = kNone;     ///< in OpTrail::errors; kNone where nothing differs
  std::uint32_t producers = 0;      ///< how many in OpTrail::producers are its own
  std::uint32_t first_producer = 0;
  std::uint32_t step = 0;
  OpState state = OpState::kEqual;
  core::Phase phase = core::Phase::kForward;

  /// The op index to call it by: the baseline's, where that has one.
  [[nodiscard]] std::uint32_t shown() const noexcept {
    return baseline != kNone ? baseline : candidate;
  }
};

/// Where in the model an operator is called.
struct OpPlace {
  std::string module_path;
  std::string file;  ///< of the display frame; empty where unknown
  std::uint32_t line = 0;
};

/// Where the elements of one output differ: the last two dimensions cut into blocks, the leading
/// ones summed up. A tensor of one dimension has one row.
struct DifferenceMap {
  std::uint64_t op = 0;  ///< baseline op index
  std::string slot;
  std::uint64_t rows = 0;  ///< of elements
  std::uint64_t columns = 0;
  std::uint64_t leading = 1;  ///< how many matrices lie on top of each other
  std::uint32_t row_blocks = 0;
  std::uint32_t column_blocks = 0;
  std::vector<std::uint64_t> differing;  ///< elements whose bits differ, by block, row-major
};

/// One call that drew random numbers on a side.
struct TrailDraw {
  std::uint32_t row_baseline = TrailRow::kNone;  ///< op index
  std::uint32_t row_candidate = TrailRow::kNone;
  std::uint32_t op = 0;
  std::optional<core::GeneratorUse> baseline;
  std::optional<core::GeneratorUse> candidate;
};

/// Every operator of a comparison in a row each, small enough to hold all of a long trace.
struct OpTrail {
  static constexpr std::size_t kMostRows = 1'000'000;
  static constexpr std::size_t kMostDraws = 10'000;
  static constexpr std::size_t kMostMaps = 200;

  std::vector<std::string> operators;  ///< with their overloads
  std::vector<OpPlace> places;
  std::vector<std::string> types;  ///< `float32 [8, 512]`; empty for no output
  std::vector<TrailRow> rows;      ///< by TrailRow::shown(), those of the baseline first
  std::vector<OpErrors> errors;
  std::vector<std::uint32_t> producers;  ///< op indices of the side that a row is shown by
  std::vector<TrailDraw> draws;
  std::vector<DifferenceMap> maps;
  std::uint64_t rows_total = 0;
  std::uint64_t draws_total = 0;
};

/// By what a pair of records was found.
enum class MatchedBy : std::uint8_t {
  kNone,      ///< no pair
  kPosition,  ///< at the same place from the start or the end; without an order, of equal inputs
  kLcs,       ///< in a longest common subsequence of what lies between
  kAnchor,    ///< its key is equally frequent on both sides of a gap
  kPartial,   ///< on the best path of a search that was cut short
  kMap,       ///< under a name that the map rewrote, whatever found the place
  kOrder,     ///< out of order, which `order: relaxed` allows where everything is bit-equal
};

/// How records were paired, and how much it took.
struct AlignmentSummary {
  bool by_position = false;    ///< `align: strict`
  std::uint64_t position = 0;  ///< pairs by what found them (MatchedBy)
  std::uint64_t lcs = 0;
  std::uint64_t anchor = 0;
  std::uint64_t partial = 0;
  std::uint64_t map = 0;
  std::uint64_t order = 0;
  std::uint64_t reordered = 0;  ///< calls of both sides that stand elsewhere and were not paired
  std::uint64_t left_out_baseline = 0;  ///< nested calls, where the other side recorded none
  std::uint64_t left_out_candidate = 0;
  std::uint64_t work = 0;        ///< steps taken
  std::uint64_t work_limit = 0;  ///< steps after which it would have given up
  bool gave_up = false;
};

/// What a training program goes on from.
enum class StateKind : std::uint8_t {
  kBatch,  ///< the position in the data, and their order
  kParameters,
  kBuffers,
  kOtherModule,  ///< parameters and buffers of a module beside the one that is trained
  kTorchGenerator,
  kDeviceGenerator,
  kNumpyGenerator,
  kPythonGenerator,  ///< of the module `random`
  kLoaderGenerator,  ///< an own one of a DataLoader or its sampler
  kDatasetGenerator,
  kGradients,  ///< that more are going to be added to before the next step
  kLossScale,
  kOptimizer,
  kStepCount,  ///< of an optimizer
  kSchedule,   ///< learning rates, and what their schedulers keep
};
inline constexpr StateKind kLastState = StateKind::kSchedule;

/// `parameters`, `step count of the optimizer`, `generator of NumPy`: as reports call it.
std::string_view state_name(StateKind kind) noexcept;

/// How a kind of state came from one run into the other.
enum class Restored : std::uint8_t {
  kRight,      ///< bit-equal at its first use
  kNotSaved,   ///< it differs there, and no file held it
  kNotLoaded,  ///< a file held it, and nothing took it from there
  kUsedUp,     ///< it was restored, and changed again before its first use
  kMisplaced,  ///< it was restored, and stands for another parameter
  kNotProven,  ///< it differs, and nothing used it afterwards
};
inline constexpr Restored kLastRestored = Restored::kNotProven;

/// `right`, `not saved`, `used up between`.
std::string_view restored_name(Restored outcome) noexcept;

/// One kind of state at its first use after a resume.
struct RestoredState {
  StateKind kind = StateKind::kParameters;
  Restored outcome = Restored::kRight;
  std::uint64_t items = 0;      ///< compared: tensors and numbers
  std::uint64_t differing = 0;  ///< of those
  std::string name;             ///< the first that differs: `count.fc.weight.step`
  Phrases detail;               ///< `3 against 0`, `other bits`: the baseline's first
  std::string place;            ///< kUsedUp: `train.py:31`, where it changed after it was restored
  std::optional<std::uint64_t> moved;  ///< kUsedUp, of a generator: numbers of 32 bits drawn there

  [[nodiscard]] bool parts() const noexcept {
    return outcome != Restored::kRight && outcome != Restored::kNotProven;
  }
};

/// What is wrong with it; null where nothing is to be done.
std::optional<Finding> finding_of(const RestoredState& state);

/// Of a run that resumed from a checkpoint of the run that it is held against.
struct ResumeSummary {
  std::uint32_t step = 0;  ///< that the baseline had made when it saved; the first compared
  std::string saved;       ///< `train.py:31`, where the baseline saved; empty if unknown
  std::optional<std::uint32_t> before_update;  ///< of that step, which the checkpoint lacks
  std::string loaded;                          ///< where the resumed run loaded
  std::uint64_t files = 0;                     ///< loaded that the baseline had saved
  std::uint64_t baseline_op = 0;  ///< op index of the first use, from which on records are compared
  std::uint64_t candidate_op = 0;
  /// Of the resumed run's first step, that have no counterpart and are set aside.
  std::uint64_t first_calls = 0;
  std::vector<RestoredState> states;  ///< in the order of their first use

  /// The first that parts; null where none does.
  [[nodiscard]] const RestoredState* leading() const noexcept {
    const auto found = std::ranges::find_if(states, &RestoredState::parts);
    return found == states.end() ? nullptr : &*found;
  }
};

/// What became of a map of names (configs::NameMap); empty without one.
struct NameMapUse {
  struct Entry {
    std::size_t line = 0;
    std::string kind;  ///< `operator`, `module`
    std::string pattern;
    std::string replacement;
    std::uint64_t operators = 0;  ///< records of the candidate whose name it matched
    std::uint64_t tensors = 0;    ///< parameters and buffers of the candidate
  };
  std::string file;
  std::vector<Entry> entries;
};

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

/// How far a tensor is from the floor of repeated runs.
struct NoiseDistance {
  double l2_rel_floor = 0;
  double max_abs_floor = 0;
  double times = 0;  ///< the greater of l2_rel and max_abs over its floor; inf where that is 0

  bool operator==(const NoiseDistance&) const = default;
};

/// How far both sides of a tensor are from the same one in float64.
struct Fp64Distance {
  double baseline_rmse = 0;  ///< root mean square error, over elements that are finite in both
  double candidate_rmse = 0;
  double allowed = 0;  ///< what candidate_rmse may be

  bool operator==(const Fp64Distance&) const = default;
};

/// One rule of CompareSpec, and what it was good for.
struct RuleUse {
  std::string match;  ///< `operator aten::.*, dtype float16`
  std::string policy;
  std::uint64_t tensors = 0;  ///< outputs it judged, or ignored
};

/// Elements that passed under a policy that does not look at each of them.
struct Screened {
  std::uint64_t tensors = 0;
  std::uint64_t elements = 0;
  std::uint64_t beyond = 0;  ///< the default tolerance of their dtype
};

/// Operators that drew random numbers in both runs, those left out that another recorded one
/// called. Where the runs agree, they do because their generators were seeded alike.
struct RandomDraws {
  static constexpr std::size_t kMostSeeds = 4;

  std::uint64_t operators = 0;
  std::vector<std::string> devices;  ///< of the generators, `cpu`, by their first draw
  /// The generators' own, at most kMostSeeds; where draws are moved to the host, the run's.
  std::vector<std::uint64_t> seeds;
  Phrases parting;  ///< where the generators parted; empty where they did not
  Phrases of_host;  ///< generators that no operator draws from, of a program, and who seeded them
};

/// Pairs by ULP distance: names of the buckets, the last one for NaN and Inf on either side.
inline constexpr std::string_view kUlpBuckets =
    "0|1|2|3-4|5-8|9-16|17-64|65-256|257-1024|1025-65536|above|incomparable";
using UlpHistogram = std::array<std::uint64_t, std::ranges::count(kUlpBuckets, '|') + 1>;

/// Finite pairs by floor(log2(|c-b|/|b|)), so that any percentile is known within a factor of 2.
struct RelHistogram {
  static constexpr int kLeast = -64;                              ///< and whatever is less
  static constexpr int kGreatest = 8;                             ///< and whatever is more
  std::uint64_t zero = 0;                                         ///< no difference
  std::uint64_t infinite = 0;                                     ///< baseline 0, candidate not
  std::array<std::uint64_t, kGreatest - kLeast + 1> exponents{};  ///< from kLeast on

  bool operator==(const RelHistogram&) const = default;
};

/// The relative error that `share` of the finite pairs do not exceed lies in [at_least, at_most].
struct RelBounds {
  double at_least = 0;
  double at_most = 0;  ///< infinite where a baseline of 0 has another candidate
};

/// @param share  0 to 1
/// @return empty when there is no finite pair
std::optional<RelBounds> rel_percentile(const RelHistogram& histogram, double share) noexcept;

/// What two recorded calls of one operator gave when each was executed again by itself, with its
/// own recorded inputs, scalars and generator.
struct ReplayEvidence {
  /// Calls of one side under one setting.
  struct Setting {
    bool of_baseline = true;
    std::string isa;             ///< as asked; empty = as recorded
    std::string cpu_capability;  ///< as LibTorch reports it
    std::uint64_t threads = 0;
    std::uint64_t calls = 0;
    std::vector<core::Digest> results;  ///< distinct ones, over all outputs
    std::optional<bool> as_recorded;    ///< whether all results are the recorded one, where known
  };

  std::optional<std::uint64_t> baseline_op;  ///< which call; empty = there was none to execute
  std::optional<std::uint64_t> candidate_op;
  std::string problem;  ///< why it could not be done; empty = it was
  std::vector<Setting> settings;
  bool same_inputs = true;      ///< of the two recorded calls
  std::string other_arguments;  ///< `eps`, where tensors were the same and these were not
  /// Root mean square distance of the recorded results from the float64 result, where measured.
  std::optional<double> baseline_rmse;
  std::optional<double> candidate_rmse;
  /// baseline_rmse over candidate_rmse: above 1 the candidate is nearer. inf and NaN as
  /// ReplayFindings::reference_ratio() has them.
  std::optional<double> reference_ratio;
  Phrases sentences;  ///< what all this says
};

/// An operator that gave more than one result for equal inputs.
struct FlakyOp {
  std::uint64_t index = 0;  ///< op index in the first run
  core::OpRecord record;    ///< its head in the first run
  /// Runs that gave each distinct result, of those whose inputs were equal; the most frequent
  /// first. Their sum is the number of runs that count.
  std::vector<std::uint64_t> counts;
  double disagreement = 0;  ///< as disagreement() has it
  /// Chance that a run differs from the first one that counts, at a confidence that holds for all
  /// operators at once.
  Interval differs;
  /// Worst over one run of every further result, against the first; empty where there are no bytes.
  std::optional<double> l2_rel;
  std::optional<std::uint64_t> ulp_max;

  [[nodiscard]] std::uint64_t runs() const noexcept {
    return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
  }
};

/// What N recordings of one configuration say of its operators.
struct OpRepeatability {
  std::uint64_t runs = 0;      ///< recordings looked at; 0 = none was
  std::uint64_t assessed = 0;  ///< operators with an output in two runs of equal inputs, or more
  std::uint64_t flaky = 0;     ///< of those with more than one result
  std::uint64_t not_assessed = 0;  ///< of the first run's operators
  std::vector<FlakyOp> ops;        ///< the least repeatable first, then by op index
  std::vector<std::string> notes;  ///< what was left out, and why
};

/// One of N runs of a configuration.
struct RepeatedRun {
  std::string name;
  std::string location;
  std::string status;  ///< of its comparison with the first run; the first run's own is empty
  /// Baseline op index of its first divergence from the first run.
  std::optional<std::uint64_t> first_divergence;
};

/// What N runs of one configuration say together.
struct RepeatSummary {
  std::vector<RepeatedRun> runs;
  std::uint64_t judged = 0;     ///< runs that could be compared with the first
  std::uint64_t differing = 0;  ///< of those
  bool alike = true;            ///< no setting that affects numbers differs between the runs
  OpRepeatability ops;

  /// Chance that a run differs from the first one.
  [[nodiscard]] Interval chance() const noexcept { return clopper_pearson(differing, judged); }
  /// More than half differ from the first run.
  [[nodiscard]] bool first_is_odd() const noexcept { return 2 * differing > judged; }
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

/// What the first divergence is about; kNone for a pass.
enum class DivergenceKind {
  kNone,
  kOrigin,         ///< an operator whose inputs were bit-equal gave another output
  kInputs,         ///< the forward arguments differed
  kWeights,        ///< parameters or buffers differed
  kControlFlow,    ///< the op streams part
  kMissing,        ///< an operator is on one side only
  kMismatch,       ///< dtype, shape, layout or number of results
  kUninitialised,  ///< an operator read memory nobody had written
  kRng,            ///< a generator stood at another place
  kGrowth,         ///< every operator is within its policy, and the error grows beyond max_growth
  kUnrepeated,     ///< two pairs of runs of one configuration did not diverge alike, or two runs
                   ///< without recording did not return the same
  kExpectation,    ///< a divergence that is expected did not keep to what was said of it
  kRestore,        ///< a resumed run went on from another state than the run that it resumes
};

enum class Relation { kOrigin, kPropagated, kMismatch, kMissing };

/// A finite number, NaN or Inf; absent where a metric is null.
using Metric = std::optional<double>;

/// All of one tensor pair, from one pass (docs/DECISIONS.md, metrics). Real-valued metrics run over
/// F, the pairs in which both are finite; n_finite is their number and they are null when it is 0.
struct TensorMetrics {
  std::uint64_t elements = 0;
  std::uint64_t n_diff = 0;    ///< bits differ
  std::uint64_t n_beyond = 0;  ///< fail the policy
  std::uint64_t n_finite = 0;
  std::optional<std::uint64_t> first_diff;  ///< flat row-major index
  std::optional<std::uint64_t> first_beyond;
  std::uint64_t zero_sign_only = 0;  ///< differ in the sign of zero alone
  std::uint64_t nan_both_same = 0;
  std::uint64_t nan_both_payload = 0;  ///< NaN on both sides, other bits
  std::uint64_t nan_baseline = 0;      ///< NaN in the baseline only
  std::uint64_t nan_candidate = 0;
  std::uint64_t inf_sign = 0;  ///< opposite infinities
  std::uint64_t inf_baseline = 0;
  std::uint64_t inf_candidate = 0;
  std::uint64_t noncanonical_bool = 0;
  std::uint64_t false_to_true = 0;  ///< bool only, as the next
  std::uint64_t true_to_false = 0;
  std::uint64_t zeros_both = 0;  ///< equal to 0 on both sides
  std::uint64_t flips = 0;       ///< b*c < 0; not for complex
  std::uint64_t flushed = 0;     ///< a subnormal against 0, either way
  /// c is the dtype's greatest magnitude or infinite, b is finite and less.
  std::uint64_t saturated = 0;
  Metric max_abs;
  std::optional<std::uint64_t> max_abs_index;
  /// |c-b| of integers exactly; set for integral dtypes beside max_abs.
  std::optional<std::uint64_t> max_abs_exact;
  Metric mean_abs;
  Metric max_rel;  ///< inf when some baseline is 0 and its candidate is not
  std::optional<std::uint64_t> max_rel_index;
  Metric max_rel_finite;  ///< over nonzero baselines
  std::optional<std::uint64_t> max_rel_finite_index;
  std::uint64_t zero_baseline = 0;  ///< pairs with b = 0 and c != 0
  Metric mean_rel;
  std::optional<std::uint64_t> ulp_max;  ///< floating dtypes only
  Metric ulp_mean;                       ///< over differing pairs of F
  std::optional<UlpHistogram> ulp_hist;  ///< of all pairs; of complex numbers, part by part
  std::optional<RelHistogram> rel_hist;  ///< of F; not for bool
  Metric rmse;
  Metric nmse;
  Metric l2_rel;
  Metric cosine;
  Metric norm_ratio;
  Metric within_1e3;  ///< share within 1/1000
  Metric within_5e3;
  Metric rtol_needed;  ///< smallest rtol that passes with atol 0
  Metric atol_needed;
  Metric rtol_given_atol;  ///< smallest that passes with the policy's atol
  Metric atol_given_rtol;  ///< smallest that passes with the policy's rtol

  /// Pairs of NaN or Inf and something else, which no size of an error covers.
  [[nodiscard]] std::uint64_t apart() const noexcept {
    return nan_baseline + nan_candidate + inf_sign + inf_baseline + inf_candidate;
  }

  bool operator==(const TensorMetrics&) const = default;
};

/// One element of a differing pair.
struct Sample {
  std::uint64_t flat_index = 0;
  std::vector<std::int64_t> index;
  std::string baseline;  ///< shortest text that reads back in the tensor's own dtype
  std::string candidate;
  std::string baseline_bits;  ///< hexadecimal, most significant first
  std::string candidate_bits;
  std::optional<std::uint64_t> ulp;
};

enum class TensorOutcome {
  kEqual,         ///< bit-identical
  kWithin,        ///< differs, policy passes
  kBeyond,        ///< differs, policy fails
  kMismatch,      ///< dtype, shape, layout, state or number differ: no values compared
  kUncomparable,  ///< no content on a side where the policy needs it
  kSkipped,       ///< uninitialised on both sides, or excluded
};

/// One tensor of a matched operator, where it is not equal.
struct TensorComparison {
  core::TensorRole role = core::TensorRole::kOutput;
  core::TensorRecord baseline;
  core::TensorRecord candidate;
  TensorOutcome outcome = TensorOutcome::kEqual;
  Phrases note;  ///< `dtype differs: float32 against float16`, `only zero signs differ`
  std::optional<TensorMetrics> metrics;
  std::vector<Sample> samples;  ///< first differing elements, at most 10
  /// All that was looked at where digests differ: metrics and samples are about these elements,
  /// with indices of the whole tensor.
  std::optional<core::ContentSlice> slice;
  std::optional<NoiseDistance> noise;  ///< under the policy noise, where there is a floor
  std::optional<Fp64Distance> fp64;    ///< under the policy fp64, where it could be measured
  std::string policy;                  ///< that judged it, in words; empty where none did
  std::optional<configs::PolicyKind> policy_kind;
  std::optional<std::size_t> rule;  ///< index in Report::rules; empty where none of them matched
};

/// Whose fault it is that an operator is not fine.
struct Attribution {
  Relation relation = Relation::kOrigin;
  DivergenceKind kind = DivergenceKind::kOrigin;
  std::vector<std::uint64_t> producers = {};  ///< divergent baseline ops that made differing inputs
  Cause cause = {};
};

/// One operator that is not fine.
struct OpDivergence : Attribution {
  std::optional<std::uint64_t> baseline_index;
  std::optional<std::uint64_t> candidate_index;
  core::OpRecord baseline;  ///< the side that has none is default-constructed
  core::OpRecord candidate;
  MatchedBy matched_by = MatchedBy::kNone;  ///< what paired the two records, where there are two
  std::uint64_t occurrence = 0;             ///< how many earlier baseline records share its key
  std::vector<TensorComparison> outputs;    ///< those that are not equal
  std::vector<TensorComparison> inputs;     ///< those that are not equal
  std::vector<std::string> notes;           ///< differing scalar arguments and results, by name
  Phrases replaced;                         ///< what another operator in its place differs in
  std::string code;                         ///< the line of source at its place; empty = not known
  double severity = 0;  ///< orders propagated ones: l2_rel, inf for NaN, Inf and mismatches
};

/// What one operator did to the relative L2 error (TensorMetrics::l2_rel, the greatest of its
/// floating tensors). Null where it is not known.
struct GrowthStep {
  std::uint64_t op = 0;  ///< baseline op index
  std::string operator_name;
  std::string module_path;
  Metric in;      ///< of its differing inputs
  Metric out;     ///< of its outputs
  Metric factor;  ///< out / in
};

/// An operator whose outputs differ in some bit although nothing that the trace made before was
/// different, or a place where the streams part; whether or not the policy lets it pass.
struct Origin {
  std::optional<std::uint64_t> baseline_index;
  std::optional<std::uint64_t> candidate_index;
  core::OpRecord record;  ///< what names it; no tensors
  Relation relation = Relation::kOrigin;
  CauseKind cause = CauseKind::kNone;  ///< kNone where the policy lets it pass
  bool beyond_policy = false;
  Metric l2_rel;
  /// Later operators whose outputs differ because of it, perhaps among others.
  std::optional<std::uint64_t> tainted;
  /// Of those the ones whose values no operator reads any more: at most 16 of outputs_total.
  std::vector<std::uint64_t> outputs;
  std::uint64_t outputs_total = 0;
  /// From it to the worst of its outputs, by way of the input with the greatest error each time: at
  /// most 64 of path_steps, those that change the error most. Empty where another origin weighs
  /// more.
  std::vector<GrowthStep> path;
  std::uint64_t path_steps = 0;
};

/// An operator that makes the error more than so many times as great is worth a warning; the factor
/// of msprobe's own row warning.
inline constexpr double kSteepGrowth = 10;

/// How the error went through the trace. An operator amplifies above a factor of 2, damps below
/// 0.5, and absorbs when differing inputs give bit-equal outputs.
struct Growth {
  std::optional<GrowthStep> first;  ///< the first operator whose error is known
  std::optional<GrowthStep> last;   ///< the worst final value, or the last operator that differs
  Metric ratio;                     ///< error of the last over that of the first
  std::optional<GrowthStep> steepest;
  std::uint64_t amplified = 0;
  std::uint64_t damped = 0;
  std::uint64_t carried = 0;
  std::uint64_t absorbed = 0;
  std::uint64_t steep = 0;  ///< of the amplified ones those above kSteepGrowth
  bool exceeded = false;    ///< ratio is above max_growth
};

/// A number or truth that an operator returned to the program, before the streams parted.
struct Decision {
  std::uint64_t baseline_index = 0;
  std::uint64_t candidate_index = 0;
  core::OpRecord op;  ///< head of the baseline's
  std::string baseline;
  std::string candidate;

  [[nodiscard]] bool differs() const noexcept { return baseline != candidate; }
};

/// Where the two streams part.
struct ControlFlow {
  /// The last answer before it that was not the same on both sides, else the last that a branch
  /// can have been taken by.
  std::optional<Decision> decision;
  std::optional<std::uint64_t> last_common_baseline;
  std::optional<std::uint64_t> last_common_candidate;
  core::OpRecord last_common;  ///< head of the baseline's, where there is one
  std::string baseline_next;   ///< operator, empty at the end of the stream
  std::string candidate_next;
  std::uint64_t unmatched_baseline = 0;
  std::uint64_t unmatched_candidate = 0;
  bool rejoined = false;
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

/// Calls of one operator.
struct OperatorCount {
  std::string name;
  std::uint64_t calls = 0;
};

/// A number of a training by step.
struct StepSeries {
  enum class Kind : std::uint8_t {
    kLoss,          ///< what a backward pass began with
    kGradientNorm,  ///< L2, over all parameters of an optimizer
    kLearningRate,
    kDrift,  ///< L2 distance of what a step leaves of the parameters, relative to the baseline's
  };
  static constexpr Kind kLastKind = Kind::kDrift;

  Kind kind = Kind::kLoss;
  std::uint32_t ordinal = 0;  ///< which of those of one step: several losses, several optimizers
  std::uint32_t stride = 1;   ///< one step in so many is there
  std::vector<std::uint32_t> steps;  ///< ascending
  std::vector<Metric> baseline;      ///< by step, null where it has none; of kDrift all are null
  std::vector<Metric> candidate;     ///< likewise; of kDrift the distance
  std::optional<std::uint32_t> first_apart;  ///< the first step where the runs are not bit-equal
};

/// How what a loader hands out in two runs differs.
enum class DataVerdict : std::uint8_t {
  kEqual,      ///< the same samples with the same contents, batch by batch
  kContents,   ///< the same samples in the same order, with other contents
  kReordered,  ///< the same samples in another order
  kOther,      ///< other samples
  kLength,     ///< equal as far as both go
};
inline constexpr DataVerdict kLastDataVerdict = DataVerdict::kLength;

/// `equal`, `reordered`.
std::string_view data_verdict_name(DataVerdict verdict) noexcept;

/// What one loader hands out in two runs of a program.
struct DataComparison {
  std::string loader;  ///< `train.py:40`
  DataVerdict verdict = DataVerdict::kEqual;
  std::uint64_t batches = 0;  ///< that both runs have
  // The first batch that differs; of no meaning where none does.
  std::uint32_t step = 0;
  std::uint64_t epoch = 0;
  std::uint64_t batch = 0;  ///< in its epoch
  Finding finding;          ///< the same, and what to do; a note where nothing differs
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

/// Operators of two runs, beside numbers that are judged.
struct ChangedOperators {
  static constexpr std::size_t kMostKinds = 8;

  std::uint64_t baseline = 0;  ///< all of this run
  std::uint64_t candidate = 0;
  std::uint64_t differing = 0;  ///< pairs whose results are not bit-equal
  std::uint64_t baseline_only = 0;
  std::uint64_t candidate_only = 0;
  std::vector<OperatorCount> kinds_baseline;  ///< of those in one run only, the first kMostKinds
  std::vector<OperatorCount> kinds_candidate;
  /// The first of them, of the baseline where that has any.
  std::optional<std::uint64_t> first_index;
  bool first_in_baseline = true;
  core::OpRecord first;  ///< head

  [[nodiscard]] std::uint64_t total() const noexcept {
    return differing + baseline_only + candidate_only;
  }
};

/// What CompareSpec::numbers judged, in the place of operators.
struct NumbersSummary {
  bool by_name = false;  ///< the kinds were asked for, one by one
  std::vector<configs::NumberKind> judged;
  std::vector<configs::NumberKind> not_recorded;  ///< in one of the runs, of those that are wanted
  std::uint64_t steps = 0;                        ///< with a loss or an optimizer's step
  std::uint64_t results = 0;                      ///< records of results
  std::optional<ChangedOperators> operators;      ///< empty where they cannot be paired

  /// Some that were asked for are not there: no pass, whatever is equal.
  [[nodiscard]] bool lacks_named() const noexcept { return by_name && !not_recorded.empty(); }
};

/// The first operator of a rank that is not fine.
struct RankDivergence {
  std::uint32_t rank = 0;
  bool in_baseline = true;  ///< which of the two dumps `op` is a record of
  std::uint64_t op_index = 0;
  core::OpRecord op;  ///< head
};

/// The first border of a block that is not fine.
struct BlockDivergence {
  enum class Kind : std::uint8_t {
    kMissing,  ///< called in one of the runs
    kOutput,   ///< what came out differs
  };
  static constexpr Kind kLastKind = Kind::kOutput;
  /// What went in.
  enum class Input : std::uint8_t { kUnknown, kEqual, kDiffers };
  static constexpr Input kLastInput = Input::kDiffers;

  Kind kind = Kind::kMissing;
  Input input = Input::kUnknown;
  bool of_baseline = true;        ///< whose call `border` is
  std::uint64_t position = 0;     ///< among the blocks of that dump
  std::uint64_t counterpart = 0;  ///< of kOutput, among those of the candidate
  core::BlockRow border;
  std::optional<core::Digest> other_in;  ///< of the candidate
  std::optional<core::Digest> other_out;
  std::optional<core::BlockRow> agreed;  ///< the call before it; empty = there is none
};

/// The first parameter that differs behind a step.
struct ParameterDivergence {
  std::uint32_t step = 0;
  std::string name;
  std::optional<core::Digest> baseline;
  std::optional<core::Digest> candidate;
  std::optional<std::uint32_t> read_equal;  ///< the last step before in which it was read equal
};

/// What two recordings of blocks say at their borders, and of parameters between steps.
struct BlockComparison {
  std::uint64_t blocks = 0;                ///< paths that both runs called
  std::uint64_t steps = 0;                 ///< with a call of them
  std::uint64_t compared = 0;              ///< calls in both runs of which what came out was read
  std::uint64_t differing = 0;             ///< of those
  std::uint64_t missing = 0;               ///< calls in one of the runs
  /// Of differing and missing: on threads beside the main one, whose race may decide which call of
  /// them is which. They are not judged.
  std::uint64_t of_threads = 0;
  std::uint64_t unread = 0;                ///< calls in both of which nothing could be opened
  std::string first_unread;                ///< path
  std::uint64_t every = 1;                 ///< borders of each so many-th step were recorded
  std::uint64_t losses = 0;                ///< of the baseline: their records are compared
  std::uint64_t updates = 0;               ///< of the baseline: steps of optimizers
  std::uint64_t parameters = 0;            ///< compared, behind a step each
  std::uint64_t parameters_differing = 0;  ///< of those
  std::uint64_t parameters_unread = 0;     ///< that moved meanwhile, or were read in one run alone
  std::vector<std::string> unopened;       ///< types at borders that are not read
  std::vector<std::string> not_seen;       ///< modules that were to be blocks, and were not called
  std::optional<BlockDivergence> first;
  std::optional<ParameterDivergence> first_parameter;
  /// The last step behind which each parameter had been read, and was equal, before the first of
  /// those.
  std::optional<std::uint32_t> settled;

  [[nodiscard]] bool parts() const noexcept {
    return differing + missing + parameters_differing != of_threads;
  }
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

/// The record that stands for a call: the baseline's where it has one.
const core::OpRecord& shown_record(const OpDivergence& op) noexcept;
std::uint64_t shown_index(const OpDivergence& op) noexcept;

/// Path of the module that called it, empty where that is not known. Borrowed.
std::string_view module_of(const core::OpRecord& record) noexcept;

/// Whether `word` is one of those in `words`, between which one space stands.
bool is_word_of(std::string_view words, std::string_view word) noexcept;

/// `1 operator`, `2 operators`.
std::string counted(std::uint64_t count, std::string_view noun);

/// `aten::add.Tensor`; `unknown operator` for a record without one.
std::string operator_text(const core::OpRecord& record);

/// `op 41 aten::addmm (encoder.layers.3.linear1)`
std::string step_text(const GrowthStep& step);

/// `op 41 aten::addmm (encoder.layers.3.linear1, train.py:31)`
std::string op_text(const core::OpRecord& record);

/// What names an operator, without its tensors, arguments and results.
core::OpRecord head_of(const core::OpRecord& record);

}  // namespace repro_check::comparators
