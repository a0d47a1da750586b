// SPDX-License-Identifier: Apache-2.0
// dropout-in-eval, trains-in-eval: modules in the mode of the other pass.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "comparators/audit/rules.h"

namespace repro_check::comparators {
namespace {

bool is_of_dropout_module(const AuditTrace& trace, std::uint32_t call) {
  const auto& site = trace.site(call);
  return site && std::string_view(site->module_type).find("Dropout") != std::string_view::npos;
}

}  // namespace

std::vector<Finding> find_dropout_in_eval(const AuditTrace& trace) {
  const TextId dropout = trace.id_of("aten::dropout");
  bool is_quiet = false;
  std::vector<Finding> findings;
  for (std::uint32_t call = 0; call < trace.size(); ++call) {
    const AuditCall& each = trace[call];
    if (each.is_named || !(each.phase == core::Phase::kEval || each.in_eval)) continue;
    is_quiet = is_quiet || (each.base == dropout && each.training == TrainFlag::kOff);
    // A Dropout module that draws was put into training mode: Monte Carlo dropout does.
    const bool draws = each.drew && each.training == TrainFlag::kOn;
    const bool is_meant = trace.manifest().is_of_program() && is_of_dropout_module(trace, call);
    if (!draws || is_meant) continue;
    using enum Finding::Weight;
    findings.push_back(trace.at(FindingId::kDropoutInEval, each.in_eval ? kProof : kSuspicion, call)
                           .with("told", each.in_eval));
  }
  // Where no module of dropout is seen to keep still, none is known to be in evaluation mode, but
  // for those of which it is told.
  if (!is_quiet)
    std::erase_if(findings,
                  [](const Finding& each) { return each.weight != Finding::Weight::kProof; });
  return findings;
}

namespace {

/// Passes of training between two evaluations.
struct Stretch {
  std::map<TextId, std::uint32_t> still;  ///< by kind of layer: the first call that does not train
  bool trains = false;                    ///< some layer does

  /// Where all kinds that trained before keep still. One kind alone may follow a schedule.
  [[nodiscard]] std::vector<std::uint32_t> left_in_eval(const std::set<TextId>& trained) const {
    constexpr std::size_t kTellingKinds = 2;
    std::vector<std::uint32_t> calls;
    for (const auto& [kind, call] : still) {
      if (trained.contains(kind)) calls.push_back(call);
    }
    return trains || calls.size() < kTellingKinds ? std::vector<std::uint32_t>() : calls;
  }
};

}  // namespace

std::vector<Finding> find_trains_in_eval(const AuditTrace& trace) {
  std::vector<Finding> findings;
  if (trace.losses().empty() || trace.steps().empty()) return findings;
  const std::uint32_t end = trace.steps().back().call;
  std::set<TextId> trained;  // kinds of layers that were in training mode
  Stretch stretch;
  bool evaluated = false;
  bool stepped = false;
  const auto close = [&] {
    const auto calls = stretch.left_in_eval(trained);
    if (evaluated && stepped && !calls.empty()) {
      findings.push_back(trace
                             .at(FindingId::kTrainsInEval,
                                 Finding::Weight::kSuspicion,
                                 *std::ranges::min_element(calls))
                             .with("kinds", calls.size()));
    }
    stretch = {};
    stepped = false;
  };
  bool in_eval = false;
  for (std::uint32_t call = 0; call <= end; ++call) {
    const AuditCall& each = trace[call];
    stepped = stepped || std::ranges::binary_search(trace.steps(), call, {}, &AuditStep::call);
    if (each.training == TrainFlag::kUntold) continue;
    if (each.phase == core::Phase::kEval) {
      if (!in_eval) close();
      in_eval = evaluated = true;
    } else if (each.phase == core::Phase::kForward) {
      in_eval = false;
      if (each.training == TrainFlag::kOn) {
        stretch.trains = true;
        trained.insert(each.base);
      } else {
        stretch.still.try_emplace(each.base, call);
      }
    }
  }
  close();
  return findings;
}

}  // namespace repro_check::comparators
