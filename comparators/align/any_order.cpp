// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/any_order.h"

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

#include "comparators/align/pairing.h"
#include "comparators/measure/records.h"
#include "comparators/report/compare_options.h"
#include "core/digest/digest.h"

namespace repro_check::comparators {
namespace {

/// Operator, module, and what it was given and made.
using WholePrint = std::tuple<core::Digest, core::Digest, core::Digest, core::Digest>;

/// @return empty where a record has content that nobody read
std::optional<std::multiset<WholePrint>> prints_of(const Processes& processes) {
  std::multiset<WholePrint> prints;
  for (const auto& process : processes) {
    for (std::uint64_t index = 0; index < process->op_count(); ++index) {
      const core::OpRecord record = process->op(index);
      if (std::ranges::any_of(record.tensors, was_never_read)) return std::nullopt;
      const OpPrints print = op_prints(record).value_or(OpPrints{});
      prints.emplace(digest_of_name(record.op->name + "." + record.op->overload),
                     digest_of_name(record.site ? record.site->module_path : std::string()),
                     print.inputs,
                     print.results);
    }
  }
  return prints;
}

}  // namespace

std::optional<std::uint64_t> same_in_any_order(const Processes& baseline,
                                               const Processes& candidate) {
  std::set<std::string> algorithms;
  for (const Processes* side : {&baseline, &candidate}) {
    for (const auto& process : *side) {
      algorithms.insert(process->manifest().trace.digest_algorithm);
    }
  }
  std::optional<std::uint64_t> same;
  if (algorithms.size() > 1) return same;
  damage_in([&] {
    const auto here = prints_of(baseline);
    const auto there = prints_of(candidate);
    if (here && there && *here == *there) same = here->size();
  });
  return same;
}

}  // namespace repro_check::comparators
