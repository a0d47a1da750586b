// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/system/pinned.h"
#include "core/trace/op_record.h"
#include "dumpers/capture/generators/generator_watch.h"
#include "dumpers/capture/tensors/storage_table.h"
#include "dumpers/capture/tensors/tensor_recorder.h"

namespace repro_check::capture {

struct OperatorPlan;

/// What a functional collective gives is waited for by it.
inline constexpr const char* kWaitTensor = "_c10d_functional::wait_tensor";

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

/// An argument of an operator whose schema may not say all that it writes.
struct HeldArgument {
  at::Tensor tensor;
  std::string slot;
  std::size_t record = 0;  ///< position among the frame's tensors
};

/// One that it may have written: its digests will tell.
struct MaybeWrittenArgument {
  at::Tensor tensor;
  std::string slot;
  std::shared_ptr<const OpenWrite> write;
};

/// An argument that nobody is known to have written, of an operator that may show it or copy it.
struct UnfilledArgument {
  at::Tensor tensor;
  std::size_t record = 0;  ///< position among the frame's tensors
};

/// One recorded call while it runs. Kept by its plan afterwards, so that the next call of the same
/// operator finds every string and vector at its size.
struct Frame : core::Pinned {
  Frame() : tensors(record.tensors) {}

  /// For the next call.
  void restart() {
    tensors.restart();
    input_storages.clear();
    written.clear();
    watched.clear();
    unfilled.clear();
    held.clear();
    maybe_written.clear();
  }

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
  std::vector<UnfilledArgument> unfilled;
  std::vector<HeldArgument> held;
  std::vector<MaybeWrittenArgument> maybe_written;
  GeneratorSnapshot before;
  bool excluded = false;
  bool unread = false;            ///< Reading::kNone
  bool filled = false;            ///< what it allocates is written next, without an operator
  bool keep_bytes = true;         ///< at level tensor
  std::int64_t first_number = 0;  ///< of storages first met inside this call
  std::int64_t first_inner = 0;   ///< of storages first met inside the calls around it
  std::chrono::steady_clock::time_point started;
};

/// Integers of a schema that are really names.
enum class IntegerMeaning : std::uint8_t { kNumber, kScalarType, kLayout, kMemoryFormat };

struct ArgumentPlan {
  std::string name;
  IntegerMeaning meaning = IntegerMeaning::kNumber;
  bool written = false;  ///< the schema says the operator writes it
  bool unread = false;   ///< its elements are asked by nobody: of its form, or memory to be filled
  bool unkept = false;   ///< and only whoever keeps bytes wants them (core::reads_values)
};

struct ResultPlan {
  std::string slot;      ///< `0`, `1`
  bool aliases = false;  ///< the schema ties it to an argument
  bool written = false;  ///< and says that the operator writes that argument
  bool partial = false;  ///< its kernel leaves some of it unwritten
};

/// How dropout is turned off at one argument (docs/DECISIONS.md, dropout).
enum class DoorKind : std::uint8_t { kTrainFlag, kDropProbability, kKeepProbability };

struct Door {
  DoorKind kind;
  std::size_t argument;
};

/// How random numbers are drawn on the host instead (docs/DECISIONS.md, host).
enum class HostDraw : std::uint8_t {
  kNone,           ///< not at all: runs as it is
  kUniform,        ///< fills a new tensor: rand, rand_like
  kNormal,         ///< randn, randn_like, normal with two numbers
  kIntegers,       ///< randint, randint_like
  kPermutation,    ///< randperm
  kSampler,        ///< takes a generator: called on host copies of its arguments
  kNativeDropout,  ///< the mask is drawn on the host
};

/// What an operator does to the content of the storages it is given or makes.
enum class StorageEffect : std::uint8_t {
  kOrdinary,
  kFresh,     ///< returns memory that nobody has written (trap 18)
  kResize,    ///< may grow what it is given, with such memory
  kMetadata,  ///< in place, but only sizes, strides and the storage
};

/// What an operator does with other ranks of its group.
enum class Exchange : std::uint8_t {
  kNone,
  kCollective,  ///< all of them make it together
  kMessage,     ///< sends or receives: one other has to do the opposite
};

/// Everything about an operator that does not change from call to call.
struct OperatorPlan {
  std::shared_ptr<const core::OperatorInfo> info;
  std::string full_name;
  std::vector<ArgumentPlan> arguments;
  std::vector<ResultPlan> results;
  std::vector<Door> doors;
  std::vector<std::size_t> running_stats;  ///< arguments written in training, whatever the schema
  std::vector<std::size_t> training_flags;
  StorageEffect effect = StorageEffect::kOrdinary;
  HostDraw host_draw = HostDraw::kNone;
  bool composite = false;  ///< decomposes where the backend has no kernel of its own
  bool written_arguments = false;
  bool picks = false;          ///< writes those elements of its first argument that others pick
  bool shows_written = false;  ///< its first result is what it wrote of a larger memory
  bool packs = false;          ///< makes the packed weights of a quantised layer
  bool is_marker = false;      ///< of a profiler, and of no computation
  bool is_launch = false;      ///< of a kernel, which writes what it likes of what it is given
  bool is_custom = false;      ///< a library's own: its schema is taken at its word by nobody
  bool view = false;           ///< only shows its argument in another shape
  bool lifts = false;          ///< hands out what `torch.tensor` has filled with a list
  Exchange exchange = Exchange::kNone;
  int group_argument = -1;  ///< of an exchange: the process group, or its name
  bool waits = false;       ///< for a collective that was made before, which gives its argument
  int generator_argument = -1;
  bool matches_include = false;
  bool matches_exclude = false;
  std::vector<std::unique_ptr<Frame>> idle;  ///< frames of finished calls, reused

  /// Position of an argument, or -1.
  [[nodiscard]] int find(std::string_view name) const noexcept;
};

/// Whether an operator is an Exchange.
bool is_exchange(const c10::FunctionSchema& schema);

/// Plans by operator. Not thread safe: the engine's lock is held.
class OperatorPlans {
 public:
  OperatorPlans(std::vector<std::string> include, std::vector<std::string> exclude);

  OperatorPlan& find(const c10::OperatorHandle& op);
  /// Whether an operator that was asked for has a name that matches.
  [[nodiscard]] bool any_matches(const std::string& pattern) const;

 private:
  std::vector<std::string> include_;
  std::vector<std::string> exclude_;
  std::unordered_map<const c10::FunctionSchema*, std::unique_ptr<OperatorPlan>> plans_;
};

/// The arguments of the call: the last ones of the interpreter's whole stack (trap 1).
inline c10::IValue* arguments_of(const OperatorPlan& plan, torch::jit::Stack& stack) {
  return stack.data() + (stack.size() - plan.arguments.size());
}

/// Closes every dropout door that stands open, and notes each.
void close_doors(const OperatorPlan& plan,
                 torch::jit::Stack& stack,
                 std::vector<core::Substitution>& noted);

/// The generator this call would draw from; null or undefined where there is none.
/// @param given  keeps the one that is an argument
const at::Generator* generator_of(const OperatorPlan& plan,
                                  const c10::IValue* arguments,
                                  at::Generator& given);

}  // namespace repro_check::capture
