// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "configs/parser/json_document.h"
#include "configs/spec/run_config.h"

namespace repro_check::configs::detail {

/// Every member of a run, explicitly. Read back by read_run_members with a resolved context.
/// @param with_pointers  keep where in the configuration each input stood
Json to_json(const RunSpec& run, bool with_pointers);

}  // namespace repro_check::configs::detail
