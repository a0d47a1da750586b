// SPDX-License-Identifier: Apache-2.0
// Contents of which only some elements are stored.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "core/digest/digest.h"
#include "core/error.h"
#include "core/tensor/content.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/dump.h"
#include "dumpers/journal/journal_reader.h"
#include "dumpers/journal/journal_writer.h"
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
using core::SliceRule;
using test_support::contains;
using test_support::error_of;
using test_support::make_sample;
using test_support::write_dump;

constexpr std::uint64_t kMost = UINT64_MAX;

using Content = std::pair<const core::ContentKey, std::vector<std::byte>>;

/// The elements at 0, stride and so on, taken one by one.
std::vector<std::byte> picked(const Content& content, std::uint64_t most, std::uint64_t stride) {
  const std::size_t size = core::element_size(content.first.dtype);
  const auto total = static_cast<std::uint64_t>(core::element_count(content.first.shape));
  std::vector<std::byte> bytes;
  for (std::uint64_t i = 0; i < most && i * stride < total; ++i) {
    const auto* at = content.second.data() + i * stride * size;
    bytes.insert(bytes.end(), at, at + size);
  }
  return bytes;
}

/// Whether `dump` holds of each content what `rule` says, and says so.
void check_contents(const core::DumpSource& dump,
                    const test_support::Sample& sample,
                    const SliceRule& rule) {
  std::uint64_t slices = 0;
  std::vector<std::byte> bytes;
  for (const Content& content : sample.contents) {
    INFO(core::content_name(content.first));
    const auto total = static_cast<std::uint64_t>(core::element_count(content.first.shape));
    const auto slice = dump.find_slice(content.first);
    const bool large = rule.above ? content.second.size() > *rule.above : total > rule.elements;
    const std::vector<std::byte> expected = picked(content, rule.elements, rule.stride);
    if (!large || expected.size() == content.second.size()) {
      CHECK_FALSE(slice.has_value());
      dump.read_content(content.first, bytes);
      CHECK(bytes == content.second);
      continue;
    }
    ++slices;
    REQUIRE(slice.has_value());
    CHECK(slice->stride == rule.stride);
    CHECK(core::is_slice_of(*slice, total));
    dump.read_content(core::slice_key(content.first, *slice), bytes);
    CHECK(bytes == expected);
  }
  CHECK(slices != 0);
  CHECK(dump.manifest().trace.slices == slices);
  core::verify_contents(dump);
}

TEST_CASE("what is too large is stored as some of its elements") {
  const test_support::TempDirectory directory;
  const auto sample = make_sample(31, 20);
  for (const SliceRule& rule : {SliceRule{1, 1, {}},
                                SliceRule{3, 1, {}},
                                SliceRule{2, 2, {}},
                                SliceRule{1000, 7, 40},
                                SliceRule{kMost, kMost, 0},
                                SliceRule{kMost, 2, 0}}) {
    CAPTURE(rule.elements);
    CAPTURE(rule.stride);
    write_dump(directory / "dump", sample, {.slice = rule, .replace_existing = true});
    const auto dump = open_dump(directory / "dump");
    check_contents(*dump, sample, rule);
    for (std::uint64_t i = 0; i < dump->op_count(); ++i) {
      for (const core::TensorRecord& tensor : dump->op(i).tensors) {
        if (!tensor.stored) continue;
        CHECK(dump->has_content(tensor.content_key()));
      }
    }
  }
}

TEST_CASE("elements that lie far apart in a large content are found") {
  const test_support::TempDirectory directory;
  test_support::Sample sample = make_sample(32, 2);
  const auto large = test_support::make_content(core::Dtype::kFloat64, {700, 999}, 5);
  core::TensorRecord tensor;
  tensor.dtype = large.first.dtype;
  tensor.shape = large.first.shape;
  tensor.digest = large.first.digest;
  tensor.state = core::ContentState::kHashed;
  tensor.stored = true;
  sample.ops.back().tensors.push_back(tensor);
  sample.manifest.trace.tensors += 1;
  sample.contents.insert(large);
  for (const std::uint64_t stride : {3U, 1009U, 200'000U}) {
    const SliceRule rule{5'000, stride, 1'000'000};
    write_dump(directory / "dump", sample, {.slice = rule, .replace_existing = true});
    check_contents(*open_dump(directory / "dump"), sample, rule);
  }
}

TEST_CASE("a dump with slices can refer to another one, slices and all") {
  const test_support::TempDirectory directory;
  const auto sample = make_sample(33, 10);
  const SliceRule rule{2, 1, {}};
  write_dump(directory / "baseline", sample, {.slice = rule});
  write_dump(directory / "candidate", sample, {.slice = rule, .reference = directory / "baseline"});
  const auto dump = open_dump(directory / "candidate", {directory / "baseline"});
  check_contents(*dump, sample, rule);
  CHECK(dump->manifest().trace.stored_bytes == 0);
}

TEST_CASE("what a kill leaves knows its slices: read, and recovered") {
  const test_support::TempDirectory directory;
  const auto sample = make_sample(34, 10);
  const SliceRule rule{2, 2, {}};
  const pid_t child = ::fork();
  if (child == 0) {
    DumpWriter writer(directory / "killed", {.slice = rule});
    test_support::play(writer, sample);
    ::_exit(0);  // nothing is tidied up
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(status == 0);
  check_contents(*open_partial(directory / "killed"), sample, rule);
  recover_dump(directory / "killed", directory / "dump", {});
  check_contents(*open_dump(directory / "dump"), sample, rule);
}

#define FORGE_SLICE(member, value, expected)                                                \
  SUBCASE(#member " " #value) {                                                             \
    test_support::forge_member(dump,                                                        \
                               journal::kSlicesTable,                                       \
                               1,                                                           \
                               offsetof(journal::SliceRow, member),                         \
                               static_cast<decltype(journal::SliceRow::member)>(value));    \
    test_support::resign(dump);                                                             \
    CHECK(contains(error_of(ErrorKind::kDumpDamaged, [&] { open_dump(dump); }), expected)); \
  }

TEST_CASE("slices that cannot be are a damaged dump") {
  const test_support::TempDirectory directory;
  const fs::path dump = directory / "dump";
  write_dump(dump, make_sample(35, 5), {.slice = SliceRule{2, 1, {}}});
  FORGE_SLICE(elements, 0, "is no slice of")
  FORGE_SLICE(elements, UINT64_MAX, "is no slice of")
  FORGE_SLICE(elements, 1ULL << 62U, "is no slice of")
  FORGE_SLICE(stride, 0, "is no slice of")
  FORGE_SLICE(stride, UINT64_MAX, "is no slice of")
  FORGE_SLICE(elements, 1, "which the index does not list")
  FORGE_SLICE(slice.high, 1, "which the index does not list")
  FORGE_SLICE(dtype, 77, "unknown dtype 77")
  FORGE_SLICE(dtype, 0, "is no slice of")
  FORGE_SLICE(shape_begin, UINT64_MAX, "/index/dims: has no")
  SUBCASE("another number of them") {
    test_support::forge_manifest(dump, [](core::RunManifest& m) { m.trace.slices = 0; });
    CHECK(contains(error_of(ErrorKind::kDumpDamaged, [&] { open_dump(dump); }),
                   "slices, the manifest says 0"));
  }
}

TEST_CASE("a journal with a slice that cannot be is damaged") {
  const test_support::TempDirectory directory;
  const core::ContentKey key{core::Dtype::kInt16, {2, 3}, {1, 2}};
  for (const core::ContentSlice& slice : {core::ContentSlice{0, 1, {}},
                                          core::ContentSlice{1, 0, {}},
                                          core::ContentSlice{6, 1, {}},
                                          core::ContentSlice{4, 2, {}},
                                          core::ContentSlice{2, kMost, {}},
                                          core::ContentSlice{kMost, 1, {}}}) {
    const fs::path file = directory / "journal.bin";
    fs::remove(file);
    {
      journal::JournalWriter writer(file);
      writer.sliced({key, slice});
    }
    CHECK(
        contains(error_of(ErrorKind::kDumpDamaged, [&] { open_partial(file); }), "is no slice of"));
  }
}

}  // namespace
}  // namespace repro_check::store
