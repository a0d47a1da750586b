// SPDX-License-Identifier: Apache-2.0
#pragma once

// The float64 shadow of a recording: private to this folder, since it shows tensors of LibTorch.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/trace/dump.h"
#include "core/trace/op_record.h"
#include "dumpers/capture/engine/operator_plan.h"
#include "dumpers/capture/torch/call_modes.h"
#include "dumpers/replay/call_tree.h"
#include "dumpers/replay/recorded_call.h"
#include "dumpers/replay/shadow_counts.h"
#include "dumpers/replay/shadow_memory.h"

namespace repro_check::replay {

/// The modes of a thread under which calls are made in float64.
inline constexpr const char* kFloat64Modes = "default_dtype=float64";

/// The tensors of one call, by their position in its record; undefined where there is none.
using CallTensors = std::vector<at::Tensor>;

/// Makes one recorded call of float64 tensors.
/// @param tensors  its inputs. @return its results, with the inputs that are results too
/// @throws core::Error{kNotComparable} when it cannot be called, {kRunFailed} when it throws
CallTensors call_in_float64(const core::OpRecord& record,
                            const RecordedOperator& op,
                            const CallTensors& tensors);

/// The memory that a call was given, before it ran, as far as other calls had computed it: the rest
/// is as recorded.
struct Lent {
  std::uint64_t op = 0;
  bool executed = true;                       ///< false = its results are as recorded
  std::map<std::int64_t, at::Tensor> memory;  ///< by storage; does not change
};

/// Arguments of a call. @param view  gives those that a shadow holds, by position in the record
/// @throws core::Error{kNotComparable} when there is one that cannot be made
CallTensors arguments_in_float64(const core::DumpSource& dump,
                                 const core::OpRecord& record,
                                 const std::function<at::Tensor(std::size_t)>& view);

/// Executes the recorded calls of a dump in float64, in their order, each with what the ones before
/// it have left. Inputs, weights, integers, booleans and random numbers are those of the record.
/// Of a call with others inside the outermost one is executed that is no mere composition, unless
/// memory that was made inside of it is used later; one that does not run in float64 hands over to
/// those inside of it, or to the one around it.
class Shadow {
 public:
  /// What a caller wants to do while it runs.
  struct Observer {
    /// Before a call runs; its arguments are in the memory.
    std::function<void(const core::OpRecord&, ShadowMemory&)> before;
    /// Behind it; its results are in the memory. @param executed  false = they are as recorded
    std::function<void(const core::OpRecord&, ShadowMemory&, bool executed)> after;
    /// Behind every call, executed or not, and those inside of it that come before.
    std::function<void(std::uint64_t op, ShadowMemory&)> behind = {};
    /// Behind the last call.
    std::function<void(ShadowMemory&)> end;
    /// Whether take_lent() shall have the call.
    std::function<bool(std::uint64_t op)> lends;
  };

  /// @param dump  borrowed
  /// @param tree  borrowed; of the calls that are to be executed
  Shadow(const core::DumpSource& dump, const CallTree& tree) : dump_(dump), tree_(tree) {}

  /// Executes all calls of the tree, once.
  /// @throws core::Error{kDumpDamaged}
  void run(const Observer& observer);

  [[nodiscard]] const ShadowCounts& counts() const noexcept { return counts_; }
  [[nodiscard]] const std::vector<ShadowCut>& cuts() const noexcept { return cuts_; }
  [[nodiscard]] std::vector<Lent> take_lent() { return std::move(lent_); }

 private:
  enum class Tried { kDone, kRefused };
  /// A call of which those inside are executed.
  struct Open {
    std::uint64_t op = 0;
    std::string why;  ///< it is not executed itself; empty = it has no need to be
  };

  void step(std::uint64_t op, const Observer& observer);
  [[nodiscard]] bool is_inside_executed(std::uint64_t op) const;
  void execute(const core::OpRecord& record, const RecordedOperator& op, const Observer& observer);
  /// Behind the last call inside of it: what none of them has made is as recorded.
  void close(const Open& open, const Observer& observer);
  /// Puts recorded random numbers there.
  void keep_draw(const core::OpRecord& record, const Observer& observer);
  [[nodiscard]] bool reads_computed(const core::OpRecord& record) const;
  /// Executes the nearest call around one that does not run in float64.
  bool execute_around(std::uint64_t op, const Observer& observer);
  void look_through(const core::OpRecord& record);
  void fill_inputs(const core::OpRecord& record);
  void lend(const core::OpRecord& record);
  Tried try_execute(const core::OpRecord& record,
                    const RecordedOperator& op,
                    const Observer& observer,
                    std::string& why);
  void keep_recorded(const core::OpRecord& record, const Observer& observer);
  /// What calls write as integers holds no other numbers any more.
  void forget_shown(const core::OpRecord& record);
  /// Counts what was taken from the record, or cuts there.
  void took(const core::OpRecord& record,
            const core::TensorRecord& tensor,
            ShadowMemory::Filled filled);
  void count_decisions(const core::OpRecord& record, const CallTensors& results);
  void cut(std::uint64_t op, const std::string& why);

  const core::DumpSource& dump_;
  const CallTree& tree_;
  ShadowMemory memory_{dump_};
  capture::OperatorPlans plans_{{}, {}};
  ShadowCounts counts_;
  std::vector<ShadowCut> cuts_;
  std::vector<Lent> lent_;
  std::set<std::uint64_t> executed_;  ///< calls with others inside
  std::vector<Open> open_;            ///< the innermost last
  /// Storages that calls wrote in place.
  std::vector<std::pair<std::uint64_t, std::int64_t>> written_;
};

}  // namespace repro_check::replay
