// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <iterator>
#include <string>

#include "cmd/render/text.h"
#include "core/tensor/element_number.h"
#include "core/tensor/float_format.h"

namespace repro_check::cmd {
namespace {

using core::Dtype;

std::string hexadecimal(std::span<const std::byte> bytes) {
  std::string out = "0x";
  for (std::size_t i = bytes.size(); i > 0; --i) {
    fmt::format_to(std::back_inserter(out), "{:02x}", std::to_integer<unsigned>(bytes[i - 1]));
  }
  return out;
}

std::string complex_text(Dtype dtype, std::span<const std::byte> bytes) {
  const std::size_t half = bytes.size() / 2;
  const std::string real = element_text(core::part_dtype(dtype), bytes.first(half));
  const std::string imaginary = element_text(core::part_dtype(dtype), bytes.subspan(half));
  return real + (imaginary.starts_with('-') ? "" : "+") + imaginary + "j";
}

std::string bool_text(std::span<const std::byte> bytes) {
  const auto value = std::to_integer<unsigned>(bytes.front());
  // Any other byte is a bool that torch reads as true and that is not bit-equal to true.
  return value == 0 ? "False" : (value == 1 ? "True" : fmt::format("True (byte {})", value));
}

}  // namespace

std::string element_text(core::Dtype dtype, std::span<const std::byte> element) {
  if (element.empty() || element.size() != core::element_size(dtype)) {
    return hexadecimal(element);
  }
  if (core::is_complex(dtype)) {
    return complex_text(dtype, element);
  }
  if (dtype == Dtype::kBool) return bool_text(element);
  const std::string text = core::number_text(dtype, element);
  return text.empty() ? hexadecimal(element) : text;
}

}  // namespace repro_check::cmd
