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
  /// Of passes that are put together: what each of them gave, along the rows. `content` then has
  /// the shape of all, and no digest.
  std::vector<core::ContentKey> pieces;
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
  bool is_leaf = false;   ///< no other module was called inside of it
  bool is_fused = false;  ///< its output is of an operator that reads weights of several layers
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

/// Reads the modules of forward passes: of outermost operators of the main lane in forward and
/// evaluation phase. The next pass begins where the first module with weights is called again.
/// A module's output is the last floating tensor made in it that is read behind it, else the last.
/// @param first  from 0
/// @param count  not 0
/// @return fewer where there are not as many
/// @throws core::Error{kDumpDamaged}
std::vector<ForwardPass> read_passes(const core::DumpSource& dump,
                                     std::size_t first,
                                     std::size_t count);

/// Passes of one model that go on with one another, as those of a prefill and of decoding do, as
/// one: what their modules read and gave, one behind the other along the rows of each sequence.
/// What is not there in all of them, or of other shapes, is left out.
/// @param passes  not empty
/// @return empty where nothing of a module with weights is left
std::optional<ForwardPass> joined(std::vector<ForwardPass> passes);

}  // namespace repro_check::comparators
