// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/trace/dump.h"
#include "tests/support/dump_fixture.h"

namespace repro_check::test_support {

/// A DumpSource over a fixture. Contents are verified against their digests as a real dump's are.
class MemorySource final : public core::DumpSource {
 public:
  explicit MemorySource(DumpFixture fixture, std::string location = "memory");

  [[nodiscard]] const std::string& location() const override { return location_; }
  [[nodiscard]] const core::RunManifest& manifest() const override { return fixture_.manifest; }
  [[nodiscard]] std::uint64_t op_count() const override { return fixture_.ops.size(); }
  [[nodiscard]] core::OpRecord op_head(std::uint64_t index) const override;
  [[nodiscard]] core::OpRecord op(std::uint64_t index) const override;
  [[nodiscard]] bool has_content(const core::ContentKey& key) const override;
  void read_content(const core::ContentKey& key, std::vector<std::byte>& into) const override;
  [[nodiscard]] std::uint64_t block_count() const override { return fixture_.blocks.size(); }
  [[nodiscard]] core::BlockRow block(std::uint64_t position) const override {
    return fixture_.blocks.at(position);
  }
  [[nodiscard]] std::uint64_t parameter_count() const override {
    return fixture_.parameters.size();
  }
  [[nodiscard]] core::ParameterRow parameter(std::uint64_t position) const override {
    return fixture_.parameters.at(position);
  }
  [[nodiscard]] std::uint64_t content_count() const override { return fixture_.contents.size(); }
  [[nodiscard]] std::optional<core::ContentKey> content(std::uint64_t position) const override;

  /// How often content bytes were asked for.
  [[nodiscard]] std::uint64_t reads() const noexcept { return reads_; }

 private:
  DumpFixture fixture_;
  std::string location_;
  mutable std::uint64_t reads_ = 0;
};

/// parse_dump_fixture, ready to compare; the location is the name of the run.
std::unique_ptr<MemorySource> source_from_json(std::string_view json);

}  // namespace repro_check::test_support
