// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/jit/api/module.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "configs/spec/run_config.h"
#include "core/trace/dump.h"
#include "tests/support/temp_directory.h"

namespace repro_check::test {

/// Keeps everything in memory.
class MemorySink final : public core::DumpSink {
 public:
  void enter(const core::OpHead&) override { ++entered; }
  [[nodiscard]] bool has_content(const core::ContentKey& key) const override {
    return contents.contains(key);
  }
  using core::DumpSink::put_content;
  bool put_content(const core::ContentKey& key, const core::ContentBytes&) override {
    contents.insert(key);
    return true;
  }
  void append(const core::OpRecord& record) override {
    (core::is_returned(record) ? returned : records).push_back(record);
  }
  void fail(const std::string& message) override { failure = message; }

  /// `aten::linear layers.0.lin`, one a record, in order.
  [[nodiscard]] std::vector<std::string> places() const;
  /// `aten::linear.default` and the digests of what it gave, one a record.
  [[nodiscard]] std::vector<std::string> results() const;

  std::uint64_t entered = 0;
  std::set<core::ContentKey> contents;
  std::vector<core::OpRecord> records;   ///< of operators
  std::vector<core::OpRecord> returned;  ///< of what the calls returned
  std::string failure;
};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A module whose children and code are given.
torch::jit::Module make_module(
    const std::string& type,
    const std::vector<std::pair<std::string, torch::jit::Module>>& children,
    const std::string& code);

/// `weight` and `bias`, and a forward that is aten::linear.
torch::jit::Module make_linear(const std::string& type, double fill);

/// A run of one call on the CPU, without inputs.
configs::RunSpec run_of(const std::filesystem::path& model);

configs::InputSpec generated(std::vector<std::int64_t> shape,
                             configs::Distribution distribution = configs::Distribution::kNormal);
configs::InputSpec value_of(configs::ValueInput value);

}  // namespace repro_check::test
