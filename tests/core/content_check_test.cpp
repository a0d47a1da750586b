// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/trace/dump.h"

namespace repro_check::core {
namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20U;

/// Contents of the given sizes, some of them not what their keys say.
class Contents final : public DumpSource {
 public:
  void add(std::size_t size, bool damaged = false) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; i += 64) {
      bytes[i] = static_cast<std::byte>(contents_.size() + i / 64 + 1);
    }
    const ContentKey key{Dtype::kUInt8, {static_cast<std::int64_t>(size)}, digest_bytes(bytes)};
    if (damaged) bytes.back() ^= std::byte{1};
    contents_.emplace_back(key, std::move(bytes));
    manifest_.trace.stored_bytes += size;
  }

  /// Its bytes are in another dump.
  void add_elsewhere() { contents_.emplace_back(std::nullopt, std::vector<std::byte>()); }

  [[nodiscard]] std::uint64_t chunks_read() const { return chunks_read_; }
  [[nodiscard]] std::size_t most_at_once() const { return most_at_once_; }

  [[nodiscard]] const std::string& location() const override { return location_; }
  [[nodiscard]] const RunManifest& manifest() const override { return manifest_; }
  [[nodiscard]] std::uint64_t op_count() const override { return 0; }
  [[nodiscard]] OpRecord op_head(std::uint64_t /*index*/) const override { return {}; }
  [[nodiscard]] OpRecord op(std::uint64_t /*index*/) const override { return {}; }
  [[nodiscard]] bool has_content(const ContentKey& /*key*/) const override { return true; }
  void read_content(const ContentKey& /*key*/, std::vector<std::byte>& /*into*/) const override {
    FAIL("a whole content was asked for");
  }
  [[nodiscard]] std::uint64_t content_count() const override { return contents_.size(); }
  [[nodiscard]] std::optional<ContentKey> content(std::uint64_t position) const override {
    return contents_.at(position).first;
  }
  [[nodiscard]] std::unique_ptr<ContentParts> open_content(const ContentKey& key) const override {
    for (std::size_t i = 0; i < contents_.size(); ++i) {
      if (contents_[i].first == key) return std::make_unique<Parts>(*this, i);
    }
    throw Error(ErrorKind::kDumpDamaged, "no such content");
  }

 private:
  class Parts final : public ContentParts {
   public:
    Parts(const Contents& owner, std::size_t position) : owner_(owner), position_(position) {}
    [[nodiscard]] std::uint64_t size() const noexcept override { return bytes().size(); }
    [[nodiscard]] std::span<const std::byte> read(std::uint64_t begin,
                                                  std::span<std::byte> buffer) const override {
      ++owner_.chunks_read_;
      std::size_t most = owner_.most_at_once_;
      while (most < buffer.size() &&
             !owner_.most_at_once_.compare_exchange_weak(most, buffer.size())) {
      }
      if (!buffer.empty()) std::memcpy(buffer.data(), bytes().data() + begin, buffer.size());
      return buffer;
    }
    [[nodiscard]] bool verified() const noexcept override { return false; }
    void verify(std::span<const Digest> chunks) const override {
      if (digest_of_leaves(chunks) == owner_.contents_[position_].first->digest) return;
      throw Error(ErrorKind::kDumpDamaged, "content " + std::to_string(position_));
    }

   private:
    [[nodiscard]] const std::vector<std::byte>& bytes() const {
      return owner_.contents_[position_].second;
    }
    const Contents& owner_;
    std::size_t position_;
  };

  std::vector<std::pair<std::optional<ContentKey>, std::vector<std::byte>>> contents_;
  std::string location_ = "memory";
  RunManifest manifest_;
  mutable std::atomic<std::uint64_t> chunks_read_ = 0;
  mutable std::atomic<std::size_t> most_at_once_ = 0;
};

TEST_CASE("every chunk of every content is verified once, a chunk at a time") {
  for (const unsigned threads : {1U, 2U, 8U}) {
    CAPTURE(threads);
    Contents dump;
    dump.add(0);
    dump.add(1);
    dump.add(5 * kMebibyte + 3);
    dump.add_elsewhere();
    dump.add(4 * kMebibyte);
    for (std::size_t i = 0; i < 100; ++i) dump.add(1000 + i);
    std::uint64_t contents = 0;
    std::uint64_t bytes = 0;
    ContentCheck check;
    check.threads = threads;
    check.progress = [&](std::uint64_t size) {
      ++contents;
      bytes += size;
    };
    verify_contents(dump, check);
    CHECK(contents == 104);
    CHECK(bytes == dump.manifest().trace.stored_bytes);
    CHECK(dump.chunks_read() == 1 + 1 + 6 + 4 + 100);
    CHECK(dump.most_at_once() == kMebibyte);
  }
}

TEST_CASE("the first damaged content is named, however many threads look") {
  for (const unsigned threads : {1U, 2U, 3U, 8U}) {
    CAPTURE(threads);
    Contents dump;
    for (std::size_t i = 0; i < 20; ++i) dump.add((i % 5) * kMebibyte + i);
    dump.add(9 * kMebibyte, true);
    for (std::size_t i = 0; i < 20; ++i) dump.add(500 + i, true);
    ContentCheck check;
    check.threads = threads;
    std::string message;
    try {
      verify_contents(dump, check);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kDumpDamaged);
      message = error.what();
    }
    CHECK(message == "content 20");
  }
}

TEST_CASE("a content that is to be left out is not read") {
  Contents dump;
  dump.add(2 * kMebibyte);
  dump.add(3 * kMebibyte, true);
  ContentCheck check;
  check.skip = [](const ContentKey& key) { return key.shape.front() == 3 * kMebibyte; };
  verify_contents(dump, check);
  CHECK(dump.chunks_read() == 2);
}

}  // namespace
}  // namespace repro_check::core
