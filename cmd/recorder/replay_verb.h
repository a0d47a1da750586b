// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace repro_check::recorder {

/// Executes one recorded operator again, as the request file says:
///   {"dump": D, "references": [...], "op": I, "calls": N, "threads": [...], "device": "",
///    "float64": true, "against": {"dump": D, "references": [...], "op": I}}
/// under the settings of the dump's manifest, and answers with one line of JSON:
///   {"libtorch", "cpu_capability", "rounds": [{"threads", "sequence", "results": [{"digest",
///    "calls", "first", "as_recorded", "to_recorded": [DISTANCE]}]}],
///    "float64": {"baseline": {"outputs": [DISTANCE], "problem"}, "candidate": ...}, "notes":
///    [...]}
/// with DISTANCE {"slot", "elements", "differing", "incomparable", "max_abs", "rmse"}; numbers that
/// are not finite are strings. `against` and `float64` may be missing from both.
/// @throws core::Error
std::string replay(const std::filesystem::path& request_file);

}  // namespace repro_check::recorder
