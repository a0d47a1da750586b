// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/reference.h"

#include <CLI/App.hpp>
#include <cstddef>

#include "core/error.h"
#include "dumpers/store/directory/reference.h"

namespace repro_check::cmd {

void require_references(std::span<const RecordingJob> jobs) {
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const configs::DumpSpec& dump = jobs[i].run.dump;
    if (!dump.reference || dump.level != core::DumpLevel::kTensor) continue;
    bool is_made_here = false;
    for (std::size_t other = 0; other < jobs.size(); ++other) {
      if (!store::is_same_place(*dump.reference, jobs[other].dump)) continue;
      is_made_here = true;
      if (other <= i) break;
      throw core::Error(core::ErrorKind::kUsage,
                        "/dump/reference: is the dump of run \"" + jobs[other].run.name +
                            "\", which is recorded after run \"" + jobs[i].run.name + "\"",
                        "refer to the dump of the first run");
    }
    if (!is_made_here) store::require_reference(*dump.reference);
  }
}

void define_references(CLI::App& app, std::vector<std::string>& into) {
  app.add_option(
         "--reference", into, "Where the dump is that it refers to (dump.reference); repeatable")
      ->type_name("DIR")
      ->take_all()
      ->allow_extra_args(false);
}

std::string_view verified_text(bool whole) noexcept {
  return whole ? "every content, the index and the manifest match their digests"
               : "every content of its own, the index and the manifest match their digests";
}

}  // namespace repro_check::cmd
