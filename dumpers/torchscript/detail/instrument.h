// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <string>
#include <vector>

#include "dumpers/torchscript/detail/site_table.h"

namespace repro_check::torchscript {

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
