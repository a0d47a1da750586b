// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/detail/interpreter_site.h"

#include <torch/csrc/jit/runtime/interpreter.h>

#include <iterator>

#include "dumpers/torchscript/detail/site_table.h"

namespace repro_check::torchscript {
namespace {

/// An entry reads `layer(Linear)::forward`; `TOP` is the module that was run, `SELF` a method of
/// the module before it, and a free function has neither name nor type.
void take_module(const std::string& entry, InterpreterPlace& place) {
  const std::size_t open = entry.find('(');
  const std::size_t close = entry.find(')', open);
  if (open == std::string::npos || close == std::string::npos) return;
  const std::string name = entry.substr(0, open);
  place.module_type = entry.substr(open + 1, close - open - 1);
  if (name != "TOP" && name != "SELF") place.names.push_back(name);
}

}  // namespace

InterpreterPlace interpreter_place() {
  InterpreterPlace place;
  for (const torch::jit::StackEntry& entry : torch::jit::currentCallstack()) {
    auto frames = frames_of(entry.range, entry.filename);
    const bool traced = frames.size() > 1;
    place.frames.insert(place.frames.end(),
                        std::make_move_iterator(frames.begin()),
                        std::make_move_iterator(frames.end()));
    if (traced) break;
  }
  for (const std::string& entry : torch::jit::currentModuleHierarchy()) take_module(entry, place);
  return place;
}

}  // namespace repro_check::torchscript
