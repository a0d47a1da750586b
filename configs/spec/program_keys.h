// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

namespace repro_check::configs {

/// Keys of a run that say nothing of a program, which decides that by itself.
inline constexpr std::array<std::string_view, 11> kOnlyOfModels{"model",
                                                                "inputs",
                                                                "calls",
                                                                "grad",
                                                                "device",
                                                                "dtype",
                                                                "interop_threads",
                                                                "optimize_executor",
                                                                "settings",
                                                                "recorder",
                                                                "extensions"};

}  // namespace repro_check::configs
