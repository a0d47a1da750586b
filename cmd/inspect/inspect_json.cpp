// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect_json.h"

#include <fmt/format.h>

#include <cmath>
#include <type_traits>
#include <variant>

#include "cmd/render/text.h"

namespace repro_check::cmd {
namespace {

constexpr std::int64_t kLargestExact = (std::int64_t{1} << 53) - 1;

}  // namespace

OrderedJson inspect_document(const std::string& location) {
  return {{"format", "repro-check-inspect"}, {"version", "1.2"}, {"dump", clean_utf8(location)}};
}

OrderedJson number_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

OrderedJson integer_json(std::int64_t value) {
  if (value > kLargestExact || value < -kLargestExact) return std::to_string(value);
  return value;
}

OrderedJson count_json(std::uint64_t value) {
  if (value > static_cast<std::uint64_t>(kLargestExact)) return std::to_string(value);
  return value;
}

OrderedJson value_json(const core::Value& value) {
  return std::visit(
      [](const auto& data) -> OrderedJson {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return nullptr;
        else if constexpr (std::is_same_v<T, std::int64_t>)
          return integer_json(data);
        else if constexpr (std::is_same_v<T, double>)
          return number_json(data);
        else if constexpr (std::is_same_v<T, std::complex<double>>) {
          return {{"complex",
                   OrderedJson::array({number_json(data.real()), number_json(data.imag())})}};
        } else if constexpr (std::is_same_v<T, std::string>)
          return clean_utf8(data);
        else if constexpr (std::is_same_v<T, core::Symbol>)
          return {{"symbol", clean_utf8(data.name)}};
        else if constexpr (std::is_same_v<T, core::TensorSlot>)
          return {{"tensor", data.index}};
        else if constexpr (std::is_same_v<T, core::Opaque>)
          return {{"opaque", clean_utf8(data.type)}};
        else if constexpr (std::is_same_v<T, core::ValueList>) {
          OrderedJson items = OrderedJson::array();
          for (const core::Value& item : data.items) items.push_back(value_json(item));
          return items;
        } else
          return data;
      },
      value.data);
}

std::string bits_text(std::span<const std::byte> element) {
  std::string text;
  for (std::size_t i = element.size(); i > 0; --i) {
    text += fmt::format("{:02x}", std::to_integer<unsigned>(element[i - 1]));
  }
  return text;
}

OrderedJson element_json(core::Dtype dtype, std::span<const std::byte> element) {
  const std::string text = element_text(dtype, element);
  // What is no JSON number (nan, a complex value, a bool) stays as people read it.
  OrderedJson value = OrderedJson::parse(text, nullptr, false);
  const bool rounds =
      value.is_number_integer() && (value > kLargestExact || value < -kLargestExact);
  if (!value.is_primitive() || value.is_discarded() || rounds) value = text;
  return {{"value", std::move(value)}, {"bits", bits_text(element)}};
}

}  // namespace repro_check::cmd
