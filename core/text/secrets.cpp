// SPDX-License-Identifier: Apache-2.0
#include "core/text/secrets.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <nlohmann/json.hpp>

namespace repro_check::core {
namespace {

/// Parts of names that hold secrets, in lower case without separators.
constexpr std::array<std::string_view, 7> kSecret{
    "key", "token", "secret", "passw", "credential", "auth", "cookie"};
/// Parts of names that hold none, though one of the above is in them.
constexpr std::array<std::string_view, 13> kInnocent{"tokeniz",
                                                     "tokenis",
                                                     "tokenlen",
                                                     "tokensper",
                                                     "maxtoken",
                                                     "mintoken",
                                                     "maxnewtoken",
                                                     "minnewtoken",
                                                     "numtoken",
                                                     "keyvalue",
                                                     "keypoint",
                                                     "keyframe",
                                                     "keyword"};

bool is_name_char(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

bool is_quote(char c) { return c == '"' || c == '\''; }

bool is_option(std::string_view word) { return word.size() > 1 && word.front() == '-'; }

/// The name of `--name`, `--name=value` and `NAME=value`; empty for other words. What ends in `=`
/// may be Base64.
std::string_view name_in(std::string_view word) {
  const auto end = std::ranges::find_if_not(word, is_name_char);
  const std::string_view name = word.substr(0, static_cast<std::size_t>(end - word.begin()));
  const std::string_view rest = word.substr(name.size());
  const bool has_value = rest.size() > 1 && rest[0] == '=' && rest[1] != '=';
  if (is_option(word)) return rest.empty() || rest[0] == '=' ? name : std::string_view();
  const bool begins_well = !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0;
  return has_value && begins_well ? name : std::string_view();
}

/// Finds values in a text and copies all else.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::string scan() {
    while (at_ < text_.size()) {
      if (!is_name_char(text_[at_])) {
        out_ += text_[at_++];
        continue;
      }
      const std::string_view name = take(is_name_char);
      if (is_secret_name(name)) hide_value_of(name);
    }
    return std::move(out_);
  }

 private:
  template <typename Is>
  std::string_view take(const Is& is) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is(text_[at_])) ++at_;
    const std::string_view taken = text_.substr(begin, at_ - begin);
    out_ += taken;
    return taken;
  }

  [[nodiscard]] bool is_at(char c, std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() && text_[at_ + ahead] == c;
  }

  void hide_value_of(std::string_view name) {
    // `{"token": "K"}`, `token = "K"`, `["--token", "K"]`
    const bool is_quoted = at_ < text_.size() && is_quote(text_[at_]);
    if (is_quoted) out_ += text_[at_++];
    if (is_quoted && is_option(name) && is_at(',')) out_ += text_[at_++];
    const bool has_space = !take(is_space).empty() || (is_quoted && out_.ends_with(','));
    const bool is_header = is_at(':');
    if (is_header || is_at('=')) {
      if (is_at('=', 1) || is_at('/', 1)) return;  // a comparison, an address
      out_ += text_[at_++];
      take(is_space);
      hide(is_header);
    } else if (has_space && is_option(name) && !text_.substr(at_).starts_with("--")) {
      hide(false);
    }
  }

  /// @param to_the_end  an unquoted value has words: `Authorization: Bearer K`
  void hide(bool to_the_end) {
    if (at_ == text_.size()) return;
    const char quote = is_quote(text_[at_]) ? text_[at_] : '\0';
    if (quote != '\0') out_ += text_[at_++];
    const auto ends = [&](char c) {
      if (quote != '\0') return c == quote;
      return is_quote(c) || c == '\n' || (!to_the_end && (is_space(c) || c == ';' || c == '&'));
    };
    while (at_ < text_.size() && !ends(text_[at_])) at_ += is_at('\\') ? std::size_t{2} : 1;
    at_ = std::min(at_, text_.size());
    out_ += kHidden;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
};

/// What `describe` makes of each word that is no value of a secret option before it.
template <typename Describe>
std::vector<std::string> each_word(const std::vector<std::string>& words,
                                   const Describe& describe) {
  std::vector<std::string> shown;
  bool is_value = false;
  for (const std::string& word : words) {
    const bool hides = is_value && !word.starts_with("--");
    shown.push_back(hides ? std::string(kHidden) : describe(word, shown.empty()));
    is_value = !hides && is_option(word) && name_in(word) == word && is_secret_name(word);
  }
  return shown;
}

}  // namespace

namespace {

using Json = nlohmann::ordered_json;

/// What a configuration has at `place`; null where it has nothing.
Json found_at(const std::string& configuration, const Json::json_pointer& place) {
  const Json run = Json::parse(configuration, nullptr, false);
  return run.is_object() && run.contains(place) ? run.at(place) : Json();
}

bool is_list_of_texts(const Json& list) {
  return list.is_array() &&
         std::ranges::all_of(list, [](const Json& word) { return word.is_string(); });
}

}  // namespace

bool keeps_values(const std::string& configuration) {
  return found_at(configuration, Json::json_pointer("/dump/keep_values")) == true;
}

std::vector<std::string> command_in(const std::string& configuration) {
  const Json words = found_at(configuration, Json::json_pointer("/program/command"));
  if (!is_list_of_texts(words)) return {};
  return words.get<std::vector<std::string>>();
}

std::string configuration_without_secrets(const std::string& configuration) {
  Json run = Json::parse(configuration, nullptr, false);
  if (!run.is_object() || keeps_values(configuration)) return configuration;
  const Json given = run;
  if (const auto variables = run.find("env"); variables != run.end() && variables->is_object()) {
    for (auto& [name, value] : variables->items()) {
      if (value.is_string() && is_secret_name(name)) value = kHidden;
    }
  }
  for (const char* list : {"/program/command", "/program/resume"}) {
    const Json::json_pointer place(list);
    if (!run.contains(place) || !is_list_of_texts(run.at(place))) continue;
    run.at(place) = without_secrets(run.at(place).get<std::vector<std::string>>());
  }
  if (run == given) return configuration;
  return run.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool is_secret_name(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) continue;
    plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const std::string_view part : kInnocent) {
    for (std::size_t at = plain.find(part); at != std::string::npos; at = plain.find(part, at)) {
      plain.replace(at, part.size(), " ");
    }
  }
  return std::ranges::any_of(
      kSecret, [&](std::string_view part) { return plain.find(part) != std::string::npos; });
}

std::string without_secrets(std::string_view text) { return Scanner(text).scan(); }

std::vector<std::string> without_secrets(const std::vector<std::string>& words) {
  return each_word(words, [](const std::string& word, bool /*is_program*/) {
    const std::string_view name = name_in(word);
    const bool has_value = name.size() < word.size();
    if (name.empty() || !has_value || !is_secret_name(name)) return without_secrets(word);
    return std::string(name) + '=' + std::string(kHidden);
  });
}

std::vector<std::string> names_alone(const std::vector<std::string>& words) {
  return each_word(words, [](const std::string& word, bool is_program) {
    if (is_program) return word.substr(word.rfind('/') + 1);
    const std::string_view name = name_in(word);
    // The value of `-p` may stand behind it without a space.
    const bool is_short = is_option(word) && !word.starts_with("--");
    if (is_short) return word.substr(0, 2);
    if (name.size() == word.size()) return word;
    return name.empty() ? std::string(kHidden) : std::string(name) + '=' + std::string(kHidden);
  });
}

}  // namespace repro_check::core
