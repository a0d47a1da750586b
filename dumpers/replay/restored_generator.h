// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where a recorded call found its random numbers: private to this folder.

#include <ATen/core/Generator.h>

#include "core/trace/dump.h"
#include "core/trace/op_record.h"

namespace repro_check::replay {

/// A generator of the kind `op` drew from, seeded and moved to where it stood before the call. The
/// way there follows what earlier operators of the dump drew, then single steps.
/// @param op  with `generator` set; its device must be the CPU or one this process has
/// @throws core::Error{kNotComparable} when no way from the seed leads there
at::Generator restore_generator(const core::DumpSource& dump, const core::OpRecord& op);

}  // namespace repro_check::replay
