// SPDX-License-Identifier: Apache-2.0
#include "core/trace/op_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "core/text/printable.h"

namespace repro_check::core {

namespace {

bool same_bits(double left, double right) noexcept {
  return std::bit_cast<std::uint64_t>(left) == std::bit_cast<std::uint64_t>(right);
}

/// Python's spelling: a whole double keeps its `.0`, or it would read like an integer.
std::string double_text(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

struct Printer {
  std::string operator()(std::monostate) const { return "None"; }
  std::string operator()(bool value) const { return value ? "True" : "False"; }
  std::string operator()(std::int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return double_text(value); }
  std::string operator()(const std::complex<double>& value) const {
    return fmt::format("({}{:+}j)", value.real(), value.imag());
  }
  std::string operator()(const std::string& value) const {
    return fmt::format("\"{}\"", printable(value));
  }
  std::string operator()(const Symbol& value) const { return printable(value.name); }
  std::string operator()(TensorSlot value) const { return fmt::format("<tensor {}>", value.index); }
  std::string operator()(const Opaque& value) const {
    return fmt::format("<{}>", printable(value.type));
  }
  std::string operator()(const ValueList& value) const {
    std::string text = "[";
    for (const Value& item : value.items) {
      if (text.size() > 1) text += ", ";
      text += to_text(item);
    }
    return text + "]";
  }
};

}  // namespace

bool ValueList::operator==(const ValueList& other) const { return items == other.items; }

bool Value::operator==(const Value& other) const {
  if (data.index() != other.data.index()) return false;
  if (const auto* number = std::get_if<double>(&data)) {
    return same_bits(*number, std::get<double>(other.data));
  }
  if (const auto* number = std::get_if<std::complex<double>>(&data)) {
    const auto& theirs = std::get<std::complex<double>>(other.data);
    return same_bits(number->real(), theirs.real()) && same_bits(number->imag(), theirs.imag());
  }
  return data == other.data;
}

std::string to_text(const Value& value) { return std::visit(Printer{}, value.data); }

namespace {

/// Where the framework's own Python files are found, installed or in a source tree. A folder of the
/// user's that is called torch is not among them.
constexpr std::array<std::string_view, 7> kFrameworkPlaces{"-packages/torch/",
                                                           "__torch__/torch/",
                                                           "/torch/nn/",
                                                           "/torch/jit/",
                                                           "/torch/autograd/",
                                                           "/torch/functional.py",
                                                           "/torch/_tensor.py"};

/// Files of the framework itself help nobody to find their own line.
bool inside_torch(std::string_view file) noexcept {
  return file.starts_with("torch/") ||
         std::any_of(kFrameworkPlaces.begin(), kFrameworkPlaces.end(), [&](std::string_view place) {
           return file.find(place) != std::string_view::npos;
         });
}

}  // namespace

const SourceFrame* display_frame(const CallSite& site) noexcept {
  for (const SourceFrame& frame : site.frames) {
    if (frame.line != 0 && !inside_torch(frame.file)) return &frame;
  }
  for (const SourceFrame& frame : site.frames) {
    if (frame.line != 0) return &frame;
  }
  return nullptr;
}

std::string_view phase_name(Phase phase) noexcept {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kOptimizer:
      return "optimizer";
  }
  return "forward";
}

}  // namespace repro_check::core
