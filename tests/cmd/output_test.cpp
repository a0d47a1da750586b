// SPDX-License-Identifier: Apache-2.0
#include "cmd/terminal/output.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "core/error.h"
#include "tests/cmd/scripts.h"

namespace repro_check::cmd {
namespace {

std::vector<std::string> entries(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

}  // namespace

TEST_CASE("a file is replaced whole, and nothing is left beside it") {
  const TempDirectory folder;
  const std::filesystem::path file = folder / "report.txt";
  write_file(file, "old and long\n");
  write_file(file, "new\n");
  CHECK(read_file(file) == "new\n");
  CHECK(entries(folder.path()) == std::vector<std::string>{"report.txt"});
}

TEST_CASE("a document that is made while it is written is there whole or not at all") {
  const TempDirectory folder;
  const std::filesystem::path file = folder / "long.txt";
  write_pieces(file, [](const TextSink& sink) {
    for (int i = 0; i < 100'000; ++i) sink("a line\n");
  });
  CHECK(read_file(file).size() == 700'000);
  const auto fail = [](const TextSink& sink) {
    sink(std::string(1'000'000, 'x'));
    throw core::Error(core::ErrorKind::kNotComparable, "it ends here");
  };
  CHECK_THROWS_AS(write_pieces(file, fail), core::Error);
  CHECK(read_file(file).size() == 700'000);
  CHECK(entries(folder.path()) == std::vector<std::string>{"long.txt"});
}

TEST_CASE("a device is written in place") {
  write_file("/dev/null", "gone\n");
  CHECK(std::filesystem::is_character_file("/dev/null"));
  CHECK_THROWS_AS(write_file("/dev/full", "x"), core::Error);
}

TEST_CASE("what cannot be written is known before any work is done") {
  const TempDirectory folder;
  require_writable(folder / "new.txt");
  require_writable("/dev/null");
  require_writable(folder / "none" / "below" / "new.txt");
  CHECK(std::filesystem::is_directory(folder / "none" / "below"));
  write_file(folder / "file", "");
  CHECK_THROWS_AS(require_writable(folder / "file" / "new.txt"), core::Error);
  CHECK_THROWS_AS(require_writable(folder.path()), core::Error);
  try {
    require_writable(folder / "none" / "new.txt");
  } catch (const core::Error& error) {
    CHECK(error.kind() == core::ErrorKind::kUsage);
  }
}

TEST_CASE("a path below the current directory is shown as one would type it") {
  const std::filesystem::path here = std::filesystem::current_path();
  CHECK(from_here(here / "out" / "baseline") == "out/baseline");
  CHECK(from_here(here.parent_path() / "beside") == here.parent_path() / "beside");
  CHECK(from_here("already/relative") == "already/relative");
  CHECK(from_here(here) == here);
}

}  // namespace repro_check::cmd
