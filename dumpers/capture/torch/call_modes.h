// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/system/pinned.h"

namespace repro_check::capture {

/// Autocast of one kind of device, on the calling thread.
struct Autocast {
  std::string_view name;  ///< `autocast.cpu`
  bool (*is_on)();
  void (*turn)(bool on);
  c10::ScalarType (*dtype)();
  void (*set_dtype)(c10::ScalarType dtype);
};

/// Those that this LibTorch has.
std::span<const Autocast> autocasts() noexcept;

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
