// SPDX-License-Identifier: Apache-2.0
#include "configs/parser/byte_size.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace repro_check::configs::detail {
namespace {

constexpr std::array<std::pair<std::string_view, unsigned>, 5> kUnits{
    {{"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}}};
/// So that it stays a number that every reader of JSON has.
constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();

std::optional<std::uint64_t> parse(std::string_view text) {
  std::uint64_t count = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (code != std::errc()) return std::nullopt;
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const auto& [name, shift] : kUnits) {
    if (unit == name && count <= kMost >> shift) return count << shift;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> read_byte_size(const Node& node,
                                            std::uint64_t least,
                                            Problems& problems) {
  std::optional<std::uint64_t> size;
  if (node.json->is_string()) {
    size = parse(node.json->get_ref<const std::string&>());
  } else if (node.json->is_number_unsigned()) {
    size = node.json->get<std::uint64_t>();
  }
  if (size && *size >= least && *size <= kMost) return size;
  report_unexpected(
      node,
      fmt::format("a number of bytes, {} or more, or a text such as \"256MiB\"", least),
      problems);
  return std::nullopt;
}

}  // namespace repro_check::configs::detail
