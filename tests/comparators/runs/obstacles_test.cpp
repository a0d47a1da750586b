// SPDX-License-Identifier: Apache-2.0
#include "comparators/runs/obstacles.h"

#include <doctest/doctest.h>

#include <optional>

#include "tests/comparators/said.h"

namespace repro_check::comparators::obstacles_test {
namespace {

using core::ProgramEnd;
using core::RunManifest;

ProgramEnd code(std::uint64_t number) {
  ProgramEnd end;
  end.exit_code = number;
  return end;
}

ProgramEnd killed() {
  ProgramEnd end;
  end.signal = "SIGKILL";
  return end;
}

ProgramEnd raised(std::uint64_t exit_code, std::string thread = {}) {
  ProgramEnd end = code(exit_code);
  end.exception = core::RaisedException{"ValueError", "train.py", 7, {1, 2}, std::move(thread)};
  return end;
}

RunManifest program(std::optional<ProgramEnd> end) {
  RunManifest manifest;
  manifest.model_method = core::kProgramMethod;
  manifest.end = std::move(end);
  return manifest;
}

struct Found {
  std::size_t reasons = 0;
  std::size_t notes = 0;
  bool operator==(const Found&) const = default;
};

Found found(const std::optional<ProgramEnd>& baseline, const std::optional<ProgramEnd>& candidate) {
  const Obstacles obstacles = obstacles_of(program(baseline), program(candidate));
  for (const Phrase& reason : obstacles.reasons) CHECK_FALSE(cmd::fix_of(reason).empty());
  return {obstacles.reasons.size(), obstacles.notes.size()};
}

TEST_CASE("programs that ended alike, and that nothing cut short, can be a pass") {
  CHECK(found(code(0), code(0)) == Found{0, 0});
  CHECK(found(code(3), code(3)) == Found{0, 0});
  CHECK(found(ProgramEnd{}, ProgramEnd{}) == Found{0, 0});
  CHECK(found(ProgramEnd{}, code(0)) == Found{0, 0});
}

TEST_CASE("another end, an exception and a signal are obstacles") {
  CHECK(found(code(0), code(3)) == Found{1, 0});
  CHECK(found(code(0), killed()) == Found{1, 0});
  CHECK(found(raised(1), raised(1)) == Found{1, 0});
  CHECK(found(raised(0, "Thread-1"), raised(0, "Thread-1")) == Found{1, 0});
  CHECK(found(code(1), raised(1)) == Found{1, 0});
  CHECK(found(killed(), killed()) == Found{1, 0});
  CHECK(found(ProgramEnd{}, code(3)) == Found{1, 0});
  const Obstacles both = obstacles_of(program(raised(1)), program(raised(1)));
  CHECK(said(both.reasons.front()).find("ValueError at train.py:7") != std::string::npos);
}

TEST_CASE("of a dump that does not say how its program ended there is a note") {
  CHECK(found({}, {}) == Found{0, 2});
  CHECK(found({}, code(0)) == Found{0, 1});
  CHECK(found({}, code(3)) == Found{1, 1});
  CHECK(found(raised(1), {}) == Found{1, 1});
  CHECK(obstacles_of({}, {}).notes.empty());  // no programs
}

TEST_CASE("a hook of the recorder that failed is an obstacle") {
  RunManifest manifest = program(code(0));
  manifest.notes = {{"at_step", "ValueError: no name", 3}};
  const Obstacles obstacles = obstacles_of(program(code(0)), manifest);
  REQUIRE(obstacles.reasons.size() == 1);
  CHECK(said(obstacles.reasons.front()).find("candidate") != std::string::npos);
  CHECK(said(obstacles.reasons.front()).find("at_step failed 3 times") != std::string::npos);
  CHECK(obstacles_of(manifest, manifest).reasons.size() == 2);
}

}  // namespace
}  // namespace repro_check::comparators::obstacles_test
