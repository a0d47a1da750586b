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
#include "cmd/render/json/json_form.h"
#include "cmd/render/render.h"
#include "core/error.h"

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

// As a line has them, and other documents as well.
void describe(auto f, Of<decltype(f), HistoryOperator>& op);
void describe(auto f, Of<decltype(f), HistoryEntry>& entry);

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

/// Adds to what a gate found in how many gates in a row an expected divergence agreed, and what
/// became of earlier attempts of the job.
void recall(std::span<const HistoryEntry> before, const HistoryEntry& now, GateOutcome& outcome);

/// An operator that was the first to diverge, and in how many gate runs.
struct FirstCount {
  HistoryOperator first;
  std::uint64_t runs = 0;
};

/// The history of one gate on one platform.
struct Trend {
  std::string gate;
  std::string platform;               ///< key; empty where there is none
  std::vector<HistoryEntry> entries;  ///< in the order of the file
  std::uint64_t passed = 0;
  std::uint64_t diverged = 0;  ///< exit code 1; what is left could not be judged
  std::uint64_t streak = 0;    ///< of the last runs, those alike in having passed or not
  std::uint64_t longest_passed = 0;
  std::uint64_t longest_not_passed = 0;
  std::vector<FirstCount> firsts;  ///< the most frequent first, of equals the earliest
  /// Commits that passed in one run and diverged in another, in the order of their first runs.
  std::vector<std::string> undecided;
};

/// A trend for each gate and platform, in the order in which they first appear.
/// @param gate  only of this one
std::vector<Trend> trends_of(const History& history, const std::optional<std::string>& gate);

/// What is shown of a history.
struct TrendView {
  std::string file;  ///< as the user typed it
  std::vector<Trend> trends;
  std::vector<DamagedLine> damaged;
  std::size_t last = 20;  ///< so many runs of each trend are listed, the newest last
};

std::string trend_text(const TrendView& view, const RenderOptions& options);
/// The same as JSON, with every number that the text has.
std::string trend_json(const TrendView& view, const RenderOptions& options);
/// One page, complete in itself: of each trend a plot of all runs, its numbers, and its newest
/// runs.
/// @throws core::Error{kInternal} when its data cannot be packed
std::string trend_html(const TrendView& view);

}  // namespace repro_check::cmd
