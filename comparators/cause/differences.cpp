// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/differences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "configs/setting_changes.h"
#include "configs/spec/run_config.h"
#include "core/digest/digest.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {
namespace {

constexpr std::string_view kAbsent = "unset";

/// Older dumps do not say it, and nothing follows from that.
bool is_known_since_lately(std::string_view name) {
  return name == core::kModelMode || name == core::kModelTraining;
}

/// Words of a name that say it cannot change a number.
bool is_cosmetic(std::string_view pointer) {
  constexpr std::array<std::string_view, 18> kWords{"host",
                                                    "hostname",
                                                    "path",
                                                    "directory",
                                                    "time",
                                                    "date",
                                                    "created",
                                                    "pid",
                                                    "user",
                                                    "memory",
                                                    "uptime",
                                                    "kernel",
                                                    "loadavg",
                                                    "label",
                                                    "process",
                                                    "cwd",
                                                    "PYTHONHASHSEED",
                                                    "locale"};
  std::string word;
  const auto hit = [&] { return std::ranges::find(kWords, word) != kWords.end(); };
  for (const char letter : pointer) {
    if (letter != '.' && letter != '_') {
      word += letter;
      continue;
    }
    if (hit()) return true;
    word.clear();
  }
  return hit();
}

class Collector {
 public:
  void add(std::string pointer, std::string baseline, std::string candidate, bool numbers) {
    if (baseline == candidate) return;
    found_.push_back({std::move(pointer), std::move(baseline), std::move(candidate), numbers});
  }

  /// Values by name; what one side lacks is absent there.
  template <typename Entry>
  void add_named(const std::vector<Entry>& baseline,
                 const std::vector<Entry>& candidate,
                 std::string Entry::*value) {
    std::map<std::string, std::string> theirs;
    for (const Entry& entry : candidate) theirs.emplace(entry.name, entry.*value);
    for (const Entry& entry : baseline) {
      const auto node = theirs.extract(entry.name);
      if (node.empty() && is_known_since_lately(entry.name)) continue;
      add(entry.name,
          entry.*value,
          node.empty() ? std::string(kAbsent) : node.mapped(),
          !is_cosmetic(entry.name));
    }
    for (const auto& [name, other] : theirs) {
      if (is_known_since_lately(name)) continue;
      add(name, std::string(kAbsent), other, !is_cosmetic(name));
    }
  }

  std::vector<Difference> take() { return std::move(found_); }

 private:
  std::vector<Difference> found_;
};

std::string text(bool value) { return value ? "true" : "false"; }

std::string patterns(const std::vector<std::string>& list) {
  return list.empty() ? "none" : fmt::format("{}", fmt::join(list, ", "));
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::ranges::any_of(prefixes, [&](std::string_view p) { return text.starts_with(p); });
}

}  // namespace

std::vector<Difference> manifest_differences(const core::RunManifest& baseline,
                                             const core::RunManifest& candidate) {
  Collector found;
  found.add("model.digest",
            core::to_hex(baseline.model_digest),
            core::to_hex(candidate.model_digest),
            true);
  found.add("model.path", baseline.model_path, candidate.model_path, false);
  found.add("model.method", baseline.model_method, candidate.model_method, true);
  found.add("device", baseline.device, candidate.device, true);
  found.add("seed", std::to_string(baseline.seed), std::to_string(candidate.seed), true);
  found.add("determinism", baseline.determinism, candidate.determinism, true);
  found.add(
      "disable_dropout", text(baseline.disable_dropout), text(candidate.disable_dropout), true);
  found.add("rng", baseline.rng, candidate.rng, true);
  found.add("grad", baseline.grad, candidate.grad, true);
  found.add("dump.level", baseline.trace.level, candidate.trace.level, false);
  found.add("dump.depth", baseline.trace.depth, candidate.trace.depth, false);
  found.add(
      "dump.include", patterns(baseline.trace.include), patterns(candidate.trace.include), false);
  found.add(
      "dump.exclude", patterns(baseline.trace.exclude), patterns(candidate.trace.exclude), false);
  found.add("dump.digest_algorithm",
            baseline.trace.digest_algorithm,
            candidate.trace.digest_algorithm,
            false);
  found.add("tool.version", baseline.tool_version, candidate.tool_version, false);
  found.add_named(baseline.settings, candidate.settings, &core::Setting::used);
  found.add_named(baseline.environment, candidate.environment, &core::EnvironmentFact::value);
  return found.take();
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
  constexpr std::array<std::string_view, 13> kNames{"device",
                                                    "devices",
                                                    "mkl",
                                                    "onednn",
                                                    "openmp",
                                                    "cuda",
                                                    "cudnn",
                                                    "compiler",
                                                    "libc",
                                                    "blas",
                                                    "lapack",
                                                    "cpu.cores",
                                                    "cpu.usable_cores"};
  return std::ranges::find(kNames, pointer) != kNames.end() || is_symptom(pointer) ||
         pointer.ends_with(".version") ||
         starts_with_any(pointer,
                         {"libtorch", "os.", "cpu.model", "cpu.microcode", "gpu", "npu", "arch"});
}

}  // namespace

DifferenceGroup group_of(const Difference& difference) {
  const std::string_view pointer = difference.pointer;
  if (!difference.affects_numbers ||
      starts_with_any(pointer, {"model.", "seed", "generator", "rng", "disable_dropout"})) {
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

/// As JSON, and as the configuration has it there.
std::string value_of(std::string_view pointer, const std::string& text) {
  const bool bare = pointer == "/threads" || pointer == "/interop_threads" ||
                    pointer == "/optimize_executor" || text == "null";
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
    const bool is_named = starts_with_any(change.pointer, {"/env/", "/settings/"});
    constexpr std::array<std::string_view, 5> kOthers{
        "/determinism", "/grad", "/threads", "/interop_threads", "/optimize_executor"};
    if (!is_named && std::ranges::find(kOthers, change.pointer) == kOthers.end()) continue;
    const auto seen = by_pointer.find(change.pointer);
    if (seen == by_pointer.end()) continue;
    const bool own_words = change.pointer == "/optimize_executor";
    suspects.push_back(
        {is_of_threads(change.pointer) ? DifferenceGroup::kThreads : DifferenceGroup::kSettings,
         own_words ? fmt::format("optimize_executor {} -> {}", change.baseline, change.candidate)
                   : to_text(*seen->second),
         change.pointer,
         own_words ? change.baseline : value_of(change.pointer, seen->second->baseline)});
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
    // What one LibTorch sets otherwise in two runs follows from what they were told.
    const bool follows = is_configured && !is_fact(difference.pointer) &&
                         (!difference.pointer.starts_with("env.") || is_pinned(difference.pointer));
    const bool says_the_same = counts && difference.pointer.starts_with("env.") &&
                               difference.pointer.ends_with("NUM_THREADS");
    if (is_known || follows || says_the_same) continue;
    Suspect suspect{group,
                    to_text(difference),
                    pointer,
                    pointer.empty() ? "" : value_of(pointer, difference.baseline)};
    (is_symptom(difference.pointer) ? symptoms : suspects).push_back(std::move(suspect));
  }
  if (suspects.empty()) suspects = std::move(symptoms);
  std::ranges::stable_sort(suspects, {}, [](const Suspect& suspect) {
    constexpr std::array kOrder{
        DifferenceGroup::kThreads, DifferenceGroup::kSettings, DifferenceGroup::kEnvironment};
    return std::ranges::find(kOrder, suspect.group) - kOrder.begin();
  });
  return suspects;
}

std::string to_text(const Difference& difference) {
  // Two digests say nothing to a person.
  if (difference.pointer.starts_with("probe.")) {
    return difference.pointer + ": the machine gives other numbers for one computation";
  }
  return fmt::format("{} {} -> {}", difference.pointer, difference.baseline, difference.candidate);
}

namespace {

/// As a configuration has it: `"settings": {"mkldnn.enabled": "on"}`.
std::string in_configuration(const Suspect& suspect) {
  const std::size_t slash = suspect.pointer.find('/', 1);
  const std::string first = suspect.pointer.substr(1, slash - 1);
  if (slash == std::string::npos) return fmt::format("\"{}\": {}", first, suspect.value);
  return fmt::format(
      R"("{}": {{"{}": {}}})", first, suspect.pointer.substr(slash + 1), suspect.value);
}

}  // namespace

std::string suspects_text(const std::vector<Suspect>& suspects) {
  if (suspects.size() == 1) return suspects.front().text + ", the only setting that differs";
  constexpr std::size_t kShown = 3;
  std::vector<std::string_view> texts;
  for (const Suspect& suspect : suspects) texts.push_back(suspect.text);
  const std::size_t total = texts.size();
  if (total > kShown) texts.resize(kShown);
  std::string text = fmt::format("{}", fmt::join(texts, ", "));
  return total > kShown ? fmt::format("{} and {} more", text, total - kShown) : text;
}

std::string settings_advice(const std::vector<Suspect>& suspects) {
  std::vector<const Suspect*> settable;
  for (const Suspect& suspect : suspects) {
    if (!suspect.pointer.empty()) settable.push_back(&suspect);
  }
  if (settable.size() == 1) return "give both runs " + in_configuration(*settable.front());
  return "give both runs the same values, in one configuration; repro-check bisect finds which of "
         "them it is";
}

}  // namespace repro_check::comparators
