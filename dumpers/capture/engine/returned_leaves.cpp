// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/engine/returned_leaves.h"

#include <ATen/core/class_type.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <sstream>
#include <vector>

#include "core/text/printable.h"

namespace repro_check::capture {
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
  /// Of a container, the memory that holds it.
  static const void* identity_of(const c10::IValue& value) {
    const bool is_container = value.isTuple() || value.isList() || value.isGenericDict() ||
                              (value.isObject() && !value.type()->is_module());
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
