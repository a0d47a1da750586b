// SPDX-License-Identifier: Apache-2.0
#include "cmd/words/fields.h"

#include <cstdint>
#include <string>
#include <variant>

#include "cmd/words/causes.h"

namespace repro_check::cmd {
namespace {

using comparators::FieldValue;

FieldValue value_in(const Json& json) {
  const JsonReader f(json);
  const auto read = [&](auto value) -> FieldValue {
    describe(f, value);
    return value;
  };
  if (json.is_boolean()) return read(false);
  if (json.is_number_integer()) return read(std::int64_t{0});
  if (json.is_number()) return read(0.0);
  if (json.is_string()) return read(std::string());
  if (json.empty() || json.front().is_number()) return read(comparators::RankList());
  if (json.front().is_string()) return read(std::vector<std::string>());
  return read(comparators::Phrases());
}

}  // namespace

Json fields_json(const std::vector<comparators::Field>& fields) {
  Json json = Json::object();
  for (const comparators::Field& field : fields) {
    json[field.name] = std::visit([](const auto& value) { return json_of(value); }, field.value);
  }
  return json;
}

std::vector<comparators::Field> fields_in(const Json& json) {
  std::vector<comparators::Field> fields;
  for (const auto& [name, value] : json.items()) fields.emplace_back(name, value_in(value));
  return fields;
}

}  // namespace repro_check::cmd
