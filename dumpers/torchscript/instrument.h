// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dumpers/torchscript/sites.h"

namespace repro_check::torchscript {

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
