// SPDX-License-Identifier: Apache-2.0
// drawn-once, and what a model draws in several calls.
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comparators/audit/rules.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {
namespace {

/// An operator at one line.
using Line = std::pair<TextId, std::uint32_t>;
/// By line, the calls of the model in which it drew, with the place of the generator in each.
using DrawnLines = std::map<Line, std::map<std::uint32_t, core::Digest>>;

DrawnLines drawn_lines(const AuditTrace& trace) {
  DrawnLines lines;
  for (const AuditDraw& draw : trace.draws()) {
    const AuditCall& call = trace[draw.call];
    lines[{call.op, call.site}].try_emplace(call.step, draw.from);
  }
  return lines;
}

/// What the calls of a model returned: a digest of all of it for each.
std::vector<core::Digest> returned(const AuditTrace& trace) {
  const TextId record = trace.id_of(core::kReturnedOperator);
  std::vector<core::Digest> calls;
  for (std::uint32_t call = 0; call < trace.size(); ++call) {
    if (!trace.is(call, record)) continue;
    std::string all;
    for (const AuditTensor& output : trace.outputs(call)) {
      if (!output.is_known()) return {};
      all += core::to_hex(output.digest);
    }
    calls.push_back(core::digest_bytes(all));
  }
  return calls;
}

}  // namespace

std::vector<Finding> find_drawn_once(const AuditTrace& trace) {
  const std::vector<core::Digest> results = returned(trace);
  // With other results its inputs may be others.
  if (std::set(results.begin(), results.end()).size() > 1) return {};
  std::vector<Finding> findings;
  std::set<std::uint32_t> later;
  for (const AuditDraw& draw : trace.draws()) later.insert(trace[draw.call].step);
  if (later != std::set<std::uint32_t>{0}) return {};
  const std::string* mode = core::environment_fact(trace.manifest(), core::kModelTraining);
  using enum Finding::Weight;
  // In evaluation mode it may be a table that is drawn once.
  const auto weight = mode != nullptr && *mode == "on" ? kProof : kSuspicion;
  std::set<Line> told;
  for (const AuditDraw& draw : trace.draws()) {
    const AuditCall& call = trace[draw.call];
    if (!told.insert({call.op, call.site}).second) continue;
    findings.push_back(
        trace.at(FindingId::kDrawnOnce, weight, draw.call).with("calls", results.size()));
  }
  return findings;
}

std::optional<Liveness> liveness_of(const AuditTrace& trace) {
  const std::vector<core::Digest> results = returned(trace);
  if (trace.manifest().is_of_program() || results.size() < 2) return std::nullopt;
  Liveness liveness;
  liveness.calls = results.size();
  liveness.results = std::set(results.begin(), results.end()).size();
  for (const auto& [line, calls] : drawn_lines(trace)) {
    ++liveness.lines;
    std::set<core::Digest> places;
    for (const auto& [call, from] : calls) places.insert(from);
    if (places.size() == liveness.calls) ++liveness.alive;
  }
  return liveness;
}

}  // namespace repro_check::comparators
