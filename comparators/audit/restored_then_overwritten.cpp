// SPDX-License-Identifier: Apache-2.0
// restored-then-overwritten: weights are written behind the optimizer's copy of them, which then
// overwrites them.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "comparators/audit/rules.h"
#include "core/trace/record_names.h"

namespace repro_check::comparators {
namespace {

/// `copy_` into a storage.
struct CopyInto {
  std::uint32_t call = 0;
  std::int32_t from = -1;
};
using CopiesInto = std::unordered_map<std::int32_t, std::vector<CopyInto>>;  // by target

CopiesInto copies_of(const AuditTrace& trace) {
  const TextId copy = trace.id_of("aten::copy_");
  CopiesInto copies;
  for (std::uint32_t call = 0; call < trace.size(); ++call) {
    const auto inputs = trace.inputs(call);
    if (!trace.is(call, copy) || inputs.size() != 2 || inputs[0].storage < 0) continue;
    copies[inputs[0].storage].push_back({call, inputs[1].storage});
  }
  return copies;
}

/// The cast that made what an optimizer has of a tensor, and the storage that this has.
struct MasterCast {
  std::uint32_t call = 0;
  std::int32_t from = -1;
};

/// @param made  the last call that wrote the master
std::optional<MasterCast> cast_of(const AuditTrace& trace, std::uint32_t made) {
  const auto cast_at = [&](std::uint32_t call) -> std::optional<MasterCast> {
    const auto inputs = trace.inputs(call);
    const auto outputs = trace.outputs(call);
    if (inputs.empty() || outputs.empty()) return std::nullopt;
    const AuditTensor& source = inputs.back();
    const bool casts = source.dtype != outputs.front().dtype && source.storage >= 0 &&
                       source.storage != outputs.front().storage;
    return casts ? std::optional(MasterCast{call, source.storage}) : std::nullopt;
  };
  if (auto cast = cast_at(made)) return cast;
  const auto inputs = trace.inputs(made);
  const bool is_copy =
      trace.is(made, trace.id_of("aten::clone")) || trace.is(made, trace.id_of("aten::copy_"));
  if (!is_copy || inputs.empty() || inputs.back().producer < 0) return std::nullopt;
  return cast_at(static_cast<std::uint32_t>(inputs.back().producer));
}

}  // namespace

std::vector<Finding> find_restored_then_overwritten(const AuditTrace& trace) {
  std::vector<Finding> findings;
  if (trace.steps().empty()) return findings;
  const std::uint32_t first = trace.steps().front().call;
  std::unordered_map<std::int32_t, std::uint32_t> writers;  // the last before the first step
  for (std::uint32_t call = 0; call < first; ++call) {
    for (const AuditTensor& output : trace.outputs(call)) {
      if (trace.wrote(call, output) && output.storage >= 0) writers[output.storage] = call;
    }
  }
  CopiesInto copies = copies_of(trace);
  for (const AuditTensor& master : trace.outputs(first)) {
    if (!trace.text(master.slot).starts_with(core::kParameterPrefix)) continue;
    const auto writer = writers.find(master.storage);
    if (writer == writers.end()) continue;
    const auto cast = cast_of(trace, writer->second);
    if (!cast) continue;
    const auto& into = copies[cast->from];
    const auto late = std::ranges::find_if(
        into, [&](const CopyInto& copy) { return copy.call > cast->call && copy.call < first; });
    const auto back = std::ranges::find_if(into, [&](const CopyInto& copy) {
      return copy.call > first && copy.from == master.storage;
    });
    if (late == into.end() || back == into.end()) continue;
    findings.push_back(
        trace.at(FindingId::kRestoredThenOverwritten, Finding::Weight::kProof, back->call)
            .with("writer", trace.said(late->call))
            .with("maker", trace.said(cast->call)));
  }
  return findings;
}

}  // namespace repro_check::comparators
