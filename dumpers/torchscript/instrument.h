// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/source_range.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/trace/op_record.h"

namespace repro_check::torchscript {

/// The call of one function or method, as a link in a chain that ends at the method that was run.
struct CallFrame {
  const CallFrame* caller = nullptr;  ///< null for the method itself
  torch::jit::SourceRange call;       ///< where the caller calls; unset for the method itself
  std::string function;               ///< `forward`
  std::string module_path;            ///< of the module whose code runs; empty for the root
  std::string module_type;
};

/// Every place of a model that can call an operator, one object a place, by number.
class SiteTable {
 public:
  /// Number of the place `range` within `frame`.
  /// @param is_call  a call that runs code without markers, of the module that `frame` names
  std::int64_t add(const torch::jit::SourceRange& range, const CallFrame& frame, bool is_call);

  [[nodiscard]] bool is_call(std::int64_t id) const;

  /// Notes that what is called at a place writes the memory that it allocates without an operator.
  void note_filling(std::int64_t id) { filling_.insert(id); }
  [[nodiscard]] bool fills(std::int64_t id) const { return filling_.contains(id); }

  /// A place found while the model runs.
  std::shared_ptr<const core::CallSite> intern(core::CallSite site);

  /// The place with these lines whose module path holds `names`, in order, as the interpreter gives
  /// them: without containers. Null when there is none, or more than one.
  [[nodiscard]] std::shared_ptr<const core::CallSite> find(
      const std::vector<core::SourceFrame>& frames, const std::vector<std::string>& names) const;

  /// Null for a number that was never given. Safe beside intern() and find(), not beside add().
  [[nodiscard]] std::shared_ptr<const core::CallSite> at(std::int64_t id) const;

 private:
  std::vector<std::shared_ptr<const core::CallSite>> sites_;
  std::vector<bool> calls_;
  std::set<std::int64_t> filling_;
  std::map<std::string, std::shared_ptr<const core::CallSite>> by_text_;
  std::multimap<std::string, std::shared_ptr<const core::CallSite>> by_frames_;
  std::mutex mutex_;
};

/// The same as frames_of(), and empty for code that was saved without its source.
std::vector<core::SourceFrame> own_frames_of(const torch::jit::SourceRange& range,
                                             const std::string& function);

/// The lines of one source range: one in a scripted function, the whole Python stack of the trace
/// in a traced one, innermost first.
std::vector<core::SourceFrame> frames_of(const torch::jit::SourceRange& range,
                                         const std::string& function);

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

/// Where the TorchScript interpreter of this thread stands, by its own call stack.
struct InterpreterPlace {
  std::vector<core::SourceFrame> frames;  ///< innermost first; empty when none runs here
  std::vector<std::string> names;         ///< attribute names of the modules, containers left out
  std::string module_type;                ///< of the innermost module
};

InterpreterPlace interpreter_place();

/// TorchScript operators that tell capture, on the thread that runs them, where in the model the
/// next operator stands (`repro_check::at(int id) -> ()`), what forks, and what may go on
/// elsewhere. They never reach the dispatcher, so capture does not record them, and they count as
/// having side effects, so no pass removes or moves them.

inline constexpr std::int64_t kNowhere = -1;

/// Registers the operators, once a process.
void register_marker();

/// Puts a marker before `node`.
void insert_marker(torch::jit::Node* node, std::int64_t id);

/// Puts markers around a fork: what its graph holds is a lane of its own.
/// @param optimize  what is forked goes through LibTorch's executor as it stands
void mark_fork(torch::jit::Node* fork, bool optimize);

/// Puts a marker before a wait for a fork, after which another thread may run the rest.
void mark_wait(torch::jit::Node* wait);

/// Marks forks and waits of a graph that LibTorch's executor will optimise, and nothing else.
void mark_lanes(torch::jit::Block& block);

/// What the last marker of the lane that this thread runs said; kNowhere before the first, and
/// where code without markers runs on a thread of its own.
std::int64_t current_mark() noexcept;

/// The same of the lane that began on this thread, which may have gone on elsewhere.
std::int64_t last_mark() noexcept;

/// A method made ready for recording.
struct InstrumentedGraph {
  std::shared_ptr<torch::jit::Graph> graph;
  /// `aten::manual_seed at model.py:12 (encoder)`: operators of TorchScript itself that re-seed or
  /// read a generator behind the dispatcher's back.
  std::vector<std::string> seeding;
  /// Operators whose training flag is a constant of the graph, as in a traced or frozen model: what
  /// the mode of a module says does not reach them. By the value of the flag.
  std::vector<std::string> fixed_in_training;
  std::vector<std::string> fixed_in_evaluation;
};

/// A private copy of the method's graph with every call to a scripted function inlined, from the
/// outside in, then the passes that LibTorch runs without optimisation, then a marker before each
/// node that can reach the dispatcher. So the same operators run in the same order as in the method
/// itself.
/// @param module  the object the method belongs to; module paths are read off its attributes
/// @param sites   receives the places
InstrumentedGraph instrument(const torch::jit::Module& module,
                             torch::jit::Function& method,
                             SiteTable& sites);

}  // namespace repro_check::torchscript
