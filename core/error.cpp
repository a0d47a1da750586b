// SPDX-License-Identifier: Apache-2.0
#include "core/error.h"

#include <array>
#include <cstddef>
#include <utility>

namespace repro_check::core {
namespace {

constexpr std::array<std::string_view, 10> kKindNames{"usage",
                                                      "dump_incomplete",
                                                      "dump_damaged",
                                                      "dump_unknown",
                                                      "not_comparable",
                                                      "unsupported_dtype",
                                                      "run_failed",
                                                      "io",
                                                      "interrupted",
                                                      "internal"};

}  // namespace

Error::Error(ErrorKind kind, const std::string& message, std::string hint)
    : std::runtime_error(message), kind_(kind), hint_(std::move(hint)) {}

ExitCode exit_code_for(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::kUsage:
      return ExitCode::kUsage;
    case ErrorKind::kDumpIncomplete:
    case ErrorKind::kDumpDamaged:
    case ErrorKind::kDumpUnknown:
      return ExitCode::kDumpUnusable;
    case ErrorKind::kNotComparable:
    case ErrorKind::kUnsupportedDtype:
      return ExitCode::kNotComparable;
    case ErrorKind::kRunFailed:
    case ErrorKind::kIo:
      return ExitCode::kRunFailed;
    case ErrorKind::kInterrupted:
      return ExitCode::kInterrupted;
    case ErrorKind::kInternal:
      return ExitCode::kInternal;
  }
  return ExitCode::kInternal;
}

std::string_view error_kind_name(ErrorKind kind) noexcept {
  return kKindNames[static_cast<std::size_t>(kind)];
}

ErrorKind parse_error_kind(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kKindNames.size(); ++i) {
    if (kKindNames[i] == name) return static_cast<ErrorKind>(i);
  }
  return ErrorKind::kInternal;
}

}  // namespace repro_check::core
