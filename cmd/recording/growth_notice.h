// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

#include "core/system/pinned.h"

namespace repro_check::cmd {

/// From here on a recording is large, and a user is told what makes it smaller.
constexpr std::uint64_t kLargeRecording = std::uint64_t{64} << 20U;

/// What makes a recording of a program smaller.
std::string smaller_text();

/// Says how fast a recording grows, when it has come to kLargeRecording and at each tenfold of
/// that. Nobody knows how long a program goes on, so that a rate takes the place of a size.
class GrowthNotice : core::Pinned {
 public:
  /// @param folder  that holds the recording, at any depth
  explicit GrowthNotice(std::filesystem::path folder);
  ~GrowthNotice();

 private:
  void watch();

  std::filesystem::path folder_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_over_ = false;
  std::thread watcher_;
};

}  // namespace repro_check::cmd
