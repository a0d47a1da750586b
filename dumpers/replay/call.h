// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/dump_sink.h"
#include "core/trace/dump_source.h"
#include "core/trace/replay_inputs.h"
#include "dumpers/capture/engine/capture.h"
#include "dumpers/capture/engine/operator_plan.h"

namespace repro_check::replay {

/// A generator of the kind `op` drew from, seeded and moved to where it stood before the call. The
/// way there follows what earlier operators of the dump drew, then single steps.
/// @param op  with `generator` set; its device must be the CPU or one this process has
/// @throws core::Error{kNotComparable} when no way from the seed leads there
at::Generator restore_generator(const core::DumpSource& dump, const core::OpRecord& op);

/// @throws core::Error{kNotComparable}, always
[[noreturn]] void cannot(const std::string& what, const std::string& hint);

inline constexpr const char* kOwnRecorder = "use the recorder that made the dump: --recorder";

/// How arguments differ from the recorded ones.
struct RebuildOptions {
  std::optional<c10::Device> device;  ///< tensors and device arguments move there
  bool float64 = false;               ///< floating tensors and dtypes become float64, complex128
};

/// The arguments of one recorded call, made again from the stored values: tensors with the same
/// strides, and those that shared a storage share one.
class Arguments {
 public:
  /// @param record   borrowed; as core::require_replayable() gives it
  /// @param written  per tensor of the record, whether the operator may write it
  Arguments(const core::DumpSource& dump,
            const core::OpRecord& record,
            std::vector<bool> written,
            const RebuildOptions& options);

  /// Forgets what calls have written.
  void restart();

  /// One argument as the operator takes it.
  /// @param generator  for an argument that is one; undefined where nothing was drawn
  /// @throws core::Error{kNotComparable} for what a record only knows by its type
  [[nodiscard]] c10::IValue value(const core::Value& value,
                                  const c10::TypePtr& type,
                                  capture::IntegerMeaning meaning,
                                  const at::Generator& generator) const;

 private:
  struct Memory {
    core::InputStorage storage;
    bool written = false;
    at::Tensor original;
  };

  [[nodiscard]] at::Tensor make_whole(std::size_t index) const;
  [[nodiscard]] std::int64_t number_of(const core::Symbol& symbol,
                                       capture::IntegerMeaning meaning) const;
  /// Packs the weights of a quantised layer again, from the state in the record.
  [[nodiscard]] c10::IValue packed(const core::ValueList& data,
                                   const c10::ClassTypePtr& type,
                                   capture::IntegerMeaning meaning,
                                   const at::Generator& generator) const;

  const core::OpRecord& record_;
  RebuildOptions options_;
  std::vector<bool> written_;
  std::vector<Memory> memories_;
  bool made_ = false;                ///< whether those that nobody writes are in `tensors_`
  std::vector<at::Tensor> tensors_;  ///< by position in the record; of quantised ones the integers
  std::vector<at::Tensor> wholes_;   ///< quantised, sparse and nested ones
};

/// What the engine says of the last call. Contents that the dump holds are left there.
class CallSink final : public core::DumpSink {
 public:
  /// @param dump  borrowed
  explicit CallSink(const core::DumpSource& dump) : dump_(dump) {}

  void enter(const core::OpHead& /*call*/) override {}
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
