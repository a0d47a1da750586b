// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/system/pinned.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"
#include "dumpers/capture/engine/border_reading.h"
#include "dumpers/capture/engine/capture_options.h"
#include "dumpers/capture/engine/exchanges.h"
#include "dumpers/capture/engine/host_rng.h"
#include "dumpers/capture/engine/lane.h"
#include "dumpers/capture/engine/operator_plan.h"
#include "dumpers/capture/engine/values.h"
#include "dumpers/capture/tensors/tensor_recorder.h"

namespace repro_check::capture {

/// Tensors by name.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Whose contents are read of the tensors that a call is given and leaves.
enum class Reading : std::uint8_t {
  kAll,     ///< as the options have it
  kValues,  ///< and kept, as those of CaptureOptions::keep_ops are
  kKept,    ///< those of keep_ops alone: the front end records the others once they are through
  kNone,    ///< nothing of it is computed, and no number read out of it is kept
};

/// Says where in the model the calling thread stands. Implemented by the front end; called on the
/// thread that runs the operator, inside the fallback.
class SiteProvider : core::Pinned {
 public:
  virtual ~SiteProvider() = default;

  /// Null when nothing is known. Equal places should be the same object.
  virtual std::shared_ptr<const core::CallSite> current_site() = 0;

  /// Which part of a training step this thread is in; empty where it is not told.
  [[nodiscard]] virtual std::optional<core::Phase> current_phase() const { return std::nullopt; }

  /// Whether what this thread runs now, outside any operator and in this step, is the model. What a
  /// compiler runs while it folds constants is not, and is not recorded.
  [[nodiscard]] virtual bool runs_model(std::uint32_t /*step*/) const { return true; }

  /// Whether what this thread runs writes the memory that it allocates without an operator, as what
  /// turns a list of the program into a tensor does.
  [[nodiscard]] virtual bool fills_memory() const { return false; }

  /// The device of the part of a backward pass that this thread runs; empty outside of all.
  [[nodiscard]] virtual std::optional<int> backward_device() const { return std::nullopt; }

  /// The name of the class of an object of Python's, as python_object() gives it; empty where it is
  /// not known.
  [[nodiscard]] virtual std::string class_of(const void* /*object*/) const { return {}; }

  /// Whether a module makes the calls of this thread that is in evaluation mode.
  [[nodiscard]] virtual bool calls_in_eval() const { return false; }

  /// What is read of what this thread runs now.
  [[nodiscard]] virtual Reading reading() const { return Reading::kAll; }
};

/// Records of another process, which numbers them by itself.
struct ForeignRecords {
  std::vector<core::OpRecord> records;  ///< ascending by index
  std::uint32_t lane = 0;               ///< that they will have
  std::int64_t first_storage = 0;       ///< what its storages' numbers are moved by
  /// Their indices here, by those that they had: of these, and of what was adopted of it before.
  std::unordered_map<std::int64_t, std::int64_t>* indices = nullptr;
  /// The bytes of a content, valid until the next call; empty where they are not there.
  std::function<std::optional<std::span<const std::byte>>(const core::ContentKey&)> read;
  std::string failure;  ///< of its recording, which is then that of this one; empty = none
};

/// What goes into a block, or comes out: a tensor, or what Python holds in the place of one.
struct BorderLeaf {
  at::Tensor tensor;  ///< undefined: the bytes stand here instead
  core::Dtype dtype = core::Dtype::kUnknown;
  std::span<const std::byte> bytes = {};
  std::vector<std::int64_t> shape = {};
};

/// An operator call as the fallback gets it.
struct Call {
  const c10::OperatorHandle& op;
  c10::DispatchKeySet keys;  ///< below the engine's own
  torch::jit::Stack& stack;
};

/// What is kept for each thread that runs operators.
struct ThreadState {
  std::uint64_t capture = 0;          ///< of which one this is
  std::optional<std::uint32_t> lane;  ///< that begins on this thread
  std::vector<Frame*> open;           ///< recorded calls this thread is inside of
  unsigned hidden = 0;                ///< above 0 inside a call whose inside is not recorded
  bool enters_python = false;         ///< what runs is recorded, and may go to a class of tensors
  unsigned inside_python = 0;         ///< above 0 in what such a class does

  struct KnownPlan {
    const c10::FunctionSchema* schema = nullptr;
    OperatorPlan* plan = nullptr;
  };
  /// Plans of operators called lately, to be found without the lock.
  std::array<KnownPlan, 64> known_plans;

  KnownPlan& plan_of(const c10::FunctionSchema* schema) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(schema) / alignof(std::max_align_t);
    return known_plans[(address ^ (address >> 6U)) % known_plans.size()];
  }
};

/// `backbone.conv1, model.py:40`; empty where nothing is known.
std::string place_text(const core::CallSite& site);

/// The recorded call that this thread is inside of, the outermost where they are nested:
/// `aten::conv2d (backbone.conv1, model.py:40)`; empty outside of all.
std::string running_call();

/// `told` is called in a forked child of a process that records, before its first operator, where
/// the child does not record itself; from anywhere inside of it.
void tell_of_unrecorded_child(void (*told)()) noexcept;
/// In such a child: what it runs is not to be told.
void expect_unrecorded_child() noexcept;

/// What becomes of the calls an operator makes itself.
enum class Inside : std::uint8_t {
  kRecorded,  ///< records of their own
  kWatched,   ///< not recorded, but dropout and draws in them are still substituted
  kUnseen,
};

/// Records every operator that passes the dispatcher while a Scope is alive. One Capture at a time
/// is active in a process. Knows no front end and no file format. The state shared by threads is
/// behind one lock, which is never held while an operator or the site provider runs.
class Capture : core::Pinned {
 public:
  /// @param sink, sites  borrowed for the life of the object; `sites` may be null
  Capture(const CaptureOptions& options, core::DumpSink& sink, SiteProvider* sites);
  ~Capture();

  /// Names a tensor's storage, `state:encoder.3.weight` or `input:tokens`, until an operator writes
  /// it. Records of it carry the name.
  void name_tensor(const at::Tensor& tensor, const std::string& name);

  /// The digest the records of `tensor` would carry now; remembered, so that the first operator to
  /// read it does not hash it again. Undefined, meta and other content-less tensors give a record
  /// whose state says so. Components of sparse and quantised tensors follow as further records.
  std::vector<core::TensorRecord> describe(const at::Tensor& tensor, const std::string& slot);

  /// The tensors that the packed weights of a quantised layer were made of, as the records of
  /// operators that use them will have them: `<name>.weight`, `<name>.bias`. Empty for any other
  /// value.
  NamedTensors unpack(const c10::IValue& object, const std::string& name);

  /// That the program gave a storage new memory, with no operator: nobody has written it. On any
  /// thread.
  void note_new_memory(const c10::Storage& storage);

  /// That somebody who calls no operator may write the tensor's memory from here on. On any thread.
  void note_shared(const at::Tensor& tensor);

  /// Whether the tensor's memory is known, and may hold what no record tells. On any thread.
  bool may_hold_untold(const at::Tensor& tensor);

  /// A process group of the program, as records of what it exchanges will have it. On any thread
  /// that a Scope covers.
  /// @param group  address of the c10d::ProcessGroup; null = known by its name alone
  /// @param ranks  of its members, in its order
  void name_group(const void* group, const std::string& name, std::vector<std::int64_t> ranks);

  /// Of what the calling thread's lane records from here on.
  /// @param of_ancestors  and what the lanes that it was forked from do, where they are in an
  ///                      earlier step, and those that are begun outside of a Scope
  void set_step(std::uint32_t step, bool of_ancestors = true);
  /// Of what the calling thread records.
  [[nodiscard]] std::uint32_t step() const;
  /// To be told before recording goes on after a time in which operators ran unseen.
  void forget_contents();

  /// Appends the record of what the call of this step returned (core::kReturnedOperator). To be
  /// called on the thread that made this object, outside of a Scope. Memory that no operator has
  /// written is digested as well: the program hands it out.
  void record_returned(const c10::IValue& value);

  /// Appends a record that stands for no operator of LibTorch: values that the front end names, as
  /// a batch, a loss or the state of an optimizer. On any thread that a Scope covers.
  /// @param name     `repro_check::batch`
  /// @param values   a name each; nothing but tensors, numbers and strings
  /// @param follows  what is said beside them and follows from them: numbers, and lists of numbers
  /// @param written  what operators have written that nobody recorded: by this record, as others
  ///                 will have it
  /// @param keep_bytes  of the values, at level tensor; else their digests alone
  void record_values(const std::string& name,
                     const NamedValues& values,
                     const NamedValues& follows = {},
                     at::TensorList written = {},
                     bool keep_bytes = true);

  /// Adds to a border what `leaves` hold, in order. On any thread.
  /// @return how many of the tensors could not be read
  std::uint32_t read_border(std::span<const BorderLeaf> leaves, BorderReading& into);
  /// Reads ahead of read_border() what each of them holds, on all of LibTorch's threads.
  void read_ahead(std::span<const BorderLeaf> leaves);
  /// Appends a call of a block, or a parameter, whose digests are those of the borders. On any
  /// thread.
  void append(core::BlockRow row, const BorderReading& in, const BorderReading& out);
  void append(core::ParameterRow row, const BorderReading& content);

  /// Waits for what devices have to tell of what was recorded, and hands it all to the sink. On any
  /// thread.
  void flush() noexcept;

  /// Appends records of another process of the program, in their order, as what the calling thread
  /// gets in this step and phase. On any thread that a Scope covers.
  void adopt(ForeignRecords& foreign);

  /// The lane of the next thread that the calling thread starts, to be handed to that thread's
  /// Scope; empty where the calling thread is in no lane.
  std::optional<std::uint32_t> fork_lane();

  /// Of what the calling thread records.
  [[nodiscard]] std::uint32_t lane_number() const noexcept;
  /// Of the record that is begun next. Any thread.
  [[nodiscard]] std::uint64_t next_index() const;
  /// Readable from any thread while the run goes on.
  [[nodiscard]] CaptureCounts counts() const;
  /// What a person should know of the recording, each once: draws that could not be moved to the
  /// host, draws that could not be counted, inputs that changed unseen (verify_inputs).
  [[nodiscard]] std::vector<std::string> warnings() const;
  void add_warning(std::string text);
  /// Rethrows what went wrong inside the recording itself (a full disk, a defect of ours), which a
  /// model may have swallowed. To be called after the run; does nothing when nothing did.
  /// @throws core::Error
  void rethrow_failure() const;
  /// Patterns of CaptureOptions::include that no operator and no module of the run matched.
  [[nodiscard]] std::vector<std::string> unmatched_include() const;
  /// The operator that was running, or the last one, for messages: `op 57 aten::conv2d
  /// (backbone.conv1, model.py:40)`. Empty before the first.
  [[nodiscard]] std::string last_operator() const;

  /// Runs the operator, recording it and changing what the options ask for. Called by the fallback.
  void intercept(const Call& call);
  /// The same at depth blocks, where the fallback is off: of what ranks exchange, and only that.
  void intercept_exchange(const Call& call);

  /// Tells the sink more of the recording than it was told when that began.
  void tell(const core::RunManifest& manifest);

  /// Interception on the calling thread, and the threads that inherit its state, while alive.
  class Scope : core::Pinned {
   public:
    /// @param lane  from fork_lane(); empty = the thread that made the Capture, or one of which
    ///              nobody knows who started it
    /// @throws core::Error{kInternal} while another Capture records
    explicit Scope(Capture& capture, std::optional<std::uint32_t> lane = std::nullopt);
    ~Scope();

   private:
    Capture& capture_;
    std::optional<c10::DebugInfoGuard> lane_;
    bool previous_;
    int exceptions_;
  };

 private:
  class OutputVisitor;
  /// What waits for the digests of a device, or comes behind what does.
  struct Pending;
  struct PendingCall;
  struct PendingRecord;
  struct PendingRow;
  /// Where a call stands, as the front end says.
  struct Place {
    std::shared_ptr<const core::CallSite> site;
    std::optional<core::Phase> phase;
    Reading reading = Reading::kAll;
  };

  [[nodiscard]] Place place() const;
  ThreadState& this_thread();
  /// The lane that begins on this thread, with none of its forks made.
  std::shared_ptr<LaneState> begin_lane(std::optional<std::uint32_t> forked);
  /// Null on a thread that inherited none of this capture's.
  [[nodiscard]] LaneState* inherited_lane() const noexcept;
  /// False for what its compiler runs; asked where no recorded call is open.
  [[nodiscard]] bool is_of_program() const;
  OperatorPlan* find_plan(const Call& call, ThreadState& thread) noexcept;
  [[nodiscard]] bool decomposes(const Call& call, const OperatorPlan& plan) const;
  /// Who sends may wait for one that waits for him: what is received is recorded where it is read.
  [[nodiscard]] bool gives_later(const OperatorPlan& plan) const {
    return plan.exchange == Exchange::kMessage ||
           (plan.exchange == Exchange::kCollective && options_.no_sync);
  }
  /// That it is entered, before it waits.
  void note_exchange(const Call& call, const OperatorPlan& plan, const ThreadState& thread);
  void record(const Call& call,
              OperatorPlan& plan,
              ThreadState& thread,
              Inside inside,
              std::vector<core::Substitution> noted);
  /// Sees to it that what a class of tensors does for the call is recorded, or says that it is not.
  bool opens_python(const Call& call, const OperatorPlan& plan, ThreadState& thread);
  void intercept_hidden(const Call& call, const OperatorPlan& plan, ThreadState& thread);
  void execute(const Call& call, const OperatorPlan& plan, ThreadState& thread, Inside inside);
  bool draw_on_host(const Call& call, const OperatorPlan& plan, ThreadState& thread);

  /// Null when recording has failed.
  std::unique_ptr<Frame> begin(const Call& call,
                               OperatorPlan& plan,
                               const ThreadState& thread,
                               std::vector<core::Substitution> noted) noexcept;
  std::unique_ptr<Frame> take_frame(OperatorPlan& plan);
  void fill_head(Frame& frame,
                 const ThreadState& thread,
                 std::vector<core::Substitution> noted,
                 const Place& place);
  /// Gives a record its index, and what stands around it.
  void number(core::OpRecord& record, const Place& place, std::uint32_t lane);
  void note_last(const core::OpRecord& record, bool raised) {
    last_ = {raised, record.index, record.op.get(), record.site};
  }
  void fill_inputs(const Call& call, Frame& frame);
  void note_picked(const c10::IValue* arguments, Frame& frame);
  void end(const Call& call, std::unique_ptr<Frame> frame, const ThreadState& thread) noexcept;
  void note_movement(Frame& frame);
  void note_uncounted(const Frame& frame);
  void fill_outputs(const Call& call, Frame& frame);
  void apply_writes(Frame& frame);
  /// Finds what an operator has written although its schema does not say so.
  void note_undeclared_writes(Frame& frame);
  void note_maybe_written(HeldArgument& held, const Awaited& after, Frame& frame);
  /// Whether memory that the call hands out is unwritten until operators have written all of it.
  /// What a kernel allocates for itself it may also write without an operator; of a program whoever
  /// reads it tells.
  [[nodiscard]] bool follows_writes(const Frame& frame) const {
    return frame.record.depth == 0 || options_.unseen_writes;
  }
  /// @param shown  the first result of an operator that shows what it wrote
  void note_shown(const at::Tensor& shown, const Frame& frame);
  void append(std::unique_ptr<Frame> frame);
  template <typename Append>
  void append_row(std::vector<BorderReading> borders, Append append);
  /// Whether it goes to the sink at once.
  [[nodiscard]] bool is_settled(const Arrivals& arrivals) const {
    return pending_.empty() && arrivals.empty();
  }
  void keep(std::unique_ptr<Pending> pending);
  /// Hands what has come to the sink, in order.
  /// @param most  bytes that may stay behind; for more, the device is waited for
  void drain(std::size_t most);
  void wait_for(const Arrivals& arrivals);
  /// @param arrivals  all of which have come
  void write(core::OpRecord& record, const Arrivals& arrivals);
  /// As record_values() is given them.
  struct ToldValues {
    const NamedValues& values;
    const NamedValues& follows;
    at::TensorList written;
    bool keep_bytes = true;
  };
  void append_values(const std::string& name,
                     const ToldValues& told,
                     const Place& place,
                     std::uint32_t lane);
  void fill_values(const ToldValues& told, core::OpRecord& record, Arrivals& arrivals);
  void renumber(core::OpRecord& record, const ForeignRecords& foreign, core::Phase phase);
  void keep_contents(core::OpRecord& record, const ForeignRecords& foreign);
  void raised(std::unique_ptr<Frame> frame) noexcept;
  void append_raised();
  /// Appends the calls that ended in an exception which the program survived.
  void settle() noexcept;
  [[nodiscard]] bool is_excluded(const OperatorPlan& plan,
                                 const std::shared_ptr<const core::CallSite>& site);
  void note_stale(Frame& frame);
  void warn_of_stale(const core::OpRecord& record, const std::string& slot);
  void note_raced(const core::OpRecord& record);
  /// @param record  null = of a border
  void note_unordered(const core::OpRecord* record);
  void warn(std::string text);
  void fail(std::exception_ptr why) noexcept;
  [[nodiscard]] std::string describe_last() const;

  const std::uint64_t id_;
  const pid_t process_;
  const CaptureOptions options_;
  core::DumpSink* sink_;
  SiteProvider* sites_;
  HostRng host_rng_;
  mutable std::mutex mutex_;
  OperatorPlans plans_;
  /// Records of values by their name, as the last of each was: the next has its memory.
  std::map<std::string, core::OpRecord> value_records_;
  TensorRecorder tensors_;
  PackedObjects packed_;
  Exchanges exchanges_;
  std::uint64_t next_index_ = 0;
  std::uint32_t lanes_begun_ = 0;  ///< but for the main one
  /// By number, until the thread that each is for begins.
  std::unordered_map<std::uint32_t, std::shared_ptr<LaneState>> forked_;
  std::atomic<std::uint32_t> step_ = 0;  ///< set last
  std::vector<std::unique_ptr<Frame>> raised_;
  std::deque<std::unique_ptr<Pending>> pending_;  ///< in the order of the dump
  std::size_t pending_bytes_ = 0;
  std::vector<core::TensorRecord> border_;  ///< of the border that was read last: memory
  struct SiteMatch {
    bool include = false;
    bool exclude = false;
  };
  std::unordered_map<std::shared_ptr<const core::CallSite>, SiteMatch> site_matches_;
  std::vector<std::string> warnings_;
  std::set<std::string> warned_;
  std::optional<core::Error> failure_;
  struct Last {
    bool raised = false;
    std::uint64_t index = 0;
    const core::OperatorInfo* op = nullptr;  ///< kept by its plan; null = none yet
    std::shared_ptr<const core::CallSite> site;
  } last_;
  CaptureCounts counts_;  ///< but for hashed_bytes
  std::atomic<bool> failed_ = false;
};

}  // namespace repro_check::capture
