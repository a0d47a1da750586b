// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/recorded_call.h"

#include <ATen/ATen.h>
#include <ATen/core/class_type.h>
#include <ATen/core/jit_type.h>
#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "core/trace/program_records.h"
#include "dumpers/capture/engine/values.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::replay {

void cannot(const std::string& what, const std::string& hint) {
  throw core::not_comparable(what, hint);
}

c10::ScalarType wider(c10::ScalarType type) {
  if (c10::isComplexType(type)) return at::kComplexDouble;
  return c10::isFloatingType(type) ? at::kDouble : type;
}

at::Tensor from_bytes(std::span<const std::byte> bytes, c10::ScalarType type, std::int64_t count) {
  at::Tensor tensor = at::empty({count}, at::TensorOptions().dtype(type));
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

c10::ScalarType type_of(const core::TensorRecord& tensor) {
  if (tensor.dtype == core::Dtype::kQInt8) return at::kChar;
  if (tensor.dtype == core::Dtype::kQUInt8) return at::kByte;
  if (tensor.dtype == core::Dtype::kQInt32) return at::kInt;
  const auto type = capture::scalar_type_of(tensor.dtype);
  if (!type) {
    cannot(fmt::format(
               "argument {}: this LibTorch has no {}", tensor.slot, core::dtype_name(tensor.dtype)),
           kOwnRecorder);
  }
  return *type;
}

namespace {

/// Makes the values of one record's arguments.
class ValueMaker {
 public:
  explicit ValueMaker(const ArgumentSource& source) : source_(source) {}

  /// One argument as the operator takes it.
  /// @throws core::Error{kNotComparable} for what a record only knows by its type
  [[nodiscard]] c10::IValue value(const core::Value& value,
                                  const c10::TypePtr& type,
                                  capture::IntegerMeaning meaning) const {
    if (const auto optional = type->cast<c10::OptionalType>()) {
      return this->value(value, optional->getElementType(), meaning);
    }
    return std::visit(
        [&](const auto& data) -> c10::IValue {
          using T = std::decay_t<decltype(data)>;
          if constexpr (std::is_same_v<T, std::monostate>) {
            return {};
          } else if constexpr (std::is_same_v<T, std::int64_t>) {
            if (type->kind() == c10::TypeKind::FloatType) return static_cast<double>(data);
            return data;
          } else if constexpr (std::is_same_v<T, std::complex<double>>) {
            return c10::complex<double>(data.real(), data.imag());
          } else if constexpr (std::is_same_v<T, core::Symbol>) {
            return symbol(data, type, meaning);
          } else if constexpr (std::is_same_v<T, core::TensorSlot>) {
            return source_.tensor(data.index);
          } else if constexpr (std::is_same_v<T, core::Opaque>) {
            if (type->kind() == c10::TypeKind::GeneratorType && source_.generator.defined()) {
              return source_.generator;
            }
            cannot("an argument is a " + data.type + ", of which a record only knows the type",
                   "this cannot be replayed: choose another operator");
          } else if constexpr (std::is_same_v<T, core::ValueList>) {
            return list_of(data, type, meaning);
          } else {
            return data;
          }
        },
        value.data);
  }

 private:
  [[nodiscard]] c10::IValue symbol(const core::Symbol& symbol,
                                   const c10::TypePtr& type,
                                   capture::IntegerMeaning meaning) const {
    using capture::IntegerMeaning;
    if (type->kind() == c10::TypeKind::DeviceObjType) {
      return source_.options.device ? *source_.options.device : c10::Device(symbol.name);
    }
    if (meaning == IntegerMeaning::kMemoryFormat) {
      const auto format = named(capture::memory_format_name, symbol.name);
      if (format) return static_cast<std::int64_t>(*format);
    } else if (meaning == IntegerMeaning::kLayout) {
      const auto layout = named(capture::layout_name, symbol.name);
      if (layout) return static_cast<std::int64_t>(*layout);
    } else if (meaning == IntegerMeaning::kScalarType) {
      const auto scalar = named(capture::scalar_type_name, symbol.name);
      if (scalar)
        return static_cast<std::int64_t>(source_.options.float64 ? wider(*scalar) : *scalar);
    }
    cannot("this LibTorch does not know `" + symbol.name + "`, which an argument was",
           kOwnRecorder);
  }

  [[nodiscard]] c10::IValue list_of(const core::ValueList& data,
                                    const c10::TypePtr& type,
                                    capture::IntegerMeaning meaning) const {
    if (const auto custom = type->cast<c10::ClassType>()) {
      return packed(data, custom, meaning);
    }
    const auto list = type->cast<c10::ListType>();
    if (!list) {
      cannot("an argument is a " + type->str() + ", which cannot be made again",
             "this cannot be replayed: choose another operator");
    }
    c10::impl::GenericList items(list->getElementType());
    for (const core::Value& item : data.items) {
      items.push_back(value(item, list->getElementType(), meaning));
    }
    return items;
  }

  /// Packs the weights of a quantised layer again, from the state in the record.
  [[nodiscard]] c10::IValue packed(const core::ValueList& data,
                                   const c10::ClassTypePtr& type,
                                   capture::IntegerMeaning meaning) const {
    const auto* name =
        data.items.empty() ? nullptr : std::get_if<core::Symbol>(&data.items.front().data);
    const std::string known = capture::packed_class_name(*type);
    const auto state =
        known.empty() ? nullptr : capture::type_of_state(type)->cast<c10::TupleType>();
    if (name == nullptr || name->name != known || !state ||
        state->elements().size() + 1 != data.items.size()) {
      cannot("an argument is a " + (name == nullptr ? known : name->name) +
                 ", which this LibTorch packs from something else than the record holds",
             kOwnRecorder);
    }
    std::vector<c10::IValue> items;
    for (std::size_t i = 1; i < data.items.size(); ++i) {
      items.push_back(value(data.items[i], state->elements()[i - 1], meaning));
    }
    try {
      return capture::pack(type, c10::ivalue::Tuple::create(std::move(items)));
    } catch (const c10::Error& error) {
      cannot("an argument is a " + known +
                 ", which cannot be packed again: " + capture::reason_of(error),
             "use a recorder that has the engine it was packed for");
    }
  }

  const ArgumentSource& source_;
};

c10::OperatorHandle handle_of(const core::OpRecord& record) {
  // Not std::optional in every release.
  const auto found =
      c10::Dispatcher::singleton().findSchema({record.op->name, record.op->overload});
  if (!found.has_value()) {
    cannot(fmt::format("this recorder has no operator {}", record.op->full_name()), kOwnRecorder);
  }
  return *found;
}

}  // namespace

RecordedOperator::RecordedOperator(capture::OperatorPlans& plans, const core::OpRecord& record)
    : handle_(handle_of(record)), plan_(&plans.find(handle_)) {
  for (const core::Argument& argument : record.arguments) {
    if (plan_->find(argument.name) >= 0) continue;
    cannot(fmt::format(
               "{} takes no argument `{}` in this LibTorch", record.op->full_name(), argument.name),
           kOwnRecorder);
  }
}

std::vector<bool> RecordedOperator::written_tensors(const core::OpRecord& record) const {
  std::vector<bool> written(record.tensors.size(), false);
  for (std::size_t i = 0; i < plan_->arguments.size(); ++i) {
    const bool statistic = std::ranges::find(plan_->running_stats, i) != plan_->running_stats.end();
    const core::Value* value = core::find_argument(record, plan_->arguments[i].name);
    if (value == nullptr || !(plan_->arguments[i].written || statistic)) continue;
    for_each_tensor(*value, [&](std::uint32_t index) {
      const std::string part = record.tensors.at(index).slot + '.';
      do {
        written[index] = true;
      } while (++index < written.size() && record.tensors[index].slot.starts_with(part));
    });
  }
  return written;
}

torch::jit::Stack RecordedOperator::arguments(const core::OpRecord& record,
                                              const ArgumentSource& source) const {
  const ValueMaker maker(source);
  torch::jit::Stack stack;
  const auto& schema = handle_.schema().arguments();
  for (std::size_t i = 0; i < schema.size(); ++i) {
    if (const core::Value* value = core::find_argument(record, schema[i].name())) {
      stack.push_back(maker.value(*value, schema[i].type(), plan_->arguments[i].meaning));
    } else if (schema[i].default_value()) {
      stack.push_back(*schema[i].default_value());
    } else {
      cannot(fmt::format("{} needs an argument `{}` in this LibTorch, and the record has none",
                         record.op->full_name(),
                         schema[i].name()),
             kOwnRecorder);
    }
  }
  return stack;
}

}  // namespace repro_check::replay
