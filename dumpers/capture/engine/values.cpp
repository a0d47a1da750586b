// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/engine/values.h"

#include <ATen/core/Generator.h>
#include <ATen/core/class_type.h>
#include <ATen/core/enum_type.h>
#include <ATen/core/function.h>
#include <ATen/core/jit_type.h>
#include <ATen/core/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <complex>
#include <cstddef>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/text/text.h"
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

c10::IValue pack(const c10::ClassTypePtr& type, c10::IValue state) {
  c10::IValue object = c10::ivalue::Object::create(c10::StrongTypePtr(nullptr, type), 1);
  torch::jit::Stack stack{object, std::move(state)};
  type->getMethod("__setstate__").run(stack);
  return object;
}

c10::TypePtr type_of_state(const c10::ClassTypePtr& type) {
  return type->getMethod("__getstate__").getSchema().returns().at(0).type();
}

namespace {

/// What the weights of a quantised layer are packed from: the state that the object itself gives
/// for saving. Empty for what is no such object; other custom classes are nobody's business to
/// call.
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

/// The items of a state: of a tuple its own, of anything else that alone.
std::vector<c10::IValue> items_of_state(const c10::IValue& state) {
  if (!state.isTuple()) return {state};
  return state.toTupleRef().elements().vec();
}

/// What an item of the state is, as a part of a slot: `weight`, `bias`; its position where nobody
/// has named it.
/// @param item   position in the state
/// @param place  in the list that the item is; empty for the item itself
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

}  // namespace

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

namespace {

/// Containers nested deeper than any schema has them are not followed.
constexpr int kMaxDepth = 32;

class Builder {
 public:
  Builder(IntegerMeaning meaning, PackedObjects& packed, const VisitTensor& visit)
      : meaning_(meaning), packed_(packed), visit_(visit) {}

  void build(const c10::IValue& value, const std::string& slot, core::Value& into, int depth) {
    if (value.isTensor()) {
      into.data = core::TensorSlot{visit_(value.toTensor(), slot)};
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
    const auto state = value.isObject() ? packed_.state_of(value) : std::nullopt;
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
    if (std::string name = reduce_op_name(value); !name.empty()) {
      into.data = core::Symbol{std::move(name)};
      return;
    }
    core::Opaque opaque;
    if (value.isObject()) {
      opaque.type = value.type()->repr_str();
    } else {
      opaque.type = value.tagKind();
    }
    into.data = std::move(opaque);
  }

  IntegerMeaning meaning_;
  PackedObjects& packed_;
  const VisitTensor& visit_;
};

}  // namespace

void build_value(const c10::IValue& value,
                 IntegerMeaning meaning,
                 const std::string& slot,
                 PackedObjects& packed,
                 const VisitTensor& visit,
                 core::Value& into) {
  Builder(meaning, packed, visit).build(value, slot, into, 0);
}

namespace {

/// Structures of a program end; one that is made by a loop may be as deep as it likes.
constexpr std::size_t kDeepest = 64;

bool is_identifier(const std::string& text) {
  const auto is_word = [](unsigned char byte) { return std::isalnum(byte) != 0 || byte == '_'; };
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) == 0 &&
         std::ranges::all_of(text, is_word);
}

std::string attribute(const std::string& name) {
  return is_identifier(name) ? "." + name : fmt::format("[\"{}\"]", core::printable(name));
}

std::string position(std::size_t index) { return fmt::format("[{}]", index); }

std::string key_of(const c10::IValue& key) {
  if (key.isString()) return attribute(key.toStringRef());
  std::ostringstream text;
  if (key.isTensor()) {
    text << "tensor";
  } else {
    text << key;
  }
  return fmt::format("[{}]", core::printable(text.str()));
}

class Walker {
 public:
  explicit Walker(const LeafVisitor& visit) : visit_(visit) {}

  void walk(const c10::IValue& value, const std::string& path) {
    const void* identity = identity_of(value);
    const bool known = identity != nullptr && std::ranges::find(around_, identity) != around_.end();
    if (identity == nullptr || known || around_.size() >= kDeepest) return visit_(path, value);
    around_.push_back(identity);
    if (walk_inside(value, path) == 0) visit_(path, value);
    around_.pop_back();
  }

 private:
  /// Of a container or a future, the memory that holds it.
  static const void* identity_of(const c10::IValue& value) {
    const bool is_container = value.isTuple() || value.isList() || value.isGenericDict() ||
                              value.isFuture() || (value.isObject() && !value.type()->is_module());
    return is_container ? value.internalToPointer() : nullptr;
  }

  /// @return how many values it holds
  std::size_t walk_inside(const c10::IValue& value, const std::string& path) {
    if (value.isTuple()) {
      const auto type = value.type()->cast<c10::TupleType>();
      const auto& schema = type->schema();
      const auto& items = value.toTupleRef().elements();
      for (std::size_t i = 0; i < items.size(); ++i) {
        walk(items[i], path + (schema ? attribute(schema->arguments()[i].name()) : position(i)));
      }
      return items.size();
    }
    if (value.isList()) {
      const c10::List<c10::IValue> items = value.toList();
      for (std::size_t i = 0; i < items.size(); ++i) walk(items.get(i), path + position(i));
      return items.size();
    }
    if (value.isGenericDict()) {
      const auto entries = value.toGenericDict();
      for (const auto& entry : entries) walk(entry.value(), path + key_of(entry.key()));
      return entries.size();
    }
    if (value.isFuture()) {
      const auto future = value.toFuture();
      future->waitAndThrow();
      walk(future->value(), path);
      return 1;
    }
    const auto object = value.toObject();
    const std::size_t count = object->type()->numAttributes();
    for (std::size_t i = 0; i < count; ++i) {
      walk(object->getSlot(i), path + attribute(object->type()->getAttributeName(i)));
    }
    return count;
  }

  const LeafVisitor& visit_;
  std::vector<const void*> around_;
};

}  // namespace

void for_each_returned(const c10::IValue& value, const LeafVisitor& visit) {
  Walker(visit).walk(value, "out");
}

}  // namespace repro_check::capture
