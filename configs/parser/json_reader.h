// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "configs/parser/json_document.h"
#include "configs/parser/problems.h"

namespace repro_check::configs::detail {

/// A value and where it stands. Borrows from the document.
struct Node {
  const Json* json = nullptr;
  std::string pointer;

  [[nodiscard]] Node item(std::size_t index) const {
    return {&(*json)[index], child_pointer(pointer, index)};
  }
};

/// What a person sees of a value: `"two"`, `3.5`, `a list`.
std::string describe(const Json& json);

/// Adds `expected <expected>, got <value>`.
void report_unexpected(const Node& node, std::string_view expected, Problems& problems);

/// An object of which every key must be known. Constructing it reports whatever is not.
class ObjectReader {
 public:
  /// @param known  borrowed for the life of the reader
  ObjectReader(Node node, std::span<const std::string_view> known, Problems& problems);

  [[nodiscard]] bool is_object() const noexcept { return node_.json->is_object(); }
  [[nodiscard]] const std::string& pointer() const noexcept { return node_.pointer; }
  [[nodiscard]] bool has(std::string_view key) const { return find(key).has_value(); }

  /// The member, if it is there; never when this is no object.
  [[nodiscard]] std::optional<Node> find(std::string_view key) const;

  /// Whether an unknown key was taken for this one: then its absence is not a second mistake.
  [[nodiscard]] bool misspelled(std::string_view key) const;

  /// Adds `"<key>" is missing<why>`, unless this is no object or the key is misspelled.
  void report_missing(std::string_view key, std::string_view why, Problems& problems) const;

 private:
  Node node_;
  std::vector<std::string_view> misspelled_;
};

struct IntegerRange {
  std::int64_t min = std::numeric_limits<std::int64_t>::min();
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
  std::string_view why;  ///< said of a value above `max`; may be empty
};

/// Each of these gives the value, or reports the problem and gives nothing.
std::optional<std::int64_t> read_integer(const Node& node,
                                         const IntegerRange& range,
                                         Problems& problems);
std::optional<bool> read_bool(const Node& node, Problems& problems);
std::optional<double> read_number(const Node& node, Problems& problems);
/// Not empty, and no NUL in it.
std::optional<std::string> read_text(const Node& node, std::string_view what, Problems& problems);

/// Index into `names`, with the near miss.
std::optional<std::size_t> read_name(const Node& node,
                                     std::span<const std::string_view> names,
                                     Problems& problems);

/// One of an enum's values, spelled as name_of has it.
template <typename Enum, std::size_t N>
std::optional<Enum> read_choice(const Node& node,
                                const std::array<Enum, N>& values,
                                Problems& problems) {
  std::array<std::string_view, N> names;
  for (std::size_t i = 0; i < N; ++i) names[i] = name_of(values[i]);
  const auto index = read_name(node, names, problems);
  if (!index) return std::nullopt;
  return values[*index];
}

/// Puts what was read where it belongs; a problem leaves the default.
template <typename From, typename To>
void assign(const std::optional<From>& from, To& to) {
  if (from) to = static_cast<To>(*from);
}

}  // namespace repro_check::configs::detail
