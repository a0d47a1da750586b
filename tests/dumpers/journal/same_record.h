// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/trace/op_record.h"

namespace repro_check::test_support {

/// Whether two records hold the same, member by member; doubles by their bits.
bool same_record(const core::OpRecord& left, const core::OpRecord& right);

}  // namespace repro_check::test_support
