// SPDX-License-Identifier: Apache-2.0
#include "core/error.h"

#include <doctest/doctest.h>

#include <set>
#include <string>

namespace repro_check::core {
namespace {

constexpr ErrorKind kAll[] = {ErrorKind::kUsage,
                              ErrorKind::kDumpIncomplete,
                              ErrorKind::kDumpDamaged,
                              ErrorKind::kDumpUnknown,
                              ErrorKind::kNotComparable,
                              ErrorKind::kUnsupportedDtype,
                              ErrorKind::kRunFailed,
                              ErrorKind::kIo,
                              ErrorKind::kInterrupted,
                              ErrorKind::kInternal};

TEST_CASE("kinds have names that read back; a name nobody knows is a defect") {
  std::set<std::string> names;
  for (const ErrorKind kind : kAll) {
    CHECK(names.insert(std::string(error_kind_name(kind))).second);
    CHECK(parse_error_kind(error_kind_name(kind)) == kind);
  }
  CHECK(parse_error_kind("whatever") == ErrorKind::kInternal);
}

TEST_CASE("exit codes are those of the documented table, and no failure exits 0") {
  CHECK(exit_code_for(ErrorKind::kUsage) == ExitCode::kUsage);
  CHECK(exit_code_for(ErrorKind::kDumpIncomplete) == ExitCode::kDumpUnusable);
  CHECK(exit_code_for(ErrorKind::kDumpDamaged) == ExitCode::kDumpUnusable);
  CHECK(exit_code_for(ErrorKind::kDumpUnknown) == ExitCode::kDumpUnusable);
  CHECK(exit_code_for(ErrorKind::kNotComparable) == ExitCode::kNotComparable);
  CHECK(exit_code_for(ErrorKind::kUnsupportedDtype) == ExitCode::kNotComparable);
  CHECK(exit_code_for(ErrorKind::kRunFailed) == ExitCode::kRunFailed);
  CHECK(exit_code_for(ErrorKind::kIo) == ExitCode::kRunFailed);
  CHECK(exit_code_for(ErrorKind::kInterrupted) == ExitCode::kInterrupted);
  CHECK(exit_code_for(ErrorKind::kInternal) == ExitCode::kInternal);
  for (const ErrorKind kind : kAll) CHECK(exit_code_for(kind) != ExitCode::kReproducible);
}

TEST_CASE("an error carries message and hint") {
  const Error error(ErrorKind::kIo, "disk full", "make room");
  CHECK(std::string(error.what()) == "disk full");
  CHECK(error.hint() == "make room");
  CHECK(error.kind() == ErrorKind::kIo);
}

}  // namespace
}  // namespace repro_check::core
