// SPDX-License-Identifier: Apache-2.0
#include "comparators/differences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <utility>

#include "core/digest.h"

namespace repro_check::comparators {
namespace {

constexpr std::string_view kAbsent = "unset";

/// Words of a name that say it cannot change a number.
bool is_cosmetic(std::string_view pointer) {
  constexpr std::array<std::string_view, 17> kWords{"host",
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
      add(entry.name,
          entry.*value,
          node.empty() ? std::string(kAbsent) : node.mapped(),
          !is_cosmetic(entry.name));
    }
    for (const auto& [name, other] : theirs) {
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

DifferenceGroup group_of(const Difference& difference) {
  const std::string_view pointer = difference.pointer;
  if (!difference.affects_numbers ||
      starts_with_any(pointer, {"model.", "seed", "generator", "rng", "disable_dropout"})) {
    return DifferenceGroup::kOther;
  }
  const bool threads = pointer.find("threads") != std::string_view::npos ||
                       pointer.find("NUM_THREADS") != std::string_view::npos ||
                       starts_with_any(pointer, {"openmp.team", "env.OMP_THREAD_LIMIT"});
  if (threads) return DifferenceGroup::kThreads;
  const bool environment = starts_with_any(pointer,
                                           {"device",
                                            "env.",
                                            "libtorch",
                                            "cpu",
                                            "cuda",
                                            "mkl",
                                            "onednn",
                                            "openmp",
                                            "os.",
                                            "blas",
                                            "lapack",
                                            "cudnn",
                                            "gpu",
                                            "npu",
                                            "arch",
                                            "compiler"});
  return environment ? DifferenceGroup::kEnvironment : DifferenceGroup::kSettings;
}

std::string to_text(const Difference& difference) {
  return fmt::format("{} {} -> {}", difference.pointer, difference.baseline, difference.candidate);
}

}  // namespace repro_check::comparators
