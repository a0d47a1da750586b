// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/suspect_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>

namespace repro_check::comparators::detail {
namespace {

/// As a configuration has it: `"settings": {"mkldnn.enabled": "on"}`.
std::string in_configuration(const Suspect& suspect) {
  const std::size_t slash = suspect.pointer.find('/', 1);
  const std::string first = suspect.pointer.substr(1, slash - 1);
  if (slash == std::string::npos) return fmt::format("\"{}\": {}", first, suspect.value);
  return fmt::format(
      R"("{}": {{"{}": {}}})", first, suspect.pointer.substr(slash + 1), suspect.value);
}

}  // namespace

std::string suspects_text(const std::vector<Suspect>& suspects) {
  if (suspects.size() == 1) return suspects.front().text + ", the only setting that differs";
  constexpr std::size_t kShown = 3;
  std::vector<std::string_view> texts;
  for (const Suspect& suspect : suspects) texts.push_back(suspect.text);
  const std::size_t total = texts.size();
  if (total > kShown) texts.resize(kShown);
  std::string text = fmt::format("{}", fmt::join(texts, ", "));
  return total > kShown ? fmt::format("{} and {} more", text, total - kShown) : text;
}

std::string settings_advice(const std::vector<Suspect>& suspects) {
  std::vector<const Suspect*> settable;
  for (const Suspect& suspect : suspects) {
    if (!suspect.pointer.empty()) settable.push_back(&suspect);
  }
  if (settable.size() == 1) return "give both runs " + in_configuration(*settable.front());
  return "give both runs the same values, in one configuration; repro-check bisect finds which of "
         "them it is";
}

}  // namespace repro_check::comparators::detail
