// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cmd/render/enum_words.h"
#include "comparators/report/report.h"
#include "core/digest/digest.h"

namespace repro_check::cmd {

/// Keeps the order in which keys were set.
using Json = nlohmann::ordered_json;

/// Text from outside, invalid UTF-8 replaced.
Json json_text(std::string_view text);
/// A number up to 2^53-1, a decimal string above: readers that know only doubles would lose it.
Json json_integer(std::uint64_t value);
Json json_integer(std::int64_t value);
/// Finite numbers as they are; "nan", "inf", "-inf".
Json json_number(double value);

/// The text of it, with what could steer a terminal or a CI log as \uXXXX.
std::string json_piece(const Json& json, bool pretty);
/// The same with a newline: a document, or a line of one.
std::string to_document(const Json& json, bool pretty);

// What a struct looks like in JSON is said once, by `describe(form, value)`, which names each
// member. A JsonWriter makes the document of it, a JsonReader fills the value from one.

/// What a form of type F has in its hands: the reader changes it.
template <typename F, typename T>
using Of = std::conditional_t<F::kReads, T, const T>;

// Inside of describe(f, it), whose form takes one member after another.

/// A member of the struct that is called the same in JSON.
#define MEMBER(name) (#name, it.name)
/// One that is called otherwise.
#define NAMED(key, name) (key, it.name)
/// A text that is null where it is empty.
#define TEXT(name) NAMED_TEXT(#name, name)
#define NAMED_TEXT(key, name) (key, OrNull{it.name})
/// One that is left out where it is empty or 0.
#define SOMETIMES(name) .unless_empty(#name, it.name)
/// What is known of both runs, as {baseline, candidate}.
#define SIDES(key, first, second) (key, Sides{it.first, it.second})
/// A struct of nothing but such members.
#define DESCRIBE(Type, members) \
  void describe(auto f, Of<decltype(f), Type>& it) { f members; }

template <typename Text>
struct OrNull {
  Text& text;
};
template <typename Text>
OrNull(Text&) -> OrNull<Text>;

template <typename B, typename C>
struct Sides {
  B& baseline;
  C& candidate;
};
template <typename B, typename C>
Sides(B&, C&) -> Sides<B, C>;

template <typename T>
bool is_empty(const T& value) {
  if constexpr (requires { value.has_value(); }) {
    return !value.has_value();
  } else if constexpr (requires { value.empty(); }) {
    return value.empty();
  } else {
    return value == T{};
  }
}

/// Makes one value of a document.
class JsonWriter {
 public:
  static constexpr bool kReads = false;

  explicit JsonWriter(Json& out) : out_(&out) {}

  [[nodiscard]] Json& json() const { return *out_; }
  /// A member; good until the next one is asked for.
  [[nodiscard]] JsonWriter at(std::string_view key) const {
    return JsonWriter((*out_)[std::string(key)]);
  }
  /// A member that is null unless it `is_there`, which a reader does not know beforehand.
  [[nodiscard]] std::optional<JsonWriter> part(std::string_view key, bool is_there) const {
    const JsonWriter member = at(key);
    return is_there ? std::optional(member) : std::nullopt;
  }
  /// Whether there is such a member, which is left out unless it `is_there`.
  [[nodiscard]] bool has(std::string_view /*key*/, bool is_there) const { return is_there; }
  template <typename T>
  const JsonWriter& operator()(std::string_view key, const T& value) const {
    describe(at(key), value);
    return *this;
  }
  template <typename T>
  // NOLINTNEXTLINE(modernize-use-nodiscard): it writes, and hands itself on to the next member
  const JsonWriter& unless_empty(std::string_view key, const T& value) const {
    return is_empty(value) ? *this : (*this)(key, value);
  }
  /// A member that says what others say already: nobody reads it.
  template <typename Make>
  // NOLINTNEXTLINE(modernize-use-nodiscard): it hands itself on to the next member
  const JsonWriter& derived(std::string_view key, Make make) const {
    Json made = make();
    (*out_)[std::string(key)] = std::move(made);
    return *this;
  }
  /// An array, described item by item.
  template <typename Items, typename Describe>
  void items(const Items& items, Describe describe_item) const {
    *out_ = Json::array();
    for (const auto& item : items) describe_item(JsonWriter(out_->emplace_back()), item);
  }
  /// @param name  of an enumerator; null where it is empty
  template <typename Enum, typename Name>
  void word(const Enum& value, Enum /*last*/, Name name) const {
    const std::string_view text = name(value);
    *out_ = text.empty() ? Json(nullptr) : json_text(text);
  }

 private:
  Json* out_;
};

/// Takes one value of a document. Throws Json::exception where something is missing or of another
/// type, and std::invalid_argument on text that nothing of ours writes.
class JsonReader {
 public:
  static constexpr bool kReads = true;

  explicit JsonReader(const Json& in, std::string_view key = {}) : in_(&in), key_(key) {}

  [[nodiscard]] const Json& json() const { return *in_; }
  [[noreturn]] void refuse(const std::string& why) const;
  [[nodiscard]] JsonReader at(std::string_view key) const {
    return JsonReader(in_->at(std::string(key)), key);
  }
  [[nodiscard]] std::optional<JsonReader> part(std::string_view key, bool /*is_there*/) const {
    const JsonReader member = at(key);
    return member.json().is_null() ? std::nullopt : std::optional(member);
  }
  [[nodiscard]] bool has(std::string_view key, bool /*is_there*/) const {
    return in_->contains(std::string(key));
  }
  template <typename T>
  const JsonReader& operator()(std::string_view key, T&& value) const {
    describe(at(key), value);
    return *this;
  }
  template <typename T>
  const JsonReader& unless_empty(std::string_view key, T& value) const {
    return json().contains(std::string(key)) ? (*this)(key, value) : *this;
  }
  template <typename Make>
  // NOLINTNEXTLINE(modernize-use-nodiscard): it hands itself on to the next member
  const JsonReader& derived(std::string_view /*key*/, Make /*make*/) const {
    return *this;
  }
  /// Items that are there already are filled before others are added.
  template <typename Items, typename Describe>
  void items(Items& items, Describe describe_item) const {
    std::size_t i = 0;
    for (const Json& each : *in_) {
      if (i == items.size()) items.emplace_back();
      describe_item(JsonReader(each, key_), items[i++]);
    }
  }
  /// Of enumerators 0 to `last` the one that is called so.
  template <typename Enum, typename Name>
  void word(Enum& value, Enum last, Name name) const {
    const std::string text = in_->is_null() ? std::string() : in_->get<std::string>();
    for (int i = 0; i <= static_cast<int>(last); ++i) {
      value = static_cast<Enum>(i);
      if (name(value) == text) return;
    }
    refuse("nothing is called \"" + text + "\"");
  }

 private:
  const Json* in_;
  std::string_view key_;  ///< for messages
};

template <std::same_as<bool> T>
void describe(JsonWriter f, const T& value) {
  f.json() = value;
}
template <std::same_as<bool> T>
void describe(JsonReader f, T& value) {
  value = f.json().get<bool>();
}

std::uint64_t read_whole(JsonReader f);
std::int64_t read_integer(JsonReader f);

template <std::integral T>
requires(!std::same_as<T, bool>) void describe(JsonWriter f, const T& value) {
  using Widest = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
  f.json() = json_integer(static_cast<Widest>(value));
}
template <std::integral T>
requires(!std::same_as<T, bool>) void describe(JsonReader f, T& value) {
  if constexpr (std::is_signed_v<T>) {
    value = static_cast<T>(read_integer(f));
  } else {
    value = static_cast<T>(read_whole(f));
  }
}

template <std::same_as<double> T>
void describe(JsonWriter f, const T& value) {
  f.json() = json_number(value);
}
void describe(JsonReader f, double& value);

inline void describe(JsonWriter f, const std::string& text) { f.json() = json_text(text); }
inline void describe(JsonReader f, std::string& text) { text = f.json().get<std::string>(); }
template <typename Text>
void describe(JsonWriter f, const OrNull<Text>& it) {
  f.json() = it.text.empty() ? Json(nullptr) : json_text(it.text);
}
void describe(JsonReader f, const OrNull<std::string>& it);

inline void describe(JsonWriter f, const core::Digest& digest) { f.json() = core::to_hex(digest); }
void describe(JsonReader f, core::Digest& digest);

template <typename T>
void describe(JsonWriter f, const std::optional<T>& value) {
  if (value) describe(f, *value);
}
template <typename T>
void describe(JsonReader f, std::optional<T>& value) {
  if (!f.json().is_null()) describe(f, value.emplace());
}

/// Many items as an object with a list a member, not as a list of objects: so a long table is
/// small.
template <typename Items>
struct Columns {
  Items& items;
};
template <typename Items>
Columns(Items&) -> Columns<Items>;

/// Appends one item to such lists.
class ColumnWriter {
 public:
  static constexpr bool kReads = false;

  /// @param at  the item's place
  ColumnWriter(Json& out, std::size_t at) : out_(&out), at_(at) {}
  template <typename T>
  const ColumnWriter& operator()(std::string_view key, const T& value) const {
    describe(JsonWriter((*out_)[std::string(key)].emplace_back()), value);
    return *this;
  }
  /// A list that is left out where it would hold nothing.
  template <typename T>
  // NOLINTNEXTLINE(modernize-use-nodiscard): it writes, and hands itself on to the next member
  const ColumnWriter& unless_empty(std::string_view key, const T& value) const {
    if (!out_->contains(std::string(key))) {
      if (is_empty(value)) return *this;
      for (std::size_t before = 0; before < at_; ++before) (*this)(key, T{});
    }
    return (*this)(key, value);
  }

 private:
  Json* out_;
  std::size_t at_;
};

/// Takes one item out of them.
class ColumnReader {
 public:
  static constexpr bool kReads = true;

  ColumnReader(const Json& in, std::size_t at) : in_(&in), at_(at) {}
  template <typename T>
  const ColumnReader& operator()(std::string_view key, T& value) const {
    describe(JsonReader(in_->at(std::string(key)).at(at_), key), value);
    return *this;
  }
  template <typename T>
  const ColumnReader& unless_empty(std::string_view key, T& value) const {
    return in_->contains(std::string(key)) ? (*this)(key, value) : *this;
  }

 private:
  const Json* in_;
  std::size_t at_;
};

template <typename T>
void describe(JsonWriter f, const std::vector<T>& values) {
  f.items(values, [](JsonWriter item, const T& value) { describe(item, value); });
}
template <typename T>
void describe(JsonReader f, std::vector<T>& values) {
  f.items(values, [](JsonReader item, T& value) { describe(item, value); });
}

template <typename Items>
void describe(JsonWriter f, const Columns<Items>& it) {
  // Of no item there are the columns all the same.
  describe(ColumnWriter(f.json(), 0), typename Items::value_type{});
  for (Json& column : f.json()) column.clear();
  std::size_t at = 0;
  for (const auto& item : it.items) describe(ColumnWriter(f.json(), at++), item);
}
template <typename Items>
void describe(JsonReader f, const Columns<Items>& it) {
  if (f.json().empty()) f.refuse("it has no columns");
  it.items.resize(f.json().front().size());
  std::size_t at = 0;
  for (auto& item : it.items) describe(ColumnReader(f.json(), at++), item);
}

template <typename B, typename C>
void describe(auto f, const Sides<B, C>& it) {
  f MEMBER(baseline) MEMBER(candidate);
}

/// @param words  as kWords has them
template <typename Enum>
void describe_word(auto f, Enum& value, std::string_view words) {
  using Plain = std::remove_const_t<Enum>;
  f.word(value, static_cast<Plain>(word_count(words) - 1), [&](Plain each) {
    return word_at(words, static_cast<std::size_t>(each));
  });
}
template <typename Enum>
requires(!kWords<Enum>.empty()) void describe(JsonWriter f, const Enum& value) {
  describe_word(f, value, kWords<Enum>);
}
template <typename Enum>
requires(!kWords<Enum>.empty()) void describe(JsonReader f, Enum& value) {
  describe_word(f, value, kWords<Enum>);
}

/// What `describe` makes of a value.
template <typename T>
Json json_of(const T& value) {
  Json out;
  describe(JsonWriter(out), value);
  return out;
}

}  // namespace repro_check::cmd
