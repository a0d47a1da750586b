// SPDX-License-Identifier: Apache-2.0
#pragma once

// One recorded call, made any number of times: private to this folder.

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/dump.h"
#include "core/trace/op_record.h"
#include "dumpers/capture/engine/capture.h"
#include "dumpers/capture/engine/operator_plan.h"
#include "dumpers/replay/call_arguments.h"
#include "dumpers/replay/recorded_call.h"

namespace repro_check::replay {

/// What the engine says of the last call. Contents that the dump holds are left there.
class CallSink final : public core::DumpSink {
 public:
  /// @param dump  borrowed
  explicit CallSink(const core::DumpSource& dump) : dump_(dump) {}

  void enter(const core::OpHead& /*call*/) override {}
  [[nodiscard]] bool has_content(const core::ContentKey& key) const override {
    return contents_.contains(key) || dump_.has_content(key);
  }
  bool put_content(const core::ContentKey& key, const core::ContentBytes& bytes) override {
    std::vector<std::byte> content(bytes.size());
    bytes.read(0, content);
    contents_.insert_or_assign(core::key_of_read(key, bytes), std::move(content));
    return true;
  }
  void append(const core::OpRecord& appended) override { record = appended; }
  void fail(const std::string& /*message*/) override {}

  void clear() {
    record = {};
    contents_.clear();
  }
  void read(const core::ContentKey& key, std::vector<std::byte>& into) const {
    const auto found = contents_.find(key);
    if (found == contents_.end()) return dump_.read_content(key, into);
    into = found->second;
  }

  core::OpRecord record;

 private:
  const core::DumpSource& dump_;
  std::map<core::ContentKey, std::vector<std::byte>> contents_;
};

/// One recorded call, ready to be made any number of times.
class RepeatedCall {
 public:
  /// Of a record that drew: the state of its generator before.
  using GeneratorState = std::function<at::Tensor(const core::OpRecord& record)>;

  /// @param dump    borrowed
  /// @param before  that of restore_generator() where it is empty
  /// @throws core::Error{kNotComparable} when the record does not hold all that the call needs, or
  ///         this LibTorch has no such operator
  RepeatedCall(const core::DumpSource& dump,
               std::uint64_t op,
               const RebuildOptions& options,
               const GeneratorState& before = {});

  /// Makes it, from the same inputs and the same place of the generator each time.
  /// @return what the engine recorded of it, until the next call
  /// @throws core::Error{kRunFailed} when the operator itself throws
  const CallSink& run(const ArgumentChange& change = {});

  /// What can be nudged of its arguments.
  [[nodiscard]] std::vector<CallArguments::Nudge> nudges() const { return arguments_->nudges(); }

  [[nodiscard]] const core::OpRecord& record() const noexcept { return record_; }
  /// The state in which the last call left its generator; undefined where nothing was drawn.
  [[nodiscard]] const at::Tensor& generator_end() const noexcept { return end_; }
  /// What of the call is not as recorded.
  [[nodiscard]] std::vector<std::string> notes() const;

 private:
  void call(const ArgumentChange& change);
  [[nodiscard]] bool gave_other_dtypes() const;

  core::OpRecord record_;
  capture::OperatorPlans plans_{{}, {}};
  RecordedOperator op_;
  std::optional<CallArguments> arguments_;
  at::Generator generator_;  ///< that operators draw from; undefined = nothing was drawn
  at::Tensor start_;         ///< its state before the call
  at::Tensor end_;
  bool is_tried_ = false;  ///< it was made before
  bool keeps_dtypes_ = true;
  CallSink sink_;
  capture::Capture capture_;
};

}  // namespace repro_check::replay
