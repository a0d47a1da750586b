// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "cmd/render/text.h"
#include "cmd/terminal/output.h"

namespace repro_check::cmd {
namespace {

constexpr std::chrono::milliseconds kLiveInterval{100};
constexpr std::chrono::seconds kHeartbeat{30};
// A live line that wraps cannot be rewritten.
constexpr std::size_t kLiveColumns = 79;

// Before it a rate says more of the start than of the work.
constexpr double kLeastSeconds = 1.0;

/// `  210 MB/s`; empty while it is not known.
std::string rate_text(std::uint64_t done, double seconds, std::string (*amount)(std::uint64_t)) {
  if (done == 0 || seconds < kLeastSeconds) return {};
  return fmt::format("  {}/s",
                     amount(static_cast<std::uint64_t>(static_cast<double>(done) / seconds)));
}

/// `  28 s left`, by what was done so far.
std::string left_text(double part, double seconds) {
  if (part <= 0 || part >= 1 || seconds < kLeastSeconds) return {};
  return fmt::format("  {:.0f} s left", seconds * (1 - part) / part);
}

bool is_set(const ReadVariable& read_variable, const char* name) {
  const char* value = read_variable(name);
  return value != nullptr && *value != '\0';
}

}  // namespace

ProgressStyle progress_style(const GlobalOptions& globals,
                             bool is_terminal,
                             const ReadVariable& read_variable) {
  if (globals.progress == ProgressMode::kNever) return ProgressStyle::kOff;
  if (globals.progress == ProgressMode::kAlways) return ProgressStyle::kLive;
  if (globals.quiet) return ProgressStyle::kOff;
  const char* terminal = read_variable("TERM");
  const bool dumb = terminal != nullptr && std::string_view(terminal) == "dumb";
  const bool live = is_terminal && !dumb && !is_set(read_variable, "CI");
  return live ? ProgressStyle::kLive : ProgressStyle::kLines;
}

Progress::Progress(const GlobalOptions& globals)
    : Progress(progress_style(globals, stderr_is_terminal(), &std::getenv), stderr) {}

void Progress::begin(std::size_t position, std::size_t total, const std::string& name) {
  clear();
  prefix_ = total == 0 ? "" : fmt::format("[{}/{}] ", position, total);
  prefix_ += escape_name(name);
  phase_.clear();
  expected_ = std::max(expected_, operators_);
  operators_ = 0;
  started_ = Clock::now();
  // In a log the first line is that of the end; on a terminal there is something at once.
  shown_ = style_ == ProgressStyle::kLive ? Clock::time_point{} : started_;
}

void Progress::update(const RecorderProgress& progress) {
  if (style_ == ProgressStyle::kOff) return;
  const bool new_phase = progress.phase != phase_;
  phase_ = progress.phase;
  operators_ = std::max(operators_, progress.operators);
  std::string text = line(phase_.empty() ? "starting" : escape_name(phase_),
                          progress.operators == 0 ? "" : fmt::format("op {}", progress.operators),
                          progress.bytes,
                          rate_text(progress.bytes, seconds(), format_bytes));
  if (expected_ != 0) {
    text += left_text(static_cast<double>(progress.operators) / static_cast<double>(expected_),
                      seconds());
  }
  show(text, new_phase && style_ == ProgressStyle::kLive);
}

void Progress::end(const std::optional<RecorderTotals>& totals) {
  if (style_ != ProgressStyle::kLines) return;
  const std::uint64_t operators = totals ? totals->operators : operators_;
  std::string counted = operators == 0 ? "" : format_count(operators, "operator");
  if (totals && totals->block_calls > 0) {
    counted = format_count(totals->block_calls, "call") + " of blocks";
  }
  show(line(totals ? "done" : "failed", counted, totals ? totals->bytes : 0, ""), true);
}

void Progress::share(const std::string& phase,
                     std::uint64_t done,
                     std::uint64_t total,
                     std::string (*amount)(std::uint64_t)) {
  if (style_ == ProgressStyle::kOff) return;
  constexpr double kColumns = 20;
  const double part =
      total == 0 ? 1.0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const auto filled = static_cast<std::size_t>(part * kColumns);
  const bool new_phase = phase != phase_;
  if (new_phase && !phase_.empty()) started_ = Clock::now();
  phase_ = phase;
  const std::string left = left_text(part, seconds());
  show(fmt::format("{}{}  [{:<20}] {} of {}{}{}",
                   prefix_.empty() ? "" : prefix_ + "  ",
                   phase,
                   std::string(filled, '#'),
                   amount(done),
                   amount(total),
                   rate_text(done, seconds(), amount),
                   left.empty() ? fmt::format("  {:.0f} s", seconds()) : left),
       new_phase && style_ == ProgressStyle::kLive);  // a log is told only when it takes long
}

void Progress::stage(const std::string& name) {
  if (style_ == ProgressStyle::kOff) return;
  clear();
  show(name, style_ == ProgressStyle::kLive);
}

double Progress::seconds() const {
  return std::chrono::duration<double>(Clock::now() - started_).count();
}

std::string Progress::line(const std::string& phase,
                           const std::string& operators,
                           std::uint64_t bytes,
                           const std::string& rate) const {
  std::string text = prefix_ + "  " + phase;
  if (!operators.empty()) text += "  " + operators;
  if (bytes > 0) text += "  " + format_bytes(bytes) + rate;
  return text + fmt::format("  {:.0f} s", seconds());
}

void Progress::show(const std::string& text, bool force) {
  const Clock::time_point now = Clock::now();
  if (style_ == ProgressStyle::kLive) {
    if (!force && now - shown_ < kLiveInterval) return;
    std::fputs(("\r\x1b[K" + fit(text, kLiveColumns)).c_str(), stream_);
    dirty_ = true;
  } else {
    if (!force && now - shown_ < kHeartbeat) return;
    std::fputs((text + "\n").c_str(), stream_);
  }
  std::fflush(stream_);
  shown_ = now;
}

void Progress::clear() {
  if (!dirty_) return;
  std::fputs("\r\x1b[K", stream_);
  std::fflush(stream_);
  dirty_ = false;
}

std::function<void(const comparators::CompareProgress&)> comparison_on(Progress& progress) {
  using Phase = comparators::ComparePhase;
  if (progress.is_off()) return nullptr;
  return [&progress](const comparators::CompareProgress& state) {
    std::string (*amount)(std::uint64_t) = &format_count;
    if (state.phase == Phase::kVerifying) amount = &format_bytes;
    const char* name = state.phase == Phase::kVerifying   ? "verifying"
                       : state.phase == Phase::kComparing ? "comparing"
                                                          : "aligning";
    progress.share(name, state.done, state.total, amount);
  };
}

store::PackProgress packing_on(Progress& progress) {
  using Phase = store::PackPhase;
  if (progress.is_off()) return nullptr;
  return [&progress](Phase phase, std::uint64_t done, std::uint64_t total) {
    progress.share(phase == Phase::kVerifying ? "verifying"
                   : phase == Phase::kPacking ? "packing"
                                              : "unpacking",
                   done,
                   total,
                   &format_bytes);
  };
}

}  // namespace repro_check::cmd
