// SPDX-License-Identifier: Apache-2.0
#include "tests/dumpers/journal/same_record.h"

#include <algorithm>
#include <cstring>

namespace repro_check::test_support {
namespace {

template <typename T>
bool same_object(const std::shared_ptr<const T>& left, const std::shared_ptr<const T>& right) {
  if (left == nullptr || right == nullptr) return left == right;
  return *left == *right;
}

bool same_stats(const std::optional<core::TensorStats>& left,
                const std::optional<core::TensorStats>& right) {
  if (!left || !right) return !left && !right;
  return std::memcmp(&*left, &*right, sizeof(core::TensorStats)) == 0;
}

bool same_tensor(const core::TensorRecord& left, const core::TensorRecord& right) {
  return left.role == right.role && left.slot == right.slot && left.dtype == right.dtype &&
         left.shape == right.shape && left.strides == right.strides &&
         left.storage_offset == right.storage_offset && left.device == right.device &&
         left.layout == right.layout && left.attributes == right.attributes &&
         left.requires_grad == right.requires_grad && left.state == right.state &&
         left.digest == right.digest && left.stored == right.stored && left.watch == right.watch &&
         left.storage == right.storage && left.producer == right.producer &&
         left.name == right.name && same_stats(left.stats, right.stats) &&
         left.counted == right.counted;
}

}  // namespace

bool same_record(const core::OpRecord& left, const core::OpRecord& right) {
  return left.index == right.index && same_object(left.op, right.op) &&
         same_object(left.site, right.site) && left.depth == right.depth &&
         left.parent == right.parent && left.phase == right.phase && left.step == right.step &&
         left.rank == right.rank && left.lane == right.lane && left.modes == right.modes &&
         left.arguments == right.arguments && left.results == right.results &&
         std::ranges::equal(left.tensors, right.tensors, same_tensor) &&
         left.substitutions == right.substitutions && left.generator == right.generator &&
         left.wall_ns == right.wall_ns;
}

}  // namespace repro_check::test_support
