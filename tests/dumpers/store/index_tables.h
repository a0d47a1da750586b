// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>

#include "dumpers/store/index/index.h"

namespace repro_check::store {

/// Those that every dump has, in ascending order of name.
inline constexpr std::array kIndexTables{&kContentsTable,
                                         &kDimsTable,
                                         &kFramesTable,
                                         &kGeneratorsTable,
                                         &kOperatorsTable,
                                         &kOpsTable,
                                         &kSitesTable,
                                         &kStatsTable,
                                         &kSubstitutionsTable,
                                         &kTensorsTable,
                                         &kTextBytesTable,
                                         &kTextOffsetsTable,
                                         &kValuesTable};

}  // namespace repro_check::store
