// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/suggestion.h"

#include <cstddef>
#include <string_view>

#include "core/text/near_miss.h"

namespace repro_check::torchscript {
namespace {

constexpr std::size_t kMaxListed = 12;

}  // namespace

std::string suggest(const std::string& given, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  if (const auto nearest = core::near_miss(given, views)) {
    return "; did you mean \"" + std::string(*nearest) + "\"?";
  }
  std::string list;
  for (std::size_t i = 0; i < names.size() && i < kMaxListed; ++i) {
    list += (i == 0 ? "\"" : ", \"") + names[i] + "\"";
  }
  if (names.size() > kMaxListed) list += ", ...";
  return list.empty() ? list : "; there are " + list;
}

}  // namespace repro_check::torchscript
