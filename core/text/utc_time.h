// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace repro_check::core {

/// `2026-01-31T23:59:59Z`, in seconds.
std::string utc_now();

}  // namespace repro_check::core
