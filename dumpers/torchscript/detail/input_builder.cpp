// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/detail/input_builder.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>

#include <algorithm>
#include <cstddef>

#include "core/error.h"
#include "dumpers/torchscript/detail/exception_text.h"
#include "dumpers/torchscript/detail/usage_error.h"
#include "dumpers/torchscript/detail/value_conversion.h"
#include "dumpers/torchscript/suggestion.h"

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
      throw usage_error(
          input.pointer + ": one input too many; the method takes " + std::to_string(names.size()),
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

}  // namespace repro_check::torchscript
