// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/pool_pairing.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>

#include "comparators/align/record_bits.h"
#include "core/digest/digest.h"
#include "core/error.h"
#include "core/system/large_memory.h"

namespace repro_check::comparators::detail {
namespace {

/// A record as it is looked for: its key, then how much of it has to be equal.
struct Entry {
  std::array<std::uint64_t, 5> print{};
  std::uint32_t op = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads the default
  auto operator<=>(const Entry&) const = default;
};

enum class Likeness { kWhole, kInputs, kKey };

class Side {
 public:
  Side(const core::DumpSource& source,
       const core::LargeVector<std::uint32_t>& keys,
       std::span<const std::uint32_t> ops)
      : keys_(keys), ops_(ops) {
    for (const std::uint32_t op : ops) prints_.push_back(prints_of(source, op));
  }

  /// Those without a counterpart, sorted.
  [[nodiscard]] core::LargeVector<Entry> entries(
      Likeness likeness, const core::LargeVector<std::uint32_t>& counterparts) const {
    core::LargeVector<Entry> entries;
    for (std::size_t i = 0; i < ops_.size(); ++i) {
      if (counterparts[ops_[i]] != kUnmatched) continue;
      Entry entry{{keys_[ops_[i]]}, ops_[i]};
      if (likeness != Likeness::kKey) {
        if (!prints_[i]) continue;
        const auto& [inputs, results] = *prints_[i];
        entry.print[1] = inputs.high;
        entry.print[2] = inputs.low;
        if (likeness == Likeness::kWhole) {
          entry.print[3] = results.high;
          entry.print[4] = results.low;
        }
      }
      entries.push_back(entry);
    }
    std::ranges::sort(entries);
    return entries;
  }

 private:
  static std::optional<OpPrints> prints_of(const core::DumpSource& source, std::uint32_t op) {
    try {
      return op_prints(source.op(op));
    } catch (const core::Error& error) {
      if (error.kind() != core::ErrorKind::kDumpDamaged) throw;
      return std::nullopt;  // whoever compares it says so
    }
  }

  const core::LargeVector<std::uint32_t>& keys_;
  std::span<const std::uint32_t> ops_;
  core::LargeVector<std::optional<OpPrints>> prints_;
};

}  // namespace

void pair_unordered(const core::DumpSource& baseline,
                    const core::DumpSource& candidate,
                    std::span<const std::uint32_t> left,
                    std::span<const std::uint32_t> right,
                    Pairing& pairing) {
  const Side here(baseline, pairing.baseline.keys, left);
  const Side there(candidate, pairing.candidate.keys, right);
  for (const Likeness likeness : {Likeness::kWhole, Likeness::kInputs, Likeness::kKey}) {
    const core::LargeVector<Entry> ours = here.entries(likeness, pairing.candidate_of);
    const core::LargeVector<Entry> theirs = there.entries(likeness, pairing.baseline_of);
    auto other = theirs.begin();
    for (const Entry& entry : ours) {
      while (other != theirs.end() && other->print < entry.print) ++other;
      if (other == theirs.end()) break;
      if (other->print != entry.print) continue;
      pairing.match(entry.op, other->op, MatchedBy::kPosition);
      ++other;
    }
    pairing.work += ours.size() + theirs.size();
  }
  pairing.work_limit += most_work(left.size() + right.size());
}

}  // namespace repro_check::comparators::detail
