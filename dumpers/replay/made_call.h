// SPDX-License-Identifier: Apache-2.0
#pragma once

// A call that was never recorded, made of one that was: private to this folder.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/digest/digest.h"
#include "core/trace/dump.h"

namespace repro_check::replay {

/// The dump of one call, which can be executed as if it had been recorded.
class MadeCall final : public core::DumpSource {
 public:
  /// @param like    a dump that has calls of its kind; borrowed
  /// @param record  whose tensors have the contents of `like`, but for those that hold() is told
  MadeCall(const core::DumpSource& like, core::OpRecord record)
      : like_(like), record_(std::move(record)) {}

  [[nodiscard]] const core::OpRecord& record() const noexcept { return record_; }

  /// @param tensor  of the record
  /// @param bytes   of its shape, row-major
  void hold(std::size_t tensor, std::vector<std::byte> bytes) {
    core::TensorRecord& held = record_.tensors.at(tensor);
    held.digest = core::digest_bytes(bytes);
    contents_.insert_or_assign(held.content_key(), std::move(bytes));
  }

  /// Says nothing of what it holds.
  void leave_out(std::size_t tensor) {
    record_.tensors.at(tensor).state = core::ContentState::kExcluded;
  }

  [[nodiscard]] const std::string& location() const override { return like_.location(); }
  [[nodiscard]] const core::RunManifest& manifest() const override { return like_.manifest(); }
  [[nodiscard]] std::uint64_t op_count() const override { return record_.index + 1; }
  [[nodiscard]] core::OpRecord op_head(std::uint64_t index) const override { return op(index); }
  [[nodiscard]] core::OpRecord op(std::uint64_t /*index*/) const override { return record_; }
  [[nodiscard]] bool has_content(const core::ContentKey& key) const override {
    return contents_.contains(key) || like_.has_content(key);
  }
  void read_content(const core::ContentKey& key, std::vector<std::byte>& into) const override {
    const auto found = contents_.find(key);
    if (found == contents_.end()) return like_.read_content(key, into);
    into = found->second;
  }
  [[nodiscard]] std::uint64_t content_count() const override { return contents_.size(); }
  [[nodiscard]] std::optional<core::ContentKey> content(std::uint64_t /*position*/) const override {
    return std::nullopt;
  }

 private:
  const core::DumpSource& like_;
  core::OpRecord record_;
  std::map<core::ContentKey, std::vector<std::byte>> contents_;
};

}  // namespace repro_check::replay
