// SPDX-License-Identifier: Apache-2.0
#include "cmd/words/causes.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "cmd/render/say.h"
#include "cmd/words/fields.h"
#include "cmd/words/phrases.h"
#include "core/trace/op_record.h"

namespace repro_check::cmd {
namespace {

using comparators::Cause;
using comparators::CauseKind;
using comparators::Phrase;
using comparators::Phrases;

struct CauseRow {
  CauseKind kind;
  std::string_view name;
  std::string_view headline;  ///< in a verdict line; empty = the operator stands there
  std::string_view advice;    ///< empty where it depends on the operator
};

constexpr auto kCauses = std::to_array<CauseRow>({
    {CauseKind::kNone, "", "", ""},
    {CauseKind::kMode,
     "eval against train",
     "modules ran in another mode",
     "give both runs one \"mode\", \"eval\" or \"train\"; a traced or frozen model keeps the mode "
     "that it was made in"},
    {CauseKind::kInputData,
     "input data",
     "the input data differ",
     "give both runs the same data: look at the file, the seed and the preprocessing of this "
     "input"},
    {CauseKind::kWeights,
     "weights",
     "the weights differ",
     "load the same checkpoint in both runs; look at \"model\", at casts of dtype and at what "
     "changes the weights before the run"},
    {CauseKind::kConstant,
     "constant differs",
     "the program handed over another value",
     "trace or script the model again, once, with a seed, and use that file in both runs"},
    {CauseKind::kArgument,
     "argument differs",
     "an operator was called with other arguments",
     "the model computes it: look at what it computes it from, \"inputs\" or a value of the host"},
    {CauseKind::kRngStream,
     "rng stream",
     "random numbers differ",
     "mend where the stream parted, or set \"rng\": \"host\""},
    {CauseKind::kGeneratorAlgorithm,
     "generator algorithm",
     "generators gave other numbers",
     "set \"rng\": \"host\", so that both draw on the CPU"},
    {CauseKind::kUninitialised,
     "uninitialised memory",
     "memory that nobody has written was read",
     "fill the tensor in the model (zeros instead of empty); \"determinism\": \"error\" fills "
     "fresh memory where LibTorch can, and shows who reads it"},
    {CauseKind::kRace,
     "race on a tensor in use",
     "two threads used one tensor at a time",
     "wait for the other thread or stream before the tensor is written or read, or give the "
     "operator a clone()"},
    {CauseKind::kFlushToZero,
     "flush to zero",
     "one run flushes tiny numbers to zero",
     "set the same \"settings\": {\"flush_denormal\"} in both runs; a GPU kernel may flush by "
     "itself"},
    {CauseKind::kOverflow,
     "overflow",
     "a value overflowed",
     "use a wider \"dtype\", scale the values (loss scale, normalisation), or cast with "
     "saturation"},
    {CauseKind::kTies,
     "ties broken differently",
     "equal values were taken in another order",
     "use a stable sort, or do not let the order of equal values matter"},
    {CauseKind::kLayout,
     "layout differs",
     "inputs have another memory layout",
     "bring the tensor into one memory format in both runs (contiguous(memory_format))"},
    {CauseKind::kSettings, "settings differ", "settings differ", ""},
    {CauseKind::kEnvironment,
     "environment differs",
     "the environments differ",
     "numbers of two environments agree only within a tolerance: set \"compare\": {\"policy\": "
     "\"tolerance\"}, or give both the same versions and, in \"env\", the same ATEN_CPU_CAPABILITY "
     "and MKL_CBWR"},
    {CauseKind::kThreads,
     "threads",
     "the numbers of threads differ",
     "set the same \"threads\" in both runs"},
    {CauseKind::kNondeterministicKernel,
     "nondeterministic kernel",
     "a kernel does not repeat",
     "set \"determinism\": \"error\", which takes a deterministic kernel or refuses"},
    {CauseKind::kUnexplained,
     "unexplained",
     "",
     "record again with \"dump\": {\"depth\": \"all\"} to see the kernel inside, and repeat the "
     "run to see whether it differs each time"},
    {CauseKind::kPropagated, "propagated", "", "look at where the control flow parted"},
    {CauseKind::kAmplified, "amplified", "", ""},
    {CauseKind::kReceived,
     "received from another rank",
     "another rank sent something else",
     "look at the other ranks: the one that parted before it put something else in; `repro-check "
     "diff` of the two directories that hold them leads with it"},
    {CauseKind::kUnobservedWrite,
     "unobserved write",
     "a value was changed by something that is not recorded",
     "look for writes past the dispatcher (`.data`, another stream, custom operators); record with "
     "\"dump\": {\"depth\": \"all\"}"},
    {CauseKind::kOutsideOperators,
     "computed outside of operators",
     "the program computed another value between operators",
     "compare how the two programs compute this value: arithmetic on numbers taken out of tensors "
     "is in no trace"},
    {CauseKind::kOtherValue,
     "another value is returned",
     "the program returns another value",
     "compare what the two programs return"},
    {CauseKind::kOtherStructure,
     "another structure is returned",
     "the program returns another structure",
     "compare what the two programs return; nothing that the operators made differs"},
    {CauseKind::kDtypePromotion,
     "dtype promotion",
     "dtypes differ",
     "bring both runs to one type: the same autocast, the same default dtype, the same \"dtype\" "
     "argument; another LibTorch may promote otherwise"},
    {CauseKind::kMismatch,
     "mismatch",
     "",
     "run both with the same \"model\", \"dtype\" and autocast; another LibTorch may return "
     "another type"},
    {CauseKind::kOperatorDiffers,
     "operator differs",
     "another operator was called",
     "compare the model files, and the LibTorch versions of the two runs"},
    {CauseKind::kReordered,
     "reordered",
     "operators were called in another order",
     "make the order of the calls fixed: it may follow a set, a dict or threads; \"order\": "
     "\"relaxed\" lets it pass where everything is bit-equal"},
    {CauseKind::kDecomposed,
     "decomposed",
     "one operator stands for others",
     "record both runs with the same LibTorch and the same \"dump\": {\"depth\"}"},
    {CauseKind::kLoop,
     "loop",
     "a loop ran another number of times",
     "look at what ends the loop: a value computed by the model, or an input of another length"},
    {CauseKind::kControlFlow,
     "control flow",
     "the program took another way",
     "look at the branch: another graph or version, a value of the host, or random numbers"},
    {CauseKind::kMissing,
     "missing",
     "the baseline alone called operators",
     "compare the model files, \"mode\" and \"dump\": {\"depth\"} of the two runs"},
    {CauseKind::kExtra,
     "extra",
     "the candidate alone called operators",
     "compare the model files, \"mode\" and \"dump\": {\"depth\"} of the two runs"},
});

constexpr bool has_each_cause() {
  for (std::size_t i = 0; i < kCauses.size(); ++i) {
    if (kCauses[i].kind != static_cast<CauseKind>(i)) return false;
  }
  return kCauses.back().kind == comparators::kLastCause;
}
static_assert(has_each_cause(), "the table has a row for each CauseKind, in its order");

const CauseRow& row_of(CauseKind kind) { return kCauses.at(static_cast<std::size_t>(kind)); }

std::string words_of_phrase(const Phrase& phrase) {
  return say_unescaped(phrase_text(phrase.key), fields_json(phrase.fields));
}

std::string_view weight_of(const Cause& cause) {
  if (cause.kind == CauseKind::kUnexplained) return "note";
  const bool is_likely = std::ranges::any_of(cause.evidence, [](const Phrase& phrase) {
    return phrase.key.starts_with(comparators::kLikely);
  });
  return is_likely ? "suspicion" : "proof";
}

/// What stands between a text and the one behind it.
std::string_view joint(std::string_view before, std::string_view behind) {
  if (before.empty() || behind.starts_with(' ') || behind.starts_with(',') ||
      behind.starts_with(':')) {
    return "";
  }
  for (const std::string_view open : {":", " and", " that"}) {
    if (before.ends_with(open)) return " ";
  }
  return "; ";
}

}  // namespace

std::string_view cause_name(CauseKind kind) noexcept { return row_of(kind).name; }

std::string sentence_of(const Phrases& phrases) {
  std::string text;
  for (const Phrase& phrase : phrases) {
    const std::string more = words_of_phrase(phrase);
    text += std::string(joint(text, more)) + more;
  }
  return text;
}

FindingText words_of(const Cause& cause) {
  return {std::string(cause_name(cause.kind)),
          sentence_of(cause.evidence),
          cause.advice ? words_of_phrase(*cause.advice) : std::string(row_of(cause.kind).advice)};
}

bool is_proven(const Cause& cause) { return weight_of(cause) == "proof"; }

std::string headline_of(const Cause& cause) {
  const bool is_unseeded = std::ranges::any_of(cause.evidence, [](const Phrase& phrase) {
    return phrase.key == "process-not-seeded" || phrase.key == "never-seeded";
  });
  return is_unseeded ? "random numbers were not seeded" : std::string(row_of(cause.kind).headline);
}

std::string brief_of(const Cause& cause) {
  const bool has_brief = cause.kind == CauseKind::kDecomposed || cause.kind == CauseKind::kLoop;
  return has_brief && !cause.evidence.empty() ? words_of_phrase(cause.evidence.front())
                                              : std::string();
}

std::vector<std::string> notes_of(const comparators::OpDivergence& op) {
  std::vector<std::string> notes = op.notes;
  if (!op.replaced.empty()) notes.push_back("operator differs: " + sentence_of(op.replaced));
  return notes;
}

namespace {

Json place_json(const comparators::OpDivergence& op) {
  const core::OpRecord& record = comparators::shown_record(op);
  Json where = Json::object();
  if (record.rank > 0) where["rank"] = record.rank;
  where["step"] = record.step;
  where["phase"] = core::phase_name(record.phase);
  where["op"] = json_integer(comparators::shown_index(op));
  if (!op.baseline_index) where["run"] = "candidate";
  if (!op.candidate_index) where["run"] = "baseline";
  where["operator"] = json_text(comparators::operator_text(record));
  if (const auto module = comparators::module_of(record); !module.empty()) {
    where["module"] = json_text(module);
  }
  if (const auto line = core::line_text(record.site.get()); !line.empty()) {
    where["line"] = json_text(line);
  }
  if (!op.outputs.empty()) {
    const auto& output = op.outputs.front();
    where["tensor"] =
        json_text(output.baseline.slot.empty() ? output.candidate.slot : output.baseline.slot);
  }
  return where;
}

/// What an earlier phrase says stays.
Json fields_of(const Cause& cause) {
  Json fields = Json::object();
  for (const Phrase& phrase : cause.evidence) {
    const Json own = fields_json(phrase.fields);
    for (const auto& [name, value] : own.items()) {
      if (!fields.contains(name)) fields[name] = value;
    }
  }
  return fields;
}

Json finding_json(const comparators::OpDivergence& op) {
  const FindingText text = words_of(op.cause);
  return {{"id", comparators::cause_id(op.cause.kind)},
          {"weight", weight_of(op.cause)},
          {"where", place_json(op)},
          {"fields", fields_of(op.cause)},
          {"title", text.title},
          {"text", json_text(text.whole())},
          {"fix", json_text(text.fix)}};
}

}  // namespace

Json cause_findings(const comparators::Report& report) {
  Json findings = Json::array();
  const auto add = [&](const comparators::OpDivergence& op) {
    const bool is_own = op.relation != comparators::Relation::kPropagated && op.producers.empty();
    if (is_own && op.cause.kind != CauseKind::kNone) findings.push_back(finding_json(op));
  };
  if (report.first_divergence) add(*report.first_divergence);
  for (const comparators::OpDivergence& op : report.divergences) add(op);
  return findings;
}

void describe(JsonWriter f, const Phrase& phrase) {
  f("key", phrase.key);
  f.json()["fields"] = fields_json(phrase.fields);
  f("text", words_of_phrase(phrase));
}

void describe(JsonReader f, Phrase& phrase) {
  f("key", phrase.key);
  if (phrase_text(phrase.key).empty()) f.refuse("nothing is called \"" + phrase.key + "\"");
  phrase.fields = fields_in(f.json().at("fields"));
}

void describe_words(JsonWriter f, const Cause& cause) {
  const FindingText text = words_of(cause);
  f.at("id").word(cause.kind, comparators::kLastCause, comparators::cause_id);
  f("name", text.title)("evidence", text.evidence)("advice", text.fix)("phrases", cause.evidence);
  f.json()["remedy"] = cause.advice ? json_of(*cause.advice) : Json(nullptr);
}

void describe_words(JsonReader f, Cause& cause) {
  f.at("id").word(cause.kind, comparators::kLastCause, comparators::cause_id);
  f("phrases", cause.evidence)("remedy", cause.advice);
}

}  // namespace repro_check::cmd
