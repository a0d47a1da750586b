// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json/json_returned.h"

#include <array>
#include <string>
#include <utility>

#include "cmd/render/json/json_op.h"

namespace repro_check::cmd {
namespace {

using comparators::ReturnedValues;

constexpr std::array<std::pair<const char*, std::uint64_t ReturnedValues::*>, 11> kCounts{{
    {"baseline", &ReturnedValues::baseline},
    {"candidate", &ReturnedValues::candidate},
    {"compared", &ReturnedValues::compared},
    {"equal", &ReturnedValues::equal},
    {"within_policy", &ReturnedValues::within_policy},
    {"diverged", &ReturnedValues::diverged},
    {"skipped", &ReturnedValues::skipped},
    {"not_judged", &ReturnedValues::not_judged},
    {"missing", &ReturnedValues::missing},
    {"tensors", &ReturnedValues::tensors},
    {"others", &ReturnedValues::others},
}};

}  // namespace

Json json_returned(const ReturnedValues& returned) {
  Json out;
  for (const auto& [name, count] : kCounts) out[name] = json_integer(returned.*count);
  out["opaque"] = Json::array();
  for (const std::string& path : returned.opaque) out["opaque"].push_back(json_text(path));
  out["first"] = returned.first ? json_op(*returned.first) : Json(nullptr);
  return out;
}

ReturnedValues read_returned(const Json& json) {
  ReturnedValues returned;
  for (const auto& [name, count] : kCounts) returned.*count = read_whole(json.at(name));
  for (const Json& path : json.at("opaque")) returned.opaque.push_back(read_text(path));
  if (!json.at("first").is_null()) returned.first = read_op(json.at("first"));
  return returned;
}

}  // namespace repro_check::cmd
