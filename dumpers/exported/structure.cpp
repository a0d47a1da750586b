// SPDX-License-Identifier: Apache-2.0
#include "dumpers/exported/structure.h"

#include <ATen/core/jit_type.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/text/strict_json.h"
#include "dumpers/exported/graph_builder.h"

namespace repro_check::exported {
namespace {

using Tree = nlohmann::ordered_json;
using Kind = Structure::Kind;
using torch::jit::Graph;
using JitValue = torch::jit::Value;

std::optional<Tree> read_tree(const std::string& text) {
  return core::read_strict_json(text, [](const core::JsonFlaw&) {});
}

/// The names of a context that lists one for each part: keys of a dict, fields of a tuple.
std::vector<std::string> names_in(const Tree& context, std::size_t parts) {
  if (!context.is_string()) return {};
  const auto list = read_tree(context.get<std::string>());
  std::vector<std::string> names;
  if (!list || !list->is_array()) return names;
  for (const Tree& each : *list) {
    if (each.is_string()) names.push_back(each);
  }
  if (names.size() != parts) names.clear();
  return names;
}

Structure structure_of(const Tree& spec) {
  Structure made;
  if (spec.at("type").is_null()) return made;
  made.type = spec.at("type");
  for (const Tree& part : spec.at("children_spec")) made.parts.push_back(structure_of(part));
  made.names = names_in(spec.at("context"), made.parts.size());
  made.kind = made.type == "builtins.list"   ? Kind::kList
              : made.type == "builtins.dict" ? Kind::kDict
                                             : Kind::kTuple;
  return made;
}

/// The leaves of one part after another.
template <typename Leaf>
class Cut {
 public:
  explicit Cut(const std::vector<Leaf>& leaves) : leaves_(leaves) {}
  std::vector<Leaf> next(const Structure& part) {
    const auto begin = leaves_.begin() + static_cast<std::ptrdiff_t>(at_);
    at_ += part.leaves();
    return {begin, leaves_.begin() + static_cast<std::ptrdiff_t>(at_)};
  }

 private:
  const std::vector<Leaf>& leaves_;
  std::size_t at_ = 0;
};

}  // namespace

std::size_t Structure::leaves() const {
  if (kind == Kind::kLeaf) return 1;
  std::size_t sum = 0;
  for (const Structure& part : parts) sum += part.leaves();
  return sum;
}

Structure parse_structure(const std::string& text) {
  const auto document = read_tree(text);
  if (!document) throw untranslated("a structure that is no JSON");
  return structure_of(document->at(1));
}

c10::TypePtr input_type(const Structure& structure, const std::vector<c10::TypePtr>& leaves) {
  if (structure.kind == Kind::kLeaf) return leaves.at(0);
  std::vector<c10::TypePtr> types;
  Cut cut(leaves);
  for (const Structure& part : structure.parts) types.push_back(input_type(part, cut.next(part)));
  const bool are_alike = !types.empty() && std::ranges::all_of(types, [&](const auto& type) {
    return *type == *types.front();
  });
  if (structure.type == "builtins.tuple") return c10::TupleType::create(types);
  if (structure.kind == Kind::kList && are_alike) return c10::ListType::create(types.front());
  if (structure.kind == Kind::kDict && are_alike && !structure.names.empty()) {
    return c10::DictType::create(c10::StringType::get(), types.front());
  }
  throw untranslated("an input of type " + structure.type +
                     " that is empty or has parts of several types");
}

std::vector<std::string> sources_of(const Structure& structure, const std::string& base) {
  if (structure.kind == Kind::kLeaf) return {base};
  std::vector<std::string> sources;
  for (std::size_t i = 0; i < structure.parts.size(); ++i) {
    const std::string key =
        structure.names.empty() ? std::to_string(i) : "'" + structure.names[i] + "'";
    std::string part = base;
    part.append("[").append(key).append("]");
    const auto inside = sources_of(structure.parts[i], part);
    sources.insert(sources.end(), inside.begin(), inside.end());
  }
  return sources;
}

std::vector<JitValue*> unpack(Graph& graph, const Structure& structure, JitValue* value) {
  if (structure.kind == Kind::kLeaf) return {value};
  std::vector<JitValue*> parts;
  if (structure.kind == Kind::kDict) {
    for (const std::string& name : structure.names) {
      parts.push_back(graph.insert(c10::Symbol::fromQualString("aten::__getitem__"),
                                   {value, graph.insertConstant(name)}));
    }
  } else {
    torch::jit::Node* cut = structure.kind == Kind::kList
                                ? graph.createListUnpack(value, structure.parts.size())
                                : graph.createTupleUnpack(value);
    parts = graph.insertNode(cut)->outputs().vec();
  }
  std::vector<JitValue*> leaves;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto inside = unpack(graph, structure.parts[i], parts[i]);
    leaves.insert(leaves.end(), inside.begin(), inside.end());
  }
  return leaves;
}

JitValue* pack(Graph& graph, const Structure& structure, const std::vector<JitValue*>& leaves) {
  if (structure.kind == Kind::kLeaf) return leaves.at(0);
  std::vector<JitValue*> parts;
  std::vector<c10::TypePtr> types;
  Cut cut(leaves);
  for (const Structure& part : structure.parts) {
    parts.push_back(pack(graph, part, cut.next(part)));
    types.push_back(parts.back()->type());
  }
  c10::TupleTypePtr named;
  if (!structure.names.empty()) {
    named = c10::TupleType::createNamed(
        c10::QualifiedName("__torch__.Returned"), structure.names, types);
  }
  return graph.insertNode(graph.createTuple(parts, named))->output();
}

}  // namespace repro_check::exported
