// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>

#include "cmd/recording/recorder_messages.h"
#include "core/system/file_descriptor.h"

namespace repro_check::recorder {

/// What a recorder says to whoever started it: a message a line, each in one write, so that lines
/// of two threads never mix. A reader that went away is no error: the run goes on.
class StatusChannel {
 public:
  /// @param descriptor  borrowed
  explicit StatusChannel(int descriptor) noexcept : descriptor_(descriptor) {}

  void say(const cmd::RecorderMessage& message) {
    const std::lock_guard lock(mutex_);
    static_cast<void>(core::write_all(descriptor_, to_line(message)));
  }

 private:
  int descriptor_;
  std::mutex mutex_;
};

}  // namespace repro_check::recorder
