// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "dumpers/store/index/index.h"

namespace repro_check::store {

/// Those that every dump has, in ascending order of name.
inline constexpr std::array kIndexTables{&journal::kContentsTable,
                                         &kDimsTable,
                                         &journal::kFramesTable,
                                         &journal::kGeneratorsTable,
                                         &journal::kOperatorsTable,
                                         &journal::kOpsTable,
                                         &journal::kSitesTable,
                                         &journal::kStatsTable,
                                         &journal::kSubstitutionsTable,
                                         &journal::kTensorsTable,
                                         &kTextBytesTable,
                                         &kTextOffsetsTable,
                                         &journal::kValuesTable};

}  // namespace repro_check::store
