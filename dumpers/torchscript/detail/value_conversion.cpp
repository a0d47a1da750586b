// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/detail/value_conversion.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>

#include <charconv>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"
#include "dumpers/torchscript/detail/exception_text.h"
#include "dumpers/torchscript/detail/tensor_sources.h"

namespace repro_check::torchscript {
namespace {

using c10::TypeKind;
using configs::InputSpec;

constexpr std::int64_t kExactInDouble = std::int64_t{1} << 53U;

std::string describe(const configs::ValueInput& value) {
  struct Visitor {
    std::string operator()(std::nullptr_t) const { return "null"; }
    std::string operator()(bool b) const { return b ? "the bool true" : "the bool false"; }
    std::string operator()(std::int64_t i) const { return "the integer " + std::to_string(i); }
    std::string operator()(double d) const { return "the number " + std::to_string(d); }
    std::string operator()(const std::string& s) const {
      return "the string \"" + s.substr(0, 60) + "\"";
    }
  };
  return std::visit(Visitor{}, value.value);
}

std::string describe(const InputSpec& input) {
  if (const auto* value = std::get_if<configs::ValueInput>(&input.source)) return describe(*value);
  if (const auto* list = std::get_if<configs::ListInput>(&input.source)) {
    return "a list of " + std::to_string(list->items.size());
  }
  if (const auto* tuple = std::get_if<configs::TupleInput>(&input.source)) {
    return "a tuple of " + std::to_string(tuple->items.size());
  }
  if (std::holds_alternative<configs::DictInput>(input.source)) return "a dict";
  return "a tensor";
}

/// How an input of this type is written in a configuration.
std::string how_to_give(const c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::TensorType:
      return R"(give a tensor: {"generate": "normal", "shape": [2, 3]}, or "npy", "torch", "hdf5")";
    case TypeKind::IntType:
      return R"(give a whole number: {"value": 3})";
    case TypeKind::FloatType:
      return R"(give a number: {"value": 0.5})";
    case TypeKind::BoolType:
      return R"(give {"value": true} or {"value": false})";
    case TypeKind::StringType:
      return R"(give a string: {"value": "mean"})";
    case TypeKind::DeviceObjType:
      return R"(give a device: {"value": "cpu"})";
    case TypeKind::ListType:
      return R"(give {"list": [...]} with one input an element)";
    case TypeKind::TupleType:
      return R"(give {"tuple": [...]} with one input an element)";
    case TypeKind::DictType:
      return R"(give {"dict": {"key": ...}} with one input an entry)";
    case TypeKind::OptionalType:
      return R"(give {"value": null} for None, or else: )" +
             how_to_give(*type.castRaw<c10::OptionalType>()->getElementType());
    default:
      return "TorchScript builds values of this type itself: wrap the model in one whose method "
             "takes tensors, numbers and strings";
  }
}

class Converter {
 public:
  Converter(const std::string& argument, const InputContext& context)
      : argument_(argument), context_(context) {}

  [[nodiscard]] c10::IValue convert(const InputSpec& input, const c10::TypePtr& type) const {
    if (const auto* optional = type->castRaw<c10::OptionalType>()) {
      return is_null(input) ? c10::IValue() : convert(input, optional->getElementType());
    }
    if (type->kind() == TypeKind::UnionType) return convert_union(input, type);
    if (type->kind() == TypeKind::AnyType) return convert_freely(input);
    if (auto tensor = read_tensor(input, *context_.hdf5)) {
      if (type->kind() != TypeKind::TensorType) throw mismatch(input, *type);
      return place(*tensor);
    }
    if (const auto* list = std::get_if<configs::ListInput>(&input.source)) {
      return convert_list(input, *list, type);
    }
    if (const auto* tuple = std::get_if<configs::TupleInput>(&input.source)) {
      return convert_tuple(input, *tuple, type);
    }
    if (const auto* dict = std::get_if<configs::DictInput>(&input.source)) {
      return convert_dict(input, *dict, type);
    }
    return convert_value(input, type);
  }

 private:
  [[nodiscard]] core::Error mismatch(const InputSpec& input, const c10::Type& type) const {
    return {core::ErrorKind::kUsage,
            input.pointer + ": argument \"" + argument_ + "\" wants " + type.repr_str() +
                ", but is given " + describe(input),
            how_to_give(type)};
  }

  static bool is_null(const InputSpec& input) {
    const auto* value = std::get_if<configs::ValueInput>(&input.source);
    return value != nullptr && std::holds_alternative<std::nullptr_t>(value->value);
  }

  [[nodiscard]] at::Tensor place(const at::Tensor& tensor) const {
    const bool cast = context_.dtype && tensor.is_floating_point();
    return tensor.to(context_.device, cast ? *context_.dtype : tensor.scalar_type());
  }

  [[nodiscard]] c10::IValue convert_union(const InputSpec& input, const c10::TypePtr& type) const {
    for (const c10::TypePtr& member : type->containedTypes()) {
      try {
        return convert(input, member);
      } catch (const core::Error&) {
        continue;  // the next member may take it
      }
    }
    throw mismatch(input, *type);
  }

  /// For an argument of type Any: what the configuration says is what it gets.
  [[nodiscard]] c10::IValue convert_freely(const InputSpec& input) const {
    if (auto tensor = read_tensor(input, *context_.hdf5)) return place(*tensor);
    if (const auto* value = std::get_if<configs::ValueInput>(&input.source)) return as_is(*value);
    if (const auto* list = std::get_if<configs::ListInput>(&input.source)) {
      c10::impl::GenericList items(c10::AnyType::get());
      for (const InputSpec& item : list->items) items.push_back(convert_freely(item));
      return items;
    }
    if (const auto* tuple = std::get_if<configs::TupleInput>(&input.source)) {
      std::vector<c10::IValue> items;
      for (const InputSpec& item : tuple->items) items.push_back(convert_freely(item));
      return c10::ivalue::Tuple::create(std::move(items));
    }
    c10::impl::GenericDict entries(c10::StringType::get(), c10::AnyType::get());
    for (const auto& [key, item] : std::get<configs::DictInput>(input.source).entries) {
      entries.insert(key, convert_freely(item));
    }
    return entries;
  }

  static c10::IValue as_is(const configs::ValueInput& value) {
    return std::visit(
        [](const auto& v) -> c10::IValue {
          if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::nullptr_t>)
            return {};
          else
            return v;
        },
        value.value);
  }

  [[nodiscard]] c10::IValue convert_list(const InputSpec& input,
                                         const configs::ListInput& list,
                                         const c10::TypePtr& type) const {
    const auto* wanted = type->castRaw<c10::ListType>();
    if (wanted == nullptr) throw mismatch(input, *type);
    c10::impl::GenericList items(wanted->getElementType());
    for (const InputSpec& item : list.items) {
      items.push_back(convert(item, wanted->getElementType()));
    }
    return items;
  }

  [[nodiscard]] c10::IValue convert_tuple(const InputSpec& input,
                                          const configs::TupleInput& tuple,
                                          const c10::TypePtr& type) const {
    const auto wanted = type->cast<c10::TupleType>();
    if (!wanted || wanted->elements().size() != tuple.items.size()) throw mismatch(input, *type);
    std::vector<c10::IValue> items;
    for (std::size_t i = 0; i < tuple.items.size(); ++i) {
      items.push_back(convert(tuple.items[i], wanted->elements()[i]));
    }
    return wanted->schema() ? c10::ivalue::Tuple::createNamed(std::move(items), wanted)
                            : c10::ivalue::Tuple::create(std::move(items));
  }

  [[nodiscard]] c10::IValue convert_dict(const InputSpec& input,
                                         const configs::DictInput& dict,
                                         const c10::TypePtr& type) const {
    const auto* wanted = type->castRaw<c10::DictType>();
    if (wanted == nullptr) throw mismatch(input, *type);
    c10::impl::GenericDict entries(wanted->getKeyType(), wanted->getValueType());
    for (const auto& [key, item] : dict.entries) {
      entries.insert(convert_key(input, key, *wanted->getKeyType()),
                     convert(item, wanted->getValueType()));
    }
    return entries;
  }

  [[nodiscard]] c10::IValue convert_key(const InputSpec& input,
                                        const std::string& key,
                                        const c10::Type& type) const {
    if (type.kind() == TypeKind::StringType) return key;
    std::int64_t number = 0;
    const char* end = key.data() + key.size();
    const auto parsed = std::from_chars(key.data(), end, number);
    const bool whole = parsed.ec == std::errc{} && parsed.ptr == end;
    if (type.kind() == TypeKind::IntType && whole) return number;
    throw core::Error(core::ErrorKind::kUsage,
                      input.pointer + ": argument \"" + argument_ + "\": \"" + key +
                          "\" is no key of type " + type.repr_str(),
                      "keys are strings, or whole numbers written as strings");
  }

  [[nodiscard]] c10::IValue convert_value(const InputSpec& input, const c10::TypePtr& type) const {
    const auto& value = std::get<configs::ValueInput>(input.source).value;
    const auto* integer = std::get_if<std::int64_t>(&value);
    const auto* real = std::get_if<double>(&value);
    const auto* text = std::get_if<std::string>(&value);
    switch (type->kind()) {
      case TypeKind::NoneType:
        if (is_null(input)) return {};
        break;
      case TypeKind::BoolType:
        if (const auto* b = std::get_if<bool>(&value)) return *b;
        break;
      case TypeKind::IntType:
        if (integer != nullptr) return *integer;
        break;
      case TypeKind::FloatType:
        if (real != nullptr) return *real;
        // TorchScript takes an int for a float; one that would change its value is a mistake.
        if (integer != nullptr && *integer <= kExactInDouble && *integer >= -kExactInDouble) {
          return static_cast<double>(*integer);
        }
        break;
      case TypeKind::ComplexType:
        if (real != nullptr) return c10::complex<double>(*real, 0);
        if (integer != nullptr) return c10::complex<double>(static_cast<double>(*integer), 0);
        break;
      case TypeKind::NumberType:
        if (real != nullptr) return *real;
        if (integer != nullptr) return *integer;
        break;
      case TypeKind::StringType:
        if (text != nullptr) return *text;
        break;
      case TypeKind::DeviceObjType:
        if (text != nullptr) return convert_device(input, *text);
        break;
      default:
        break;
    }
    throw mismatch(input, *type);
  }

  [[nodiscard]] c10::IValue convert_device(const InputSpec& input, const std::string& text) const {
    try {
      return at::Device(text);
    } catch (const std::exception& error) {
      throw core::Error(core::ErrorKind::kUsage,
                        input.pointer + ": argument \"" + argument_ + "\": \"" + text +
                            "\" is no device: " + first_useful_line(error),
                        R"(give {"value": "cpu"} or {"value": "cuda:0"})");
    }
  }

  const std::string& argument_;
  const InputContext& context_;
};

}  // namespace

c10::IValue convert_input(const InputSpec& input,
                          const c10::TypePtr& type,
                          const std::string& argument,
                          const InputContext& context) {
  return Converter(argument, context).convert(input, type);
}

}  // namespace repro_check::torchscript
