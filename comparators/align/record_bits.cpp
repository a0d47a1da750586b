// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/record_bits.h"

#include <algorithm>

#include "comparators/measure/scalars.h"
#include "core/error.h"

namespace repro_check::comparators::detail {
namespace {

bool same_tensor(const core::TensorRecord& left, const core::TensorRecord& right) {
  if (left.role != right.role || left.slot != right.slot || left.state != right.state) return false;
  if (left.state == core::ContentState::kUndefined) return true;
  return left.state == core::ContentState::kHashed && left.layout == right.layout &&
         left.attributes == right.attributes && left.content_key() == right.content_key();
}

bool same_argument(const core::Argument& left, const core::Argument& right) {
  return left.name == right.name && same_scalars(left.value, right.value);
}

/// What cannot be read is not known to be equal; whoever reads it again says that it is damaged.
bool known_equal(const core::DumpSource& baseline,
                 const core::DumpSource& candidate,
                 const Moved& moved) {
  try {
    return bit_equal(baseline.op(moved.baseline), candidate.op(moved.candidate));
  } catch (const core::Error& error) {
    if (error.kind() != core::ErrorKind::kDumpDamaged) throw;
    return false;
  }
}

}  // namespace

bool bit_equal(const core::OpRecord& baseline, const core::OpRecord& candidate) {
  return baseline.generator == candidate.generator &&
         std::ranges::equal(baseline.tensors, candidate.tensors, same_tensor) &&
         std::ranges::equal(baseline.arguments, candidate.arguments, same_argument) &&
         std::ranges::equal(baseline.results, candidate.results, same_scalars);
}

std::uint64_t pair_moved(const core::DumpSource& baseline,
                         const core::DumpSource& candidate,
                         Pairing& pairing) {
  if (baseline.manifest().trace.digest_algorithm != candidate.manifest().trace.digest_algorithm) {
    return 0;
  }
  const std::uint64_t before = pairing.matched;
  std::erase_if(pairing.moved, [&](const Moved& moved) {
    if (!known_equal(baseline, candidate, moved)) return false;
    pairing.match(moved.baseline, moved.candidate, MatchedBy::kOrder);
    return true;
  });
  return pairing.matched - before;
}

}  // namespace repro_check::comparators::detail
