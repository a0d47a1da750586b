// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace repro_check::exported {

/// What Python's pytree says of the arguments of a model, or of what it returns: a TreeSpec of
/// `torch/utils/_pytree.py` as JSON.
struct Structure {
  enum class Kind { kLeaf, kTuple, kList, kDict };
  Kind kind = Kind::kLeaf;
  std::string type;                ///< `builtins.tuple`; empty for a leaf
  std::vector<std::string> names;  ///< of the parts, where they have some
  std::vector<Structure> parts;

  [[nodiscard]] std::size_t leaves() const;
};

/// @param text  as `treespec_dumps` writes it
/// @throws core::Error{kUsage} where it is none; what nlohmann::json throws of another form
Structure parse_structure(const std::string& text);

/// The type that TorchScript has for values of this structure.
/// @param leaves  a type each
/// @throws core::Error{kUsage} for one that an input cannot be given as
c10::TypePtr input_type(const Structure& structure, const std::vector<c10::TypePtr>& leaves);

/// How Python names the leaves: `base[0]['key']`.
std::vector<std::string> sources_of(const Structure& structure, const std::string& base);

/// Takes an input to pieces.
/// @return its leaves, in order
std::vector<torch::jit::Value*> unpack(torch::jit::Graph& graph,
                                       const Structure& structure,
                                       torch::jit::Value* value);

/// Puts what a model returns together. Entries of a dict become members of a named tuple, and what
/// pytree was told of by others becomes a tuple: their names and order stay.
torch::jit::Value* pack(torch::jit::Graph& graph,
                        const Structure& structure,
                        const std::vector<torch::jit::Value*>& leaves);

}  // namespace repro_check::exported
