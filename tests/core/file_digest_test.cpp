// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <fstream>
#include <span>
#include <string>

#include "core/digest/digest.h"
#include "core/error.h"
#include "tests/support/temp_directory.h"

namespace repro_check::core {
namespace {

TEST_CASE("a file is digested as its bytes are") {
  const test_support::TempDirectory folder;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{5}, kDigestChunk, 2 * kDigestChunk + 1}) {
    CAPTURE(size);
    const std::string text(size, 'a');
    std::ofstream(folder / "f", std::ios::binary | std::ios::trunc) << text;
    CHECK(digest_file(folder / "f") == digest_bytes(std::as_bytes(std::span<const char>(text))));
  }
  CHECK_THROWS_AS(digest_file(folder / "none"), Error);
}

}  // namespace
}  // namespace repro_check::core
