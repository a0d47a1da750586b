// SPDX-License-Identifier: Apache-2.0
#include "core/error.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace repro_check::core {
namespace {

struct KindFacts {
  std::string_view name;
  ExitCode exit_code;
};

/// In the order of ErrorKind.
constexpr std::array<KindFacts, 10> kKinds{{{"usage", ExitCode::kUsage},
                                            {"dump_incomplete", ExitCode::kDumpUnusable},
                                            {"dump_damaged", ExitCode::kDumpUnusable},
                                            {"dump_unknown", ExitCode::kDumpUnusable},
                                            {"not_comparable", ExitCode::kNotComparable},
                                            {"unsupported_dtype", ExitCode::kNotComparable},
                                            {"run_failed", ExitCode::kRunFailed},
                                            {"io", ExitCode::kRunFailed},
                                            {"interrupted", ExitCode::kInterrupted},
                                            {"internal", ExitCode::kInternal}}};

}  // namespace

Error::Error(ErrorKind kind, const std::string& message, std::string hint)
    : std::runtime_error(message), kind_(kind), hint_(std::move(hint)) {}

ExitCode exit_code_for(ErrorKind kind) noexcept {
  return kKinds[static_cast<std::size_t>(kind)].exit_code;
}

std::string_view error_kind_name(ErrorKind kind) noexcept {
  return kKinds[static_cast<std::size_t>(kind)].name;
}

ErrorKind parse_error_kind(std::string_view name) noexcept {
  const auto found = std::ranges::find(kKinds, name, &KindFacts::name);
  return found == kKinds.end() ? ErrorKind::kInternal
                               : static_cast<ErrorKind>(found - kKinds.begin());
}

}  // namespace repro_check::core
