// SPDX-License-Identifier: Apache-2.0
#include "core/text/strict_json.h"

#include <fmt/format.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text/printable.h"

namespace repro_check::core {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMaxJsonDepth = 64;

/// Builds the document; refuses what the library's own builder would let pass: a key given twice,
/// and nesting without end. That builder also looks through all members of an object for each of
/// them, so that a file takes the square of its length.
class StrictBuilder final : public nlohmann::json_sax<Json> {
 public:
  explicit StrictBuilder(const std::string& origin) : origin_(origin) {}

  [[nodiscard]] Json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t& value) override { return put(std::move(value)); }

  bool start_object(std::size_t /*size*/) override {
    keys_.emplace_back();
    return open(Json::object());
  }
  bool end_object() override {
    keys_.pop_back();
    open_.pop_back();
    return true;
  }
  bool start_array(std::size_t /*size*/) override { return open(Json::array()); }
  bool end_array() override {
    open_.pop_back();
    return true;
  }

  bool key(string_t& name) override {
    constexpr std::size_t kShown = 32;
    if (!keys_.back().insert(name).second) {
      refuse(fmt::format("the key \"{}\" is there twice", printable(name, kShown)),
             "the manifest was edited or damaged; record the run again");
    }
    // As the end of a list, which it is: the object would search for the key once more.
    open_.back()->get_ref<Json::object_t&>().emplace_back(std::move(name), nullptr);
    return true;
  }

  bool parse_error(std::size_t /*position*/,
                   const std::string& /*token*/,
                   const Json::exception& failure) override {
    constexpr std::size_t kLongest = 300;
    std::string_view what = failure.what();
    const std::size_t prefix = what.find("] ");  // `[json.exception.parse_error.101] `
    if (prefix != std::string_view::npos) what.remove_prefix(prefix + 2);
    refuse(fmt::format("not valid JSON: {}", printable(what, kLongest)),
           "the file was cut or damaged; record the run again");
  }

 private:
  /// Where the next value stands.
  Json& slot() {
    if (open_.empty()) return root_;
    if (open_.back()->is_array()) return open_.back()->emplace_back();
    return open_.back()->get_ref<Json::object_t&>().back().second;
  }

  bool put(Json value) {
    slot() = std::move(value);
    return true;
  }

  bool open(Json value) {
    if (open_.size() > kMaxJsonDepth) {
      refuse("is nested too deep", "the manifest was edited or damaged; record the run again");
    }
    Json& place = slot();
    place = std::move(value);
    open_.push_back(&place);
    return true;
  }

  [[noreturn]] void refuse(const std::string& what, const char* hint) const {
    throw Error(ErrorKind::kDumpDamaged, fmt::format("{}: {}", origin_, what), hint);
  }

  const std::string& origin_;
  Json root_;
  std::vector<Json*> open_;                  ///< from the root to where the next value stands
  std::vector<std::set<std::string>> keys_;  ///< of each open object; hashes could be made to clash
};

}  // namespace

Json parse_strict_json(const std::string& text, const std::string& origin) {
  StrictBuilder builder(origin);
  Json::sax_parse(text, &builder);
  return builder.take();
}

}  // namespace repro_check::core
