// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/own_recordings.h"

#include <map>
#include <string>
#include <system_error>

#include "core/error.h"
#include "core/text/printable.h"

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

}  // namespace

void note_own(const fs::path& place, const core::Digest& manifest) {
  noted().insert_or_assign(whole_name(place), manifest);
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

}  // namespace repro_check::cmd
