// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/render/color.h"

namespace repro_check::cmd {

enum class ProgressMode { kAuto, kAlways, kNever };

/// Options every verb takes, before or after its name.
struct GlobalOptions {
  bool quiet = false;
  int verbosity = 0;
  ColorMode color = ColorMode::kAuto;
  ProgressMode progress = ProgressMode::kAuto;
};

}  // namespace repro_check::cmd
