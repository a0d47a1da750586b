// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/source_range.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/interpreter.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "configs/spec/run_config.h"
#include "core/error.h"
#include "core/system/pinned.h"
#include "core/tensor/dtype.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"
#include "dumpers/capture/engine/capture.h"

namespace repro_check::torchscript {

/// The call of one function or method, as a link in a chain that ends at the method that was run.
struct CallFrame {
  const CallFrame* caller = nullptr;  ///< null for the method itself
  torch::jit::SourceRange call;       ///< where the caller calls; unset for the method itself
  std::string function;               ///< `forward`
  std::string module_path;            ///< of the module whose code runs; empty for the root
  std::string module_type;
};

/// A place of a model that can call an operator.
struct Place {
  std::shared_ptr<const core::CallSite> site;
  bool is_call = false;  ///< runs code without markers, of the module that its frame names
  bool fills = false;    ///< writes the memory that it allocates without an operator
};

/// Every place of a model, one object a place, by number.
class SiteTable {
 public:
  /// Number of the place `range` within `frame`.
  /// @param place  all but its site
  std::int64_t add(const torch::jit::SourceRange& range, const CallFrame& frame, Place place);

  /// A place found while the model runs.
  std::shared_ptr<const core::CallSite> intern(core::CallSite site);

  /// The place with these lines whose module path holds `names`, in order, as the interpreter gives
  /// them: without containers. Null when there is none, or more than one.
  [[nodiscard]] std::shared_ptr<const core::CallSite> find(
      const std::vector<core::SourceFrame>& frames, const std::vector<std::string>& names) const;

  /// Without a site for a number that was never given. Safe beside intern() and find(), not beside
  /// add().
  [[nodiscard]] const Place& at(std::int64_t id) const;

 private:
  std::vector<Place> places_;
  std::map<std::string, std::shared_ptr<const core::CallSite>> by_text_;
  std::multimap<std::string, std::shared_ptr<const core::CallSite>> by_frames_;
  std::mutex mutex_;
};

struct ModuleName {
  std::string path;  ///< as named_modules() has it: a module found twice keeps its first name
  std::string type;  ///< class name without its package
};

/// Names of the modules of one loaded model.
class ModulePaths {
 public:
  explicit ModulePaths(const torch::jit::Module& root);

  /// The module at the end of a chain of attributes from the root; of attributes that are no module
  /// (a list, a TorchScript class) the module that holds them.
  [[nodiscard]] ModuleName resolve(const std::vector<std::string>& chain) const;

 private:
  void visit(const torch::jit::Module& module, const std::string& path);

  torch::jit::Module root_;
  std::unordered_map<const void*, std::string> first_path_;
};

/// Of an operator.
struct FixedFlag {
  bool trains = false;
  bool drops = false;  ///< it is of dropout
  std::string what;    ///< `aten::dropout at model.py:12 (encoder.drop)`
};

/// A method made ready for recording.
struct InstrumentedGraph {
  std::shared_ptr<torch::jit::Graph> graph;
  /// `aten::manual_seed at model.py:12 (encoder)`: operators of TorchScript itself that re-seed or
  /// read a generator behind the dispatcher's back.
  std::vector<std::string> seeding;
  /// By place: those whose training flag is a constant of the code or, in a traced or frozen model,
  /// of the graph: what the mode of a module says does not reach them.
  std::map<std::int64_t, FixedFlag> fixed_flags;
};

/// TorchScript operators that tell capture, on the thread that runs them, where in the model the
/// next operator stands (`repro_check::at(int id) -> ()`), what forks, and what may go on
/// elsewhere. They never reach the dispatcher, so capture does not record them, and they count as
/// having side effects, so no pass removes or moves them.

inline constexpr std::int64_t kNowhere = -1;

/// Holds TorchScript's executor still on the calling thread, which must be the one that runs the
/// model: no optimisation, no profiling (which makes the second run another program than the
/// first), no fusion, no autocast pass. With `optimize` nothing is changed, only read. Puts
/// everything back when destroyed.
class ExecutorPin : core::Pinned {
 public:
  explicit ExecutorPin(bool optimize);
  ~ExecutorPin();

  /// As found before and as they are now: `jit.optimize`, `jit.profiling`, ...
  [[nodiscard]] std::vector<core::Setting> settings() const;

 private:
  std::vector<std::size_t> found_;  ///< a value of each knob
  bool pinned_;
};

/// Runs one method of a module, and knows at any moment where in the model it stands.
class MethodRunner final : public capture::SiteProvider {
 public:
  /// @param optimize  run the method itself through LibTorch's executor, for auditing that; the
  ///                  place is then what the interpreter's call stack says
  /// @param as_it_is  no pass of LibTorch's goes over the graph: they drop operators whose results
  ///                  nobody uses, which Python calls in an exported program
  MethodRunner(torch::jit::Module module, torch::jit::Method method, bool optimize, bool as_it_is);

  /// @param inputs  checked against the schema, without self
  /// @throws whatever LibTorch throws
  c10::IValue run(std::vector<c10::IValue> inputs);

  std::shared_ptr<const core::CallSite> current_site() override;
  /// LibTorch compiles a method when it is called, before its interpreter begins.
  [[nodiscard]] bool runs_model(std::uint32_t step) const override;
  [[nodiscard]] bool fills_memory() const override;

  /// Where the model stands when that is not at the operator last asked for: at a `raise`, at a
  /// list index out of range. Null when it is, or when nobody knows.
  std::shared_ptr<const core::CallSite> place_between_operators();

  /// What the model did that makes recordings of it doubtful, for the manifest.
  /// @param run  its mode, which may not have reached all operators
  [[nodiscard]] std::vector<std::string> warnings(const configs::RunSpec& run) const;

 private:
  c10::IValue run_graph(const torch::jit::Code& code, torch::jit::Stack stack);
  torch::jit::Code prepare(torch::jit::Function& function);
  void prepare_all();
  void mark_all_lanes();

  torch::jit::Module module_;
  ModulePaths paths_;
  torch::jit::Method method_;
  bool optimize_;
  bool as_it_is_;
  SiteTable sites_;
  torch::jit::Code code_;
  std::vector<torch::jit::Code> pre_hooks_;
  std::vector<torch::jit::Code> hooks_;
  std::vector<std::string> seeding_;  ///< as the graphs have it
  std::map<std::int64_t, FixedFlag> fixed_flags_;
  std::set<std::int64_t> reached_;  ///< of these, those that ran
  std::mutex reached_mutex_;
  std::atomic<std::int64_t> last_asked_;
  std::int64_t stopped_at_;  ///< where the run was when it raised
};

/// What went wrong in the model, where in it, and how to mend it. To be called on the thread that
/// ran the model, right where the exception was caught.
/// @param cast  the dtype that weights and inputs were cast to
core::Error run_failure(const std::exception& error,
                        const capture::Capture& capture,
                        MethodRunner& runner,
                        const std::optional<core::Dtype>& cast);

}  // namespace repro_check::torchscript
