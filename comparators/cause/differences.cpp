// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/differences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "configs/setting_changes.h"
#include "configs/spec/program_keys.h"
#include "configs/spec/run_config.h"
#include "core/digest/digest.h"
#include "core/tensor/content.h"
#include "core/tensor/tensor_record.h"
#include "core/text/text.h"
#include "core/trace/given_seed.h"
#include "core/trace/program_records.h"
#include "core/trace/record_names.h"

namespace repro_check::comparators {
namespace {

constexpr std::string_view kAbsent = "unset";
/// The value of a variable that a run was not given: the shell's, which not every manifest tells.
constexpr std::string_view kAsFound = "as found";
/// Where a difference is one of values that the calls were given.
constexpr std::string_view kCalls = "/calls/";

/// Older dumps do not say it, and nothing follows from that.
bool is_known_since_lately(std::string_view name) {
  return name == core::kModelMode || name == core::kModelTraining;
}

/// Words of a name that say it cannot change a number.
bool is_cosmetic(std::string_view pointer) {
  if (pointer.starts_with(core::kUnpinned)) return false;
  constexpr std::string_view kWords =
      "host hostname path directory time date created pid user memory uptime kernel loadavg label "
      "process cwd locale";
  while (!pointer.empty()) {
    const std::string_view word = pointer.substr(0, pointer.find_first_of("._"));
    if (is_word_of(kWords, word)) return true;
    pointer.remove_prefix(std::min(word.size() + 1, pointer.size()));
  }
  return false;
}

void add(std::string pointer,
         std::string baseline,
         std::string candidate,
         bool affects_numbers,
         std::vector<Difference>& found) {
  if (baseline == candidate) return;
  found.push_back({std::move(pointer), std::move(baseline), std::move(candidate), affects_numbers});
}

/// Values by name; what one side lacks is absent there.
template <typename Entry>
void add_named(const std::vector<Entry>& baseline,
               const std::vector<Entry>& candidate,
               std::string Entry::*value,
               std::vector<Difference>& found) {
  std::map<std::string, std::string> theirs;
  for (const Entry& entry : candidate) theirs.emplace(entry.name, entry.*value);
  for (const Entry& entry : baseline) {
    const auto node = theirs.extract(entry.name);
    if (node.empty() && is_known_since_lately(entry.name)) continue;
    add(entry.name,
        entry.*value,
        node.empty() ? std::string(kAbsent) : node.mapped(),
        !is_cosmetic(entry.name),
        found);
  }
  for (const auto& [name, other] : theirs) {
    if (is_known_since_lately(name)) continue;
    add(name, std::string(kAbsent), other, !is_cosmetic(name), found);
  }
}

/// Files of source that both have, and that were changed between the runs.
void add_sources(const core::RunManifest& baseline,
                 const core::RunManifest& candidate,
                 std::vector<Difference>& found) {
  for (const core::SourceFile& source : baseline.sources) {
    const auto other = std::ranges::find(candidate.sources, source.file, &core::SourceFile::file);
    if (other == candidate.sources.end()) continue;
    add(std::string(kSource) + source.file,
        core::to_hex(source.digest),
        core::to_hex(other->digest),
        true,
        found);
  }
}

/// Of a text of JSON that is a word.
std::string unquoted(const std::string& json) {
  const bool quoted = json.size() >= 2 && json.front() == '"';
  return quoted ? json.substr(1, json.size() - 2) : json;
}

/// Of a variable of a configuration, by its JSON text.
std::string variable_text(const std::string& json) {
  if (json == kAbsent) return std::string(kAsFound);
  return json == "null" ? std::string(kAbsent) : unquoted(json);
}

std::string text(bool value) { return value ? "true" : "false"; }

std::string patterns(const std::vector<std::string>& list) {
  return list.empty() ? "none" : fmt::format("{}", fmt::join(list, ", "));
}

bool starts_with_any(std::string_view text, std::string_view prefixes) {
  return std::ranges::any_of(core::split(prefixes, ' '),
                             [&](std::string_view prefix) { return text.starts_with(prefix); });
}

/// What a manifest says of its run beside settings and facts.
struct RunFact {
  std::string_view pointer;
  bool affects_numbers;
  std::string (*value)(const core::RunManifest& of);
};

constexpr auto kRunFacts = std::to_array<RunFact>({
    {"model.digest", true, [](const auto& of) { return core::to_hex(of.model_digest); }},
    {"model.path",
     false,
     [](const auto& of) { return of.is_of_program() ? std::string() : of.model_path; }},
    {"program",
     true,
     [](const auto& of) { return of.is_of_program() ? of.model_path : std::string(); }},
    {"model.method", true, [](const auto& of) { return of.model_method; }},
    {"device", true, [](const auto& of) { return of.device; }},
    {"seed", true, [](const auto& of) { return core::given_seed_text(of); }},
    {"determinism", true, [](const auto& of) { return of.determinism; }},
    {"disable_dropout", true, [](const auto& of) { return text(of.disable_dropout); }},
    {"rng", true, [](const auto& of) { return of.rng; }},
    {"grad", true, [](const auto& of) { return of.grad; }},
    {"dump.level", false, [](const auto& of) { return of.trace.level; }},
    {"dump.depth", false, [](const auto& of) { return of.trace.depth; }},
    {"dump.include", false, [](const auto& of) { return patterns(of.trace.include); }},
    {"dump.exclude", false, [](const auto& of) { return patterns(of.trace.exclude); }},
    {"dump.only", false, [](const auto& of) { return of.trace.only; }},
    {"dump.optimizer", false, [](const auto& of) { return of.trace.optimizer; }},
    {"dump.digest_algorithm", false, [](const auto& of) { return of.trace.digest_algorithm; }},
    {"tool.version", false, [](const auto& of) { return of.tool_version; }},
});

}  // namespace

std::vector<Difference> manifest_differences(const core::RunManifest& baseline,
                                             const core::RunManifest& candidate) {
  std::vector<Difference> found;
  for (const RunFact& fact : kRunFacts) {
    add(std::string(fact.pointer),
        fact.value(baseline),
        fact.value(candidate),
        fact.affects_numbers,
        found);
  }
  add_sources(baseline, candidate, found);
  add_named(baseline.settings, candidate.settings, &core::Setting::used, found);
  add_named(baseline.environment, candidate.environment, &core::EnvironmentFact::value, found);
  // Those of generators are told where something differs for them: see HostGenerators.
  std::erase_if(found, [](const Difference& one) {
    return one.pointer.starts_with(core::kSetAt) || one.pointer == core::kRaisedText ||
           one.pointer.starts_with(core::kMovedPrefix) ||
           one.pointer.starts_with(core::kStateAtEnd);
  });
  for (const configs::SettingChange& change :
       configs::recorded_changes(baseline.configuration, candidate.configuration)) {
    constexpr std::string_view kVariables = "/env/";
    if (change.pointer.starts_with(kVariables)) {
      const std::string name = "env." + change.pointer.substr(kVariables.size());
      // What the run had is known of some, and has been compared.
      const auto knows = [&](const core::RunManifest& of) {
        return std::ranges::find(of.settings, name, &core::Setting::name) != of.settings.end();
      };
      if (knows(baseline) || knows(candidate)) continue;
      add(name,
          variable_text(change.baseline),
          variable_text(change.candidate),
          !is_cosmetic(name),
          found);
      continue;
    }
    // Where one of them does not say it, nothing follows.
    if (change.pointer != "/dtype" || change.baseline == kAbsent || change.candidate == kAbsent) {
      continue;
    }
    add(std::string(kDtype), unquoted(change.baseline), unquoted(change.candidate), true, found);
  }
  for (const configs::SettingChange& change :
       configs::recorded_values(baseline.configuration, candidate.configuration)) {
    add(change.pointer, change.baseline, change.candidate, true, found);
  }
  // Where the seed differs, this one only follows it.
  if (core::given_seed(baseline) != core::given_seed(candidate)) {
    for (Difference& one : found) one.affects_numbers &= one.pointer != "env.PYTHONHASHSEED";
  }
  return found;
}

namespace {

bool is_of_threads(std::string_view pointer) {
  return pointer.find("threads") != std::string_view::npos ||
         pointer.find("NUM_THREADS") != std::string_view::npos ||
         pointer.find("OMP_THREAD_LIMIT") != std::string_view::npos || pointer == "openmp.team";
}

/// What the recorder computes or reads off the processor once everything is set: it follows from
/// what differs besides.
bool is_symptom(std::string_view pointer) {
  return pointer.starts_with("probe.") || pointer == "cpu.capability" || pointer == "cpu.mxcsr" ||
         pointer == "openmp.team";
}

bool is_fact(std::string_view pointer) {
  constexpr std::string_view kNames =
      "device devices mkl onednn openmp cuda cudnn compiler libc blas lapack cpu.cores "
      "cpu.usable_cores";
  return is_word_of(kNames, pointer) || is_symptom(pointer) || pointer.ends_with(".version") ||
         pointer.starts_with(core::kSetByProgram) ||
         starts_with_any(pointer, "libtorch os. cpu.model cpu.microcode gpu npu arch");
}

}  // namespace

DifferenceGroup group_of(const Difference& difference) {
  const std::string_view pointer = difference.pointer;
  const bool is_seed = pointer.starts_with(core::kSetByProgram) && pointer.ends_with("seed");
  if (!difference.affects_numbers || is_seed || pointer.starts_with(core::kUnpinned) ||
      pointer.starts_with(core::kPinned) || pointer.starts_with(kCalls) ||
      pointer.starts_with(kDtype) || pointer.starts_with(kSource) ||
      starts_with_any(pointer, "model. program seed generator rng disable_dropout")) {
    return DifferenceGroup::kOther;
  }
  if (is_of_threads(pointer)) return DifferenceGroup::kThreads;
  return is_fact(pointer) ? DifferenceGroup::kEnvironment : DifferenceGroup::kSettings;
}

namespace {

/// Where a configuration has what a manifest calls `name`; empty where none has it.
std::string pointer_of(std::string_view name) {
  constexpr std::string_view kVariable = "env.";
  if (name.starts_with(kVariable)) return fmt::format("/env/{}", name.substr(kVariable.size()));
  if (name == "threads.intra_op") return "/threads";
  if (name == "threads.inter_op") return "/interop_threads";
  if (name.starts_with("jit.")) return "/optimize_executor";
  if (name == "grad_mode" || name == "inference_mode") return "/grad";
  if (name == "determinism" || name == "grad") return fmt::format("/{}", name);
  return fmt::format("/settings/{}", name);
}

/// Whether a configuration of a program has it: the rest the program sets by itself.
bool is_told_programs(std::string_view pointer) {
  const std::string_view key = pointer.substr(1, pointer.find('/', 1) - 1);
  return !is_word_of(configs::kOnlyOfModels, key);
}

/// As JSON, and as the configuration has it there.
std::string value_of(std::string_view pointer, const std::string& text) {
  const bool bare = pointer == "/threads" || pointer == "/interop_threads" ||
                    pointer == "/optimize_executor" || pointer == "/seed" ||
                    pointer == "/disable_dropout" || text == "null";
  if (bare) return text;
  return text == kAbsent ? "null" : fmt::format("\"{}\"", text);
}

/// The configuration's own words for what it gave the runs, `optimize_executor false -> true`, or
/// the manifest's, where that says what became of it.
std::vector<Suspect> configured(const core::RunManifest& baseline,
                                const core::RunManifest& candidate,
                                const std::vector<Difference>& differences) {
  std::map<std::string, const Difference*> by_pointer;
  for (const Difference& difference : differences) {
    if (difference.affects_numbers) by_pointer.emplace(pointer_of(difference.pointer), &difference);
  }
  std::vector<Suspect> suspects;
  for (const configs::SettingChange& change :
       configs::recorded_changes(baseline.configuration, candidate.configuration)) {
    const bool is_named = starts_with_any(change.pointer, "/env/ /settings/");
    constexpr std::string_view kOthers =
        "/determinism /grad /threads /interop_threads /optimize_executor";
    if (!is_named && !is_word_of(kOthers, change.pointer)) continue;
    const auto seen = by_pointer.find(change.pointer);
    if (seen == by_pointer.end()) continue;
    const bool own_words = change.pointer == "/optimize_executor";
    const bool is_found = seen->second->baseline == kAsFound;
    const std::string& value = is_found ? seen->second->candidate : seen->second->baseline;
    suspects.push_back(
        {is_of_threads(change.pointer) ? DifferenceGroup::kThreads : DifferenceGroup::kSettings,
         seen->second->pointer,
         own_words ? fmt::format("optimize_executor {} -> {}", change.baseline, change.candidate)
                   : to_text(*seen->second),
         change.pointer,
         own_words ? change.baseline : value_of(change.pointer, value),
         is_found ? 0 : 1});
  }
  return suspects;
}

/// Whether the run's own environment, rather than the user's shell, decides the variable.
bool is_pinned(std::string_view name) {
  configs::RunSpec run;
  run.threads = 1;
  run.determinism = configs::DeterminismMode::kError;
  constexpr std::string_view kVariable = "env.";
  return name.starts_with(kVariable) &&
         configs::pinned_environment(run).contains(std::string(name.substr(kVariable.size())));
}

}  // namespace

std::vector<Suspect> suspects_of(const core::RunManifest& baseline,
                                 const core::RunManifest& candidate,
                                 const std::vector<Difference>& differences) {
  std::vector<Suspect> suspects = configured(baseline, candidate, differences);
  const bool is_configured = !suspects.empty();
  std::set<std::string> known;
  for (const Suspect& suspect : suspects) known.insert(suspect.pointer);
  const bool counts =
      std::ranges::find(differences, "threads.intra_op", &Difference::pointer) != differences.end();
  std::vector<Suspect> symptoms;
  for (const Difference& difference : differences) {
    const DifferenceGroup group = group_of(difference);
    if (group == DifferenceGroup::kOther) continue;
    const std::string pointer = is_fact(difference.pointer) ? "" : pointer_of(difference.pointer);
    const bool is_known = !pointer.empty() && !known.insert(pointer).second;
    const bool is_settable =
        !pointer.empty() && (!baseline.is_of_program() || is_told_programs(pointer));
    // What one LibTorch sets otherwise in two runs follows from what they were told.
    const bool follows = is_configured && !is_fact(difference.pointer) &&
                         (!difference.pointer.starts_with("env.") || is_pinned(difference.pointer));
    const bool says_the_same = counts && difference.pointer.starts_with("env.") &&
                               difference.pointer.ends_with("NUM_THREADS");
    if (is_known || follows || says_the_same) continue;
    Suspect suspect{group,
                    difference.pointer,
                    to_text(difference),
                    is_settable ? pointer : "",
                    is_settable ? value_of(pointer, difference.baseline) : ""};
    (is_symptom(difference.pointer) ? symptoms : suspects).push_back(std::move(suspect));
  }
  if (suspects.empty()) suspects = std::move(symptoms);
  // Another release may explain all others, and is never among those that are not shown.
  std::ranges::stable_sort(suspects, {}, [](const Suspect& suspect) {
    constexpr std::array kOrder{
        DifferenceGroup::kThreads, DifferenceGroup::kSettings, DifferenceGroup::kEnvironment};
    const auto place = std::ranges::find(kOrder, suspect.group) - kOrder.begin();
    return suspect.name == "libtorch.version" ? -1 : place;
  });
  return suspects;
}

std::vector<std::string> mode_changes(const core::RunManifest& baseline,
                                      const core::RunManifest& candidate) {
  std::vector<std::string> texts;
  for (const std::string_view name : {core::kModelTraining, core::kModelMode}) {
    const std::string* from = core::environment_fact(baseline, name);
    const std::string* to = core::environment_fact(candidate, name);
    if (from == nullptr || to == nullptr) continue;
    // A mode that one of the two does not tell may be the other's.
    if (*from == core::kNoTrainingFlags || *to == core::kNoTrainingFlags) return {};
    if (*from != *to) texts.insert(texts.begin(), fmt::format("{} {} -> {}", name, *from, *to));
  }
  return texts;
}

namespace {

/// Whether one model may call other operators for it, or give them other arguments.
bool can_steer(const Difference& difference, bool draws) {
  if (is_word_of("seed rng", difference.pointer)) return draws;
  return difference.pointer.starts_with(kCalls) ||
         is_word_of("disable_dropout dtype model.method", difference.pointer);
}

Suspect steering(const Difference& difference) {
  const std::string& name = difference.pointer;
  const bool is_of_call = name.starts_with(kCalls);
  const std::string pointer = is_of_call               ? name
                              : name == "model.method" ? "/model/method"
                                                       : "/" + name;
  const std::string value = !is_of_call ? value_of(pointer, difference.baseline)
                            : difference.baseline == kAbsent ? difference.candidate
                                                             : difference.baseline;
  return {DifferenceGroup::kOther, name, to_text(difference), pointer, value};
}

}  // namespace

std::vector<Suspect> told_apart(const core::RunManifest& baseline,
                                const core::RunManifest& candidate,
                                const std::vector<Difference>& differences,
                                const std::vector<Suspect>& suspects) {
  const auto is_of_model = [](const Difference& difference) {
    return difference.affects_numbers && difference.pointer.starts_with("model.") &&
           !is_word_of("model.method model.mode model.training", difference.pointer);
  };
  if (baseline.is_of_program() || std::ranges::any_of(differences, is_of_model) ||
      !mode_changes(baseline, candidate).empty()) {
    return {};
  }
  const bool draws = baseline.trace.drawing_operators + candidate.trace.drawing_operators != 0;
  std::vector<Suspect> told;
  for (const Difference& difference : differences) {
    if (can_steer(difference, draws)) told.push_back(steering(difference));
  }
  told.insert(told.end(), suspects.begin(), suspects.end());
  return told;
}

std::string to_text(const Difference& difference) {
  // Two digests say nothing to a person.
  if (difference.pointer.starts_with("probe.")) {
    return difference.pointer + ": the machine gives other numbers for one computation";
  }
  if (difference.pointer.starts_with(kSource)) {
    return difference.pointer.substr(kSource.size()) + " was changed";
  }
  return fmt::format("{} {} -> {}", difference.pointer, difference.baseline, difference.candidate);
}

std::string dtype_change(const std::vector<Difference>& differences) {
  const auto found = std::ranges::find(differences, kDtype, &Difference::pointer);
  return found == differences.end() ? std::string() : to_text(*found);
}

namespace {

/// As a configuration has it: `"settings": {"mkldnn.enabled": "on"}`; a value of a call by its
/// place, as `--set` takes it.
std::string in_configuration(const Suspect& suspect) {
  if (suspect.pointer.starts_with(kCalls)) {
    return fmt::format("{}={}", suspect.pointer, suspect.value);
  }
  const std::size_t slash = suspect.pointer.find('/', 1);
  const std::string first = suspect.pointer.substr(1, slash - 1);
  if (slash == std::string::npos) return fmt::format("\"{}\": {}", first, suspect.value);
  return fmt::format(
      R"("{}": {{"{}": {}}})", first, suspect.pointer.substr(slash + 1), suspect.value);
}

}  // namespace

Phrase suspects_phrase(const std::vector<Suspect>& suspects, bool beside_data) {
  std::vector<std::string> texts;
  texts.reserve(suspects.size());
  for (const Suspect& suspect : suspects) texts.push_back(suspect.text);
  const bool is_only = texts.size() == 1 && !beside_data;
  return Phrase("suspects", {{"suspects", std::move(texts)}, {"is_only", is_only}});
}

Phrase settings_advice(const std::vector<Suspect>& suspects) {
  const auto is_settable = [](const Suspect& suspect) { return !suspect.pointer.empty(); };
  const auto settable = std::ranges::count_if(suspects, is_settable);
  if (settable == 0) return Phrase("do-set-alike", {{"name", suspects.front().name}});
  if (settable > 1) return Phrase("do-give-settings");
  return Phrase("do-give-setting",
                {{"setting", in_configuration(*std::ranges::find_if(suspects, is_settable))}});
}

namespace {

using core::NamedTensor;

core::ContentKey key_of(const NamedTensor& tensor) {
  return {tensor.dtype, tensor.shape, tensor.digest};
}

NamedTensorDifference one_sided(const NamedTensor& tensor, bool in_baseline) {
  NamedTensorDifference difference;
  difference.kind = tensor.kind;
  difference.name = tensor.name;
  (in_baseline ? difference.baseline : difference.candidate) = tensor.digest;
  difference.note = {Phrase("missing-in", {{"run", run_field(!in_baseline)}})};
  return difference;
}

/// Empty when the two are the same, or nothing tells whether they are.
std::optional<NamedTensorDifference> compare(const NamedTensor& baseline,
                                             const NamedTensor& candidate,
                                             TensorJudge& judge) {
  NamedTensorDifference difference;
  difference.kind = baseline.kind;
  difference.name = baseline.name;
  difference.baseline = baseline.digest;
  difference.candidate = candidate.digest;
  if (baseline.dtype != candidate.dtype || baseline.shape != candidate.shape) {
    difference.note = {Phrase("against",
                              {{"baseline", dtype_and_shape(baseline.dtype, baseline.shape)},
                               {"candidate", dtype_and_shape(candidate.dtype, candidate.shape)}})};
    return difference;
  }
  const std::string where = fmt::format("{} {}", core::name_of(baseline.kind), baseline.name);
  if (judge.same_content(key_of(baseline), key_of(candidate), where).value_or(true)) {
    return std::nullopt;
  }
  if (auto measured = judge.measure_pair(
          {key_of(baseline), key_of(candidate)}, where, judge.rules().fallback())) {
    difference.metrics = measured->metrics;
    difference.samples = std::move(measured->samples);
    difference.note = describe_metrics(*difference.metrics);
    if (measured->slice) {
      const auto total = static_cast<std::uint64_t>(core::element_count(baseline.shape));
      difference.note.push_back(
          Phrase("in-part", {{"part", core::describe_slice(*measured->slice, total)}}));
    }
  } else {
    difference.note = {Phrase(kValuesDiffer)};
  }
  return difference;
}

}  // namespace

Phrase extent_of(const TensorMetrics& metrics) {
  Phrase extent("extent",
                {{"differing", metrics.n_diff},
                 {"elements", metrics.elements},
                 {"special", describe_metrics(metrics)}});
  // What is special has no size, and what is left may have none either.
  const bool has_size = std::get<Phrases>(extent.fields.back().value).empty();
  if (metrics.ulp_max.value_or(0) > 0 || (metrics.ulp_max && has_size)) {
    extent.with("ulp", *metrics.ulp_max);
  } else if (metrics.max_abs && has_size) {
    extent.with("max_abs", *metrics.max_abs);
  }
  return extent;
}

std::vector<NamedTensorDifference> differing_named_tensors(const core::RunManifest& baseline,
                                                           const core::RunManifest& candidate,
                                                           const NameRewriter& names,
                                                           TensorJudge& judge,
                                                           std::vector<std::uint64_t>& matched) {
  using Name = std::pair<core::NamedTensorKind, std::string>;
  std::map<Name, const NamedTensor*> theirs;
  matched.assign(names.entries(), 0);
  for (const NamedTensor& tensor : candidate.named_tensors) {
    if (tensor.kind == core::NamedTensorKind::kInput) {
      theirs.emplace(Name(tensor.kind, tensor.name), &tensor);
      continue;
    }
    const NameRewriter::Name name = names.tensor_name(tensor.name);
    if (name.entry) ++matched[*name.entry];
    theirs.emplace(Name(tensor.kind, name.text), &tensor);
  }
  std::vector<NamedTensorDifference> differences;
  for (const NamedTensor& tensor : baseline.named_tensors) {
    const auto node = theirs.extract(Name(tensor.kind, tensor.name));
    if (node.empty()) {
      differences.push_back(one_sided(tensor, true));
    } else if (auto difference = compare(tensor, *node.mapped(), judge)) {
      differences.push_back(std::move(*difference));
    }
  }
  for (const auto& [name, tensor] : theirs) differences.push_back(one_sided(*tensor, false));
  return differences;
}

}  // namespace repro_check::comparators
