// SPDX-License-Identifier: Apache-2.0
// weight-without-effect: autocast is never left, and its cache keeps the first cast of the weights.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "comparators/audit/rules.h"

namespace repro_check::comparators {
namespace {

/// A cast that autocast keeps: no operator of the trace made it, and nobody named it.
struct KeptCast {
  core::Digest digest;
  std::uint32_t step = 0;
};

/// Whether backward passes of two steps read one and the same cast. That of an autocast which is
/// left between steps is another one, even where it has the same numbers.
bool keeps_casts(const AuditTrace& trace) {
  std::map<std::int32_t, KeptCast> kept;
  for (std::uint32_t call = 0; call < trace.size(); ++call) {
    const AuditCall& each = trace[call];
    if (each.phase != core::Phase::kBackward || each.modes == 0) continue;
    for (const AuditTensor& input : trace.inputs(call)) {
      const bool is_cast = input.is_narrow && input.is_known() && input.producer < 0 &&
                           input.name == 0 && input.storage >= 0;
      if (!is_cast) continue;
      const auto [found, is_new] =
          kept.try_emplace(input.storage, KeptCast{input.digest, each.step});
      if (!is_new && found->second.step != each.step && found->second.digest == input.digest) {
        return true;
      }
    }
  }
  return false;
}

/// What a module was last given, and what it made of it.
struct ModuleSeen {
  core::Digest weight;
  core::Digest output;
  std::uint32_t call = 0;
};

}  // namespace

std::vector<Finding> find_weight_without_effect(const AuditTrace& trace) {
  std::vector<Finding> findings;
  if (!keeps_casts(trace)) return findings;
  const TextId weight_slot = trace.id_of("weight");
  const TextId bias_slot = trace.id_of("bias");
  std::map<std::pair<std::uint32_t, core::Digest>, ModuleSeen> seen;  // by site and inputs
  for (std::uint32_t call = 0; call < trace.size(); ++call) {
    const AuditCall& each = trace[call];
    const AuditTensor* weight = trace.input(call, weight_slot);
    if (weight == nullptr || trace.outputs(call).empty() || each.modes == 0) continue;
    const AuditTensor& output = trace.outputs(call).front();
    const bool is_cast = output.is_narrow && output.dtype != weight->dtype;
    if (each.phase != core::Phase::kForward || !is_cast || !weight->is_known()) continue;
    std::string given;
    for (const AuditTensor& input : trace.inputs(call)) {
      if (input.slot == weight_slot || input.slot == bias_slot) continue;
      given += core::to_hex(input.digest);
    }
    const auto key = std::pair(each.site, core::digest_bytes(given));
    const auto [found, is_new] =
        seen.try_emplace(key, ModuleSeen{weight->digest, output.digest, call});
    const bool has_no_effect = !is_new && output.is_known() &&
                               found->second.weight != weight->digest &&
                               found->second.output == output.digest;
    if (has_no_effect) {
      findings.push_back(
          trace.at(FindingId::kWeightWithoutEffect, Finding::Weight::kSuspicion, call)
              .with("earlier", trace[found->second.call].step)
              .with("modes", trace.text(each.modes)));
    }
    found->second = {weight->digest, output.digest, call};
  }
  return findings;
}

}  // namespace repro_check::comparators
