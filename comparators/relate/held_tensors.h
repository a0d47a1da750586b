// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "comparators/relate/weights.h"
#include "core/tensor/dtype.h"
#include "core/tensor/element_number.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::comparators {

/// A content in memory.
struct HeldTensor {
  core::Dtype dtype = core::Dtype::kUnknown;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;

  [[nodiscard]] core::TensorView view() const { return {dtype, shape, bytes}; }
  [[nodiscard]] HeldTensor as(core::Dtype other) const {
    if (other == dtype) return *this;
    return {other, shape, core::converted(dtype, bytes, other)};
  }
  /// Whether all elements are the same bits. @pre it has one
  [[nodiscard]] bool is_constant() const {
    const auto second = bytes.begin() + static_cast<std::ptrdiff_t>(core::element_size(dtype));
    return std::equal(second, bytes.end(), bytes.begin());
  }
};

/// The contents of one side, of which the last ones used stay in memory.
class HeldTensors {
 public:
  explicit HeldTensors(const WeightSide& side) : side_(side) {}

  /// Valid until the next call. @throws core::Error{kDumpDamaged}
  const HeldTensor& of(std::size_t weight, std::size_t version) {
    const auto key = std::pair(weight, version);
    if (const auto found = kept_.find(key); found != kept_.end()) return found->second;
    const Weight& one = side_.weights[weight];
    const core::ContentKey& content = one.versions[version].content;
    HeldTensor tensor{content.dtype, content.shape, {}};
    side_.dump_of(one).read_content(content, tensor.bytes);
    if (held_ + tensor.bytes.size() > kMostBytes) {
      kept_.clear();
      held_ = 0;
    }
    held_ += tensor.bytes.size();
    return kept_.emplace(key, std::move(tensor)).first->second;
  }

 private:
  static constexpr std::size_t kMostBytes = std::size_t{1} << 28;
  const WeightSide& side_;
  std::map<std::pair<std::size_t, std::size_t>, HeldTensor> kept_;
  std::size_t held_ = 0;
};

}  // namespace repro_check::comparators
