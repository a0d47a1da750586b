// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "comparators/cause/cause.h"
#include "comparators/data/data_order.h"
#include "comparators/program/still_parameters.h"
#include "comparators/report/finding.h"
#include "core/digest/digest.h"
#include "core/system/memory.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// A text of a trace by number: equal texts have equal numbers. 0 is the empty one.
using TextId = std::uint32_t;

/// A tensor of a call, as far as a rule asks for it.
struct AuditTensor {
  core::Digest digest;  ///< of no meaning unless is_known()
  std::int32_t storage = -1;
  std::int32_t producer = -1;  ///< op index, as core::TensorRecord::producer
  TextId slot = 0;
  TextId name = 0;  ///< of a parameter or buffer that no operator has written since
  TextId shape = 0;
  core::Dtype dtype = core::Dtype::kUnknown;
  core::ContentState state = core::ContentState::kNone;
  bool moved = false;  ///< written by somebody else while it was read
  bool has_nan = false;
  bool is_zero = false;    ///< in all its elements
  bool is_single = false;  ///< one element
  bool is_narrow = false;  ///< floating point of 16 bits

  [[nodiscard]] bool is_known() const noexcept {
    return state == core::ContentState::kHashed && !moved;
  }
  /// Same dtype, shape and bits.
  [[nodiscard]] bool equals(const AuditTensor& other) const noexcept {
    return is_known() && other.is_known() && dtype == other.dtype && shape == other.shape &&
           digest == other.digest;
  }
};

/// What a call was told of training, by an argument `train`, `training` or `dropout_p`.
enum class TrainFlag : std::uint8_t { kUntold, kOff, kOn };

struct AuditCall {
  core::Digest scalars;     ///< of all that is no tensor, of calls that drew
  std::uint64_t first = 0;  ///< its tensors in AuditTrace::tensors
  std::uint32_t inputs = 0;
  std::uint32_t outputs = 0;
  TextId op = 0;     ///< `aten::add.Tensor`
  TextId base = 0;   ///< `aten::add`
  TextId modes = 0;  ///< as core::OpHead::modes, without that of the module
  std::uint32_t site = 0;
  std::uint32_t step = 0;
  std::uint32_t lane = 0;
  std::int32_t parent = -1;  ///< op index
  core::Phase phase = core::Phase::kForward;
  TrainFlag training = TrainFlag::kUntold;
  bool in_eval = false;      ///< its module is known to be in evaluation mode
  bool adds_number = false;  ///< a number other than 0 is written, or added, in place
  bool sums_ranks = false;   ///< a sum over ranks, which is no in-place operator
  bool drew = false;
  bool is_named = false;  ///< a record that stands for no operator
};

/// A call that drew random numbers.
struct AuditDraw {
  std::uint32_t call = 0;
  core::Digest from;  ///< of the generator, and of the place where it stood
  bool is_constant = false;  ///< a key that was in a compiled function before it was called
};

/// A step of an optimizer.
struct AuditStep {
  std::uint32_t call = 0;
  std::optional<double> gradient_norm;
  bool has_rate = true;  ///< some learning rate is not 0
};

/// A batch that a loader handed out.
struct AuditBatch {
  std::uint32_t call = 0;
  std::uint32_t step = 0;
  std::int64_t loader = -1;  ///< -1 = of none that told of itself
  std::int64_t epoch = 0;
  std::int64_t workers = 0;
  bool evaluated = false;             ///< a module in evaluation mode follows, before another batch
  std::vector<std::int64_t> samples;  ///< their numbers in the dataset
  std::vector<core::Digest> contents;  ///< of each
  /// What was set of the dataset since the workers began; none where that is not told.
  std::optional<std::string> unseen;
};

/// One recording, read once: what the rules of an audit are functions of. 200 bytes an operator of
/// four tensors, in files where that is much.
class AuditTrace {
 public:
  /// @param is_late  asked now and then: whether to stop; may be empty
  /// @throws core::Error{kDumpDamaged}, kNotComparable for more than 2^31-1 operators
  explicit AuditTrace(const core::DumpSource& dump, const std::function<bool()>& is_late = {});

  /// Whether all was read: else it is of no use.
  [[nodiscard]] bool is_whole() const noexcept { return is_whole_; }

  [[nodiscard]] const core::RunManifest& manifest() const noexcept { return dump_.manifest(); }
  [[nodiscard]] const core::DumpSource& dump() const noexcept { return dump_; }
  [[nodiscard]] std::uint32_t size() const noexcept {
    return static_cast<std::uint32_t>(calls_.size());
  }
  [[nodiscard]] const AuditCall& operator[](std::uint32_t call) const { return calls_[call]; }
  [[nodiscard]] std::span<const AuditTensor> inputs(std::uint32_t call) const {
    return {tensors_.data() + calls_[call].first, calls_[call].inputs};
  }
  [[nodiscard]] std::span<const AuditTensor> outputs(std::uint32_t call) const {
    return {tensors_.data() + calls_[call].first + calls_[call].inputs, calls_[call].outputs};
  }
  [[nodiscard]] core::ContentKey content_key(const AuditTensor& tensor) const;
  /// Null where there is none of this name.
  [[nodiscard]] const AuditTensor* input(std::uint32_t call, TextId slot) const;

  [[nodiscard]] std::string_view text(TextId id) const { return texts_[id]; }
  /// Of a text that stands nowhere in the trace a number that nothing has.
  [[nodiscard]] TextId id_of(std::string_view text) const;
  [[nodiscard]] const std::shared_ptr<const core::CallSite>& site(std::uint32_t call) const {
    return sites_[calls_[call].site];
  }
  [[nodiscard]] bool is(std::uint32_t call, TextId base) const { return calls_[call].base == base; }

  /// Whether it returns memory of an argument as it is: `view`, `detach`, `t`.
  [[nodiscard]] bool is_view(std::uint32_t call) const;
  /// Whether an output of it is what it wrote.
  [[nodiscard]] bool wrote(std::uint32_t call, const AuditTensor& output) const noexcept {
    return output.producer == static_cast<std::int32_t>(call);
  }
  /// `aten::dropout (block.1, train.py:40)`
  [[nodiscard]] std::string said(std::uint32_t call) const;

  [[nodiscard]] const std::vector<AuditDraw>& draws() const noexcept { return draws_; }
  [[nodiscard]] const std::vector<AuditStep>& steps() const noexcept { return steps_; }
  [[nodiscard]] const std::vector<AuditBatch>& batches() const noexcept { return batches_; }
  [[nodiscard]] const std::vector<std::uint32_t>& losses() const noexcept { return losses_; }
  [[nodiscard]] const std::vector<UnwrittenRead>& unwritten() const noexcept { return unwritten_; }
  [[nodiscard]] const std::vector<StillParameter>& still() const noexcept { return still_; }
  [[nodiscard]] const DataOrder& data() const noexcept { return data_; }

  /// A finding at a call, with its operator.
  [[nodiscard]] Finding at(FindingId id, Finding::Weight weight, std::uint32_t call) const;

 private:
  TextId number(std::string_view text);
  core::Digest zeros(std::uint64_t bytes);
  std::uint32_t number(const std::shared_ptr<const core::CallSite>& site);
  void add(const core::OpRecord& record);
  void add(const core::TensorRecord& tensor);
  void add_batch(const core::OpRecord& record);

  struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>()(text);
    }
  };
  struct Ordered {
    std::int64_t loader = -1;
    std::int64_t epoch = 0;
    std::int64_t workers = 0;
    std::vector<std::int64_t> samples;
    std::optional<std::string> unseen;
  };

  const core::DumpSource& dump_;
  bool is_whole_ = false;
  bool is_in_eval_ = false;  ///< a model, as it was asked for
  core::LargeVector<AuditCall> calls_;
  core::LargeVector<AuditTensor> tensors_;
  std::vector<std::string> texts_{""};
  std::unordered_map<std::string, TextId, TextHash, std::equal_to<>> ids_{{"", 0}};
  std::vector<std::shared_ptr<const core::CallSite>> sites_;
  std::unordered_map<const core::CallSite*, std::uint32_t> site_ids_;
  std::unordered_map<std::uint64_t, core::Digest> zeros_;  ///< by bytes
  std::vector<AuditDraw> draws_;
  std::vector<AuditStep> steps_;
  std::vector<AuditBatch> batches_;
  std::vector<std::uint32_t> losses_;
  std::unordered_map<std::uint32_t, Ordered> ordered_;  ///< by lane
  std::vector<UnwrittenRead> unwritten_;
  std::vector<StillParameter> still_;
  DataOrder data_;
};

}  // namespace repro_check::comparators
