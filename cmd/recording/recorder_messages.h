// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "core/digest/digest.h"
#include "core/error.h"

namespace repro_check::cmd {

/// What a recorder says while it records, to whoever started it: one JSON object a line.

/// {"type":"phase","name":"loading"}
struct RecorderPhase {
  std::string name;  ///< loading | recording | finishing
};

/// {"type":"progress","operators":N,"bytes":N}
struct RecorderCounts {
  std::uint64_t operators = 0;
  std::uint64_t bytes = 0;
};

/// {"type":"done","operators":N,"tensors":N,"bytes":N,"seconds":S,"dump":D}
struct RecorderTotals {
  std::uint64_t operators = 0;
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;
  std::optional<core::Digest> dump;  ///< of the manifest; null where nothing was recorded
  std::uint64_t block_calls = 0;     ///< in place of operators; no recorder process tells it
};

/// A tensor or another value inside what the method returned, if the request asks for them:
/// {"type":"output","name":N,"what":W,"digest":D}
struct RecorderOutput {
  std::string name;
  std::string what;    ///< dtype, shape and strides
  std::string digest;  ///< hexadecimal
  bool operator==(const RecorderOutput&) const = default;
};

/// {"type":"error","kind":K,"message":M,"hint":H}
struct RecorderFailure {
  core::ErrorKind kind = core::ErrorKind::kRunFailed;  ///< as core::error_kind_name has it
  std::string message;
  std::string hint;
};

using RecorderMessage =
    std::variant<RecorderPhase, RecorderCounts, RecorderTotals, RecorderOutput, RecorderFailure>;

std::string to_line(const RecorderMessage& message);

/// Empty for a line that nobody understands: a newer recorder may say more than we know.
std::optional<RecorderMessage> parse_message(const std::string& line);

}  // namespace repro_check::cmd
