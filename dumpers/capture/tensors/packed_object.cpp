// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/tensors/packed_object.h"

#include <ATen/core/class_type.h>
#include <ATen/core/function.h>
#include <ATen/core/jit_type.h>
#include <ATen/core/stack.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {
namespace {

constexpr std::size_t kItself = SIZE_MAX;

/// Of a class whose name has this word in it, the item of the state and the place in it.
using PartName = std::tuple<std::string_view, std::size_t, std::size_t, std::string_view>;
constexpr std::array<PartName, 10> kPartNames{{{"Linear", 0, kItself, "weight"},
                                               {"Linear", 1, kItself, "bias"},
                                               {"Conv", 1, 0, "config"},
                                               {"Conv", 1, 1, "weight"},
                                               {"Conv", 2, 0, "bias"},
                                               {"Embedding", 1, 0, "weight"},
                                               {"Cell", 1, 0, "bias_ih"},
                                               {"Cell", 1, 1, "bias_hh"},
                                               {"Cell", 4, 0, "ih"},
                                               {"Cell", 4, 1, "hh"}}};

/// Null where the value is no object of such a class.
c10::ClassTypePtr class_of(const c10::IValue& value) {
  if (!value.isObject()) return nullptr;
  auto type = value.type()->cast<c10::ClassType>();
  return type && !packed_class_name(*type).empty() ? type : nullptr;
}

}  // namespace

std::string packed_class_name(const c10::Type& type) {
  const auto* known = type.castRaw<c10::ClassType>();
  if (known == nullptr || !known->name()) return {};
  std::string name = known->name()->qualifiedName();
  constexpr std::array<std::string_view, 3> kNamespaces{"__torch__.torch.classes.quantized.",
                                                        "__torch__.torch.classes.rnn.",
                                                        "__torch__.torch.classes.sparse."};
  const bool packed = std::ranges::any_of(
      kNamespaces, [&](std::string_view space) { return name.starts_with(space); });
  return packed ? name : std::string();
}

std::optional<c10::IValue> packed_state(const c10::IValue& value) {
  const c10::ClassTypePtr type = class_of(value);
  if (!type) return std::nullopt;
  torch::jit::Function* get = type->findMethod("__getstate__");
  if (get == nullptr || type->findMethod("__setstate__") == nullptr) return std::nullopt;
  const EngineCalls guard;
  const UnheardWarnings quiet;
  torch::jit::Stack stack{value};
  get->run(stack);
  return std::move(stack.back());
}

std::vector<c10::IValue> items_of_state(const c10::IValue& state) {
  if (!state.isTuple()) return {state};
  return state.toTupleRef().elements().vec();
}

std::string packed_part_name(const std::string& type,
                             std::size_t item,
                             std::optional<std::size_t> place) {
  for (const auto& [word, known_item, known_place, name] : kPartNames) {
    if (known_item == item && known_place == place.value_or(kItself) &&
        type.find(word) != std::string::npos) {
      return std::string(name);
    }
  }
  return place ? std::to_string(item) + '.' + std::to_string(*place) : std::to_string(item);
}

c10::IValue pack(const c10::ClassTypePtr& type, c10::IValue state) {
  c10::IValue object = c10::ivalue::Object::create(c10::StrongTypePtr(nullptr, type), 1);
  torch::jit::Stack stack{object, std::move(state)};
  type->getMethod("__setstate__").run(stack);
  return object;
}

c10::TypePtr type_of_state(const c10::ClassTypePtr& type) {
  return type->getMethod("__getstate__").getSchema().returns().at(0).type();
}

std::optional<c10::IValue> PackedObjects::state_of(const c10::IValue& value) {
  if (!class_of(value)) return std::nullopt;
  const auto holder = value.toObjectRef().getSlot(0).toCapsule();
  const auto known = entries_.find(holder.get());
  if (known != entries_.end()) return known->second.state;
  std::optional<c10::IValue> state = packed_state(value);
  if (!state) return std::nullopt;
  // What is packed anew for every call must not stay.
  std::erase_if(entries_, [](const auto& entry) { return entry.second.alive.expired(); });
  entries_.emplace(holder.get(),
                   Entry{c10::weak_intrusive_ptr<torch::CustomClassHolder>(holder), *state});
  return state;
}

}  // namespace repro_check::capture
