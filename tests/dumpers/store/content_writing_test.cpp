// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/digest/digest.h"
#include "core/error.h"
#include "core/tensor/content.h"
#include "core/trace/dump.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/dump_writer.h"
#include "tests/dumpers/journal/random_record.h"
#include "tests/dumpers/store/error_of.h"
#include "tests/dumpers/store/sample_dump.h"
#include "tests/support/temp_directory.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;
using core::ErrorKind;
using test_support::contains;
using test_support::error_of;
using test_support::make_content;
using test_support::TempDirectory;
using Browse = DumpWriterOptions::Browse;
using Contents = std::map<core::ContentKey, std::vector<std::byte>>;

constexpr std::size_t kWritingMemory = std::size_t{8} << 20U;

/// As a tensor hands itself over that does not lie in one piece: whole elements, any piece.
class PieceByPiece final : public core::ContentBytes {
 public:
  PieceByPiece(std::span<const std::byte> bytes, std::size_t element)
      : bytes_(bytes), element_(element) {}

  [[nodiscard]] std::size_t size() const noexcept override { return bytes_.size(); }
  void read(std::size_t begin, std::span<std::byte> into) const override {
    CHECK(begin % element_ == 0);
    CHECK(into.size() % element_ == 0);
    longest = std::max(longest, into.size());
    std::ranges::copy(bytes_.subspan(begin, into.size()), into.begin());
  }

  mutable std::size_t longest = 0;

 private:
  std::span<const std::byte> bytes_;
  std::size_t element_;
};

/// A tensor that another thread wrote between its digest and its storing.
class Raced final : public core::ContentBytes {
 public:
  explicit Raced(std::span<const std::byte> now) : now_(now) {}

  [[nodiscard]] std::size_t size() const noexcept override { return now_.size(); }
  void read(std::size_t begin, std::span<std::byte> into) const override {
    std::ranges::copy(now_.subspan(begin, into.size()), into.begin());
  }
  [[nodiscard]] std::optional<core::Digest> digest_read() const override {
    return core::digest_bytes(now_);
  }

 private:
  std::span<const std::byte> now_;
};

core::RunManifest manifest_of(std::uint64_t operators) {
  core::RunManifest manifest;
  manifest.trace.digest_algorithm = core::kDigestAlgorithm;
  manifest.trace.operators = operators;
  return manifest;
}

/// Sizes around every border there is: a block, what is small, a buffer, and all of the memory.
Contents awkward_contents() {
  Contents contents;
  for (const std::int64_t border : {0, 4096, 32'768, 65'536, 4 << 20, 9 << 20}) {
    for (const std::int64_t near : {-4095, -1, 0, 1, 4096}) {
      const std::int64_t size = border + near;
      if (size < 0) continue;
      contents.insert(make_content(core::Dtype::kUInt8, {size}, contents.size()));
    }
  }
  contents.insert(make_content(core::Dtype::kComplex128, {300'001}, 77));
  return contents;
}

bool holds(const core::DumpSource& dump, const Contents& contents) {
  std::vector<std::byte> bytes;
  for (const auto& [key, expected] : contents) {
    if (!dump.has_content(key)) return false;
    dump.read_content(key, bytes);
    if (bytes != expected) return false;
  }
  core::verify_contents(dump);
  return dump.manifest().trace.contents == contents.size();
}

void check_every_size(const fs::path& dump, Browse browse) {
  const Contents contents = awkward_contents();
  DumpWriter writer(dump, {.memory = kWritingMemory, .browse = browse});
  for (const auto& [key, bytes] : contents) writer.put_content(key, bytes);
  for (const auto& [key, bytes] : contents) writer.put_content(key, bytes);
  writer.finish(manifest_of(0));
  CHECK(holds(*open_dump(dump), contents));
}

TEST_CASE("contents of every size come back") {
  const TempDirectory directory;
  check_every_size(directory / "browsable", Browse::kAlways);
  check_every_size(directory / "packed", Browse::kNever);
}

TEST_CASE("contents come back from a file system that only writes through memory") {
  const fs::path shared = "/dev/shm";
  if (!fs::is_directory(shared)) return;
  std::string name = shared / "repro-check-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) return;
  check_every_size(fs::path(name) / "dump", Browse::kAlways);
  CHECK(open_dump(fs::path(name) / "dump")->manifest().trace.io == "buffered");
  fs::remove_all(name);
}

TEST_CASE("scattered content is read piece by piece") {
  const TempDirectory directory;
  const auto [big, big_bytes] = make_content(core::Dtype::kComplex128, {1'000'001}, 1);
  const auto [small, small_bytes] = make_content(core::Dtype::kFloat64, {5}, 2);
  DumpWriter writer(directory / "dump", {.memory = kWritingMemory});
  const PieceByPiece big_pieces(big_bytes, 16);
  CHECK(writer.put_content(big, big_pieces));
  CHECK(big_pieces.longest <= kWritingMemory);
  CHECK(writer.put_content(small, PieceByPiece(small_bytes, 8)));
  writer.finish(manifest_of(0));
  CHECK(holds(*open_dump(directory / "dump"), {{big, big_bytes}, {small, small_bytes}}));
}

TEST_CASE("what changed while it was stored is kept as what it became, and once") {
  const TempDirectory directory;
  Contents contents;
  DumpWriter writer(directory / "dump", {.memory = kWritingMemory});
  for (const std::int64_t size : {100, 32'769, 5 << 20}) {
    for (const std::uint64_t seed : {1U, 2U}) {
      const auto digested = make_content(core::Dtype::kUInt8, {size}, seed).first;
      const auto [became, bytes] = make_content(core::Dtype::kUInt8, {size}, 3);
      CHECK(writer.put_content(digested, Raced(bytes)));
      CHECK_FALSE(writer.has_content(digested));
      CHECK(writer.has_content(became));
      contents.emplace(became, bytes);
    }
    // Its room is given to nobody while the bytes of the content that went are on their way.
    const auto [later, later_bytes] = make_content(core::Dtype::kUInt8, {size}, 4);
    writer.put_content(later, later_bytes);
    contents.emplace(later, later_bytes);
  }
  writer.finish(manifest_of(0));
  CHECK(holds(*open_dump(directory / "dump"), contents));
}

TEST_CASE("small contents of a dump without a tree lie in one dataset, and are verified there") {
  const TempDirectory directory;
  const fs::path dump = directory / "dump";
  const auto [key, bytes] = make_content(core::Dtype::kUInt8, {1000}, 3);
  const auto other = make_content(core::Dtype::kUInt8, {1000}, 4);
  {
    DumpWriter writer(dump, {.browse = Browse::kNever});
    writer.put_content(other.first, other.second);
    writer.put_content(key, bytes);
    writer.finish(manifest_of(0));
  }
  std::string file = test_support::read_bytes(dump / "trace.h5");
  const std::string needle(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::size_t at = file.find(needle);
  REQUIRE(at != std::string::npos);
  file[at + 999] ^= 1;
  test_support::write_bytes(dump / "trace.h5", file);
  const auto opened = open_dump(dump);
  std::vector<std::byte> into;
  opened->read_content(other.first, into);
  CHECK(into == other.second);
  CHECK(contains(error_of(ErrorKind::kDumpDamaged, [&] { opened->read_content(key, into); }),
                 "/packed"));
}

TEST_CASE("beyond dump.max_bytes records go on without bytes, and the manifest says from where") {
  const TempDirectory directory;
  const fs::path dump = directory / "dump";
  DumpWriter writer(dump, {.max_bytes = 100'000});
  std::uint64_t tensors = 0;
  for (std::uint64_t i = 0; i < 5; ++i) {
    const auto [key, bytes] = make_content(core::Dtype::kUInt8, {40'000}, i);
    core::OpRecord record = test_support::small_record(i);
    record.tensors.resize(1);
    core::TensorRecord& tensor = record.tensors.front();
    tensor.state = core::ContentState::kHashed;
    tensor.dtype = key.dtype;
    tensor.shape = key.shape;
    tensor.digest = key.digest;
    tensor.stored = writer.put_content(key, bytes);
    CHECK(tensor.stored == (i < 2));
    record.arguments.clear();
    record.results.clear();
    writer.append(record);
    tensors += record.tensors.size();
  }
  core::RunManifest manifest = manifest_of(5);
  manifest.trace.tensors = tensors;
  writer.finish(std::move(manifest));
  const auto opened = open_dump(dump);
  CHECK(opened->manifest().trace.bytes_limit_reached_at == 2U);
  CHECK(opened->manifest().trace.stored_bytes == 80'000);
  CHECK(opened->op(1).tensors[0].stored);
  CHECK_FALSE(opened->op(4).tensors[0].stored);
}

TEST_CASE("a disk without room for the recording is refused before anything is made") {
  const TempDirectory directory;
  const fs::path dump = directory / "deep" / "dump";
  const std::string refusal = error_of(ErrorKind::kIo, [&] {
    const DumpWriter writer(dump, {.needed_space = std::uint64_t{1} << 60U});
  });
  CHECK(contains(refusal, "MiB are free"));
  CHECK(contains(refusal, "dump.max_bytes"));
  CHECK_FALSE(fs::exists(directory / "deep"));
}

}  // namespace
}  // namespace repro_check::store
