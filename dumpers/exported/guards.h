// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <string>

#include "dumpers/exported/graph_builder.h"

namespace repro_check::exported {

/// Inputs by the names that conditions have for them: `L['x']`, `L['pair'][0]`.
using Sources = std::map<std::string, torch::jit::Value*>;

/// Makes the nodes that compute a condition on sizes of inputs, given as torch.export writes it:
/// `L['x'].size()[0] % 2 == 0`.
/// @return the bool; null for a condition on anything else
torch::jit::Value* guard_value(GraphBuilder& builder,
                               const std::string& text,
                               const Sources& sources);

}  // namespace repro_check::exported
