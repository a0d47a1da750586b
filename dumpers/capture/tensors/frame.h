// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/system/pinned.h"
#include "core/trace/op_record.h"
#include "dumpers/capture/generators/generator_watch.h"
#include "dumpers/capture/tensors/byte_ranges.h"

namespace repro_check::capture {

struct OperatorPlan;

/// Tensor records being filled. The vector keeps its elements between calls, so that their strings
/// and vectors keep their memory.
class RecordList {
 public:
  explicit RecordList(std::vector<core::TensorRecord>& records) : records_(&records) {}

  void restart() noexcept { used_ = 0; }
  [[nodiscard]] std::size_t size() const noexcept { return used_; }
  core::TensorRecord& operator[](std::size_t index) { return (*records_)[index]; }

  /// The next one, as an earlier call left it. Invalidates references to the others.
  core::TensorRecord& add() {
    if (used_ == records_->size()) records_->emplace_back();
    return (*records_)[used_++];
  }

  /// Drops what is left over from a longer call.
  void finish() { records_->resize(used_); }

 private:
  std::vector<core::TensorRecord>* records_;
  std::size_t used_ = 0;
};

/// Puts those at their default that an ordinary tensor with elements in a storage need not have;
/// its slot, kind, sizes, strides and storage are left for whoever describes it.
void clear_optional(core::TensorRecord& record);

/// An argument the operator is going to write.
struct WrittenArgument {
  at::Tensor tensor;
  std::string slot;
  std::size_t bytes_before = 0;  ///< of its storage
  std::int64_t elements_before = 0;
  /// Of memory of which not all has been written, where the operator writes but some of the tensor.
  std::optional<std::vector<ByteRange>> picked;
};

/// An argument that has been digested, and its version counter before that.
struct WatchedArgument {
  const c10::TensorImpl* tensor = nullptr;  ///< the caller holds it until the operator runs
  std::int64_t version = 0;
  std::size_t record = 0;  ///< position among the frame's tensors
};

/// One recorded call while it runs. Kept by its plan afterwards, so that the next call of the same
/// operator finds every string and vector at its size.
struct Frame : core::Pinned {
  Frame() : tensors(record.tensors) {}

  /// @param tensor   an argument, of which tensors[index] is the record
  /// @param version  of it before it was digested
  void watch(const at::Tensor& tensor, std::int64_t version, std::size_t index);
  /// To be called just before the operator runs: what was written since it was digested is not what
  /// the operator reads.
  void settle_watch();

  core::OpRecord record;
  RecordList tensors;
  OperatorPlan* plan = nullptr;
  std::vector<const c10::StorageImpl*> input_storages;
  std::vector<WrittenArgument> written;
  std::vector<WatchedArgument> watched;
  GeneratorSnapshot before;
  bool excluded = false;
  bool filled = false;            ///< what it allocates is written next, without an operator
  bool keep_bytes = true;         ///< at level tensor
  std::int64_t first_number = 0;  ///< of storages first met inside this call
  std::int64_t first_inner = 0;   ///< of storages first met inside the calls around it
  std::chrono::steady_clock::time_point started;
};

}  // namespace repro_check::capture
