// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/trace/dump.h"
#include "tests/dumpers/capture/memory_sink.h"

namespace repro_check::capture {

/// A recorded trace, read as a dump is.
class TraceSource final : public core::DumpSource {
 public:
  explicit TraceSource(Trace trace) : trace_(std::move(trace)) {}

  [[nodiscard]] const std::string& location() const override { return location_; }
  [[nodiscard]] const core::RunManifest& manifest() const override { return manifest_; }
  [[nodiscard]] std::uint64_t op_count() const override { return trace_.records.size(); }
  [[nodiscard]] core::OpRecord op_head(std::uint64_t index) const override { return op(index); }
  [[nodiscard]] core::OpRecord op(std::uint64_t index) const override {
    for (const core::OpRecord& record : trace_.records) {
      if (record.index == index) return record;
    }
    throw core::Error(core::ErrorKind::kDumpDamaged, "no such record");
  }
  [[nodiscard]] bool has_content(const core::ContentKey& key) const override {
    return trace_.contents.count(key) > 0;
  }
  void read_content(const core::ContentKey& key, std::vector<std::byte>& into) const override {
    into = trace_.contents.at(key);
  }
  [[nodiscard]] std::uint64_t content_count() const override { return 0; }
  [[nodiscard]] std::optional<core::ContentKey> content(std::uint64_t /*position*/) const override {
    return std::nullopt;
  }

  Trace& trace() noexcept { return trace_; }

 private:
  Trace trace_;
  std::string location_ = "memory";
  core::RunManifest manifest_;
};

}  // namespace repro_check::capture
