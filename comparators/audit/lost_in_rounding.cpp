// SPDX-License-Identifier: Apache-2.0
// lost-in-rounding: an update of 16-bit weights is below half a ULP of most of them.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "comparators/audit/rules.h"

namespace repro_check::comparators {
namespace {

constexpr double kTellingShare = 0.5;

/// Storages of which some call reads a weight.
std::set<std::int32_t> weights_of(const AuditTrace& trace) {
  const TextId slot = trace.id_of("weight");
  std::set<std::int32_t> storages;
  for (std::uint32_t call = 0; call < trace.size(); ++call) {
    const AuditTensor* weight = trace.input(call, slot);
    if (weight != nullptr && weight->storage >= 0) storages.insert(weight->storage);
  }
  return storages;
}

/// Results that become a weight: written in place, or copied into one.
std::set<std::uint32_t> updates_of(const AuditTrace& trace) {
  const std::set<std::int32_t> weights = weights_of(trace);
  const TextId copy = trace.id_of("aten::copy_");
  std::set<std::uint32_t> updates;
  for (std::uint32_t call = 0; call < trace.size(); ++call) {
    for (const AuditTensor& output : trace.outputs(call)) {
      if (trace.wrote(call, output) && weights.contains(output.storage)) updates.insert(call);
    }
    const auto inputs = trace.inputs(call);
    const bool into_weight = trace.is(call, copy) && inputs.size() == 2 &&
                             weights.contains(inputs[0].storage) && inputs[1].producer >= 0;
    if (into_weight) updates.insert(static_cast<std::uint32_t>(inputs[1].producer));
  }
  return updates;
}

/// Of a 16-bit tensor, as bits; empty where they are not all there.
std::vector<std::uint16_t> bits_of(const AuditTrace& trace, const AuditTensor& tensor) {
  const core::ContentKey key = trace.content_key(tensor);
  if (!tensor.is_known() || !trace.dump().has_content(key)) return {};
  std::vector<std::byte> bytes;
  trace.dump().read_content(key, bytes);
  std::vector<std::uint16_t> bits(bytes.size() / sizeof(std::uint16_t));
  std::memcpy(bits.data(), bytes.data(), bits.size() * sizeof(std::uint16_t));
  return bits;
}

/// Of the elements that were to change, the share that did not; empty where none was.
std::optional<double> lost_share(const std::vector<std::uint16_t>& before,
                                 const std::vector<std::uint16_t>& update,
                                 const std::vector<std::uint16_t>& after) {
  constexpr std::uint16_t kMagnitude = 0x7FFF;
  if (before.size() != after.size() || update.size() != after.size()) return std::nullopt;
  std::size_t wanted = 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    if ((update[i] & kMagnitude) == 0) continue;
    ++wanted;
    if (before[i] == after[i]) ++kept;
  }
  if (wanted == 0) return std::nullopt;
  return static_cast<double>(kept) / static_cast<double>(wanted);
}

}  // namespace

std::vector<Finding> find_lost_in_rounding(const AuditTrace& trace) {
  std::vector<Finding> findings;
  for (const std::uint32_t call : updates_of(trace)) {
    const std::string_view base = trace.text(trace[call].base);
    if (!base.starts_with("aten::add") && !base.starts_with("aten::sub")) continue;
    const auto inputs = trace.inputs(call);
    const auto outputs = trace.outputs(call);
    if (inputs.size() != 2 || outputs.empty() || !outputs.front().is_narrow) continue;
    if (!inputs[0].is_narrow || !inputs[1].is_narrow) continue;
    const auto share = lost_share(
        bits_of(trace, inputs[0]), bits_of(trace, inputs[1]), bits_of(trace, outputs.front()));
    if (!share || *share <= kTellingShare) continue;
    findings.push_back(trace.at(FindingId::kLostInRounding, Finding::Weight::kSuspicion, call)
                           .with("percent", *share * 100));
  }
  return findings;
}

}  // namespace repro_check::comparators
