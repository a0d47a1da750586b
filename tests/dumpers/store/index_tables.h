// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "dumpers/store/index/index.h"

namespace repro_check::store {

/// Those of a sample dump, in ascending order of name.
inline constexpr std::array kIndexTables{&journal::kBlocksTable,
                                         &journal::kContentsTable,
                                         &kDimsTable,
                                         &journal::kFramesTable,
                                         &journal::kGeneratorsTable,
                                         &journal::kOperatorsTable,
                                         &journal::kOpsTable,
                                         &journal::kParametersTable,
                                         &journal::kSitesTable,
                                         &journal::kStatsTable,
                                         &journal::kSubstitutionsTable,
                                         &journal::kTensorsTable,
                                         &kTextBytesTable,
                                         &kTextOffsetsTable,
                                         &journal::kValuesTable};

}  // namespace repro_check::store
