// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/gate/gate.h"
#include "core/exit_code.h"

namespace repro_check::cmd {

/// The operator that diverged first, by what does not move when others are put in front of it.
struct HistoryOperator {
  std::string phase;
  std::string name;  ///< with its overload
  std::string module;
  std::uint64_t occurrence = 0;
  bool operator==(const HistoryOperator&) const = default;
};

/// What one expected divergence did.
struct HistoryExpected {
  std::string match;    ///< `operator aten::relu, module encoder\\..*`
  std::string outcome;  ///< `agreed`: as the JSON report has it
  bool operator==(const HistoryExpected&) const = default;
};

/// One gate run, as a line of a history has it.
struct HistoryEntry {
  std::string time;  ///< UTC, ISO 8601
  std::string gate;
  std::string commit;    ///< empty where nobody says
  std::string attempt;   ///< `GITHUB_RUN_ATTEMPT=2`; empty where the CI does not say
  std::string platform;  ///< key in hexadecimal; empty where there is none
  std::string status;    ///< `diverged`: as the JSON report has it
  core::ExitCode exit_code = core::ExitCode::kReproducible;
  std::uint64_t compared = 0;  ///< operators
  std::uint64_t origins = 0;
  std::optional<HistoryOperator> first;
  /// The greatest ULP distance of an output that the report lists.
  std::optional<std::uint64_t> ulp_max;

  /// The CI's job, which several attempts share; empty where the CI does not say.
  std::string job;
  std::vector<HistoryExpected> expected;

  [[nodiscard]] bool passed() const noexcept { return exit_code == core::ExitCode::kReproducible; }
  bool operator==(const HistoryEntry&) const = default;
};

/// A line that could not be read.
struct DamagedLine {
  std::size_t number = 0;  ///< from 1
  std::string why;
};

struct History {
  std::vector<HistoryEntry> entries;  ///< in the order of the file
  std::vector<DamagedLine> damaged;
};

/// What a gate's run adds to a history, as of now, with the commit that the CI or the repository
/// around the current directory names.
HistoryEntry history_entry(const GateResult& result);

/// One line of JSON, newline included.
std::string to_line(const HistoryEntry& entry);

/// Every line by itself: one that is no entry is listed as damaged. Blank lines are passed over.
History parse_history(std::string_view text);

/// Adds a line with a single write, so that gates that run at once do not mix theirs. A last line
/// that was not written to its end is left as it is, on a line of its own.
/// @throws core::Error{kIo}
void append_history(const std::filesystem::path& file, const HistoryEntry& entry);

/// @throws core::Error{kUsage} when append_history() could not succeed
void require_appendable(const std::filesystem::path& file);

/// What HEAD of the repository at `root` names; empty where there is none, or none that is plain to
/// read.
std::string commit_of_repository(const std::filesystem::path& root);

/// After so many gates in a row in which what happens sometimes did not, it may be taken out.
inline constexpr std::uint64_t kAgreedLongEnough = 20;

/// In how many gates in a row, the present one included, an expected divergence agreed: passing
/// gates of its name on its platform. A gate that did not pass says nothing of it and is passed
/// over, unless the divergence happened there; one that did not ask ends the row.
/// @param match  of the entry, as ExpectedOutcome has it
std::uint64_t agreed_in_a_row(std::span<const HistoryEntry> before,
                              const HistoryEntry& now,
                              const std::string& match);

/// `attempt 2; attempt 1 diverged at aten::addmm`: what became of the earlier attempts of this job,
/// as the history has them; empty where there was none.
std::string earlier_attempts(std::span<const HistoryEntry> before, const HistoryEntry& now);

/// Adds both to what a gate found.
void recall(std::span<const HistoryEntry> before, const HistoryEntry& now, GateOutcome& outcome);

}  // namespace repro_check::cmd
