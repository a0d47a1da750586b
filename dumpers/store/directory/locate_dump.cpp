// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/directory/locate_dump.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <vector>

#include "core/error.h"
#include "core/text/printable.h"
#include "dumpers/journal/journal.h"
#include "dumpers/store/directory/dump_directory.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;
using core::Error;
using core::ErrorKind;

constexpr const char* kUsualHint =
    "give a directory that `repro-check record` or `repro-check run` has written";

/// Dumps one level below, which is what the directory of a whole `run` holds.
std::string hint_for(const fs::path& directory) {
  constexpr std::size_t kShown = 4;
  std::vector<std::string> names;
  std::error_code code;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, code)) {
    std::error_code ignored;
    if (fs::exists(entry.path() / kManifestName, ignored)) {
      names.push_back(core::printable(entry.path().string()));
    }
  }
  if (names.empty()) return kUsualHint;
  std::ranges::sort(names);
  if (names.size() > kShown) names.resize(kShown);
  return fmt::format("did you mean {}?", fmt::join(names, " or "));
}

[[noreturn]] void refuse_incomplete(const std::string& name, const fs::path& directory) {
  std::string message = fmt::format("{}: incomplete recording", name);
  const fs::path file = directory / kJournalName;
  std::error_code code;
  if (fs::exists(file, code)) {
    try {
      const journal::JournalSummary reached = journal::summarise(file);
      message += fmt::format(
          ": {} operator{} whole", reached.completed, reached.completed == 1 ? "" : "s");
      if (reached.entered) {
        message += fmt::format(
            "; op {} {} was entered and never left", *reached.entered, reached.entered_operator);
      } else if (reached.last) {
        message += fmt::format("; the last was op {} {}", *reached.last, reached.last_operator);
      }
      if (!reached.failure.empty()) message += "; " + core::printable(reached.failure);
    } catch (const Error& failure) {
      message += fmt::format("; its journal cannot be read: {}", failure.what());
    }
  }
  std::string hint = "record the run again";
  if (journal::is_being_written(file)) {
    hint = "it is still being recorded: wait for it";
  } else if (fs::exists(file, code)) {
    hint += ", or keep what there is: repro-check recover " + name;
  }
  throw Error(ErrorKind::kDumpIncomplete, message, hint);
}

/// A link has a refusal of its own.
void refuse_unless_file(const fs::path& file) {
  std::error_code code;
  const fs::file_status status = fs::symlink_status(file, code);
  if (fs::is_regular_file(status) || fs::is_symlink(status)) return;
  throw Error(ErrorKind::kDumpDamaged,
              fmt::format("{}: is not a file", core::printable(file.string())),
              "the dump is damaged; copy it again or record the run again");
}

}  // namespace

fs::path locate_dump(const fs::path& path) {
  std::error_code code;
  const std::string name = core::printable(path.string());
  const fs::file_status status = fs::status(path, code);
  if (!fs::exists(status)) {
    throw Error(ErrorKind::kDumpUnknown, fmt::format("{}: no such directory", name), kUsualHint);
  }
  fs::path directory = path;
  if (!fs::is_directory(status)) {
    const fs::path file = path.filename();
    if (file != kManifestName && file != kTraceName) {
      throw Error(
          ErrorKind::kDumpUnknown, fmt::format("{}: is a file, not a dump", name), kUsualHint);
    }
    directory = path.has_parent_path() ? path.parent_path() : fs::path(".");
  }
  if (fs::exists(directory / kManifestName, code)) {
    refuse_unless_file(directory / kManifestName);
    return directory;
  }
  if (code == std::errc::permission_denied) {
    throw Error(ErrorKind::kDumpUnknown,
                fmt::format("{}: cannot look into it: {}", name, code.message()),
                "ask whom it belongs to, or copy it as somebody who may read it");
  }
  if (fs::exists(directory / kJournalName, code) || fs::exists(directory / kTraceName, code)) {
    refuse_incomplete(name, directory);
  }
  throw Error(ErrorKind::kDumpUnknown,
              fmt::format("{}: there is no dump in this directory", name),
              hint_for(directory));
}

}  // namespace repro_check::store
