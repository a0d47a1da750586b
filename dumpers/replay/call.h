// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/dump_sink.h"
#include "core/trace/dump_source.h"
#include "dumpers/capture/engine/capture.h"
#include "dumpers/capture/engine/operator_plan.h"
#include "dumpers/replay/arguments.h"

namespace repro_check::replay {

/// What the engine says of the last call. Contents that the dump holds are left there.
class CallSink final : public core::DumpSink {
 public:
  /// @param dump  borrowed
  explicit CallSink(const core::DumpSource& dump) : dump_(dump) {}

  void enter(const core::OpEntry& /*entry*/) override {}
  [[nodiscard]] bool has_content(const core::ContentKey& key) const override;
  bool put_content(const core::ContentKey& key, const core::ContentBytes& bytes) override;
  void append(const core::OpRecord& record) override { record_ = record; }
  void fail(const std::string& /*message*/) override {}

  void clear();
  [[nodiscard]] const core::OpRecord& record() const noexcept { return record_; }
  void read(const core::ContentKey& key, std::vector<std::byte>& into) const;

 private:
  const core::DumpSource& dump_;
  core::OpRecord record_;
  std::map<core::ContentKey, std::vector<std::byte>> contents_;
};

/// One recorded call, ready to be made any number of times.
class Call {
 public:
  /// @param dump  borrowed
  /// @throws core::Error as replay()
  Call(const core::DumpSource& dump, std::uint64_t op, const RebuildOptions& options);

  /// Makes it, from the same inputs and the same place of the generator each time.
  /// @return what the engine recorded of it, until the next call
  const CallSink& run();

  [[nodiscard]] const core::OpRecord& record() const noexcept { return record_; }
  /// What of the call is not as recorded.
  [[nodiscard]] std::vector<std::string> notes() const;

 private:
  void find_operator();
  [[nodiscard]] std::vector<bool> written_tensors() const;
  [[nodiscard]] torch::jit::Stack arguments() const;
  [[nodiscard]] const core::Value* recorded(const std::string& name) const;

  core::OpRecord record_;
  std::optional<c10::OperatorHandle> op_;
  capture::OperatorPlans plans_{{}, {}};
  capture::OperatorPlan* plan_ = nullptr;
  std::optional<Arguments> arguments_;
  at::Generator generator_;  ///< that operators draw from; undefined = nothing was drawn
  at::Tensor start_;         ///< its state before the call
  CallSink sink_;
  capture::Capture capture_;
};

}  // namespace repro_check::replay
