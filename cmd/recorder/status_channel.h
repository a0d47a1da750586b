// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/digest/digest.h"
#include "core/error.h"
#include "dumpers/torchscript/torchscript_run.h"

namespace repro_check::recorder {

/// What a recorder says to whoever started it: one JSON object a line, each in one write, so that
/// lines of two threads never mix. A reader that went away is no error: the run goes on.
///   {"type":"phase","name":"loading"}                   loading | recording | finishing
///   {"type":"progress","operators":N,"bytes":N}
///   {"type":"done","operators":N,"tensors":N,"bytes":N,"seconds":S,"dump":D}
///                                                       D the digest of the manifest, or null
///   {"type":"output","name":N,"what":W,"digest":D}      a line a returned value, if asked for
///   {"type":"error","kind":K,"message":M,"hint":H}      K as core::error_kind_name has it
class StatusChannel {
 public:
  /// @param descriptor  borrowed
  explicit StatusChannel(int descriptor) noexcept : descriptor_(descriptor) {}

  void phase(const std::string& name);
  void progress(std::uint64_t operators, std::uint64_t bytes);
  void done(std::uint64_t operators,
            std::uint64_t tensors,
            std::uint64_t bytes,
            double seconds,
            const std::optional<core::Digest>& dump);
  void outputs(const std::vector<torchscript::ReturnedValue>& values);
  void error(const core::Error& error);

 private:
  void write_line(const std::string& line);

  int descriptor_;
  std::mutex mutex_;
};

}  // namespace repro_check::recorder
