// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <filesystem>
#include <random>
#include <string>

#include "core/error.h"
#include "dumpers/store/dump_reader.h"
#include "tests/dumpers/store/sample_dump.h"
#include "tests/support/temp_directory.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;

/// One of the ways in which files go bad.
std::string mutate(std::string bytes, std::mt19937_64& random) {
  const std::size_t at = random() % bytes.size();
  const std::size_t length = std::min<std::size_t>(bytes.size() - at, 1 + random() % 64);
  switch (random() % 6) {
    case 0:  // a flipped bit
    case 1:
      bytes[at] = static_cast<char>(bytes[at] ^ static_cast<char>(1U << (random() % 8)));
      break;
    case 2:  // a byte of another value
      bytes[at] = static_cast<char>(random() % 2 == 0 ? 0xff : random());
      break;
    case 3:  // a lost stretch, zeroed as a hole would be
      bytes.replace(at, length, length, '\0');
      break;
    case 4:  // a stretch from elsewhere
      bytes.replace(at, length, bytes.substr(random() % bytes.size(), length));
      break;
    default:
      bytes.resize(at);
      break;
  }
  return bytes;
}

TEST_CASE("a dump with any mutation is refused, or reads as if nothing had happened") {
  const test_support::TempDirectory directory;
  const fs::path dump = directory / "dump";
  auto sample = test_support::make_sample(8, 10);
  test_support::write_dump(dump, sample);
  std::mt19937_64 random(4242);
  int refused = 0;
  int unharmed = 0;
  for (int trial = 0; trial < 600; ++trial) {
    const fs::path file = dump / (trial % 4 == 3 ? "manifest.json" : "trace.h5");
    const std::string clean = test_support::read_bytes(file);
    // Half of the trace's mutations go where its structure is: the tensors take most of the bytes.
    std::string changed = clean;
    if (trial % 4 < 2 && clean.size() > 4096) {
      const std::size_t tail = clean.size() - std::min<std::size_t>(clean.size(), 60'000);
      changed = clean.substr(0, tail) + mutate(clean.substr(tail), random);
    } else {
      changed = mutate(clean, random);
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
  CHECK(refused > 300);
  CHECK(test_support::reads_back(*open_dump(dump), sample));
}

}  // namespace
}  // namespace repro_check::store
