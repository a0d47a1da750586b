// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "configs/parser/config_parser.h"
#include "configs/parser/json_document.h"
#include "configs/parser/problems.h"

namespace repro_check::configs::detail {

/// Applies `--set` in order. Objects missing on the way are made; a list takes an index it has, or
/// the next one, or `-`. What cannot be placed is a problem and changes nothing.
void apply_overrides(const std::vector<ConfigOverride>& overrides,
                     Json& document,
                     Problems& problems);

/// `preset` beneath `document`: objects merge key by key, everything else is the document's where
/// it has it.
void merge_beneath(const Json& preset, Json& document);

}  // namespace repro_check::configs::detail
