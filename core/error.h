// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace repro_check::core {

/// What a process of ours ends with. When several hold, kRunFailed > kDumpUnusable > kDivergence >
/// kNotComparable > kReproducible; kUsage is decided before any dump is opened.
enum class ExitCode : int {
  kReproducible = 0,
  kDivergence = 1,
  kUsage = 2,
  kDumpUnusable = 3,
  kNotComparable = 4,
  kRunFailed = 5,
  kInternal = 70,
  kInterrupted = 130,
};

enum class ErrorKind {
  kUsage,             ///< a command line or configuration that cannot be carried out
  kDumpIncomplete,    ///< a recording that never finished
  kDumpDamaged,       ///< bytes do not match their digest, or a structure does not hold together
  kDumpUnknown,       ///< not a dump, or one of a newer format
  kNotComparable,     ///< two dumps that cannot be judged against each other
  kUnsupportedDtype,  ///< a dtype an operation has no meaning for
  kRunFailed,         ///< the model, or recording it, failed
  kIo,                ///< the operating system refused: disk full, no permission
  kInterrupted,       ///< SIGINT or SIGTERM
  kInternal,          ///< a defect of ours
};

/// The one exception of the project. Whatever a library throws is turned into this in the file that
/// touches the library. Caught once, in cmd/main.cpp; the recorder's main catches it likewise.
class Error : public std::runtime_error {
 public:
  /// @param message  what is wrong and where: a path, a JSON pointer, an op index
  /// @param hint     how to mend it; may be empty
  Error(ErrorKind kind, const std::string& message, std::string hint = {});

  [[nodiscard]] ErrorKind kind() const noexcept { return kind_; }
  [[nodiscard]] const std::string& hint() const noexcept { return hint_; }

 private:
  ErrorKind kind_;
  std::string hint_;
};

/// Makes an error of one kind, to be thrown.
template <ErrorKind kKind>
struct ErrorOf {
  Error operator()(const std::string& message, std::string hint = {}) const {
    return {kKind, message, std::move(hint)};
  }
};

// NOLINTBEGIN(readability-identifier-naming): they are called as functions are
inline constexpr ErrorOf<ErrorKind::kUsage> usage_error;
inline constexpr ErrorOf<ErrorKind::kDumpIncomplete> incomplete_dump;
inline constexpr ErrorOf<ErrorKind::kDumpDamaged> damaged_dump;
inline constexpr ErrorOf<ErrorKind::kDumpUnknown> unknown_dump;
inline constexpr ErrorOf<ErrorKind::kNotComparable> not_comparable;
inline constexpr ErrorOf<ErrorKind::kRunFailed> run_failed;
inline constexpr ErrorOf<ErrorKind::kIo> io_error;
inline constexpr ErrorOf<ErrorKind::kInternal> internal_error;
// NOLINTEND(readability-identifier-naming)

ExitCode exit_code_for(ErrorKind kind) noexcept;

/// "usage", "dump_incomplete", ...: how a recorder tells its caller what went wrong.
std::string_view error_kind_name(ErrorKind kind) noexcept;
/// The inverse; kInternal for a name nobody knows.
ErrorKind parse_error_kind(std::string_view name) noexcept;

}  // namespace repro_check::core
