// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>

#include "cmd/recording/recorder_process.h"
#include "cmd/render/color.h"
#include "cmd/terminal/global_options.h"
#include "comparators/compare.h"
#include "core/system/pinned.h"
#include "dumpers/store/pack.h"

namespace repro_check::cmd {

enum class ProgressStyle {
  kOff,
  kLines,  ///< a line a run, and one each 30 s, for logs that nobody rewrites
  kLive,   ///< one line, rewritten at most ten times a second
};

/// `--progress` decides, then `-q`; a terminal gets the live line unless TERM is dumb or CI is set.
ProgressStyle progress_style(const GlobalOptions& globals,
                             bool is_terminal,
                             const ReadVariable& read_variable);

/// Says on a stream how far a sequence of runs has come:
/// `[2/2] candidate  recording  op 312  1.1 GB  7 s`.
class Progress : core::Pinned {
 public:
  using Clock = std::chrono::steady_clock;

  /// @param stream  borrowed
  Progress(ProgressStyle style, std::FILE* stream) : style_(style), stream_(stream) {}
  /// On stderr, as a command shows it.
  explicit Progress(const GlobalOptions& globals);
  ~Progress() { clear(); }

  /// @param position, total  1-based; total 0 leaves the counter out
  void begin(std::size_t position, std::size_t total, const std::string& name);
  void update(const RecorderProgress& progress);
  /// How the run has ended, for a log; without totals, it has failed.
  void end(const std::optional<RecorderTotals>& totals);
  [[nodiscard]] bool is_off() const noexcept { return style_ == ProgressStyle::kOff; }

  /// How much of something is done: `verifying  [#####               ] 1.1 GB of 4.4 GB  7 s`.
  /// Rate and time left are those of the phase.
  /// @param amount  turns a count into text
  void share(const std::string& phase,
             std::uint64_t done,
             std::uint64_t total,
             std::string (*amount)(std::uint64_t));
  /// A stage without numbers, `comparing`, which a log has no line for.
  void stage(const std::string& name);
  /// Takes the live line away, so that something else can be printed.
  void clear();

 private:
  [[nodiscard]] std::string line(const std::string& phase,
                                 const std::string& operators,
                                 std::uint64_t bytes,
                                 const std::string& rate) const;
  void show(const std::string& text, bool force);
  [[nodiscard]] double seconds() const;  ///< since the run, or the phase, began

  ProgressStyle style_;
  std::FILE* stream_;
  std::string prefix_;
  std::string phase_;
  Clock::time_point started_ = Clock::now();
  Clock::time_point shown_{};
  std::uint64_t operators_ = 0;  ///< of the run that is being recorded, so far
  std::uint64_t expected_ = 0;   ///< of the run before: the next one is alike, as a rule
  bool dirty_ = false;
};

/// For CompareOptions::progress: shows how far a comparison is; empty where nothing is shown.
/// @param progress  borrowed
std::function<void(const comparators::CompareProgress&)> comparison_on(Progress& progress);

/// For what makes and opens packs: shows how far its phases are; empty where nothing is shown.
/// @param progress  borrowed
store::PackProgress packing_on(Progress& progress);

}  // namespace repro_check::cmd
