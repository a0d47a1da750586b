// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/growth_notice.h"

#include <fmt/format.h>
#include <pthread.h>

#include <chrono>
#include <csignal>
#include <utility>

#include "cmd/recording/space.h"
#include "cmd/render/text.h"
#include "cmd/terminal/logging.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kNext = 10;
constexpr std::chrono::seconds kPause{2};

/// The rate of a recording in progress, and what that makes in an hour.
/// @param bytes  that it holds after so many `seconds`
std::string growth_text(std::uint64_t bytes, double seconds) {
  constexpr double kHour = 3600;
  return fmt::format(
      "the recording has {} after {:.0f} s, which makes {} in an hour; {}",
      format_bytes(bytes),
      seconds,
      format_bytes(static_cast<std::uint64_t>(static_cast<double>(bytes) / seconds * kHour)),
      smaller_text());
}

}  // namespace

std::string smaller_text() {
  return "--level digest keeps the least of a tensor; --steps, --module, --phase and --first-ops "
         "record a part of the program";
}

GrowthNotice::GrowthNotice(fs::path folder) : folder_(std::move(folder)) {
  // Signals are for the thread that waits for the program: this one is born with all of them shut.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  watcher_ = std::thread([this] { watch(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

GrowthNotice::~GrowthNotice() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  ended_.notify_one();
  watcher_.join();
}

void GrowthNotice::watch() {
  const auto begin = std::chrono::steady_clock::now();
  std::uint64_t next = kLargeRecording;
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, kPause, [this] { return is_over_; })) {
    // Files come and go meanwhile: where one cannot be asked, the next look tells.
    const std::uint64_t bytes = dump_size(folder_).value_or(0);
    if (bytes < next) continue;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    log_info(growth_text(bytes, passed.count()));
    while (next <= bytes) next *= kNext;
  }
}

}  // namespace repro_check::cmd
