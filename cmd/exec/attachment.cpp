// SPDX-License-Identifier: Apache-2.0
#include "cmd/exec/attachment.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <system_error>

#include "cmd/render/json/json_form.h"
#include "cmd/render/text.h"
#include "configs/spec/pinned_environment.h"
#include "core/error.h"
#include "dumpers/journal/journal.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlanVariable = "REPRO_CHECK_EXEC";
constexpr std::string_view kProbeName = "librepro_check_probe-";

/// Where the probe and its Python side are looked for: as the recorder is, beside the tool.
std::vector<fs::path> libexec_places() {
  if (const char* named = std::getenv("REPRO_CHECK_LIBEXEC"); named != nullptr && *named != '\0') {
    return {named};
  }
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  return {self.parent_path().parent_path() / "libexec" / "repro-check"};
}

struct Probes {
  fs::path folder;
  std::string names;  ///< of the files
};

/// Which of them fits only the program's own PyTorch tells.
Probes require_probes() {
  std::string looked;
  for (const fs::path& place : libexec_places()) {
    Probes probes{place, {}};
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator(place, ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(kProbeName)) probes.names += (probes.names.empty() ? "" : ", ") + name;
    }
    if (!probes.names.empty()) return probes;
    looked += (looked.empty() ? "" : ", ") + place.string();
  }
  throw core::Error(core::ErrorKind::kUsage,
                    "there is no probe, so no program can be recorded (looked in " + looked + ")",
                    "install the package repro-check-recorder, or build with "
                    "-DREPRO_CHECK_WITH_TORCH=ON, or point REPRO_CHECK_LIBEXEC at the folder that "
                    "holds " +
                        std::string(kProbeName) + "*.so");
}

Json texts(const std::vector<std::string>& list) {
  Json array = Json::array();
  for (const std::string& text : list) array.push_back(clean_utf8(text));
  return array;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::optional<AttachedProcess> read_state(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  const Json state = Json::parse(text, nullptr, false);
  if (!state.is_object() || !state.contains("process")) return std::nullopt;
  AttachedProcess process;
  process.process = state.value("process", 0);
  process.ended = state.value("ended", false);
  if (state["failure"].is_string()) process.failure = state["failure"];
  process.notes = state.value("notes", std::vector<std::string>{});
  process.journal = fs::path(file).replace_extension();
  const fs::path journal = process.journal / journal::kJournalName;
  if (process.ended) {
    process.recorded = state.value("operators", std::uint64_t{0}) > 0;
  } else if (std::error_code ignored; fs::exists(journal, ignored)) {
    const journal::JournalSummary reached = journal::summarise(journal);
    process.recorded = reached.completed > 0 || reached.entered;
  }
  return process;
}

}  // namespace

Attachment::Attachment(const AttachmentPlan& plan, const fs::path& beside) : plan_(plan) {
  const Probes probes = require_probes();
  python_ = probes.folder / "python";
  directory_ = fs::absolute(beside);
  directory_ += ".processes-" + std::to_string(::getpid());
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error) {
    throw core::Error(core::ErrorKind::kUsage,
                      directory_.string() + ": cannot be made: " + error.message(),
                      "give --out a place that can be written");
  }
  Json document;
  document["directory"] = directory_.string();
  document["probes"] = probes.folder.string();
  document["there"] = probes.names;
  document["run"] = beside.filename().string();
  document["program"] = clean_utf8(joined(plan.command));
  document["level"] = plan.level;
  document["depth"] = plan.depth;
  document["determinism"] = plan.determinism;
  document["include"] = texts(plan.include);
  document["exclude"] = texts(plan.exclude);
  document["disable_dropout"] = plan.disable_dropout;
  document["seed"] = plan.seed ? Json(*plan.seed) : Json(nullptr);
  Json configuration = document;
  for (const char* place : {"directory", "probes", "there", "run", "program"})
    configuration.erase(place);
  configuration["program"] = {{"command", texts(plan.command)}};
  document["configuration"] = configuration;
  std::ofstream(directory_ / "plan.json", std::ios::binary) << document.dump();
}

Attachment::~Attachment() {
  if (kept_) return;
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

std::map<std::string, std::string> Attachment::environment() const {
  std::map<std::string, std::string> variables;
  variables[kPlanVariable] = (directory_ / "plan.json").string();
  const char* path = std::getenv("PYTHONPATH");
  const std::string inherited = path == nullptr || *path == '\0' ? "" : ":" + std::string(path);
  variables["PYTHONPATH"] = python_.string() + inherited;
  configs::RunSpec pins;
  pins.determinism = plan_.determinism == "off" ? configs::DeterminismMode::kOff
                                                : configs::DeterminismMode::kError;
  pins.seed = plan_.seed.value_or(0);
  for (const auto& [name, value] : configs::pinned_environment(pins)) {
    if (!value || (name == "PYTHONHASHSEED" && !plan_.seed)) continue;
    variables[name] = *value;
  }
  return variables;
}

std::vector<AttachedProcess> Attachment::processes() const {
  std::vector<AttachedProcess> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory_)) {
    if (entry.path().extension() != ".json" || entry.path().filename() == "plan.json") continue;
    if (auto process = read_state(entry.path())) {
      found.push_back(std::move(*process));
    }
  }
  std::sort(found.begin(), found.end(), [](const AttachedProcess& a, const AttachedProcess& b) {
    return a.process < b.process;
  });
  return found;
}

}  // namespace repro_check::cmd
