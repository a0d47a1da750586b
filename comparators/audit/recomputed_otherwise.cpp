// SPDX-License-Identifier: Apache-2.0
// recomputed-otherwise: a backward pass computes a block again, and draws other numbers for it.
#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "comparators/audit/rules.h"

namespace repro_check::comparators {
namespace {

/// What a call was asked to do: in two calls with equal keys the same was asked for. Null where
/// that is not known, or it reads no value, as `randn_like`: then two calls are two draws.
std::optional<core::Digest> asked_of(const AuditTrace& trace, std::uint32_t index) {
  const AuditCall& call = trace[index];
  std::string key = std::to_string(call.step) + "|" + std::to_string(call.op);
  const auto put = [&key](const core::Digest& digest) { key += core::to_hex(digest); };
  put(call.scalars);
  const core::OperatorInfo op{std::string(trace.text(call.base)), {}, true};
  bool reads = false;
  for (const AuditTensor& input : trace.inputs(index)) {
    if (!input.is_known()) return std::nullopt;
    reads = reads || core::reads_values(op, trace.text(input.slot));
    key += "|" + std::to_string(input.slot) + "," + std::to_string(input.shape) + "," +
           std::to_string(static_cast<int>(input.dtype));
    put(input.digest);
  }
  return reads ? std::optional(core::digest_bytes(key)) : std::nullopt;
}

bool gave_same(const AuditTrace& trace, std::uint32_t one, std::uint32_t other) {
  return std::ranges::equal(trace.outputs(one), trace.outputs(other), &AuditTensor::equals);
}

}  // namespace

std::vector<Finding> find_recomputed_otherwise(const AuditTrace& trace) {
  std::multimap<core::Digest, std::uint32_t> forward;
  std::vector<Finding> findings;
  for (std::uint32_t index = 0; index < trace.size(); ++index) {
    const AuditCall& call = trace[index];
    const bool again =
        call.phase == core::Phase::kRecompute || call.phase == core::Phase::kBackward;
    if (!call.drew || (!again && call.phase != core::Phase::kForward)) continue;
    const auto asked = asked_of(trace, index);
    if (!asked) continue;
    if (!again) {
      forward.emplace(*asked, index);
      continue;
    }
    const auto [first, end] = forward.equal_range(*asked);
    const bool all_known = std::ranges::all_of(trace.outputs(index), &AuditTensor::is_known);
    if (first == end || !all_known) continue;
    const bool some_same = std::any_of(
        first, end, [&](const auto& entry) { return gave_same(trace, entry.second, index); });
    if (some_same) continue;
    findings.push_back(trace.at(FindingId::kRecomputedOtherwise, Finding::Weight::kProof, index)
                           .with("earlier", first->second)
                           .with("is_backward", call.phase == core::Phase::kBackward));
  }
  return findings;
}

}  // namespace repro_check::comparators
