// SPDX-License-Identifier: Apache-2.0
#include "core/detail/strict_json.h"

#include <fmt/format.h>

#include <cstddef>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/printable.h"

namespace repro_check::core {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxJsonDepth = 64;
constexpr std::size_t kShown = 32;

/// Refuses what the parser would let pass: a key given twice, and nesting without end.
class StrictEvents {
 public:
  explicit StrictEvents(const std::string& origin) : origin_(origin) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    switch (event) {
      case Json::parse_event_t::object_start:
        keys_.emplace_back();
        [[fallthrough]];
      case Json::parse_event_t::array_start:
        if (depth > kMaxJsonDepth) refuse("is nested too deep");
        break;
      case Json::parse_event_t::object_end:
        keys_.pop_back();
        break;
      case Json::parse_event_t::key:
        if (!keys_.back().insert(parsed.get<std::string>()).second) {
          refuse(fmt::format("the key \"{}\" is there twice",
                             printable(parsed.get<std::string>(), kShown)));
        }
        break;
      default:
        break;
    }
    return true;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::kDumpDamaged,
                fmt::format("{}: {}", origin_, what),
                "the manifest was edited or damaged; record the run again");
  }

  const std::string& origin_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

Json parse_strict_json(const std::string& text, const std::string& origin) {
  try {
    StrictEvents events(origin);
    return Json::parse(text, [&](int depth, Json::parse_event_t event, Json& parsed) {
      return events(depth, event, parsed);
    });
  } catch (const Json::exception& failure) {
    std::string_view what = failure.what();
    const std::size_t prefix = what.find("] ");  // `[json.exception.parse_error.101] `
    if (prefix != std::string_view::npos) what.remove_prefix(prefix + 2);
    constexpr std::size_t kLongest = 300;
    throw Error(ErrorKind::kDumpDamaged,
                fmt::format("{}: not valid JSON: {}", origin, printable(what, kLongest)),
                "the file was cut or damaged; record the run again");
  }
}

}  // namespace repro_check::core
