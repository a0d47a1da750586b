// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "dumpers/capture/engine/capture.h"
#include "dumpers/capture/engine/host_rng.h"
#include "dumpers/capture/engine/lane_state.h"
#include "dumpers/capture/engine/operator_plan.h"
#include "dumpers/capture/tensors/frame.h"
#include "dumpers/capture/tensors/packed_object.h"
#include "dumpers/capture/tensors/tensor_recorder.h"

namespace repro_check::capture {

/// An operator call as the fallback gets it.
struct Call {
  const c10::OperatorHandle& op;
  c10::DispatchKeySet keys;  ///< below the engine's own
  torch::jit::Stack& stack;
};

/// What the engine keeps for each thread that runs operators.
struct ThreadState {
  std::uint64_t engine = 0;           ///< of which engine this is
  std::optional<std::uint32_t> lane;  ///< that begins on this thread
  std::vector<Frame*> open;           ///< recorded calls this thread is inside of
  unsigned hidden = 0;                ///< above 0 inside a call whose inside is not recorded

  struct KnownPlan {
    const c10::FunctionSchema* schema = nullptr;
    OperatorPlan* plan = nullptr;
  };
  /// Plans of operators called lately, to be found without the engine's lock.
  std::array<KnownPlan, 64> known_plans;

  KnownPlan& plan_of(const c10::FunctionSchema* schema) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(schema) / alignof(std::max_align_t);
    return known_plans[(address ^ (address >> 6U)) % known_plans.size()];
  }
};

/// The recorded call that this thread is inside of, the outermost where they are nested:
/// `aten::conv2d (backbone.conv1, model.py:40)`; empty outside of all.
std::string running_call();

/// What becomes of the calls an operator makes itself.
enum class Inside : std::uint8_t {
  kRecorded,  ///< records of their own
  kWatched,   ///< not recorded, but dropout and draws in them are still substituted
  kUnseen,
};

/// Records calls. The state shared by threads is behind one lock, which is never held while an
/// operator or the site provider runs.
class Engine {
 public:
  Engine(const CaptureOptions& options, core::DumpSink& sink, SiteProvider* sites);

  /// Runs the operator, recording it and changing what the options ask for.
  void intercept(const Call& call);

  void name_tensor(const at::Tensor& tensor, const std::string& name);
  std::vector<core::TensorRecord> describe(const at::Tensor& tensor, const std::string& slot);
  NamedTensors unpack(const c10::IValue& object, const std::string& name);
  /// The lane that begins on this thread, with none of its forks made.
  std::shared_ptr<LaneState> begin_lane(std::optional<std::uint32_t> forked);
  std::optional<std::uint32_t> fork_lane();
  void set_step(std::uint32_t step);
  void set_phase(core::Phase phase);
  void record_returned(const c10::IValue& value);
  void record_values(const std::string& name, const NamedValues& values);
  [[nodiscard]] CaptureCounts counts() const;
  [[nodiscard]] std::vector<std::string> warnings() const;
  void rethrow_failure() const;
  [[nodiscard]] std::vector<std::string> unmatched_include() const;
  [[nodiscard]] std::string last_operator() const;
  /// Appends the calls that ended in an exception which the program survived.
  void settle() noexcept;

 private:
  class InputVisitor;
  class OutputVisitor;
  class ValueVisitor;

  /// Where a call stands, as the front end says.
  struct Place {
    std::shared_ptr<const core::CallSite> site;
    std::optional<core::Phase> phase;
  };

  [[nodiscard]] Place place() const;
  ThreadState& this_thread();
  /// Null on a thread that inherited none of this engine's.
  [[nodiscard]] const LaneState* inherited_lane() const noexcept;
  [[nodiscard]] std::uint32_t lane_number() const noexcept;
  /// False for what its compiler runs; asked where no recorded call is open.
  [[nodiscard]] bool is_of_program() const;
  OperatorPlan* find_plan(const Call& call, ThreadState& thread) noexcept;
  [[nodiscard]] bool decomposes(const Call& call, const OperatorPlan& plan) const;

  void record(const Call& call,
              OperatorPlan& plan,
              ThreadState& thread,
              Inside inside,
              std::vector<core::Substitution> noted);
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
  void fill_inputs(const Call& call, Frame& frame);
  void note_picked(const c10::IValue* arguments, Frame& frame);
  void end(const Call& call, std::unique_ptr<Frame> frame, const ThreadState& thread) noexcept;
  void note_movement(Frame& frame);
  void note_uncounted(const Frame& frame);
  void fill_outputs(const Call& call, Frame& frame);
  void apply_writes(Frame& frame);
  void append(std::unique_ptr<Frame> frame);
  void append_values(const std::string& name,
                     const NamedValues& values,
                     const Place& place,
                     std::uint32_t lane);
  void raised(std::unique_ptr<Frame> frame) noexcept;
  void append_raised();
  [[nodiscard]] bool is_excluded(const OperatorPlan& plan,
                                 const std::shared_ptr<const core::CallSite>& site);
  void note_stale(const Frame& frame);
  void note_raced(const core::OpRecord& record);
  void warn(std::string text);
  void fail(std::exception_ptr why) noexcept;
  [[nodiscard]] std::string describe_last() const;

  const std::uint64_t id_;
  const CaptureOptions options_;
  core::DumpSink* sink_;
  SiteProvider* sites_;
  HostRng host_rng_;

  mutable std::mutex mutex_;
  OperatorPlans plans_;
  /// What records of values carry in the place of an operator.
  std::map<std::string, std::shared_ptr<const core::OperatorInfo>> value_operators_;
  TensorRecorder tensors_;
  PackedObjects packed_;
  std::uint64_t next_index_ = 0;
  std::uint32_t lanes_begun_ = 0;                                ///< but for the main one
  std::unordered_map<std::uint32_t, std::uint64_t> host_draws_;  ///< by lane
  std::uint32_t step_ = 0;
  core::Phase phase_ = core::Phase::kForward;
  std::vector<std::unique_ptr<Frame>> raised_;
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
    const core::OperatorInfo* op = nullptr;  ///< kept by the engine; null = none yet
    std::shared_ptr<const core::CallSite> site;
  } last_;

  CaptureCounts counts_;  ///< but for hashed_bytes
  std::atomic<bool> failed_ = false;
};

}  // namespace repro_check::capture
