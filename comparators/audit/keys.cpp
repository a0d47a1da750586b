// SPDX-License-Identifier: Apache-2.0
// key-is-constant and key-used-twice: of a framework whose generators are values that calls are
// given.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comparators/audit/rules.h"

namespace repro_check::comparators {
namespace {

/// Functions of the library that draw, and those that make keys of keys.
constexpr std::string_view kRandomPrefix = "jax::random.";
constexpr std::array<std::string_view, 7> kMakeKeys{
    "seed", "split", "fold_in", "wrap", "unwrap", "key", "clone"};

bool draws_numbers(std::string_view op) {
  return op.starts_with(kRandomPrefix) &&
         std::ranges::none_of(kMakeKeys, [&](std::string_view word) {
           return op.substr(kRandomPrefix.size()).find(word) != std::string_view::npos;
         });
}

/// Whether two draws from one key may be alike on purpose: equal numbers, as for a copy of weights,
/// or one order for two arrays.
bool may_be_alike(const AuditTrace& trace, std::uint32_t one, std::uint32_t other) {
  constexpr std::string_view kShuffle = "jax::random.shuffle";
  if (trace[one].op != trace[other].op) return false;
  const auto shapes = [&](std::uint32_t call) {
    std::vector<TextId> found;
    for (const AuditTensor& tensor : trace.outputs(call)) found.push_back(tensor.shape);
    return found;
  };
  return trace.text(trace[one].op) == kShuffle || shapes(one) == shapes(other);
}

}  // namespace

std::vector<Finding> find_key_is_constant(const AuditTrace& trace) {
  struct Compiled {
    std::vector<std::uint32_t> calls;
    std::map<std::vector<core::Digest>, std::size_t> inputs;  ///< calls that were given these
  };
  // By function and the key in it: traced again, it may have another one.
  std::map<std::pair<TextId, core::Digest>, Compiled> functions;
  for (const AuditDraw& draw : trace.draws()) {
    if (!draw.is_constant) continue;
    Compiled& compiled = functions[{trace[draw.call].op, draw.from}];
    std::vector<core::Digest> given;
    for (const AuditTensor& tensor : trace.inputs(draw.call)) {
      given.push_back(tensor.is_known() ? tensor.digest : core::Digest{draw.call, 0});
    }
    ++compiled.inputs[std::move(given)];
    compiled.calls.push_back(draw.call);
  }
  std::vector<Finding> findings;
  for (const auto& [function, compiled] : functions) {
    if (compiled.calls.size() < 2) continue;  // as what makes the first weights
    const std::size_t alike = std::ranges::max_element(compiled.inputs, {}, [](const auto& given) {
                                return given.second;
                              })->second;
    // It may fold an argument into the key, or evaluate with fixed numbers on purpose. Nobody asks
    // for one result three times.
    using enum Finding::Weight;
    const bool is_proof = alike >= kTellingCalls;
    const std::uint32_t first = compiled.calls.front();
    Finding finding = trace.at(FindingId::kKeyIsConstant, is_proof ? kProof : kSuspicion, first)
                          .with("calls", compiled.calls.size());
    if (is_proof) finding.with("alike", alike);
    findings.push_back(std::move(finding));
  }
  return findings;
}

std::vector<Finding> find_key_used_twice(const AuditTrace& trace) {
  std::map<core::Digest, std::vector<std::uint32_t>> keys;
  for (const AuditDraw& draw : trace.draws()) {
    if (draws_numbers(trace.text(trace[draw.call].op))) keys[draw.from].push_back(draw.call);
  }
  std::vector<Finding> findings;
  for (const auto& [key, calls] : keys) {
    if (calls.size() < 2) continue;
    const std::uint32_t first = calls.front();
    const auto other = std::ranges::find_if(
        calls, [&](std::uint32_t call) { return !may_be_alike(trace, first, call); });
    // What a library draws for weights it draws again for a copy of them.
    using enum Finding::Weight;
    const bool is_proof = other != calls.end() && trace.site(*other)->module_path.empty() &&
                          trace.site(first)->module_path.empty();
    findings.push_back(trace
                           .at(FindingId::kKeyUsedTwice,
                               is_proof ? kProof : kSuspicion,
                               other == calls.end() ? calls[1] : *other)
                           .with("earlier", trace.said(first))
                           .with("draws", calls.size()));
  }
  return findings;
}

}  // namespace repro_check::comparators
