// SPDX-License-Identifier: Apache-2.0
#include "cmd/words/phrases.h"

#include <algorithm>
#include <array>

namespace repro_check::cmd {
namespace {

struct PhraseRow {
  std::string_view key;
  std::string_view text;  ///< a template as say() takes it
};

#define WITHOUT_DROPOUT "[{?is_dropout}; \"disable_dropout\": true takes this randomness out]"

#define LOOK_BEHIND ", or, to look behind it: [{?is_call}seed=0][{!is_call}--seed 0]"

/// What causes are made of: the evidence of one is several of these in a row.
constexpr auto kPhrases = std::to_array<PhraseRow>({
    // What was equal.
    {"inputs-equal", "its inputs and weights were bit-equal, its output was not"},
    {"inputs-equal-when-written",
     "its inputs and weights were bit-equal when they were written, and not read again; its output "
     "was not"},
    {"recorded-inputs-equal",
     "those of its inputs that were recorded were bit-equal, its output was not"},
    {"checked-equal", "checked and equal: {checked}"},
    {"not-recorded", "[{?is_accepted}not in a baseline][{!is_accepted}not recorded]: {missing}"},
    {"not-compared", "the operators that made it were not compared"},

    // What the runs were told, and took, otherwise.
    {"suspects", "suspect: {suspects:few}[{?is_only}, the only setting that differs]"},
    {"all-suspects", "suspect: {suspects}"},
    {"program-set", "the program called {function} {baseline} -> {candidate}"},
    {"taken-alone", "the {run} alone took from {function} ({calls}), which no seed pins"},
    {"taken-unpinned", "what no seed pins it took from {taken}"},
    {"command-lines-differ", "the command lines differ: {baseline} -> {candidate}"},
    {"sources-changed", "{files:few} [{?is_one}was][{!is_one}were] changed between the runs"},
    {"gradients-asked-alone", "gradients are asked of `{slot}` at {op} in the {run} alone"},

    // Modes.
    {"mode-apart", "the model ran in another mode: {changes}"},
    {"mode-of-module",
     "[module `{module}`][{!module}it] ran in another mode: {operator} was called with {name}: "
     "{baseline} against {candidate}"},

    // Arguments.
    {"arguments-differ", "it was called with other arguments: {arguments:each}"},
    {"given-other-tensor",
     "it was given [{?is_reordered}the same tensors in another order][{!is_reordered}another "
     "tensor]: {argument} is "
     "[what {maker} made in the baseline, and what {other_maker} made in the candidate]"
     "[result {result} of {op} in the baseline, and result {other_result} in the candidate]"
     "[what begins at element {offset} of {op} in the baseline, and what begins at element "
     "{other_offset} in the candidate]; both runs made both alike"},
    {"given-more", "it was given {more:tensor} more in the {run}: {argument}"},
    {"argument-returned",
     "argument `{name}` is what op {op} returned: {baseline} against {candidate}"},
    {"clipped-otherwise",
     "gradients are clipped by another norm: {name} {baseline} -> {candidate}"},
    {"optimizer-told-otherwise",
     "gradients were equal, and the optimizer was told other numbers: {arguments:each}"},

    // Random numbers.
    {"draws-apart", "it draws random numbers, its inputs were bit-equal, and"},
    {"seeds-apart", "the generators started apart (seed {baseline} against {candidate})"},
    {"generator-elsewhere", "its generator stood at another place"},
    {"generator-moved-unseen",
     "{op} found the generator at another place; what moved it there is not recorded"},
    {"threads-draw",
     "{op} of lane {lane} found the generator of the process at another place: threads draw from "
     "it as they come"},
    {"stream-parted", "the stream parted at {op}: it drew {baseline} against {candidate} numbers"},
    {"stream-parted-alone",
     "the stream parted at {op}, which drew {drawn} numbers in the {run} only"},
    {"draws-otherwise", "the runs draw in other ways: rng {baseline} -> {candidate}"},
    {"last-drawn-alike", "{op} was the last to draw alike"},
    {"drew-on-other-devices",
     "it drew on {baseline} and on {candidate}, whose generators do not give the same numbers"},
    {"drew-in-other-releases",
     "it drew from one place of the stream, in LibTorch {baseline} and {candidate}, which may turn "
     "the same draws into other numbers"},
    {"process-not-seeded",
     "random numbers were not seeded: it draws from a generator that neither the program nor "
     "repro-check seeded"},
    {"never-seeded",
     "random numbers were not seeded: {generator} stood elsewhere in each run from the start, and "
     "the program drew from it"},
    {"seeded-apart",
     "{generator} was seeded otherwise: [{baseline}][{!baseline}never] in the baseline, "
     "[{candidate}][{!candidate}never] in the candidate"},
    {"moved-otherwise",
     "{generator} moved otherwise in each run since {since}, where it stood alike"},
    {"generator-moved", "{generator} moved, [seeded {seeded}][{!seeded}and was never seeded]"},
    {"moved-at", "it moved [{?are_two}between][{!are_two}at] {places}"},

    // Memory.
    {"unwritten",
     "`{slot}` is memory that {allocator} allocated[{!writer} and that no operator has written "
     "since][ and that has been written in part alone, last by {writer}]"},
    {"unwritten-argument", "an argument is memory that no operator has written in whole"},
    {"rest-unwritten", ": nobody has written the rest, or the program did with no operator"},
    {"is-state", ": it is state `{name}` of the model"},
    {"race-while-recorded",
     "another thread or stream wrote its [{?is_input}input][{!is_input}output] {slot} after it was "
     "digested and before [{?is_input}the operator ran][{!is_input}it was stored], in {where}: "
     "what "
     "was [{?is_input}read][{!is_input}computed] is not what was compared"},
    {"last-written-apart",
     "{argument} was last written by {baseline} in the baseline and by {candidate} in the "
     "candidate, and nothing keeps these lanes in order"},
    {"written-unseen",
     "{argument} was written by op {op}, whose outputs are equal: something changed the value "
     "without being recorded, or it was written without being returned"},
    {"changed-unseen",
     "{argument} is not what op {op} returned, {where}: something changed the value in between "
     "without being recorded"},

    // Numbers.
    {"flushed",
     "{seen} of {differing} differing elements were looked at: each is 0 on one side and below the "
     "smallest normal number on the other"},
    {"overflowed", "{baseline} became {candidate}: overflow of {dtype}"},
    {"tied-indices",
     "its input is equal and the indices it returns are not: equal values were taken in another "
     "order"},
    {"tied-values",
     "its values are equal and its indices are not: equal values were taken in another order"},
    {"layout-differs",
     "its inputs hold the same values in another memory layout, which selects another kernel or "
     "order of addition"},
    {"threads-add-otherwise", "work split among other threads adds in another order"},
    {"by-threads-confirmed",
     "by itself it gives another result with {threads:and} threads (confirmed)"},
    {"by-threads-not-confirmed",
     "by itself it gives one result with {threads:and} threads, so not confirmed"},
    {"result-note", "output {slot} {note}"},
    {"result-note-of-equal-inputs", "output {slot} {note}, and its tensor inputs are equal"},
    {"argument-note", "{argument}"},
    {"other-number-of-results", "the number of its results differs"},
    {"raised-alone", "it raised in the {run}, and returned nothing there"},
    {"program-ended-by", "the program was ended by {raised}"},

    // Kernels.
    {"known-for", "{operator} is known for it:"},
    {"known-on-threads", "of {operator} on {threads} threads it is known that"},
    {"kernel-arrival", "it adds in the order in which threads arrive"},
    {"kernel-last-writer", "of several values for one place any may come last"},
    {"kernel-put", "several values for one place come in the order of their threads"},
    {"kernel-blocks",
     "a device may add the parts of a sum in the order in which its blocks finish"},
    {"kernel-algorithm",
     "the device's library chooses among algorithms, by timing where it is let, and some of them "
     "add in the order in which threads arrive"},
    {"kernel-recurrent",
     "the device's library computes layers side by side, in streams that share a workspace"},
    {"kernel-equal-values", "of equal values any may be chosen"},
    {"kernel-mkl-first-call",
     "MKL may give one of its threads a kernel of lower accuracy on the first call in a process"},
    {"likely", " (likely)"},
    {"likely-not-shown", " (likely; {calls:call} by itself did not show it)"},
    {"executed-gave",
     "its inputs were bit-equal, and executed again by itself it gave {results:result} in "
     "{calls:call} on {threads:thread}[, {capability}]"},
    {"confirmed", " (confirmed)"},

    // Where an input comes from.
    {"other-input",
     "the model was given other data: input `{name}` differs before the first operator[, {size}]"},
    {"no-state-of-candidate",
     "where the baseline reads state `{name}`, the candidate reads what is no parameter or buffer "
     "of its model[, {size}]"},
    {"state-differs", "the runs had different models: state `{name}` differs[, {size}]"},
    {"state-moved",
     "the runs had different models: the candidate's `{moved}` is the baseline's `{name}`: layers "
     "were removed, inserted or exchanged"},
    {"cast-apart",
     "the runs have another dtype, {change}: `{name}` was cast before the first operator, "
     "{baseline} against {candidate}"},
    {"given-unwaited",
     "{argument} was given by {op}, which was not waited for: it is recorded where it is read"},
    {"others-gave", "what this rank put in is equal in both runs, and what came back is not"},
    {"made-by-candidate-only", "{argument} was made by an operator of the candidate only"},
    {"comes-from", "{argument} comes from op {op}[, and the difference from op {origin}]"},
    {"passed-there", "{argument} differs since op {op} and passed the policy there"},
    {"made-error-greater",
     "this operator made the relative L2 error {factor:short} times as great"},
    {"argument-differs", "{argument} differs[, {size}]"},
    {"no-operator-made", ", and no recorded operator made it: the program did"},
    {"no-operator-wrote",
     ", and no recorded operator wrote it since {op} made room for it: "
     "[{?is_program}the program][{!is_program}the model] did[{?maybe_nobody}, or nobody has "
     "written "
     "it]"},
    {"constant-of-graph",
     "{argument} is a constant of the graph that differs; a traced random value may be baked in"},
    {"child-diverged", "op {op}, which it calls, diverged"},
    {"order-parts", "the order of the samples parts at op {op}"},
    {"given-other-samples", "it is given other samples: op {op}"},
    {"worker-made", "a worker made it, whose op {op} gave something else"},
    {"parameter-comes-from", "`{name}` comes from op {op}"},
    {"behind-unrecorded", "op {op}, before it, diverged, and what lies between was not recorded"},
    {"other-batch-sizes",
     "the loader that is made at this line takes batches of {baseline:sample} against {candidate}"},
    {"ordered-by-program",
     "the loader that is made at this line takes other samples, as its sampler ({sampler}) says, "
     "and no recorded operator drew them: the program ordered them"},
    {"optimizer-not-read", "of the optimizer's operators only what they left was read:"},
    {"part-not-recorded", "operators of this part were not recorded:"},
    {"gradient-parts", "the gradient of `{name}` parts first"},
    {"state-parts", "gradients were equal, and what the optimizer keeps parts first: `{name}`"},
    {"parameter-parts",
     "gradients and what the optimizer keeps were equal, and `{name}` parts first"},
    {"program-parts", "what the program made parts here"},

    // Operators of one run alone.
    {"answered-alike", "{op} said {answer} on both sides"},
    {"answered-apart", "{op} said {baseline} | {candidate}"},
    {"gradient-not-cleared",
     "the gradient of `{name}` was not cleared in the {run}: the backward pass[ at {loss_line}] "
     "adds to what step {step} left, which the optimizer's step[ at {step_line}] had used"},
    {"part-of-gradient", "it is a part of the gradient of `{name}`[ and {more} more]"},
    {"steps-more",
     "the {run} makes {more:step} of the optimizer more[ at {line}], at step {step} of its own"},
    {"operators-differ", "{baseline} in the baseline, {candidate} in the candidate"},
    {"lines-differ", "{baseline} against {candidate}"},
    {"modules-differ", "module {baseline} against {candidate}"},
    {"phases-differ", "phase {baseline} against {candidate}"},
    {"lanes-differ", "lane {baseline} against {candidate}"},
    {"called-in-other-order",
     "the same operators were called in another order: op {baseline} of the baseline is op "
     "{candidate} of the candidate, and its inputs and outputs are [{?are_equal}bit-equal there]"
     "[{!are_equal}not equal, or not known to be]"},
    {"stands-for", "{operator} in the {run} stands in the place of {others} in the {other_run}"},
    {"their-outputs",
     "their outputs [{?are_equal}are bit-equal][{!are_equal}are not equal, or not known to be]"},
    {"loop-ran", "loop[ in {module}] ran {baseline} against {candidate} times"},
    {"first-extra-iteration", "the first extra iteration begins at op {op} of the {run}"},
    {"other-operators",
     "the baseline ran {missing:operator} that the candidate did not, and the candidate {extra} "
     "others"},
    {"only-in", "{count:operator} in the {run} only"},
    {"consequence-of", "a consequence of {earlier}"},
    {"all-before-agree", "all operators before it agree"},
    {"nothing-before", "there is no operator before it"},

    // What is returned.
    {"returned-alone",
     "call {call} returned in the {run} alone: {baseline:call} against {candidate}"},
    {"returned-in-other-order", "the same values come back in another order"},
    {"value-note", "{value}"},
    {"computed-between",
     "{value}; no operator returned it: the program computed it between operators"},
    {"returned-by-others",
     "{slot} is {baseline} in the baseline and {candidate} in the candidate[{?are_equal}; each is "
     "bit-equal where it was made]"},

    // What to do, beside what helps with every cause of a kind.
    {"do-one-model-file",
     "two model files were run, and each holds an argument of its own: run one \"model\" in both, "
     "or write the same value into both"},
    {"do-one-mode",
     "run both in the same \"model\": {\"mode\"}, with the same \"disable_dropout\""},
    {"do-seed-alike", "give what the program seeds or sets the same value in every run"},
    {"do-look-at-host",
     "look at what the program takes it by at this line: the order of a set or of a folder, a "
     "clock, an address, threads that end as they come, or another value of the host"},
    {"do-look-at-argument",
     "look at what it is computed from at this line: a schedule, a count of steps, a clock, or "
     "another value of the host"},
    {"do-set-alike", "let the program set {name} alike in both runs"},
    {"do-give-setting", "give both runs {setting}"},
    {"do-give-settings",
     "give both runs the same values, in one configuration; repro-check bisect finds which of them "
     "it is"},
    {"do-set-threads-alike",
     "let the program set it alike in both runs: {function} {baseline} -> {candidate}"},
    {"do-one-seed", "set one \"seed\" for both runs" WITHOUT_DROPOUT},
    {"do-seed-before",
     "seed that generator before this line, as torch.manual_seed(0) does, or have repro-check seed "
     "all of them: --seed 0" WITHOUT_DROPOUT},
    {"do-seed-generator", "give that generator the same seed in every run" WITHOUT_DROPOUT},
    {"do-one-rng", "give both runs one \"rng\", \"device\" or \"host\"" WITHOUT_DROPOUT},
    {"do-generator-a-thread",
     "give each thread a generator of its own (torch.Generator), or draw before they "
     "start" WITHOUT_DROPOUT},
    {"do-mend-stream", "mend where the stream parted, or set \"rng\": \"host\"" WITHOUT_DROPOUT},
    {"do-host-rng", "set \"rng\": \"host\", or take one LibTorch for both runs"},
    {"do-seed-program",
     "torch.manual_seed(0) before this line (random.seed, numpy.random.seed likewise)" LOOK_BEHIND},
    {"do-seed-it", "{function}(0) at the start" LOOK_BEHIND},
    {"do-same-seed", "give it the same seed in every run"},
    {"do-look-what-draws",
     "look what draws from it in one run alone, or more often, between these lines"},
    {"do-deterministic-or-one-thread",
     "set \"determinism\": \"error\", which takes a deterministic kernel or refuses, or "
     "\"threads\": 1"},
    {"do-one-thread", "set \"threads\": 1"},
    {"do-one-thread-repeats",
     "set \"threads\": 1, with which it repeats, or \"determinism\": \"error\", which takes a "
     "deterministic kernel or refuses"},
    {"do-deterministic-or-other",
     "set \"determinism\": \"error\", which takes a deterministic kernel or refuses, or use "
     "another "
     "operator"},
    {"do-verify-inputs",
     "record both with --verify-inputs (\"dump\": {\"verify_inputs\": true}), which reads each "
     "input again: something may have written it past all operators, through a pointer"},
    {"do-record-accepted",
     "`repro-check record` the model that was accepted, and `repro-check diff` that dump with "
     "{location}; a gate with /baselines/store does so itself"},
    {"do-look-at-launch",
     "look at what the kernel does in no fixed order: atomics add as its programs arrive"},
    {"do-look-at-other-ranks",
     "look at what ended the other ranks: who waits for one that is gone raises"},
    {"do-look-at-exception", "look at the exception, in what the program printed"},
    {"do-fill-whole",
     "fill it whole before it is read (torch.zeros in place of torch.empty), or look for what "
     "fills "
     "it past the dispatcher"},
    {"do-fill-state",
     "compute or load it behind to_empty() or torch.empty(): a checkpoint does not hold buffers "
     "that are not persistent"},
    {"do-accept-weights",
     "accept the run if the weights were meant to change: `repro-check gate accept`; else load the "
     "checkpoint that was accepted"},
    {"do-compare-layers",
     "compare the model files: what differs is which layers there are, and not what they hold"},
    {"do-one-dtype",
     "give both runs one \"dtype\"; or compare across dtypes: \"compare\": {\"dtype\": "
     "\"promote\", "
     "\"policy\": \"tolerance\"}, or hold both against a run in float64 (policy \"fp64\")"},
    {"do-compare-handed", "compare what the two runs hand to the operator at this line"},
    {"do-wait-for-fork",
     "wait for the other fork before the tensor is written or read, or give each a clone()"},
    {"do-compare-numbers",
     "compare the numbers that the model is given, and those that it holds: torch.tensor() is made "
     "of them with no operator"},
    {"do-look-at-op", "look at op {op}"},
    {"do-look-at-op-or-allow", "look at op {op}, or allow more at this operator"},
    {"do-same-value", "give both runs the same {name}"},
    {"do-look-train-eval", "look where the two runs call train() and eval() before this line"},
    {"do-one-batch-size", "give both runs one batch size and one dataset"},
    {"do-order-samples",
     "order them by something that repeats: what a set holds or a folder lists comes in any order "
     "unless it is sorted, and what shuffles needs a seed"},
    {"do-same-options", "give the optimizers of both the same options"},
    {"do-read-optimizer", "read each of them: --optimizer operators, or dump.optimizer"},
    {"do-record-step", "record the step as well: --steps {step}, or dump.steps"},
    {"do-clear-gradients",
     "clear gradients in both runs alike: zero_grad() between a step of the optimizer and the next "
     "backward pass"},
    {"do-look-at-step", "look at what leads to this step of the optimizer in one run alone"},
    {"do-look-what-encloses",
     "look at what encloses this line in one run alone: no_grad(), eval(), a step, or a loader's "
     "iteration"},
    {"do-look-what-leads",
     "look at what leads to this line in each run: a branch, a version, or a value of the host"},
    {"do-look-what-leads-alone",
     "look at what leads to this line in one run alone: a file that is there, a clock, an "
     "exception "
     "that is caught, or another value of the host"},
    {"do-look-what-freezes",
     "look where one run alone freezes it: requires_grad, detach() or no_grad()"},
    {"do-give-calls", "give both runs the same \"calls\""},
    {"do-compare-returned",
     "compare what the two programs return, and in which order[{?are_equal}; no operator is at "
     "fault]"},
    {"do-hold-against-as-many",
     "hold it against a run on as many ranks, whose operators can be compared"},
});

#undef WITHOUT_DROPOUT
#undef LOOK_BEHIND

}  // namespace

std::string_view phrase_text(std::string_view key) noexcept {
  const auto found = std::ranges::find(kPhrases, key, &PhraseRow::key);
  return found == kPhrases.end() ? std::string_view() : found->text;
}

std::vector<std::string_view> phrase_keys() {
  std::vector<std::string_view> keys;
  for (const PhraseRow& row : kPhrases) keys.push_back(row.key);
  return keys;
}

}  // namespace repro_check::cmd
