// SPDX-License-Identifier: Apache-2.0
// same-at-every-sync: weights are copied again and again while the optimizer moves them, and the
// copies are always the same.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comparators/audit/rules.h"
#include "core/trace/record_names.h"

namespace repro_check::comparators {
namespace {

constexpr std::size_t kTellingSyncs = 3;

/// The root that a tensor is of, by its name: a second model of a program has its class in front.
std::string_view root_of(std::string_view name) {
  const std::size_t colon = name.find(':');
  if (colon != std::string_view::npos) name.remove_prefix(colon + 1);
  const bool has_class = !name.empty() && name.front() >= 'A' && name.front() <= 'Z';
  return has_class ? name.substr(0, name.find('.')) : std::string_view();
}

/// What one line copies.
struct SyncLine {
  struct Pair {
    std::set<std::uint32_t> steps;
    core::Digest content;
    bool is_constant = true;
    std::uint32_t last = 0;
  };
  std::map<std::pair<std::int32_t, std::int32_t>, Pair> pairs;  ///< by target and source
  std::set<std::string_view> roots;                             ///< of the sources that have a name

  [[nodiscard]] bool is_constant() const {
    return std::ranges::all_of(pairs, [](const auto& entry) {
      return entry.second.is_constant && entry.second.steps.size() >= kTellingSyncs;
    });
  }
};

/// Whether every step left other parameters than the one before.
bool always_moves(const AuditTrace& trace) {
  std::set<std::string> seen;
  for (const AuditStep& step : trace.steps()) {
    std::string all;
    for (const AuditTensor& tensor : trace.outputs(step.call)) {
      if (trace.text(tensor.slot).starts_with(core::kParameterPrefix)) {
        all += core::to_hex(tensor.digest);
      }
    }
    if (!seen.insert(core::to_hex(core::digest_bytes(all))).second) return false;
  }
  return seen.size() >= kTellingSyncs;
}

}  // namespace

std::vector<Finding> find_same_at_every_sync(const AuditTrace& trace) {
  std::vector<Finding> findings;
  if (!always_moves(trace)) return findings;
  std::set<std::string_view> trained;
  for (const AuditStep& step : trace.steps()) {
    for (const AuditTensor& tensor : trace.outputs(step.call)) {
      const std::string_view slot = trace.text(tensor.slot);
      if (!slot.starts_with(core::kParameterPrefix)) continue;
      trained.insert(root_of(slot.substr(core::kParameterPrefix.size())));
    }
  }
  const TextId copy = trace.id_of("aten::copy_");
  std::map<std::string, SyncLine> lines;
  for (std::uint32_t call = 0; call < trace.size(); ++call) {
    const auto inputs = trace.inputs(call);
    if (!trace.is(call, copy) || inputs.size() != 2 || trace.outputs(call).empty()) continue;
    if (inputs[0].storage == inputs[1].storage) continue;
    const AuditTensor& left = trace.outputs(call).front();
    SyncLine& line = lines[core::line_text(trace.site(call).get())];
    if (inputs[1].name != 0) line.roots.insert(root_of(trace.text(inputs[1].name)));
    SyncLine::Pair& pair = line.pairs[{inputs[0].storage, inputs[1].storage}];
    const bool same = pair.steps.empty() || pair.content == left.digest;
    pair.is_constant = pair.is_constant && left.is_known() && same;
    pair.content = left.digest;
    pair.steps.insert(trace[call].step);
    pair.last = call;
  }
  for (const auto& [text, line] : lines) {
    const bool of_trained = std::ranges::any_of(
        line.roots, [&](std::string_view root) { return trained.contains(root); });
    if (text.empty() || !of_trained || !line.is_constant()) continue;
    const auto& [storages, pair] = *line.pairs.begin();
    findings.push_back(trace.at(FindingId::kSameAtEverySync, Finding::Weight::kSuspicion, pair.last)
                           .with("tensors", line.pairs.size())
                           .with("syncs", pair.steps.size()));
  }
  return findings;
}

}  // namespace repro_check::comparators
