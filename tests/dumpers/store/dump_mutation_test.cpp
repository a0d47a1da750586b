// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>
#include <random>
#include <string>

#include "core/error.h"
#include "dumpers/store/dump_reader.h"
#include "tests/dumpers/store/mutate.h"
#include "tests/dumpers/store/relay.h"
#include "tests/dumpers/store/sample_dump.h"
#include "tests/support/fuzz_budget.h"
#include "tests/support/temp_directory.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;

/// Mutates the files of a dump of `sample`, one mutation after the other.
void mutate_dump(const fs::path& dump,
                 const test_support::Sample& sample,
                 test_support::FuzzBudget& budget) {
  std::mt19937_64& random = budget.random();
  int refused = 0;
  int unharmed = 0;
  while (budget.next()) {
    const std::uint64_t trial = budget.done();
    const fs::path file = dump / (trial % 4 == 3 ? "manifest.json" : "trace.h5");
    const std::string clean = test_support::read_bytes(file);
    // Half of the trace's mutations go where its structure is: the tensors take most of the bytes.
    std::string changed = clean;
    if (trial % 4 < 2 && clean.size() > 4096) {
      const std::size_t tail = clean.size() - std::min<std::size_t>(clean.size(), 60'000);
      changed = clean.substr(0, tail) + test_support::mutate(clean.substr(tail), random);
    } else {
      changed = test_support::mutate(clean, random);
    }
    test_support::write_bytes(file, changed);
    CAPTURE(trial);
    try {
      const auto opened = open_dump(dump);
      const bool same = test_support::reads_back(*opened, sample);
      CHECK(same);
      ++unharmed;
    } catch (const core::Error& error) {
      INFO(error.what());
      CHECK((error.kind() == core::ErrorKind::kDumpDamaged ||
             error.kind() == core::ErrorKind::kDumpUnknown));
      ++refused;
    }
    test_support::write_bytes(file, clean);
  }
  MESSAGE("refused ", refused, ", unharmed ", unharmed);
  CHECK(std::uint64_t(refused) > budget.done() / 2);
  CHECK(test_support::reads_back(*open_dump(dump), sample));
}

TEST_CASE("a dump with any mutation is refused, or reads as if nothing had happened") {
  const test_support::TempDirectory directory;
  const fs::path dump = directory / "dump";
  const auto sample = test_support::make_sample(8, 10);
  test_support::write_dump(dump, sample);
  test_support::FuzzBudget budget("dump", 4242, 600);
  mutate_dump(dump, sample, budget);
}

TEST_CASE("a dump in chunks, or big-endian, with any mutation is refused, or reads as before") {
  const test_support::TempDirectory directory;
  const fs::path dump = directory / "dump";
  const auto sample = test_support::make_sample(8, 10);
  test_support::write_dump(dump, sample);
  test_support::relay(dump, {H5D_CHUNKED, H5T_ORDER_BE});
  test_support::FuzzBudget budget("dump in chunks", 4243, 300);
  mutate_dump(dump, sample, budget);
}

}  // namespace
}  // namespace repro_check::store
