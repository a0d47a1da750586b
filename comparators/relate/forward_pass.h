// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor/tensor_record.h"
#include "core/trace/dump.h"

namespace repro_check::comparators {

/// A tensor of a recording.
struct PassTensor {
  std::uint64_t op = 0;
  std::uint32_t tensor = 0;  ///< position among the tensors of its record
  core::ContentKey content;
  std::string maker;  ///< base name of the operator that wrote it, in place or not: `add`

  [[nodiscard]] std::uint64_t width() const {
    return content.shape.empty() ? 1 : static_cast<std::uint64_t>(content.shape.back());
  }
  /// All dimensions but the last, as one.
  [[nodiscard]] std::uint64_t rows() const;
};

/// One call of a module.
struct ModuleCall {
  std::string path;
  std::string type;  ///< class; empty where no operator ran in it directly
  std::uint64_t first = 0;
  std::uint64_t last = 0;            ///< op index of the last operator in it or inside of it
  std::vector<std::string> weights;  ///< read by its own operators, each once
  /// Its weights are looked up: it copies rows of them, and reads numbers of rows.
  bool looks_up = false;
  std::optional<PassTensor> indices;  ///< those numbers
  std::optional<PassTensor> input;    ///< the first floating tensor that is no weight
  std::optional<PassTensor> output;
  bool is_leaf = false;  ///< no other module was called inside of it
};

/// One forward pass: the modules that it called, outer ones before those inside of them.
struct ForwardPass {
  std::vector<ModuleCall> calls;
  std::uint64_t begin = 0;  ///< op index of its first operator
  std::uint64_t end = 0;    ///< behind its last
  /// What is turned into probabilities, or a loss, in it or behind it.
  std::vector<PassTensor> logits;

  /// The dtype of most outputs of modules with weights.
  [[nodiscard]] core::Dtype dtype() const;
};

/// Reads the modules of one forward pass: of outermost operators of the main lane in forward and
/// evaluation phase. The next pass begins where the first module with weights is called again.
/// A module's output is the last floating tensor made in it that is read behind it, else the last.
/// @param number  from 0
/// @return empty where there are not as many
/// @throws core::Error{kDumpDamaged}
std::optional<ForwardPass> read_pass(const core::DumpSource& dump, std::size_t number);

}  // namespace repro_check::comparators
