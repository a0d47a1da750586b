// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json/json_fields.h"

#include <charconv>
#include <limits>
#include <memory>
#include <stdexcept>

namespace repro_check::cmd {
namespace {

template <typename Integer>
Integer parse_whole(const std::string& text) {
  Integer value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc{} || end.ptr != text.data() + text.size()) {
    throw std::invalid_argument("\"" + text + "\" is no number");
  }
  return value;
}

}  // namespace

std::uint64_t read_whole(const Json& json) {
  if (json.is_number_unsigned()) return json.get<std::uint64_t>();
  return parse_whole<std::uint64_t>(json.get<std::string>());
}

std::int64_t read_integer(const Json& json) {
  if (json.is_number_integer()) return json.get<std::int64_t>();
  return parse_whole<std::int64_t>(json.get<std::string>());
}

std::optional<std::uint64_t> read_optional_whole(const Json& json) {
  return json.is_null() ? std::nullopt : std::optional(read_whole(json));
}

double read_number(const Json& json) {
  if (!json.is_string()) return json.get<double>();
  const auto text = json.get<std::string>();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "-inf") return -std::numeric_limits<double>::infinity();
  throw std::invalid_argument("\"" + text + "\" is no number");
}

comparators::Metric read_metric(const Json& json) {
  return json.is_null() ? comparators::Metric{} : comparators::Metric{read_number(json)};
}

std::string read_text(const Json& json) {
  return json.is_null() ? std::string() : json.get<std::string>();
}

std::vector<std::string> read_texts(const Json& json) {
  return json.get<std::vector<std::string>>();
}

std::vector<std::int64_t> read_shape(const Json& json) {
  std::vector<std::int64_t> shape;
  for (const Json& size : json) shape.push_back(read_integer(size));
  return shape;
}

void read_names(const Json& op, const Json& module, const Json& source, core::OpRecord& into) {
  const std::string full = read_text(op);
  if (!full.empty()) {
    const std::size_t dot = full.rfind('.');
    const bool has_overload = dot != std::string::npos && dot + 1 < full.size();
    into.op = std::make_shared<core::OperatorInfo>(
        has_overload ? core::OperatorInfo{full.substr(0, dot), full.substr(dot + 1), false}
                     : core::OperatorInfo{full, "", false});
  }
  const std::string path = read_text(module);
  if (path.empty() && source.is_null()) return;
  auto site = std::make_shared<core::CallSite>();
  site->module_path = path;
  if (!source.is_null()) {
    const Json& line = source.at("line");
    site->frames.push_back({read_text(source.at("file")),
                            line.is_null() ? 0U : static_cast<std::uint32_t>(read_whole(line)),
                            ""});
  }
  into.site = std::move(site);
}

}  // namespace repro_check::cmd
