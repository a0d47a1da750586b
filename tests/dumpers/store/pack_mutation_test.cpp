// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>
#include <random>
#include <string>

#include "core/error.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/pack.h"
#include "tests/dumpers/store/hand_made_pack.h"
#include "tests/dumpers/store/mutate.h"
#include "tests/dumpers/store/sample_dump.h"
#include "tests/support/fuzz_budget.h"
#include "tests/support/temp_directory.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBlock = 512;  ///< of tar

TEST_CASE("a pack with any mutation is refused, or reads as if nothing had happened") {
  const test_support::TempDirectory directory;
  const fs::path pack = directory / "dump.tar.zst";
  const auto sample = test_support::make_sample(8, 10);
  test_support::write_dump(directory / "dump", sample);
  pack_dump(directory / "dump", pack, {});
  const std::string clean = test_support::read_bytes(pack);
  const std::string tar = test_support::zstd_content(clean);
  test_support::write_bytes(pack, test_support::zstd_frame(tar));
  REQUIRE(test_support::reads_back(*open_dump(pack), sample));
  test_support::FuzzBudget budget("pack", 4243, 300);
  std::mt19937_64& random = budget.random();
  int refused = 0;
  while (budget.next()) {
    const std::uint64_t trial = budget.done();
    // Behind zstd's checksum nothing of what is inside would ever be reached.
    std::string changed = trial % 3 == 0 ? test_support::mutate(clean, random) : tar;
    if (trial % 3 == 1) changed = test_support::mutate(tar, random);
    if (trial % 3 == 2) {
      const std::size_t at = random() % 2 == 0 ? 0 : tar.find("/trace.h5") / kBlock * kBlock;
      std::string header = test_support::mutate(tar.substr(at, kBlock), random);
      header.resize(kBlock);
      changed.replace(at, kBlock, test_support::signed_tar_header(header));
    }
    test_support::write_bytes(pack, trial % 3 == 0 ? changed : test_support::zstd_frame(changed));
    CAPTURE(trial);
    try {
      const auto opened = open_dump(pack);
      const bool same = test_support::reads_back(*opened, sample);
      CHECK(same);
    } catch (const core::Error& error) {
      INFO(error.what());
      CHECK((error.kind() == core::ErrorKind::kDumpDamaged ||
             error.kind() == core::ErrorKind::kDumpUnknown));
      ++refused;
    }
  }
  MESSAGE("refused ", refused, " of ", budget.done());
  CHECK(std::uint64_t(refused) > budget.done() / 3);
  CHECK(std::uint64_t(refused) < budget.done());
}

}  // namespace
}  // namespace repro_check::store
