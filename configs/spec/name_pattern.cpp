// SPDX-License-Identifier: Apache-2.0
#include "configs/spec/name_pattern.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "core/text/text.h"

namespace repro_check::configs {
namespace {

RE2::Options options() {
  constexpr std::int64_t kMemory = std::int64_t{4} << 20U;
  // Byte by byte: a name in a dump need not be UTF-8.
  RE2::Options chosen(RE2::Latin1);
  chosen.set_max_mem(kMemory);
  chosen.set_log_errors(false);
  chosen.set_dot_nl(true);
  return chosen;
}

constexpr std::string_view kBlanks = " \t\r";
constexpr std::array<std::string_view, 2> kKinds{"operator", "module"};
/// A file that is something else altogether would otherwise give a sentence a line.
constexpr std::size_t kMostProblems = 100;
constexpr std::size_t kShown = 200;

/// What is wrong with a line, or the entry that it is.
std::string read_line(std::string_view line, std::optional<NameRewrite>& entry) {
  const std::size_t end = std::min(line.find_first_of(kBlanks), line.size());
  const std::string_view word = line.substr(0, end);
  if (word != kKinds[0] && word != kKinds[1]) {
    const auto near = core::near_miss(word, kKinds);
    return fmt::format("expected \"operator\" or \"module\", got \"{}\"{}",
                       core::printable(word, kShown),
                       near ? fmt::format("; did you mean \"{}\"?", *near) : "");
  }
  const auto kind = word == kKinds[0] ? NameRewrite::Kind::kOperator : NameRewrite::Kind::kModule;
  // The first arrow that is a word of its own; the root module has an empty name.
  static const RE2 sides(R"([ \t\r]+(?:(.*?)[ \t\r]+)??->(?:[ \t\r]+(.*))?)", options());
  const std::string_view rest = line.substr(end);
  std::string pattern;
  std::string replacement;
  if (!RE2::FullMatch(re2::StringPiece(rest.data(), rest.size()), sides, &pattern, &replacement)) {
    return fmt::format(
        "expected \"{} PATTERN -> NAME\": the candidate's name, an arrow, the "
        "baseline's",
        word);
  }
  if (kind == NameRewrite::Kind::kOperator && (pattern.empty() || replacement.empty())) {
    return "an operator has a name on both sides of the arrow";
  }
  if (std::string wrong = NamePattern::problem(pattern); !wrong.empty()) {
    return fmt::format("\"{}\" is no regular expression: {}",
                       core::printable(pattern, kShown),
                       core::printable(wrong, kShown));
  }
  NamePattern compiled(pattern);
  if (std::string wrong = compiled.replacement_problem(replacement); !wrong.empty()) {
    return fmt::format("\"{}\" cannot replace it: {}",
                       core::printable(replacement, kShown),
                       core::printable(wrong, kShown));
  }
  entry = NameRewrite{kind, std::move(compiled), std::move(replacement), 0};
  return {};
}

}  // namespace

NamePattern::NamePattern(const std::string& text)
    : text_(text), expression_(std::make_shared<const RE2>(text, options())) {
  if (expression_->ok()) return;
  throw core::usage_error("\"" + text + "\" is no regular expression: " + expression_->error(),
                          "docs/CONFIGURATION.md, Rules, has the syntax");
}

std::string NamePattern::problem(const std::string& text) {
  const RE2 expression(text, options());
  return expression.ok() ? std::string() : expression.error();
}

bool NamePattern::matches(std::string_view name) const {
  return name.size() <= kLongestName &&
         RE2::FullMatch(re2::StringPiece(name.data(), name.size()), *expression_);
}

std::optional<std::string> NamePattern::rewrite(std::string_view name,
                                                const std::string& replacement) const {
  if (name.size() > kLongestName) return std::nullopt;
  constexpr int kGroups = 10;
  std::array<re2::StringPiece, kGroups> groups;
  const int used = RE2::MaxSubmatch(replacement) + 1;
  const re2::StringPiece text(name.data(), name.size());
  if (!expression_->Match(text, 0, text.size(), RE2::ANCHOR_BOTH, groups.data(), used)) {
    return std::nullopt;
  }
  std::string out;
  if (!expression_->Rewrite(&out, replacement, groups.data(), used)) return std::nullopt;
  return out;
}

std::string NamePattern::replacement_problem(const std::string& replacement) const {
  std::string problem;
  return expression_->CheckRewriteString(replacement, &problem) ? std::string() : problem;
}

std::string_view name_of(NameRewrite::Kind kind) noexcept {
  return kKinds.at(static_cast<std::size_t>(kind));
}

NameMap parse_name_map(std::string_view text,
                       const std::string& origin,
                       std::vector<std::string>& problems) {
  NameMap map;
  map.file = origin;
  const std::string name = core::printable(origin);
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = core::trimmed(text.substr(0, end), kBlanks);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty() || line.front() == '#') continue;
    std::optional<NameRewrite> entry;
    const std::string wrong = read_line(line, entry);
    if (!wrong.empty()) {
      problems.push_back(fmt::format("{}:{}: {}", name, number, wrong));
      if (problems.size() >= kMostProblems) break;
      continue;
    }
    entry->line = number;
    map.entries.push_back(std::move(*entry));
  }
  if (map.entries.empty() && problems.empty()) {
    problems.push_back(name + ": holds no names");
  }
  return map;
}

}  // namespace repro_check::configs
