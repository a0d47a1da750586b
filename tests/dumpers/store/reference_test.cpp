// SPDX-License-Identifier: Apache-2.0
// Dumps that refer to what another dump holds.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/digest/digest.h"
#include "core/error.h"
#include "core/trace/dump.h"
#include "dumpers/journal/journal_reader.h"
#include "dumpers/journal/journal_writer.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/recovery/recovery.h"
#include "tests/dumpers/store/error_of.h"
#include "tests/dumpers/store/forge.h"
#include "tests/dumpers/store/sample_dump.h"
#include "tests/support/temp_directory.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;
using core::ErrorKind;
using test_support::contains;
using test_support::error_of;
using test_support::make_content;
using test_support::read_bytes;
using test_support::write_dump;
using Browse = DumpWriterOptions::Browse;

constexpr std::uint64_t kCommonSeed = 21;

/// A baseline, and a candidate that has all of its contents and two of its own.
struct Pair {
  test_support::TempDirectory directory;
  fs::path baseline = directory / "baseline";
  fs::path candidate = directory / "candidate";
  test_support::Sample sample = test_support::make_sample(kCommonSeed, 30);
  test_support::Sample changed = sample;
  std::vector<core::ContentKey> own;

  explicit Pair(Browse browse = Browse::kAuto) {
    changed.manifest.run_name = "candidate";
    for (const auto& shape : {std::vector<std::int64_t>{5}, {80, 100}}) {
      const auto content = make_content(core::Dtype::kFloat32, shape, 77);
      core::TensorRecord tensor;
      tensor.slot = std::string(1, '0');
      tensor.role = core::TensorRole::kOutput;
      tensor.dtype = content.first.dtype;
      tensor.shape = content.first.shape;
      tensor.digest = content.first.digest;
      tensor.state = core::ContentState::kHashed;
      tensor.stored = true;
      changed.ops.back().tensors.push_back(tensor);
      changed.manifest.trace.tensors += 1;
      changed.contents.insert(content);
      own.push_back(content.first);
    }
    write_dump(baseline, sample, {.browse = browse});
  }

  void write_candidate(Browse browse = Browse::kAuto) {
    write_dump(candidate, changed, {.reference = baseline, .browse = browse});
  }

  [[nodiscard]] std::uint64_t common_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& [key, content] : sample.contents) bytes += content.size();
    return bytes;
  }
};

TEST_CASE("what the reference holds is not stored again, and reads back through it") {
  for (const Browse browse : {Browse::kAlways, Browse::kNever}) {
    CAPTURE(static_cast<int>(browse));
    Pair pair(browse);
    pair.write_candidate(browse);
    const auto dump = open_dump(pair.candidate, {pair.directory / "nowhere", pair.baseline});
    CHECK(test_support::reads_back(*dump, pair.changed));
    CHECK(dump->missing_reference().empty());
    const core::TraceSummary& trace = dump->manifest().trace;
    REQUIRE(trace.reference.has_value());
    CHECK(trace.reference->run_name == pair.sample.manifest.run_name);
    CHECK(trace.reference->index_digest == open_dump(pair.baseline)->manifest().trace.index_digest);
    CHECK(trace.reference->contents == pair.sample.contents.size());
    CHECK(trace.reference->bytes == pair.common_bytes());
    CHECK(trace.contents == pair.changed.contents.size());
    CHECK(trace.stored_bytes == 4 * (5 + 80 * 100));
  }
}

TEST_CASE("without the reference its contents are not there, and the own ones are") {
  Pair pair;
  pair.write_candidate();
  fs::create_directory(pair.directory / "empty");
  const auto dump = open_dump(pair.candidate, {pair.directory / "empty"});
  CHECK(contains(dump->missing_reference(), pair.sample.manifest.run_name));
  std::uint64_t read = 0;
  std::vector<std::byte> bytes;
  for (const auto& [key, content] : pair.sample.contents) {
    CHECK_FALSE(dump->has_content(key));
    const std::string refusal =
        error_of(ErrorKind::kNotComparable, [&] { dump->read_content(key, bytes); });
    CHECK(contains(refusal, "--reference DIR"));
    CHECK(contains(refusal, core::to_hex(dump->manifest().trace.reference->index_digest)));
  }
  for (const core::ContentKey& key : pair.own) {
    CHECK(dump->has_content(key));
    dump->read_content(key, bytes);
  }
  core::ContentCheck check;
  check.progress = [&](std::uint64_t size) { read += size; };
  core::verify_contents(*dump, check);
  CHECK(read == dump->manifest().trace.stored_bytes);
  CHECK(dump->op(0).tensors.size() == pair.changed.ops[0].tensors.size());
}

TEST_CASE("another dump is not taken for the reference") {
  Pair pair;
  pair.write_candidate();
  const fs::path other = pair.directory / "other";
  write_dump(other, test_support::make_sample(kCommonSeed + 1, 3));
  CHECK(contains(open_dump(pair.candidate, {other})->missing_reference(), "other is another"));

  // The right digest on an index that does not have it.
  const core::Digest digest = open_dump(pair.baseline)->manifest().trace.index_digest;
  test_support::forge_manifest(
      other, [&](core::RunManifest& manifest) { manifest.trace.index_digest = digest; });
  CHECK_FALSE(open_dump(pair.candidate, {other})->missing_reference().empty());
  // Its own place leads to no reading in circles.
  CHECK_FALSE(open_dump(pair.candidate, {pair.candidate})->missing_reference().empty());
}

TEST_CASE("a flipped bit in the reference is damage, there") {
  Pair pair;
  pair.write_candidate();
  const auto content = std::ranges::find_if(
      pair.sample.contents, [](const auto& entry) { return !entry.second.empty(); });
  const Extent extent =
      test_support::content_extent(pair.baseline, core::content_name(content->first));
  const std::byte flipped = content->second.front() ^ std::byte{1};
  test_support::overwrite(pair.baseline / "trace.h5", extent.offset, {&flipped, 1});
  const auto dump = open_dump(pair.candidate, {pair.baseline});
  CHECK(contains(error_of(ErrorKind::kDumpDamaged, [&] { core::verify_contents(*dump); }),
                 pair.baseline.string()));
}

TEST_CASE("a dump does not refer to itself, nor where nothing is the same") {
  Pair pair;
  const std::string before = read_bytes(pair.baseline / "trace.h5");
  write_dump(pair.baseline,
             pair.sample,
             {.reference = pair.directory / "." / "baseline/", .replace_existing = true});
  CHECK(read_bytes(pair.baseline / "trace.h5") == before);
  CHECK_FALSE(open_dump(pair.baseline)->manifest().trace.reference.has_value());

  test_support::Sample bare = pair.sample;
  for (auto& op : bare.ops) {
    for (auto& tensor : op.tensors) tensor.stored = false;
  }
  bare.contents.clear();
  write_dump(pair.candidate, bare, {.reference = pair.baseline});
  CHECK_FALSE(open_dump(pair.candidate)->manifest().trace.reference.has_value());
}

TEST_CASE("what cannot be referred to is refused before anything is made") {
  Pair pair;
  const auto refusal = [&](ErrorKind kind, const fs::path& reference) {
    const std::string text =
        error_of(kind, [&] { DumpWriter(pair.directory / "new", {.reference = reference}); });
    CHECK_FALSE(fs::exists(pair.directory / "new"));
    CHECK(contains(error_of(kind, [&] { require_reference(reference); }), ""));
    return text;
  };
  CHECK(contains(refusal(ErrorKind::kUsage, pair.directory / "nowhere"), "no such directory"));
  pair.write_candidate();
  CHECK(contains(refusal(ErrorKind::kUsage, pair.candidate), "it refers to another dump itself"));
  fs::create_directory(pair.directory / "empty");
  refusal(ErrorKind::kDumpUnknown, pair.directory / "empty");
  test_support::forge_manifest(pair.baseline, [](core::RunManifest& manifest) {
    manifest.trace.digest_algorithm = "sha256";
  });
  CHECK(contains(refusal(ErrorKind::kUsage, pair.baseline), "its digests are \"sha256\""));
  fs::remove(pair.baseline / "manifest.json");
  refusal(ErrorKind::kDumpIncomplete, pair.baseline);
}

TEST_CASE("a manifest that counts other references than the index is damaged") {
  Pair pair;
  pair.write_candidate();
  const auto damaged = [&](auto change) {
    test_support::forge_manifest(pair.candidate, change);
    error_of(ErrorKind::kDumpDamaged, [&] { open_dump(pair.candidate); });
    write_dump(
        pair.candidate, pair.changed, {.reference = pair.baseline, .replace_existing = true});
  };
  damaged([](core::RunManifest& manifest) { manifest.trace.reference.reset(); });
  damaged([](core::RunManifest& manifest) { manifest.trace.reference->contents += 1; });
  damaged([](core::RunManifest& manifest) { manifest.trace.reference->bytes = UINT64_MAX; });
  damaged([](core::RunManifest& manifest) { manifest.trace.contents -= 1; });
}

/// Leaves what a process leaves that dies before the end of its recording.
void record_and_die(const Pair& pair) {
  const pid_t child = ::fork();
  if (child == 0) {
    DumpWriter writer(pair.candidate, {.reference = pair.baseline});
    test_support::play(writer, pair.changed);
    ::_exit(0);  // nothing is tidied up
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(status == 0);
}

TEST_CASE("what a kill leaves still knows its reference: read, and recovered") {
  const Pair pair;
  record_and_die(pair);
  const auto partial = open_partial(pair.candidate, {pair.baseline});
  CHECK(test_support::reads_back(*partial, pair.changed));
  CHECK(partial->manifest().trace.reference->contents == pair.sample.contents.size());
  const auto alone = open_partial(pair.candidate);
  CHECK_FALSE(alone->missing_reference().empty());
  CHECK_FALSE(alone->has_content(pair.sample.contents.begin()->first));
  CHECK(alone->has_content(pair.own.front()));
  core::verify_contents(*alone);

  // The reference is not needed for it.
  fs::rename(pair.baseline, pair.directory / "moved");
  recover_dump(pair.candidate, pair.directory / "recovered", {});
  const auto recovered = open_dump(pair.directory / "recovered", {pair.directory / "moved"});
  CHECK(test_support::reads_back(*recovered, pair.changed));
  CHECK(recovered->manifest().trace.reference == partial->manifest().trace.reference);
  CHECK(recovered->manifest().trace.partial->lost_contents == 0);
}

TEST_CASE("a journal that refers to a dump it never named, or to two, is damaged") {
  const test_support::TempDirectory directory;
  const auto key = make_content(core::Dtype::kInt8, {3}, 1).first;
  const auto refusal = [&](auto write) {
    const fs::path file = directory / "journal.bin";
    fs::remove(file);
    journal::JournalWriter writer(file);
    write(writer);
    writer.close();
    return error_of(ErrorKind::kDumpDamaged, [&] { open_partial(file); });
  };
  using journal::ContentPlace;
  CHECK(contains(refusal([&](journal::JournalWriter& writer) {
                   writer.content(key, ContentPlace::kReference, 0);
                 }),
                 "none was named"));
  CHECK(contains(refusal([&](journal::JournalWriter& writer) {
                   writer.refers({"one", {1, 2}});
                   writer.content(key, ContentPlace::kReference, 8);
                 }),
                 "says where in another dump"));
  CHECK(contains(refusal([&](journal::JournalWriter& writer) {
                   writer.refers({"one", {1, 2}});
                   writer.refers({"one", {1, 3}});
                 }),
                 "refers to two dumps"));
}

}  // namespace
}  // namespace repro_check::store
