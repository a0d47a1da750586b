// SPDX-License-Identifier: Apache-2.0
#include "comparators/judge/fp64_reference.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace repro_check::comparators::detail {

Fp64Reference::Fp64Reference(const core::DumpSource& baseline,
                             const core::DumpSource& float64,
                             const PairingOptions& options)
    : float64_(float64), last_index_(kUnmatched) {
  Pairing pairing = pair_records(baseline, float64, options);
  counterpart_ = std::move(pairing.candidate_of);
  matched_ = pairing.matched;
}

const core::TensorRecord* Fp64Reference::find(const core::OpRecord& baseline,
                                              std::string_view slot) {
  if (baseline.index >= counterpart_.size()) return nullptr;
  const std::uint32_t index = counterpart_[baseline.index];
  if (index == kUnmatched) return nullptr;
  if (index != last_index_) {
    try {
      last_ = float64_.op(index);
    } catch (const core::Error& error) {
      if (error.kind() != core::ErrorKind::kDumpDamaged) throw;
      damage_ = error.what();
      return nullptr;
    }
    last_index_ = index;
  }
  const auto found = std::ranges::find_if(last_.tensors, [&](const core::TensorRecord& tensor) {
    return tensor.role == core::TensorRole::kOutput && tensor.slot == slot;
  });
  return found == last_.tensors.end() ? nullptr : &*found;
}

}  // namespace repro_check::comparators::detail
