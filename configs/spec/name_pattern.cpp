// SPDX-License-Identifier: Apache-2.0
#include "configs/spec/name_pattern.h"

#include <re2/re2.h>

#include <array>

#include "core/error.h"

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

}  // namespace

NamePattern::NamePattern(const std::string& text)
    : text_(text), expression_(std::make_shared<const RE2>(text, options())) {
  if (expression_->ok()) return;
  throw core::Error(core::ErrorKind::kUsage,
                    "\"" + text + "\" is no regular expression: " + expression_->error(),
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

}  // namespace repro_check::configs
