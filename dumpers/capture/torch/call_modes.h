// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/system/pinned.h"

namespace repro_check::capture {

/// What of the calling thread decides dtypes of a call, as core::OpHead::modes has it. Whoever is
/// below an autocast kernel is not under autocast.
std::string read_call_modes();

/// Puts the calling thread under such modes, and under no others of these, until destroyed.
class CallModesPin : core::Pinned {
 public:
  /// @throws core::Error{kNotComparable} on a mode that this LibTorch does not have
  explicit CallModesPin(std::string_view modes);
  ~CallModesPin();

 private:
  std::vector<std::function<void()>> undo_;
};

}  // namespace repro_check::capture
