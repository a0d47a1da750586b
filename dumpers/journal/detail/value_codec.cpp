// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/detail/value_codec.h"

#include <complex>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>

#include "dumpers/journal/detail/journal_format.h"
#include "dumpers/journal/journal.h"

namespace repro_check::journal {

class ValueEncoder::Visitor {
 public:
  Visitor(ValueEncoder& to, int depth) noexcept : to_(to), depth_(depth) {}

  void operator()(std::monostate) const { tag(ValueTag::kNone); }
  void operator()(bool value) const {
    tag(ValueTag::kBool);
    to_.scalars_.put(static_cast<std::uint8_t>(value ? 1 : 0));
  }
  void operator()(std::int64_t value) const {
    tag(ValueTag::kInt);
    to_.scalars_.put_signed(value);
  }
  void operator()(double value) const {
    tag(ValueTag::kDouble);
    to_.scalars_.put(value);
  }
  void operator()(const std::complex<double>& value) const {
    tag(ValueTag::kComplex);
    to_.scalars_.put(value.real());
    to_.scalars_.put(value.imag());
  }
  /// No part of the form: what a model computes with may be long, and different every time.
  void operator()(const std::string& value) const {
    tag(ValueTag::kString);
    to_.scalars_.put_text(value);
  }
  void operator()(const core::Symbol& value) const { named(ValueTag::kSymbol, value.name); }
  void operator()(core::TensorSlot value) const {
    tag(ValueTag::kTensor);
    to_.form_.put_varint(value.index);
  }
  void operator()(const core::Opaque& value) const { named(ValueTag::kOpaque, value.type); }
  void operator()(const core::ValueList& value) const {
    if (depth_ == kMaxListDepth) {
      named(ValueTag::kOpaque, "list in more than 64 lists");
      return;
    }
    tag(ValueTag::kList);
    to_.form_.put_varint(value.items.size());
    const Visitor inside(to_, depth_ + 1);
    for (const core::Value& item : value.items) inside.visit(item);
  }

  void visit(const core::Value& value) const {
    ++to_.count_;
    std::visit(*this, value.data);
  }

 private:
  void tag(ValueTag tag) const { to_.form_.put(tag); }
  void named(ValueTag kind, std::string_view name) const {
    tag(kind);
    to_.form_.put_text(name);
  }

  ValueEncoder& to_;
  int depth_;
};

void ValueEncoder::encode(const core::Value& value) { Visitor(*this, 0).visit(value); }

namespace {

core::Value decode(ByteReader& form, std::size_t tensors, std::size_t& budget, int depth) {
  if (budget == 0) ByteReader::nonsense("holds more values than a call has");
  --budget;
  switch (form.enumerated(ValueTag::kList)) {
    case ValueTag::kNone:
      return {};
    case ValueTag::kBool:
      return {false};
    case ValueTag::kInt:
      return {std::int64_t{0}};
    case ValueTag::kDouble:
      return {0.0};
    case ValueTag::kComplex:
      return {std::complex<double>()};
    case ValueTag::kString:
      return {std::string()};
    case ValueTag::kSymbol:
      return {core::Symbol{std::string(form.text())}};
    case ValueTag::kTensor: {
      const core::TensorSlot slot{form.varint32()};
      if (slot.index >= tensors) ByteReader::nonsense("refers to a tensor it does not hold");
      return {slot};
    }
    case ValueTag::kOpaque:
      return {core::Opaque{std::string(form.text())}};
    case ValueTag::kList:
      break;
  }
  if (depth == kMaxListDepth) ByteReader::nonsense("nests lists too deep");
  core::ValueList list;
  // Grown item by item: lists in lists could otherwise ask for far more than the form holds.
  for (std::size_t left = form.count(1); left > 0; --left) {
    list.items.push_back(decode(form, tensors, budget, depth + 1));
  }
  return {std::move(list)};
}

}  // namespace

core::Value decode_value_form(ByteReader& form, std::size_t tensors, std::size_t& budget) {
  return decode(form, tensors, budget, 0);
}

void fill_scalars(core::Value& value, ByteReader& scalars) {
  if (auto* truth = std::get_if<bool>(&value.data)) {
    *truth = scalars.get<std::uint8_t>() != 0;
  } else if (auto* integer = std::get_if<std::int64_t>(&value.data)) {
    *integer = scalars.signed_varint();
  } else if (auto* real = std::get_if<double>(&value.data)) {
    *real = scalars.get<double>();
  } else if (auto* complex = std::get_if<std::complex<double>>(&value.data)) {
    const auto real_part = scalars.get<double>();
    *complex = {real_part, scalars.get<double>()};
  } else if (auto* text = std::get_if<std::string>(&value.data)) {
    *text = scalars.text();
  } else if (auto* list = std::get_if<core::ValueList>(&value.data)) {
    for (core::Value& item : list->items) fill_scalars(item, scalars);
  }
}

}  // namespace repro_check::journal
