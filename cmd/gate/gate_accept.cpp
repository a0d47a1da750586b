// SPDX-License-Identifier: Apache-2.0
#include "cmd/gate/gate_accept.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <system_error>
#include <utility>

#include "baselines/changes.h"
#include "baselines/summary.h"
#include "cmd/gate/gate.h"
#include "cmd/render/text.h"
#include "cmd/terminal/output.h"
#include "core/digest/file_digest.h"
#include "core/error.h"
#include "core/text/printable.h"

namespace repro_check::cmd {
namespace {

using baselines::Baseline;
using baselines::Pending;

core::Error refused(const std::filesystem::path& file, const std::string& why, std::string mend) {
  return {core::ErrorKind::kUsage,
          core::printable(file.string()) + " cannot be accepted: " + why,
          std::move(mend)};
}

/// Why the files that the gate loads now are not those of the runs; empty where they are.
std::string changed_files(const GatePlace& place, const Pending& pending) {
  if (!place.model) return {};
  if (core::digest_file(*place.model) != pending.model.digest) return "the model has changed";
  if (place.weights_from.has_value() != pending.weights.has_value()) {
    return place.weights_from ? "the configuration takes weights from another file now"
                              : "the configuration takes no weights from another file any more";
  }
  if (place.weights_from && core::digest_file(*place.weights_from) != pending.weights->digest) {
    return core::printable(place.weights_from->string()) + " has changed";
  }
  return {};
}

void check(const GatePlace& place, const std::filesystem::path& file, const Pending& pending) {
  const char* again = "run the gate again, and accept what it writes then";
  if (!pending.agreed) {
    throw refused(file,
                  fmt::format("the {} runs behind it do not agree with each other", pending.runs),
                  "mend that first: nothing that differs from run to run can be compared with");
  }
  if (pending.baseline.gate != place.name) {
    throw refused(
        file,
        fmt::format("it is of gate {}, not {}", core::printable(pending.baseline.gate), place.name),
        "give the configuration of its gate with -c");
  }
  if (pending.baseline.operators == 0) throw refused(file, "it holds no operator", again);
  const std::string changed = changed_files(place, pending);
  if (!changed.empty()) {
    throw refused(file, changed + " since the runs were recorded", again);
  }
}

std::string summary_line(const std::filesystem::path& target, const Baseline& now) {
  const std::string name = core::printable(from_here(target).string());
  std::error_code ignored;
  if (!std::filesystem::exists(target, ignored)) {
    return fmt::format("{}: new, {} on {}\n",
                       name,
                       format_count(now.operators, "operator"),
                       core::printable(baselines::describe(now.platform)));
  }
  try {
    const Baseline before = baselines::baseline_from_text(read_text_file(target), target.string());
    std::string line = name + ": " + core::printable(baselines::describe_changes(before, now));
    for (const baselines::Change& change : baselines::stale_reasons(before, now)) {
      line +=
          core::printable(fmt::format("; {} {} -> {}", change.name, change.accepted, change.now));
    }
    return line + '\n';
  } catch (const core::Error&) {
    return name + ": replaces a file that could not be read\n";
  }
}

std::string age_text(const std::filesystem::path& file) {
  std::error_code error;
  const auto written = std::filesystem::last_write_time(file, error);
  if (error) return "of unknown age";
  const auto age = std::filesystem::file_time_type::clock::now() - written;
  const auto days = std::chrono::floor<std::chrono::days>(age).count();
  return days <= 0 ? "today" : fmt::format("{} days old", days);
}

}  // namespace

bool is_ci() {
  const char* value = std::getenv("CI");
  const std::string text = value == nullptr ? "" : value;
  return !text.empty() && text != "0" && text != "false";
}

std::vector<std::filesystem::path> pending_files(const std::filesystem::path& directory,
                                                 const std::string& gate) {
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    // Dashes may be in the name of a gate, and are not in a key.
    const bool is_of_gate = name.substr(0, name.rfind('-')) == gate;
    if (is_of_gate && name.ends_with(baselines::kPendingSuffix)) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

void remove_pending(const std::filesystem::path& directory, const std::string& gate) {
  for (const std::filesystem::path& file : pending_files(directory, gate)) {
    std::error_code error;
    std::filesystem::remove(file, error);
    if (!error) continue;
    throw core::Error(core::ErrorKind::kIo,
                      "cannot remove " + core::printable(file.string()) + ": " + error.message(),
                      "it is of an earlier gate, and `gate accept` would take it");
  }
}

std::string accept_pending(const GatePlace& place,
                           const std::vector<std::filesystem::path>& files) {
  std::vector<Pending> all;
  for (const std::filesystem::path& file : files) {
    all.push_back(baselines::pending_from_text(read_text_file(file), file.string()));
    check(place, file, all.back());
  }
  std::error_code error;
  std::filesystem::create_directories(place.baselines, error);
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::filesystem::path target = place.baselines / baselines::file_name(all[i].baseline);
    text += summary_line(target, all[i].baseline);
    write_file(target, baselines::to_text(all[i].baseline));
    std::filesystem::remove(files[i], error);
  }
  return text;
}

std::string baseline_status(const GatePlace& place) {
  const auto files = baseline_files(place.baselines);
  const auto orphans = orphaned_files(files, place.name, place.config);
  std::string text;
  for (const std::filesystem::path& file : files) {
    const std::string name = core::printable(from_here(file).string());
    if (std::ranges::find(orphans, file) != orphans.end()) {
      text += name + ": orphan, no configuration is called that\n";
      continue;
    }
    try {
      const Baseline baseline = baselines::baseline_from_text(read_text_file(file), file.string());
      text += fmt::format("{}: {} on {}, policy {}, {}\n",
                          name,
                          format_count(baseline.operators, "operator"),
                          core::printable(baselines::describe(baseline.platform)),
                          core::printable(baseline.policy),
                          age_text(file));
    } catch (const core::Error& problem) {
      text += fmt::format("{}: {}\n", name, problem.what());
    }
  }
  if (text.empty()) {
    return fmt::format("no baselines in {}\n",
                       core::printable(from_here(place.baselines).string()));
  }
  return text;
}

std::string prune_baselines(const GatePlace& place, bool dry_run) {
  std::string text;
  for (const auto& file :
       orphaned_files(baseline_files(place.baselines), place.name, place.config)) {
    std::error_code error;
    if (!dry_run) std::filesystem::remove(file, error);
    if (error) throw core::Error(core::ErrorKind::kIo, "cannot remove " + file.string());
    text +=
        (dry_run ? "would remove " : "removed ") + core::printable(from_here(file).string()) + '\n';
  }
  return text.empty() ? "no orphans\n" : text;
}

}  // namespace repro_check::cmd
