// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace repro_check::configs {

/// Keys of a run that say nothing of a program, which decides that by itself.
inline constexpr std::string_view kOnlyOfModels =
    "model inputs calls grad device dtype interop_threads optimize_executor settings recorder "
    "extensions";

}  // namespace repro_check::configs
