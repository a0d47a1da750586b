// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/rules.h"

#include <array>
#include <cstddef>

namespace repro_check::cmd {
namespace {

constexpr std::array kRules{
    Rule{RuleId::kOrigin,
         "RC1001",
         "DivergenceOrigin",
         "origin",
         "Operator is not reproducible",
         "Everything the operator was given was bit-equal in both runs, and what it returned was "
         "not.",
         "Record with determinism on, pin the number of threads, or replace the operator. "
         "`repro-check "
         "replay DUMP --op N` executes it alone, again and again, with the inputs it had."},
    Rule{RuleId::kInherited,
         "RC1002",
         "DivergenceInherited",
         "inputs",
         "The runs were given different numbers",
         "No operator made the first difference: the inputs, the weights, a constant of the graph "
         "or an argument that is no tensor differed.",
         "Load the same checkpoint and the same inputs in both runs, and compare again."},
    Rule{RuleId::kMismatch,
         "RC1003",
         "TensorMismatch",
         "mismatch",
         "Operator returns another kind of tensor",
         "The dtype, shape, layout or number of results of an operator is not the same in both "
         "runs.",
         "Look for a cast, an autocast region or an input shape that only one of the runs has. "
         "`--dtype "
         "promote` compares values across dtypes."},
    Rule{RuleId::kMissing,
         "RC1004",
         "OperatorMissing",
         "missing",
         "Operator is called in one run only",
         "An operator of one run has no counterpart in the other one.",
         "Look for a branch, a training flag or another version of the model. What follows it is "
         "compared all the same."},
    Rule{
        RuleId::kControlFlow,
        "RC1005",
        "ControlFlowParted",
        "control_flow",
        "The runs took different paths",
        "From some operator on the two runs called different operators, most often since a branch "
        "was "
        "taken by a value that differs.",
        "Look at the last value that the program read before the streams part, and at what made it "
        "differ."},
    Rule{RuleId::kGenerator,
         "RC1006",
         "GeneratorApart",
         "generator",
         "A random number generator stood at another place",
         "An operator drew random numbers from a generator that had been seeded otherwise, or had "
         "drawn "
         "another amount before.",
         "Seed both runs alike. `rng: host` draws on the CPU, so that two devices see the same "
         "numbers."},
    Rule{RuleId::kUninitialised,
         "RC1007",
         "UninitialisedMemory",
         "uninitialised",
         "Operator reads memory that nobody has written",
         "The values of a tensor made without being filled were read before something was written "
         "there.",
         "Fill the tensor where it is made (`torch.zeros` in place of `torch.empty`)."},
    Rule{RuleId::kNondeterministic,
         "RC1008",
         "NondeterministicKernel",
         "nondeterministic",
         "Operator ran without a deterministic implementation",
         "The kernel may add its terms in any order, and LibTorch was not told to take one that "
         "does not.",
         "Record with determinism `error`: it takes the deterministic kernel where there is one, "
         "and names "
         "the operator where there is none."},
    Rule{RuleId::kGrowth,
         "RC1009",
         "ErrorGrowth",
         "growth",
         "The error grows beyond its limit",
         "Every operator is within its policy, and the error at the end is larger than the limit "
         "allows.",
         "Look at the steepest operator of the report, and compute it in a wider dtype."},
    Rule{RuleId::kUnrepeated,
         "RC1010",
         "DivergenceDoesNotRepeat",
         "unrepeated",
         "The divergence itself does not repeat",
         "Runs of one configuration did not diverge alike.",
         "Something races or draws without a seed. `repro-check run -n 20` says which operators "
         "give more "
         "than one result."},
    Rule{RuleId::kObserver,
         "RC1011",
         "ObserverEffect",
         "observer",
         "Recording changed what a run returns",
         "The model returned other values when it was recorded than when it was not.",
         "Look for an operator that reads memory nobody has written, or one that races."},
    Rule{RuleId::kExpected,
         "RC2001",
         "ExpectedDivergence",
         "expected",
         "A divergence that was accepted",
         "The operator diverges, and an entry of the list of expected divergences allows it for "
         "now.",
         "Nothing to do before the entry expires."},
    Rule{RuleId::kUnexpectedPass,
         "RC2002",
         "UnexpectedPass",
         "unexpected_pass",
         "An expected divergence is gone",
         "The operator agrees now, although the list says that it always diverges.",
         "Remove the entry from the list."},
    Rule{RuleId::kExpired,
         "RC2003",
         "ExpectedDivergenceExpired",
         "expired",
         "The entry of an expected divergence has expired",
         "The operator diverges as the list says, and the entry is past its date.",
         "Mend the operator, or renew the entry with a reason."},
    Rule{RuleId::kStaleBaseline,
         "RC2004",
         "StaleBaseline",
         "stale_baseline",
         "There is no baseline for this model, configuration and platform",
         "The model, the configuration or the platform is not the one the baseline was accepted "
         "for.",
         "Look at the differences, then accept the new baseline."},
    Rule{RuleId::kDamaged,
         "RC3001",
         "DumpDamaged",
         "damaged",
         "A recording cannot be read whole",
         "There is no dump, or one of a newer format, or its bytes do not match their digest, or "
         "the "
         "recording never ended. This is no divergence.",
         "Record again, and check the disk. `--partial` compares as far as a recording goes."},
    Rule{RuleId::kNotComparable,
         "RC4001",
         "NotComparable",
         "not_comparable",
         "The recordings cannot be judged against each other",
         "Nothing was compared, or not all that the policy needs: it is neither a pass nor a "
         "divergence.",
         "Record both runs at the level and depth that the policy needs."},
    Rule{RuleId::kRunFailed,
         "RC5001",
         "RunFailed",
         "run_failed",
         "A run failed",
         "The model, or recording it, ended before its end.",
         "Read the log of the run that the report names."},
};

}  // namespace

std::span<const Rule> rules() noexcept { return kRules; }

const Rule& rule(RuleId id) noexcept { return kRules.at(static_cast<std::size_t>(id)); }

std::string_view differing_source(const comparators::OpDivergence& op) noexcept {
  using comparators::CauseKind;
  using comparators::DivergenceKind;
  if (op.kind == DivergenceKind::kWeights || op.cause.kind == CauseKind::kWeights) return "weights";
  if (op.kind == DivergenceKind::kInputs || op.cause.kind == CauseKind::kInputData) return "inputs";
  if (op.cause.kind == CauseKind::kConstant) return "constant";
  return op.cause.kind == CauseKind::kArgument ? "argument" : "";
}

RuleId rule_of(const comparators::OpDivergence& op) noexcept {
  using comparators::DivergenceKind;
  using comparators::Relation;
  if (op.relation == Relation::kMissing) return RuleId::kMissing;
  if (!differing_source(op).empty()) return RuleId::kInherited;
  if (op.relation == Relation::kMismatch) return RuleId::kMismatch;
  if (op.kind == DivergenceKind::kUninitialised) return RuleId::kUninitialised;
  if (op.kind == DivergenceKind::kRng) return RuleId::kGenerator;
  if (op.relation == Relation::kPropagated) return RuleId::kInherited;
  return op.cause.kind == comparators::CauseKind::kNondeterministicKernel
             ? RuleId::kNondeterministic
             : RuleId::kOrigin;
}

}  // namespace repro_check::cmd
