// SPDX-License-Identifier: Apache-2.0
#include "core/trace/op_record.h"

#include <algorithm>
#include <array>

namespace repro_check::core {
namespace {

/// Where the framework's own Python files are found, installed or in a source tree. A folder of the
/// user's that is called torch is not among them.
constexpr std::array<std::string_view, 7> kFrameworkPlaces{"-packages/torch/",
                                                           "__torch__/torch/",
                                                           "/torch/nn/",
                                                           "/torch/jit/",
                                                           "/torch/autograd/",
                                                           "/torch/functional.py",
                                                           "/torch/_tensor.py"};

/// Files of the framework itself help nobody to find their own line.
bool inside_torch(std::string_view file) noexcept {
  return file.starts_with("torch/") ||
         std::any_of(kFrameworkPlaces.begin(), kFrameworkPlaces.end(), [&](std::string_view place) {
           return file.find(place) != std::string_view::npos;
         });
}

}  // namespace

const SourceFrame* display_frame(const CallSite& site) noexcept {
  for (const SourceFrame& frame : site.frames) {
    if (frame.line != 0 && !inside_torch(frame.file)) return &frame;
  }
  for (const SourceFrame& frame : site.frames) {
    if (frame.line != 0) return &frame;
  }
  return nullptr;
}

std::string_view phase_name(Phase phase) noexcept {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kOptimizer:
      return "optimizer";
  }
  return "forward";
}

}  // namespace repro_check::core
