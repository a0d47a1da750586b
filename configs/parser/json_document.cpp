// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <unordered_set>
#include <utility>
#include <vector>

#include "configs/parser/reader.h"
#include "core/text/printable.h"

namespace repro_check::configs::detail {
namespace {

/// Of a value that an error quotes.
constexpr std::size_t kLongestNumber = 60;
constexpr std::size_t kDeepestNesting = 64;

/// One object or list that is still open.
struct Level {
  Json* json = nullptr;
  std::string pointer;
  std::unordered_set<std::string> keys;
  std::string key;            ///< of the value that comes next
  bool discard_next = false;  ///< that value belongs to a duplicate key
};

/// Lines and columns count from 1; the library only counts bytes when it is out of numbers.
std::string place_in(std::string_view text, std::size_t position) {
  const std::string_view before = text.substr(0, std::min(position, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t start = before.rfind('\n');
  const std::size_t column = before.size() - (start == std::string_view::npos ? 0 : start + 1);
  return fmt::format("line {}, column {}", line, std::max<std::size_t>(column, 1));
}

/// Receives the library's parse events and builds the document.
class DocumentBuilder final : public nlohmann::json_sax<Json> {
 public:
  DocumentBuilder(std::string_view text, std::string pointer, Problems& problems)
      : text_(text), root_pointer_(std::move(pointer)), problems_(problems) {}

  bool null() override { return place(nullptr); }
  bool boolean(bool value) override { return place(value); }
  bool number_integer(number_integer_t value) override { return place(value); }
  bool number_unsigned(number_unsigned_t value) override { return place(value); }
  /// The library turns integers beyond 64 bits into doubles without a word.
  bool number_float(number_float_t value, const string_t& spelled) override {
    if (spelled.find_first_of(".eE") == std::string::npos) {
      problems_.add_final(next_pointer(),
                          fmt::format("the integer {} does not fit into 64 bits",
                                      core::printable(spelled, kLongestNumber)));
    }
    return place(value);
  }
  bool string(string_t& value) override { return place(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }  // JSON text has none
  bool start_object(std::size_t /*elements*/) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*elements*/) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  /// The library keeps the last of duplicate keys, people read the first: neither is right.
  bool key(string_t& value) override {
    Level& level = levels_.back();
    level.discard_next = !level.keys.insert(value).second;
    if (level.discard_next) {
      problems_.add(child_pointer(level.pointer, value), "duplicate key; give it once");
    }
    level.key = value;
    return true;
  }

  bool parse_error(std::size_t position,
                   const std::string& /*last_token*/,
                   const nlohmann::detail::exception& error) override {
    problems_.add(root_pointer_,
                  fmt::format("{}: {}", place_in(text_, position), reason_of(error.what())));
    return false;
  }

  [[nodiscard]] Json take() { return std::move(root_); }

 private:
  /// The library's sentence without its own prefix and position.
  static std::string reason_of(std::string_view what) {
    const std::size_t bracket = what.find("] ");
    if (bracket != std::string_view::npos) what.remove_prefix(bracket + 2);
    if (what.starts_with("parse error")) {
      const std::size_t colon = what.find(": ");
      if (colon != std::string_view::npos) what.remove_prefix(colon + 2);
    }
    constexpr std::size_t kLongestReason = 200;
    return "not JSON: " + core::printable(what, kLongestReason);
  }

  [[nodiscard]] std::string next_pointer() const {
    if (levels_.empty()) return root_pointer_;
    const Level& level = levels_.back();
    return level.json->is_object() ? child_pointer(level.pointer, level.key)
                                   : child_pointer(level.pointer, level.json->size());
  }

  /// Puts a value where the document has come to and says where it lies.
  Json* put(Json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Level& level = levels_.back();
    if (level.discard_next) {
      level.discard_next = false;
      discarded_.push_back(std::make_unique<Json>(std::move(value)));
      return discarded_.back().get();
    }
    if (level.json->is_array()) {
      level.json->push_back(std::move(value));
      return &level.json->back();
    }
    // The keys are known to be distinct: the linear search of ordered_map::emplace is not needed.
    auto& members = level.json->get_ref<Json::object_t&>();
    static_cast<Json::object_t::Container&>(members).emplace_back(level.key, std::move(value));
    return &members.back().second;
  }

  bool place(Json value) {
    put(std::move(value));
    return true;
  }

  /// Bounded, because everything after this recurses.
  bool open(Json container) {
    std::string pointer = next_pointer();
    if (levels_.size() == kDeepestNesting) {
      problems_.add(std::move(pointer), fmt::format("nested deeper than {}", kDeepestNesting));
      return false;
    }
    Json* const placed = put(std::move(container));
    levels_.push_back({placed, std::move(pointer), {}, {}, false});
    return true;
  }

  bool close() {
    levels_.pop_back();
    return true;
  }

  std::string_view text_;  ///< for lines and columns
  std::string root_pointer_;
  Problems& problems_;
  Json root_;
  std::vector<Level> levels_;
  std::vector<std::unique_ptr<Json>> discarded_;  ///< values of duplicate keys, still being read
};

}  // namespace

std::optional<Json> parse_json(std::string_view text,
                               const std::string& pointer,
                               Problems& problems) {
  DocumentBuilder builder(text, pointer, problems);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) return std::nullopt;
  return builder.take();
}

}  // namespace repro_check::configs::detail
