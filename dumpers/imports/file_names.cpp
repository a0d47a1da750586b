// SPDX-License-Identifier: Apache-2.0
#include "dumpers/imports/file_names.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text/text.h"

namespace repro_check::imports {
namespace {

constexpr std::string_view kBetweenPairs = "___";

void set_number(NamedFile& file,
                std::string_view key,
                std::string_view digits,
                const std::string& path) {
  const auto call = core::parse_number<std::uint64_t>(digits);
  const auto small = core::parse_number<std::uint32_t>(digits);
  if (!call || (key != "call" && !small)) {
    throw core::usage_error(
        fmt::format("{}: {} is no {}", core::printable(path), core::printable(digits), key),
        "give the form of the names: --pattern 'step{step}/rank{rank}/{name}.pt'");
  }
  if (key == "step") file.step = small;
  if (key == "rank") file.rank = small;
  if (key == "call") file.call = call;
}

std::string without_ending(const std::string& path) {
  return std::filesystem::path(path).replace_extension().string();
}

/// `name=mlp___layer_id=3___step=0___rank=1___dump_index=17`: what is neither step nor rank nor
/// place tells tensors of one name apart.
std::optional<NamedFile> read_pairs(const std::string& path) {
  std::string stem = std::filesystem::path(path).stem().string();
  if (stem.find(kBetweenPairs) == std::string::npos) return std::nullopt;
  NamedFile file;
  std::string others;
  for (std::string_view rest = stem; !rest.empty();) {
    const std::size_t end = std::min(rest.find(kBetweenPairs), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + kBetweenPairs.size(), rest.size()));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view key = pair.substr(0, equals);
    const std::string_view value = pair.substr(equals + 1);
    if (key == "name") {
      file.name = value;
    } else if (key == "step" || key == "rank") {
      set_number(file, key, value, path);
    } else if (key == "forward_pass_id") {
      // Of earlier releases; `None` before the first pass.
      if (value != "None") set_number(file, "step", value, path);
    } else if (key == "dump_index") {
      set_number(file, "call", value, path);
    } else {
      others += fmt::format("{}{}", others.empty() ? "" : ",", pair);
    }
  }
  if (file.name.empty()) return std::nullopt;
  if (!others.empty()) file.name += "[" + others + "]";
  return file;
}

}  // namespace

struct FileNames::Pattern {
  Pattern(const std::string& expression, std::vector<std::string> names)
      : form(expression, options()), fields(std::move(names)) {}

  /// A path is bytes.
  static re2::RE2::Options options() {
    re2::RE2::Options chosen(re2::RE2::Latin1);
    chosen.set_dot_nl(true);
    return chosen;
  }

  re2::RE2 form;
  std::vector<std::string> fields;  ///< in the order of the groups
};

FileNames::FileNames(const std::optional<std::string>& pattern) {
  if (!pattern) return;
  constexpr std::array<std::string_view, 4> kFields{"name", "step", "rank", "call"};
  constexpr std::string_view kHint =
      "a pattern has {name}, {step}, {rank} and {call}, each once at most: "
      "--pattern 'step{step}/rank{rank}/{name}.pt'";
  std::string form;
  std::vector<std::string> fields;
  for (std::size_t at = 0; at < pattern->size(); ++at) {
    const char c = (*pattern)[at];
    if (c == '{') {
      const std::size_t end = pattern->find('}', at);
      const std::string field =
          end == std::string::npos ? "" : pattern->substr(at + 1, end - at - 1);
      if (std::ranges::find(kFields, field) == kFields.end() ||
          std::ranges::find(fields, field) != fields.end()) {
        throw core::usage_error("--pattern " + core::printable(*pattern) + ": {" +
                                    core::printable(field) + "} is no field that it can have here",
                                std::string(kHint));
      }
      form += field == "name" ? "(.+)" : "([0-9]+)";
      fields.push_back(field);
      at = end;
    } else if (c == '*') {
      form += "[^/]*";
    } else {
      form += re2::RE2::QuoteMeta(std::string(1, c));
    }
  }
  pattern_ = std::make_unique<Pattern>(form, std::move(fields));
}

FileNames::~FileNames() = default;

std::optional<NamedFile> FileNames::read(const std::string& path) const {
  NamedFile file;
  if (!pattern_) {
    if (auto pairs = read_pairs(path)) return pairs;
    file.name = without_ending(path);
    std::ranges::replace(file.name, '/', '.');
    return file;
  }
  std::vector<std::string> values(pattern_->fields.size());
  std::vector<re2::RE2::Arg> places;
  places.reserve(values.size());
  for (std::string& value : values) places.emplace_back(&value);
  std::vector<const re2::RE2::Arg*> found;
  found.reserve(places.size());
  for (const re2::RE2::Arg& place : places) found.push_back(&place);
  const auto count = static_cast<int>(found.size());
  if (!re2::RE2::FullMatchN(path, pattern_->form, found.data(), count)) return std::nullopt;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string& value = values[i];
    if (pattern_->fields[i] == "name") {
      file.name = value;
      std::ranges::replace(file.name, '/', '.');
    } else {
      set_number(file, pattern_->fields[i], value, path);
    }
  }
  return file;
}

bool is_before(const std::string& a, const std::string& b) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < a.size() && j < b.size()) {
    if (!is_digit(a[i]) || !is_digit(b[j])) {
      if (a[i] != b[j]) return a[i] < b[j];
      ++i;
      ++j;
      continue;
    }
    const auto run = [&](const std::string& text, std::size_t& at) {
      while (at < text.size() && text[at] == '0') ++at;
      const std::size_t begin = at;
      while (at < text.size() && is_digit(text[at])) ++at;
      return std::string_view(text).substr(begin, at - begin);
    };
    const std::string_view left = run(a, i);
    const std::string_view right = run(b, j);
    if (left.size() != right.size()) return left.size() < right.size();
    if (left != right) return left < right;
  }
  if (i == a.size() && j == b.size()) return a < b;  // `01` and `1`
  return i == a.size();
}

}  // namespace repro_check::imports
