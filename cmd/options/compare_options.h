// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "comparators/compare.h"
#include "configs/spec/compare_spec.h"

namespace repro_check::cmd {

/// How dumps are judged by `spec`, with the noise floors and the dump in float64 that it names,
/// where it uses them.
/// @throws core::Error{kUsage} when there are no floors, or they are none; as store::open_dump()
/// for
///         the dump
comparators::CompareOptions compare_options(const configs::CompareSpec& spec);

}  // namespace repro_check::cmd
