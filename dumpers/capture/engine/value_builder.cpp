// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/engine/value_builder.h"

#include <ATen/core/Generator.h>
#include <ATen/core/enum_type.h>
#include <ATen/core/jit_type.h>

#include <complex>
#include <string>
#include <utility>
#include <vector>

#include "dumpers/capture/torch/torch_names.h"

namespace repro_check::capture {
namespace {

/// Containers nested deeper than any schema has them are not followed.
constexpr int kMaxDepth = 32;

class Builder {
 public:
  Builder(IntegerMeaning meaning, TensorVisitor& tensors) : meaning_(meaning), tensors_(tensors) {}

  void build(const c10::IValue& value, const std::string& slot, core::Value& into, int depth) {
    if (value.isTensor()) {
      into.data = core::TensorSlot{tensors_.visit(value.toTensor(), slot)};
    } else if (value.isNone()) {
      into.data = std::monostate{};
    } else if (value.isInt()) {
      build_integer(value.toInt(), into);
    } else if (value.isBool()) {
      into.data = value.toBool();
    } else if (value.isDouble()) {
      into.data = value.toDouble();
    } else if (value.isComplexDouble()) {
      const c10::complex<double> number = value.toComplexDouble();
      into.data = std::complex<double>(number.real(), number.imag());
    } else if (value.isString()) {
      into.data = value.toStringRef();
    } else if (value.isDevice()) {
      into.data = core::Symbol{value.toDevice().str()};
    } else if (value.isEnum()) {
      into.data = core::Symbol{enumerator(value)};
    } else if (depth >= kMaxDepth || !(build_container(value, slot, into, depth) ||
                                       build_packed(value, slot, into, depth))) {
      build_opaque(value, into);
    }
  }

 private:
  /// `Color.RED`
  static std::string enumerator(const c10::IValue& value) {
    const auto type = value.type()->expect<c10::EnumType>();
    return type->qualifiedClassName().name() + "." + value.toEnumHolder()->name();
  }

  void build_integer(std::int64_t number, core::Value& into) const {
    switch (meaning_) {
      case IntegerMeaning::kNumber:
        into.data = number;
        break;
      case IntegerMeaning::kScalarType:
        into.data = core::Symbol{scalar_type_name(static_cast<c10::ScalarType>(number))};
        break;
      case IntegerMeaning::kLayout:
        into.data = core::Symbol{layout_name(static_cast<c10::Layout>(number))};
        break;
      case IntegerMeaning::kMemoryFormat:
        into.data = core::Symbol{memory_format_name(static_cast<c10::MemoryFormat>(number))};
        break;
    }
  }

  static std::vector<core::Value>& resize_list(core::Value& into, std::size_t count) {
    if (!std::holds_alternative<core::ValueList>(into.data)) into.data = core::ValueList{};
    std::vector<core::Value>& items = std::get<core::ValueList>(into.data).items;
    items.resize(count);
    return items;
  }

  template <class Items>
  void build_items(const Items& items, const std::string& slot, core::Value& into, int depth) {
    std::vector<core::Value>& out = resize_list(into, items.size());
    for (std::size_t i = 0; i < out.size(); ++i) {
      build(items[i], slot + '.' + std::to_string(i), out[i], depth + 1);
    }
  }

  bool build_container(const c10::IValue& value,
                       const std::string& slot,
                       core::Value& into,
                       int depth) {
    if (value.isIntList()) {
      const c10::List<std::int64_t> numbers = value.toIntList();
      std::vector<core::Value>& out = resize_list(into, numbers.size());
      for (std::size_t i = 0; i < out.size(); ++i) build_integer(numbers.get(i), out[i]);
      return true;
    }
    if (value.isList()) {
      build_items(value.toListRef(), slot, into, depth);
      return true;
    }
    if (value.isTuple()) {
      const auto& elements = value.toTupleRef().elements();
      build_items(elements, slot, into, depth);
      return true;
    }
    if (value.isGenericDict()) {
      const c10::Dict<c10::IValue, c10::IValue> dict = value.toGenericDict();
      std::vector<core::Value>& out = resize_list(into, dict.size());
      std::size_t i = 0;
      for (const auto& entry : dict) {
        const std::vector<c10::IValue> pair{entry.key(), entry.value()};
        build_items(pair, slot + '.' + std::to_string(i), out[i], depth + 1);
        ++i;
      }
      return true;
    }
    return false;
  }

  bool build_packed(const c10::IValue& value,
                    const std::string& slot,
                    core::Value& into,
                    int depth) {
    const auto state = value.isObject() ? tensors_.state_of(value) : std::nullopt;
    if (!state) return false;
    const std::string type = packed_class_name(*value.type());
    const std::vector<c10::IValue> items = items_of_state(*state);
    std::vector<core::Value>& out = resize_list(into, items.size() + 1);
    out.front().data = core::Symbol{type};
    for (std::size_t i = 0; i < items.size(); ++i) {
      const auto part = [&](std::optional<std::size_t> place) {
        return slot + '.' + packed_part_name(type, i, place);
      };
      core::Value& item = out[i + 1];
      if (!items[i].isList() || items[i].isIntList()) {
        build(items[i], part(std::nullopt), item, depth + 1);
        continue;
      }
      const auto elements = items[i].toListRef();
      std::vector<core::Value>& list = resize_list(item, elements.size());
      for (std::size_t k = 0; k < list.size(); ++k) build(elements[k], part(k), list[k], depth + 1);
    }
    return true;
  }

  static void build_opaque(const c10::IValue& value, core::Value& into) {
    core::Opaque opaque;
    if (value.isObject()) {
      opaque.type = value.type()->repr_str();
    } else {
      opaque.type = value.tagKind();
    }
    into.data = std::move(opaque);
  }

  IntegerMeaning meaning_;
  TensorVisitor& tensors_;
};

}  // namespace

void build_value(const c10::IValue& value,
                 IntegerMeaning meaning,
                 const std::string& slot,
                 TensorVisitor& tensors,
                 core::Value& into) {
  Builder(meaning, tensors).build(value, slot, into, 0);
}

}  // namespace repro_check::capture
