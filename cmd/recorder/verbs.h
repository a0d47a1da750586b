// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <mutex>
#include <string>

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

/// Records the one run that the request file describes. Nothing is written before the model is
/// loaded and its inputs are made; what fails afterwards leaves an incomplete dump that says why.
/// @throws core::Error
void record(const std::filesystem::path& request_file, StatusChannel& status);

/// Answers to what can be asked of a recorder, each one line of JSON.

/// {"method", "methods": [...], "arguments": [{"name","type","has_default","default_value"}],
/// "dtype"}, see torchscript::ModelDescription; of a tensor whose first layer is known an argument
/// has "layer", "dtype", "shape" and "rows" too
std::string describe(const std::filesystem::path& model, const std::string& method);

/// Which tensors two versions of a model file hold with other bits:
/// {"names": [...], "different": [{"names": [...], "what", "elements", "differing"}], "obstacle",
/// "mend"}, see torchscript::WeightVersions
std::string weights(const std::filesystem::path& first, const std::filesystem::path& second);

/// {"settings": [{"name","value"}], "environment": [{"name","value"}]}
std::string environment();

/// {"tool","libtorch","hdf5","dump_format"}
std::string version();

/// Executes one recorded operator again, as the request file says, under the settings of the dump's
/// manifest. Both, and the answer, are as cmd/replay/replay_message.h has them.
/// @throws core::Error
std::string replay(const std::filesystem::path& request_file);

}  // namespace repro_check::recorder
