// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/own_recordings.h"

#include <fstream>
#include <iterator>
#include <system_error>

#include "cmd/terminal/logging.h"
#include "cmd/terminal/output.h"
#include "core/error.h"
#include "core/text/printable.h"
#include "core/trace/run_manifest.h"
#include "dumpers/journal/journal.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

/// One place has one name here, however it was spelled.
fs::path whole_name(const fs::path& place) {
  std::error_code error;
  const fs::path absolute = fs::absolute(place, error);
  fs::path whole = fs::weakly_canonical(absolute, error);
  if (error) whole = absolute.lexically_normal();
  return whole.filename().empty() ? whole.parent_path() : whole;
}

std::map<fs::path, core::Digest>& noted() {
  static std::map<fs::path, core::Digest> places;
  return places;
}

constexpr const char* kRunFile = ".repro-check-run";

RunOutputs* current_run = nullptr;

}  // namespace

void note_own(const fs::path& place, const core::Digest& manifest) {
  const fs::path whole = whole_name(place);
  noted().insert_or_assign(whole, manifest);
  if (current_run != nullptr) current_run->note(whole, manifest);
}

void note_own_moved(const fs::path& from, const fs::path& to) {
  const auto found = noted().find(whole_name(from));
  if (found == noted().end()) return;
  note_own(to, found->second);
  noted().erase(found);
}

void expect_own(const core::DumpSource& opened, const fs::path& place) {
  const auto found = noted().find(whole_name(place));
  if (found == noted().end() || found->second == opened.manifest().digest) return;
  throw core::Error(core::ErrorKind::kRunFailed,
                    core::printable(place.string()) +
                        ": is not the recording that this command made: another command has "
                        "recorded there meanwhile",
                    "give each command a directory of its own (--out), or start one after the "
                    "other");
}

RunOutputs::RunOutputs(const std::vector<fs::path>& directories) {
  for (const fs::path& place : directories) {
    const fs::path whole = whole_name(place);
    Directory& directory = directories_[whole];
    std::ifstream file(whole / kRunFile);
    directory.was_used = file.is_open();
    std::string digest;
    for (std::string name; file >> digest && std::getline(file >> std::ws, name);) {
      directory.dumps[name] = digest;
    }
    // There from the beginning: a run that is interrupted has left its part as well.
    std::ofstream(whole / kRunFile, std::ios::app);
  }
  current_run = this;
}

RunOutputs::~RunOutputs() {
  current_run = nullptr;
  for (const auto& [place, directory] : directories_) {
    std::error_code error;
    const bool is_alone = std::distance(fs::directory_iterator(place, error), {}) == 1;
    if (!error && is_alone) fs::remove(place / kRunFile, error);
  }
}

bool RunOutputs::may_replace(const fs::path& place) const {
  const fs::path whole = whole_name(place);
  const auto found = directories_.find(whole.parent_path());
  if (found == directories_.end() || !found->second.was_used) return false;
  std::ifstream manifest(whole / "manifest.json", std::ios::binary);
  std::error_code ignored;
  if (!manifest) return fs::exists(whole / journal::kJournalName, ignored);
  const std::string text{std::istreambuf_iterator<char>(manifest), {}};
  const auto dump = found->second.dumps.find(whole.filename().string());
  return dump != found->second.dumps.end() &&
         dump->second == core::to_hex(core::manifest_digest(text));
}

void RunOutputs::note(const fs::path& place, const core::Digest& manifest) {
  const auto found = directories_.find(place.parent_path());
  if (found == directories_.end()) return;
  found->second.dumps[place.filename().string()] = core::to_hex(manifest);
  std::string text;
  for (const auto& [name, digest] : found->second.dumps) text.append(digest + ' ' + name + '\n');
  try {
    write_file(found->first / kRunFile, text);
  } catch (const core::Error& error) {
    // The next run asks for --force then.
    log_debug(error.what());
  }
}

}  // namespace repro_check::cmd
