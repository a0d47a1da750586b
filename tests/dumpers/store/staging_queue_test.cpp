// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/tensor/content.h"
#include "dumpers/store/contents/content_writer.h"
#include "tests/dumpers/store/error_of.h"
#include "tests/support/files.h"
#include "tests/support/temp_directory.h"

namespace repro_check::store {
namespace {

/// The least that one buffer may have.
constexpr std::size_t kBuffer = std::size_t{4} << 20U;

using core::ErrorKind;
using test_support::contains;
using test_support::error_of;
using test_support::TempDirectory;

std::vector<std::byte> random_bytes(std::size_t size, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_CASE("what lies next to the bytes written stays as it is") {
  const TempDirectory directory;
  const auto path = directory / "file";
  const std::string before(7 * kDirectBlock, 'x');
  for (const std::size_t size :
       {std::size_t{1}, kDirectBlock - 1, kDirectBlock, kDirectBlock + 1, 3 * kDirectBlock + 17}) {
    test_support::write_file(path, before);
    const auto bytes = random_bytes(size, size);
    {
      DirectFile file(path);
      StagingQueue queue(file, 0);
      queue.put(2 * kDirectBlock, core::SpanBytes(bytes));
      queue.drain();
    }
    std::string expected = before;
    expected.replace(2 * kDirectBlock, size, text_of(bytes));
    CHECK(test_support::read_file(path) == expected);
  }
}

TEST_CASE("pieces of any size and place arrive, with no more memory than was given") {
  const TempDirectory directory;
  const auto path = directory / "file";
  test_support::write_file(path, "");
  constexpr std::size_t kMemory = 2 * kBuffer;
  std::mt19937_64 random(5);
  std::string expected;
  {
    DirectFile file(path);
    StagingQueue queue(file, kMemory);
    for (int i = 0; i < 40; ++i) {
      const auto bytes = random_bytes(random() % (std::size_t{3} << 20U), random());
      // On a block or beside it: an offset that is not aligned is only slower.
      expected.resize((expected.size() / kDirectBlock + 1) * kDirectBlock + (i % 5 == 0 ? 512 : 0));
      queue.put(expected.size(), core::SpanBytes(bytes));
      expected += text_of(bytes);
      CHECK(queue.memory() <= kMemory);
    }
    // Its destructor writes what is left.
  }
  CHECK(test_support::read_file(path) == expected);
}

TEST_CASE("a write that fails is told to whoever comes next, and nobody waits for ever") {
  if (!std::filesystem::exists("/dev/full")) return;
  DirectFile file("/dev/full");
  StagingQueue queue(file, 0);
  const auto bytes = random_bytes(5 * kBuffer, 1);
  const auto put_often = [&] {
    for (int i = 0; i < 10; ++i) queue.put(0, core::SpanBytes(bytes));
  };
  CHECK(contains(error_of(ErrorKind::kIo, put_often), "/dev/full: cannot write a tensor"));
  CHECK(contains(error_of(ErrorKind::kIo, [&] { queue.drain(); }), "free space"));
  error_of(ErrorKind::kIo, [&] { queue.check(); });
  error_of(ErrorKind::kIo, put_often);
}

TEST_CASE("signals go to other threads than the one that writes") {
  const TempDirectory directory;
  const auto path = directory / "file";
  test_support::write_file(path, "");
  static volatile std::sig_atomic_t by_main = 0;
  static pthread_t main_thread;
  main_thread = pthread_self();
  struct sigaction action {};
  struct sigaction previous {};
  action.sa_handler = [](int) {
    by_main = pthread_equal(pthread_self(), main_thread) != 0 ? 1 : -1;
  };
  REQUIRE(::sigaction(SIGUSR1, &action, &previous) == 0);
  {
    DirectFile file(path);
    StagingQueue queue(file, 0);
    ::kill(::getpid(), SIGUSR1);
    const auto bytes = random_bytes(100, 1);
    queue.put(0, core::SpanBytes(bytes));
    queue.drain();
  }
  ::sigaction(SIGUSR1, &previous, nullptr);
  CHECK(by_main == 1);
}

TEST_CASE("a file that is not there is named") {
  CHECK(contains(error_of(ErrorKind::kIo, [] { const DirectFile file("/no/such/file"); }),
                 "/no/such/file: cannot open"));
}

}  // namespace
}  // namespace repro_check::store
