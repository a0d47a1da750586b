// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>

#include "cmd/render/text.h"

namespace repro_check::cmd {
namespace {

std::string trim_zeros(std::string text) {
  if (text.find('.') == std::string::npos) {
    return text;
  }
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) {
    text.pop_back();
  }
  return text;
}

}  // namespace

std::string format_count(std::uint64_t count) {
  constexpr std::uint64_t kFirstGrouped = 10000;
  std::string digits = fmt::format("{}", count);
  if (count < kFirstGrouped) {
    return digits;
  }
  for (std::size_t at = digits.size() - 3; at > 0 && at < digits.size(); at -= 3) {
    digits.insert(at, 1, ',');
    if (at < 3) {
      break;
    }
  }
  return digits;
}

std::string format_count(std::uint64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", format_count(count), noun, count == 1 ? "" : "s");
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr std::array<const char*, 7> kUnits = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) {
    return fmt::format("{} B", bytes);
  }
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  // 999.5 rounds to 1000, which belongs to the next unit.
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  const int decimals = value < 9.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, kUnits.at(unit));
}

std::string format_percent(std::uint64_t part, std::uint64_t whole) {
  if (part == 0 || whole == 0) {
    return "0 %";
  }
  if (part >= whole) {
    return "100 %";
  }
  // Both ends are computed from the small side: 1 - tiny would have lost it.
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  const double missing = 100.0 * static_cast<double>(whole - part) / static_cast<double>(whole);
  if (percent < 0.001) {
    return "<0.001 %";
  }
  if (missing < 0.001) {
    return ">99.999 %";
  }
  if (missing < 1) {
    const int decimals = missing >= 0.1 ? 2 : (missing >= 0.01 ? 3 : 4);
    return trim_zeros(fmt::format("{:.{}f}", percent, decimals)) + " %";
  }
  return percent < 10 ? fmt::format("{:.2g} %", percent) : fmt::format("{:.0f} %", percent);
}

std::string format_error(double value) {
  if (std::isnan(value)) {
    return "nan";  // never "-nan": the sign of a NaN metric means nothing
  }
  return fmt::format("{:.4g}", value);
}

std::string format_ulp(std::uint64_t ulp) {
  constexpr std::uint64_t kFirstRounded = 1000000;
  return ulp < kFirstRounded ? fmt::format("{}", ulp)
                             : fmt::format("{:.2g}", static_cast<double>(ulp));
}

std::string format_seconds(double seconds) {
  if (seconds < 9.95) {
    return fmt::format("{:.2g} s", seconds);
  }
  if (seconds < 119.5) {
    return fmt::format("{:.0f} s", seconds);
  }
  const auto whole = static_cast<std::uint64_t>(std::llround(seconds));
  return fmt::format("{} min {} s", whole / 60, whole % 60);
}

std::string format_index(std::span<const std::int64_t> index) {
  return fmt::format("[{}]", fmt::join(index, ", "));
}

std::string format_tensor_type(core::Dtype dtype, std::span<const std::int64_t> shape) {
  return fmt::format("{} {}", core::dtype_name(dtype), format_index(shape));
}

}  // namespace repro_check::cmd
