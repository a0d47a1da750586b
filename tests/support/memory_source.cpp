// SPDX-License-Identifier: Apache-2.0
#include "tests/support/memory_source.h"

#include <utility>

#include "core/digest/digest.h"
#include "core/error.h"

namespace repro_check::test_support {
namespace {

void verify(const core::ContentKey& key,
            const std::vector<std::byte>& bytes,
            const std::string& where) {
  if (core::digest_bytes(bytes) == key.digest) return;
  throw core::Error(
      core::ErrorKind::kDumpDamaged,
      where + ": stored bytes of " + core::content_name(key) + " do not match their digest",
      "record again and check the disk; this is not a divergence");
}

}  // namespace

MemorySource::MemorySource(DumpFixture fixture, std::string location)
    : fixture_(std::move(fixture)), location_(std::move(location)) {}

core::OpRecord MemorySource::op_head(std::uint64_t index) const {
  const core::OpRecord& full = fixture_.ops.at(index);
  core::OpRecord head;
  head.index = full.index;
  head.op = full.op;
  head.site = full.site;
  head.depth = full.depth;
  head.parent = full.parent;
  head.phase = full.phase;
  head.step = full.step;
  head.rank = full.rank;
  head.lane = full.lane;
  return head;
}

core::OpRecord MemorySource::op(std::uint64_t index) const { return fixture_.ops.at(index); }

bool MemorySource::has_content(const core::ContentKey& key) const {
  return fixture_.contents.contains(key);
}

void MemorySource::read_content(const core::ContentKey& key, std::vector<std::byte>& into) const {
  ++reads_;
  const auto found = fixture_.contents.find(key);
  if (found == fixture_.contents.end()) {
    throw core::Error(core::ErrorKind::kNotComparable,
                      location_ + ": " + core::content_name(key) + " is not stored",
                      "record with dump.level \"tensor\"");
  }
  verify(key, found->second, location_);
  into = found->second;
}

std::optional<core::ContentKey> MemorySource::content(std::uint64_t position) const {
  return std::next(fixture_.contents.begin(), static_cast<std::ptrdiff_t>(position))->first;
}

std::unique_ptr<MemorySource> source_from_json(std::string_view json) {
  DumpFixture fixture = parse_dump_fixture(json);
  std::string location = fixture.manifest.run_name;
  return std::make_unique<MemorySource>(std::move(fixture), std::move(location));
}

}  // namespace repro_check::test_support
