// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/trace/op_record.h"

namespace repro_check::torchscript {

/// Where the TorchScript interpreter of this thread stands, by its own call stack.
struct InterpreterPlace {
  std::vector<core::SourceFrame> frames;  ///< innermost first; empty when none runs here
  std::vector<std::string> names;         ///< attribute names of the modules, containers left out
  std::string module_type;                ///< of the innermost module
};

InterpreterPlace interpreter_place();

}  // namespace repro_check::torchscript
