// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/digest/digest.h"
#include "core/error.h"
#include "core/tensor/dtype.h"
#include "core/text/text.h"
#include "core/trace/recorded_part.h"

/// A struct as a JSON object, and back: `fields(form, it)`, found beside the type of `it`, lists
/// its members once, `form FIELD(this) FIELD(that)`, and JsonFields writes or JsonNode reads them.
#define FIELD(name) (#name, it.name)

namespace repro_check::core {

using Json = nlohmann::ordered_json;

/// A Type, or a const one.
template <typename T, typename Type>
concept Of = std::same_as<std::remove_const_t<T>, Type>;

/// Whether a field stands in every document, is lacking in older ones, or is written only where it
/// has something to say.
enum class Presence { kAlways, kLater, kRare };

template <typename T>
Json json_of(const T& member);

/// Puts fields into an object.
struct JsonFields {
  Json& json;

  template <typename T>
  const JsonFields& operator()(const char* name,
                               const T& member,
                               Presence presence = Presence::kAlways) const {
    if constexpr (std::equality_comparable<T>) {
      if (presence == Presence::kRare && member == T{}) return *this;
    }
    json[name] = json_of(member);
    return *this;
  }
  void unless_empty(const char* name, const auto& member) const { (*this)(name, member); }
};

template <typename T>
Json json_of(const T& member) {
  if constexpr (std::is_same_v<T, double>) {
    // JSON has no NaN and no infinity: they are written as text.
    if (std::isnan(member)) return "nan";
    if (std::isinf(member)) return member > 0 ? "inf" : "-inf";
    return member;
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return member;
  } else if constexpr (std::is_same_v<T, Digest>) {
    return to_hex(member);
  } else if constexpr (std::is_same_v<T, Dtype>) {
    return dtype_name(member);
  } else if constexpr (std::is_enum_v<T>) {
    return name_of(member);
  } else if constexpr (std::is_same_v<T, OpRange>) {
    return Json::array({member.first, member.last});
  } else if constexpr (requires { member.value(); }) {
    return member ? json_of(member.value()) : Json(nullptr);
  } else if constexpr (requires { typename T::mapped_type; }) {
    Json object = Json::object();
    for (const auto& [name, value] : member) object[name] = json_of(value);
    return object;
  } else if constexpr (requires { member.begin(); }) {
    Json array = Json::array();
    for (const auto& item : member) array.push_back(json_of(item));
    return array;
  } else {
    Json object = Json::object();
    fields(JsonFields{object}, member);
    return object;
  }
}

/// What a document is, for complaints about it.
struct JsonOrigin {
  std::string name;  ///< a path
  ErrorKind kind = ErrorKind::kUsage;
  std::string hint;
  bool whole = true;  ///< what it lacks is a mistake
};

/// One node of a document being read: knows where it stands, so that every complaint can say so.
class JsonNode {
 public:
  /// @param origin  outlives every node
  JsonNode(const Json& json, std::string pointer, const JsonOrigin& origin)
      : json_(json), pointer_(std::move(pointer)), origin_(origin) {}

  [[nodiscard]] Error damaged(std::string_view what) const {
    return {origin_.kind,
            fmt::format("{}: {}: {}", origin_.name, pointer_.empty() ? "/" : pointer_, what),
            origin_.hint};
  }

  [[nodiscard]] JsonNode field(const char* name) const {
    if (!json_.is_object()) throw damaged("must be an object");
    const auto found = json_.find(name);
    if (found == json_.end()) throw damaged(fmt::format("\"{}\" is missing", name));
    return {*found, pointer_ + "/" + name, origin_};
  }

  void read(std::string& into) const {
    if (!json_.is_string()) throw damaged("must be a string");
    into = json_.get<std::string>();
  }
  template <std::integral Integer>
  void read(Integer& into) const {
    if (!json_.is_number_unsigned()) throw damaged("must be an integer, not negative");
    const auto value = json_.get<std::uint64_t>();
    constexpr Integer kLast = std::numeric_limits<Integer>::max();
    if (std::cmp_greater(value, kLast)) throw damaged(fmt::format("is beyond {}", kLast));
    into = static_cast<Integer>(value);
  }
  void read(bool& into) const {
    if (!json_.is_boolean()) throw damaged("must be true or false");
    into = json_.get<bool>();
  }
  void read(double& into) const {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    if (json_.is_number()) {
      into = json_.get<double>();
    } else if (json_ == "nan") {
      into = std::numeric_limits<double>::quiet_NaN();
    } else if (json_ == "inf" || json_ == "-inf") {
      into = json_ == "inf" ? kInf : -kInf;
    } else {
      throw damaged("must be a number, \"nan\", \"inf\" or \"-inf\"");
    }
  }
  void read(Digest& into) const {
    const std::optional<Digest> digest = parse_digest(text());
    if (!digest) throw damaged("must be a digest of 32 lower-case hexadecimal characters");
    into = *digest;
  }
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void read(Enum& into) const {
    const std::string word = text();
    const auto known = [&word] {
      if constexpr (std::is_same_v<Enum, Dtype>) {
        return word == dtype_name(Dtype::kUnknown) ? Dtype::kUnknown : parse_dtype(word);
      } else {
        return parse_name<Enum>(word);
      }
    }();
    constexpr std::size_t kShown = 32;
    if (!known) throw damaged(fmt::format("nothing is called \"{}\"", printable(word, kShown)));
    into = *known;
  }
  template <typename Item>
  void read(std::vector<Item>& into) const {
    if (!json_.is_array()) throw damaged("must be an array");
    into.clear();
    for (std::size_t i = 0; i < json_.size(); ++i) {
      JsonNode(json_[i], fmt::format("{}/{}", pointer_, i), origin_).read(into.emplace_back());
    }
  }
  void read(OpRanges& into) const {
    std::vector<std::vector<std::uint64_t>> pairs;
    read(pairs);
    into.clear();
    for (const auto& pair : pairs) {
      if (pair.size() != 2 || pair[0] > pair[1]) throw damaged("must hold [first, last] pairs");
      into.push_back({pair[0], pair[1]});
    }
    if (into != united(into)) throw damaged("must ascend without overlaps");
  }
  template <typename Item>
  void read(std::map<std::string, Item>& into) const {
    if (!json_.is_object()) throw damaged("must be an object");
    for (const auto& [name, value] : json_.items()) {
      JsonNode(value, pointer_ + "/" + name, origin_).read(into[name]);
    }
  }
  /// Null in a list or a map; a field that is empty is not there.
  template <typename Item>
  void read(std::optional<Item>& into) const {
    if (!json_.is_null()) read(into.emplace());
  }
  template <typename Item>
  void read(Item& into) const {
    fields(*this, into);
  }
  template <typename T>
  const JsonNode& operator()(const char* name,
                             T& into,
                             Presence presence = Presence::kAlways) const {
    const bool may_lack = !origin_.whole || presence != Presence::kAlways;
    if (!may_lack || !json_.is_object() || json_.contains(name)) field(name).read(into);
    return *this;
  }
  void unless_empty(const char* name, auto& into) const { (*this)(name, into); }

 private:
  [[nodiscard]] std::string text() const {
    std::string into;
    read(into);
    return into;
  }

  const Json& json_;
  std::string pointer_;
  const JsonOrigin& origin_;
};

}  // namespace repro_check::core
