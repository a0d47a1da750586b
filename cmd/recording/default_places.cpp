// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/default_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string_view>
#include <system_error>

#include "cmd/terminal/output.h"
#include "core/digest/digest.h"
#include "core/error.h"
#include "core/text/text.h"
#include "core/trace/run_manifest.h"
#include "dumpers/store/directory/rank_dumps.h"
#include "dumpers/store/recovery/recovery.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kNumbered = "exec-";

fs::path place_of(std::uint64_t number) {
  return fs::path(kDefaultFolder) / fmt::format("{}{}", kNumbered, number);
}

/// The script that a command runs, or the module behind `-m`; the program itself where neither is
/// found.
std::string script_of(const std::vector<std::string>& command) {
  for (std::size_t i = 1; i < command.size(); ++i) {
    if (command[i] == "-m" && i + 1 < command.size()) return command[i + 1];
    if (command[i].ends_with(".py")) return command[i];
  }
  return command.front();
}

struct Numbered {
  std::uint64_t number = 0;
  std::string command;  ///< words with spaces between
};

/// The recordings in places of next_place(), the last one first. What cannot be read is left out.
std::vector<Numbered> numbered_recordings() {
  std::vector<Numbered> found;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(kDefaultFolder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kNumbered)) continue;
    const auto number =
        core::parse_number<std::uint64_t>(std::string_view(name).substr(kNumbered.size()));
    if (!number) continue;
    try {
      const auto dump = store::open_partial(store::leading_dump(entry.path()));
      found.push_back({*number, dump->manifest().model_path});
    } catch (const core::Error&) {  // still being recorded, or damaged: `verify` says more
    }
  }
  std::ranges::sort(found, std::greater<>{}, &Numbered::number);
  return found;
}

}  // namespace

std::string name_of_program(const std::vector<std::string>& command) {
  const std::string script = script_of(command);
  std::error_code ignored;
  const std::string where = fs::weakly_canonical(fs::absolute(script, ignored), ignored).string();
  std::string name = fs::path(script).filename().string();
  if (name.ends_with(".py")) name.resize(name.size() - 3);
  return name + "-" + core::to_hex(core::digest_bytes(where)).substr(0, 4);
}

HeldPlace next_place() {
  auto beside = std::make_unique<OutputLock>(kDefaultFolder, OutputLock::Mode::kBeside);
  for (std::uint64_t number = 1;; ++number) {
    const fs::path place = place_of(number);
    std::error_code ignored;
    if (fs::exists(place, ignored)) continue;
    try {
      auto lock = std::make_unique<OutputLock>(place);
      // Another recording may have come and gone meanwhile.
      if (fs::is_empty(place)) return {place, std::move(beside), std::move(lock)};
    } catch (const core::Error&) {
      if (!fs::exists(place, ignored)) throw;
    }
  }
}

std::pair<fs::path, fs::path> last_two_alike() {
  const std::vector<Numbered> found = numbered_recordings();
  if (found.size() > 1) {
    const auto earlier =
        std::find_if(found.begin() + 1, found.end(), [&](const Numbered& recording) {
          return recording.command == found.front().command;
        });
    if (earlier != found.end()) return {place_of(earlier->number), place_of(found.front().number)};
  }
  std::string list;
  for (const Numbered& recording : found) {
    list += fmt::format(
        "\n  {}  {}", place_of(recording.number).string(), core::printable(recording.command));
  }
  throw core::usage_error(
      fmt::format("diff without arguments compares the last two recordings of one command line in "
                  "{}, and there are none{}",
                  kDefaultFolder,
                  list.empty() ? "" : "; there are:" + list),
      "record twice with `repro-check exec -- COMMAND`, or name two dumps: repro-check diff A B");
}

}  // namespace repro_check::cmd
