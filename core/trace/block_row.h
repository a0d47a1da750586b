// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/digest/digest.h"
#include "core/tensor/dtype.h"
#include "core/trace/op_record.h"

namespace repro_check::core {

/// One call of a block, a module that was chosen to be watched, in order of the end of the calls.
/// Batches, losses, learning rates and generators are records, as at every depth; what a recording
/// of blocks says of itself is in BlockSummary.
struct BlockRow {
  std::uint32_t step = 0;  ///< as OpHead::step
  std::string path;        ///< of the module, as CallSite::module_path; of a group `layers.0-3`
  std::uint32_t call = 0;  ///< of this path within step and phase, from 0
  Phase phase = Phase::kForward;
  bool training = false;           ///< the module's flag
  std::optional<Digest> in = {};   ///< see BorderDigest; empty where nothing could be opened
  std::optional<Digest> out = {};  ///< the same
  std::uint32_t unopened = 0;      ///< leaves of types that are not read; BlockSummary names those

  bool operator==(const BlockRow&) const = default;
};

/// What a parameter holds when an optimizer's step has ended. A table of its own and no
/// kStepRecord: of 10,000 steps that read a part each, rows take a quarter of the bytes, and a
/// record without gradients and state would be taken for one that has none. What was not read in a
/// step has no row; what moved while it was read has one without a digest.
struct ParameterRow {
  std::uint32_t step = 0;        ///< as OpHead::step, of the optimizer's step
  std::string name;              ///< as in kStepRecord, without kParameterPrefix
  std::optional<Digest> digest;  ///< BorderDigest of the one tensor

  bool operator==(const ParameterRow&) const = default;
};

/// Digest of a border: of all its tensors in order. A number of Python is a tensor without
/// dimensions (bool, int64, float64, complex128), a text one of its UTF-8 bytes (uint8); None, and
/// the names and lengths of what holds them, count for nothing.
class BorderDigest {
 public:
  /// @param content  as TensorRecord::digest
  void add(const Digest& content, Dtype dtype, std::span<const std::int64_t> shape) {
    const auto put = [this](const auto& number) {
      const auto bytes = std::as_bytes(std::span(&number, 1));
      bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    };
    put(content.high);
    put(content.low);
    put(static_cast<std::uint64_t>(dtype));
    put(static_cast<std::uint64_t>(shape.size()));
    for (const std::int64_t size : shape) put(size);
  }

  /// Empty where nothing was added.
  [[nodiscard]] std::optional<Digest> finish() const {
    return bytes_.empty() ? std::nullopt : std::optional(digest_bytes(bytes_));
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace repro_check::core
