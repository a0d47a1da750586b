// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/inputs.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <variant>

#include "core/error.h"
#include "dumpers/torchscript/failures.h"
#include "dumpers/torchscript/tensors.h"

namespace repro_check::torchscript {
namespace {

using configs::InputSpec;

std::vector<std::string> argument_names(const c10::FunctionSchema& schema) {
  std::vector<std::string> names;
  for (std::size_t i = 1; i < schema.arguments().size(); ++i) {
    names.push_back(schema.arguments()[i].name());
  }
  return names;
}

std::string signature(const c10::FunctionSchema& schema) {
  std::string text = schema.name() + "(";
  for (std::size_t i = 1; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    text += (i == 1 ? "" : ", ") + argument.name() + ": " + argument.type()->repr_str();
    if (argument.default_value()) text += " = ...";
  }
  return text + ")";
}

/// Which input goes to which argument: named ones by name, the others in order to those left over
/// before them, as in a Python call.
std::vector<const InputSpec*> assign(const c10::FunctionSchema& schema,
                                     const configs::CallSpec& call) {
  const std::vector<std::string> names = argument_names(schema);
  std::vector<const InputSpec*> given(names.size(), nullptr);
  std::size_t next = 0;
  for (const InputSpec& input : call) {
    std::size_t at = next++;
    if (!input.name.empty()) {
      at = static_cast<std::size_t>(std::ranges::find(names, input.name) - names.begin());
      if (at == names.size()) {
        throw usage_error(input.pointer + ": the method has no argument \"" + input.name + "\"" +
                              suggest(input.name, names),
                          "it is " + signature(schema));
      }
    } else if (at >= names.size()) {
      throw usage_error(input.pointer + ": one input too many; " + std::to_string(call.size()) +
                            " are given, and the method takes " + std::to_string(names.size()),
                        "it is " + signature(schema));
    }
    if (given[at] != nullptr) {
      throw usage_error(input.pointer + ": argument \"" + names[at] +
                            "\" is given twice, first at " + given[at]->pointer,
                        "leave one of them out");
    }
    given[at] = &input;
  }
  return given;
}

void collect(const std::string& name,
             const c10::IValue& value,
             std::vector<std::pair<std::string, at::Tensor>>& into) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) into.emplace_back(name, value.toTensor());
  } else if (value.isList()) {
    std::size_t i = 0;
    for (const c10::IValue& item : value.toListRef()) {
      collect(name + "." + std::to_string(i++), item, into);
    }
  } else if (value.isTuple()) {
    std::size_t i = 0;
    for (const c10::IValue& item : value.toTupleRef().elements()) {
      collect(name + "." + std::to_string(i++), item, into);
    }
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      const c10::IValue& key = entry.key();
      const std::string part = '.' + (key.isString() ? key.toStringRef() : c10::str(key));
      collect(name + part, entry.value(), into);
    }
  }
}

}  // namespace

std::vector<c10::IValue> build_inputs(const c10::FunctionSchema& schema,
                                      const c10::IValue& self,
                                      const configs::CallSpec& call,
                                      const std::string& pointer,
                                      const InputContext& context) {
  const std::vector<const InputSpec*> given = assign(schema, call);
  std::vector<c10::IValue> values;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i + 1];
    if (given[i] != nullptr) {
      values.push_back(convert_input(*given[i], argument.type(), argument.name(), context));
    } else if (argument.default_value()) {
      values.push_back(*argument.default_value());
    } else {
      throw usage_error(pointer + ": no input for argument \"" + argument.name() + "\" of type " +
                            argument.type()->repr_str(),
                        "the method is " + signature(schema) +
                            "; `repro-check init` writes an input for "
                            "each argument");
    }
  }
  // The last word is LibTorch's own: a type that we converted wrongly must not reach the model.
  try {
    std::vector<c10::IValue> checked{self};
    checked.insert(checked.end(), values.begin(), values.end());
    schema.checkAndNormalizeInputs(checked);
  } catch (const std::exception& error) {
    throw usage_error(pointer + ": " + first_useful_line(error),
                      "the method is " + signature(schema));
  }
  return values;
}

std::vector<std::pair<std::string, at::Tensor>> named_input_tensors(
    const c10::FunctionSchema& schema, const std::vector<c10::IValue>& inputs) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    collect(schema.arguments()[i + 1].name(), inputs[i], tensors);
  }
  return tensors;
}

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
  if (const auto* container = std::get_if<configs::ContainerInput>(&input.source)) {
    if (container->kind == configs::ContainerInput::Kind::kDict) return "a dict";
    const bool is_list = container->kind == configs::ContainerInput::Kind::kList;
    return (is_list ? "a list of " : "a tuple of ") + std::to_string(container->items.size());
  }
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
    if (auto tensor = read_tensor(input, *context_.hdf5)) {
      if (!is_any(type) && type->kind() != TypeKind::TensorType) throw mismatch(input, *type);
      return place(*tensor);
    }
    if (const auto* container = std::get_if<configs::ContainerInput>(&input.source)) {
      using Kind = configs::ContainerInput::Kind;
      if (container->kind == Kind::kList) return convert_list(input, container->items, type);
      if (container->kind == Kind::kTuple) return convert_tuple(input, container->items, type);
      return convert_dict(input, container->items, type);
    }
    return convert_value(input, type);
  }

 private:
  /// What the configuration says is what an argument of type Any gets, and what is inside it.
  static bool is_any(const c10::TypePtr& type) { return type->kind() == TypeKind::AnyType; }

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
                                         const std::vector<InputSpec>& list,
                                         const c10::TypePtr& type) const {
    const auto* wanted = type->castRaw<c10::ListType>();
    if (wanted == nullptr && !is_any(type)) throw mismatch(input, *type);
    const c10::TypePtr element = wanted == nullptr ? type : wanted->getElementType();
    c10::impl::GenericList items(element);
    for (const InputSpec& item : list) items.push_back(convert(item, element));
    return items;
  }

  [[nodiscard]] c10::IValue convert_tuple(const InputSpec& input,
                                          const std::vector<InputSpec>& tuple,
                                          const c10::TypePtr& type) const {
    const auto wanted = type->cast<c10::TupleType>();
    const bool fits = wanted && wanted->elements().size() == tuple.size();
    if (!fits && !is_any(type)) throw mismatch(input, *type);
    std::vector<c10::IValue> items;
    for (std::size_t i = 0; i < tuple.size(); ++i) {
      items.push_back(convert(tuple[i], wanted ? wanted->elements()[i] : type));
    }
    return wanted && wanted->schema() ? c10::ivalue::Tuple::createNamed(std::move(items), wanted)
                                      : c10::ivalue::Tuple::create(std::move(items));
  }

  [[nodiscard]] c10::IValue convert_dict(const InputSpec& input,
                                         const std::vector<InputSpec>& dict,
                                         const c10::TypePtr& type) const {
    const auto* wanted = type->castRaw<c10::DictType>();
    if (wanted == nullptr && !is_any(type)) throw mismatch(input, *type);
    const c10::TypePtr name = wanted == nullptr ? c10::StringType::get() : wanted->getKeyType();
    const c10::TypePtr entry = wanted == nullptr ? type : wanted->getValueType();
    c10::impl::GenericDict entries(name, entry);
    for (const InputSpec& item : dict) {
      entries.insert(convert_key(input, item.name, *name), convert(item, entry));
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
    throw usage_error(input.pointer + ": argument \"" + argument_ + "\": \"" + key +
                          "\" is no key of type " + type.repr_str(),
                      "keys are strings, or whole numbers written as strings");
  }

  [[nodiscard]] c10::IValue convert_value(const InputSpec& input, const c10::TypePtr& type) const {
    if (is_any(type)) return as_is(std::get<configs::ValueInput>(input.source));
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
      throw usage_error(input.pointer + ": argument \"" + argument_ + "\": \"" + text +
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
