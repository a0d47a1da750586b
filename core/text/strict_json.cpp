// SPDX-License-Identifier: Apache-2.0
#include "core/text/strict_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text/text.h"

namespace repro_check::core {
namespace {

using Json = nlohmann::ordered_json;
using Kind = JsonFlaw::Kind;

/// Receives the library's parse events and builds the document.
class StrictBuilder final : public nlohmann::json_sax<Json> {
 public:
  explicit StrictBuilder(const std::function<void(const JsonFlaw&)>& report) : report_(report) {
    levels_.reserve(kDeepestJson);  // what is discarded lies in them, and is pointed to
  }

  [[nodiscard]] Json take() { return std::move(root_); }

  bool null() override { return put(nullptr) != nullptr; }
  bool boolean(bool value) override { return put(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return put(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return put(value) != nullptr; }
  bool number_float(number_float_t value, const string_t& spelled) override {
    if (spelled.find_first_of(".eE") == std::string::npos) {
      report_({Kind::kInteger, next_pointer(), spelled});
    }
    return put(value) != nullptr;
  }
  bool string(string_t& value) override { return put(std::move(value)) != nullptr; }
  bool binary(binary_t& /*value*/) override { return false; }  // JSON text has none
  bool start_object(std::size_t /*size*/) override { return open(Json::object()); }
  bool start_array(std::size_t /*size*/) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  /// The library keeps the last of duplicate keys, people read the first: neither is right.
  bool key(string_t& name) override {
    Level& level = levels_.back();
    level.discards_next = !level.keys.insert(name).second;
    level.key = std::move(name);
    if (level.discards_next) report_({Kind::kDuplicate, next_pointer(), level.key});
    return true;
  }

  bool parse_error(std::size_t position,
                   const std::string& /*token*/,
                   const Json::exception& failure) override {
    std::string_view what = failure.what();
    const std::size_t prefix = what.find("] ");  // `[json.exception.parse_error.101] `
    if (prefix != std::string_view::npos) what.remove_prefix(prefix + 2);
    report_({Kind::kSyntax, "", std::string(what), position});
    return false;
  }

 private:
  /// One object or list that is still open.
  struct Level {
    Json* json = nullptr;
    std::string pointer;
    std::set<std::string> keys = {};  ///< hashes could be made to clash
    std::string key = {};             ///< of the value that comes next
    bool discards_next = false;       ///< that value belongs to a duplicate key
    Json discarded = {};
  };

  [[nodiscard]] std::string next_pointer() const {
    if (levels_.empty()) return "";
    const Level& level = levels_.back();
    return child_pointer(level.pointer,
                         level.json->is_object() ? level.key : std::to_string(level.json->size()));
  }

  /// Puts a value where the document has come to and says where it lies.
  Json* put(Json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = levels_.back();
    if (level.json->is_array()) return &level.json->emplace_back(std::move(value));
    if (level.discards_next) {
      level.discarded = std::move(value);
      return &level.discarded;
    }
    // As the end of a list, which it is: the object would search for the key once more.
    auto& members = level.json->get_ref<Json::object_t&>();
    static_cast<Json::object_t::Container&>(members).emplace_back(level.key, std::move(value));
    return &members.back().second;
  }

  bool open(Json container) {
    std::string pointer = next_pointer();
    if (levels_.size() == kDeepestJson) {
      report_({Kind::kDepth, std::move(pointer), ""});
      return false;
    }
    Json* const placed = put(std::move(container));
    levels_.push_back({placed, std::move(pointer)});
    return true;
  }

  bool close() {
    levels_.pop_back();
    return true;
  }

  const std::function<void(const JsonFlaw&)>& report_;
  Json root_;
  std::vector<Level> levels_;
};

}  // namespace

std::optional<Json> read_strict_json(std::string_view text,
                                     const std::function<void(const JsonFlaw&)>& report) {
  StrictBuilder builder(report);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) return std::nullopt;
  return builder.take();
}

Json parse_strict_json(const std::string& text, const std::string& origin) {
  const auto refuse = [&](const JsonFlaw& flaw) {
    constexpr std::size_t kShownKey = 32;
    constexpr std::size_t kLongest = 300;
    const char* edited = "the manifest was edited or damaged; record the run again";
    const char* cut = "the file was cut or damaged; record the run again";
    const auto fail = [&](const std::string& what, const char* hint) {
      throw damaged_dump(fmt::format("{}: {}", origin, what), hint);
    };
    if (flaw.kind == Kind::kSyntax) {
      fail("not valid JSON: " + printable(flaw.what, kLongest), cut);
    } else if (flaw.kind == Kind::kDepth) {
      fail("is nested too deep", edited);
    } else if (flaw.kind == Kind::kDuplicate) {
      fail(fmt::format("the key \"{}\" is there twice", printable(flaw.what, kShownKey)), edited);
    }
    // Whether a number is one of its kind is for whoever reads it.
  };
  return read_strict_json(text, refuse).value();
}

std::string child_pointer(std::string_view parent, std::string_view token) {
  std::string pointer(parent);
  pointer += '/';
  for (const char c : token) {
    if (c == '~') {
      pointer += "~0";
    } else if (c == '/') {
      pointer += "~1";
    } else {
      pointer += c;
    }
  }
  return pointer;
}

}  // namespace repro_check::core
