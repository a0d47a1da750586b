// SPDX-License-Identifier: Apache-2.0
#include "configs/parser/overrides.h"

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "configs/parser/json_reader.h"
#include "core/text/utf8.h"

namespace repro_check::configs::detail {
namespace {

/// RFC 6901: digits without a leading zero, or `-` for the place after the last.
std::optional<std::size_t> parse_index(std::string_view token, std::size_t size) {
  if (token == "-") return size;
  if (token.empty() || (token.size() > 1 && token.front() == '0')) return std::nullopt;
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), index);
  if (error != std::errc{} || end != token.data() + token.size()) return std::nullopt;
  return index;
}

/// The member or item `token` of `parent`, made when it is missing; null when it cannot be.
Json* step_into(Json& parent, const std::string& token) {
  if (parent.is_null()) parent = Json::object();
  if (parent.is_object()) return &parent[token];
  if (!parent.is_array()) return nullptr;
  const auto index = parse_index(token, parent.size());
  if (!index || *index > parent.size()) return nullptr;
  if (*index == parent.size()) parent.push_back(nullptr);
  return &parent[*index];
}

/// `7`, `true`, `{"a": 1}` are what they look like; `cuda:0`, `model.pt` are text.
std::optional<Json> value_of(const ConfigOverride& change, Problems& problems) {
  if (is_json(change.value)) return parse_json(change.value, change.pointer, problems);
  if (!core::is_utf8(change.value)) {
    problems.add(change.pointer, "--set: the value is not UTF-8");
    return std::nullopt;
  }
  return Json(change.value);
}

void apply(const ConfigOverride& change, Json& document, Problems& problems) {
  std::vector<std::string> tokens;
  if (!core::is_utf8(change.pointer) || !split_pointer(change.pointer, tokens) || tokens.empty()) {
    problems.add(
        change.pointer,
        "--set: not a JSON pointer; write it like /runs/1/threads, a slash inside a key as "
        "~1, a tilde as ~0");
    return;
  }
  auto value = value_of(change, problems);
  if (!value) return;
  // On a copy, so that a path that ends nowhere leaves no half-made objects to complain about.
  Json changed = document;
  Json* place = &changed;
  std::string pointer;
  for (const std::string& token : tokens) {
    const std::string kind = describe(*place);
    const bool is_list = place->is_array();
    const std::size_t size = place->size();
    place = step_into(*place, token);
    if (place == nullptr) {
      const std::string why =
          is_list
              ? fmt::format("a list of {}: an index from 0 to {}, or - , is accepted", size, size)
              : fmt::format("{}: nothing can be set inside it", kind);
      problems.add(change.pointer,
                   fmt::format("--set: {} is {}", pointer.empty() ? "the document" : pointer, why));
      return;
    }
    pointer = child_pointer(pointer, token);
  }
  *place = std::move(*value);
  document = std::move(changed);
}

}  // namespace

void apply_overrides(const std::vector<ConfigOverride>& overrides,
                     Json& document,
                     Problems& problems) {
  if (!document.is_object()) return;  // reported by whoever reads it
  for (const ConfigOverride& change : overrides) apply(change, document, problems);
}

void merge_beneath(const Json& preset, Json& document) {
  for (const auto& [key, value] : preset.items()) {
    if (!document.contains(key)) {
      document[key] = value;
    } else if (value.is_object() && document[key].is_object()) {
      merge_beneath(value, document[key]);
    }
  }
}

}  // namespace repro_check::configs::detail
