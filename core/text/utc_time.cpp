// SPDX-License-Identifier: Apache-2.0
#include "core/text/utc_time.h"

#include <array>
#include <ctime>

namespace repro_check::core {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, sizeof "2000-01-01T00:00:00Z"> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

}  // namespace repro_check::core
