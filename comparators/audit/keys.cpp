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

/// Inputs that were in the compiled function before it was called: `constant.0`.
constexpr std::string_view kConstantPrefix = "constant.";
/// Functions of the library that draw, and those that make keys of keys.
constexpr std::string_view kRandomPrefix = "jax::random.";
constexpr std::array<std::string_view, 7> kMakeKeys{
    "seed", "split", "fold_in", "wrap", "unwrap", "key", "clone"};

bool is_key(const AuditTrace& trace, const AuditTensor& tensor) {
  constexpr std::array<std::int64_t, 1> kWords{2};
  return tensor.is_known() && tensor.dtype == core::Dtype::kUInt32 &&
         trace.content_key(tensor).shape == std::vector<std::int64_t>(kWords.begin(), kWords.end());
}

/// By digest, the keys that a call was given: as constants, or as arguments.
std::set<core::Digest> keys_of(const AuditTrace& trace, std::uint32_t call, bool constants) {
  std::set<core::Digest> keys;
  for (const AuditTensor& tensor : trace.inputs(call)) {
    if (trace.text(tensor.slot).starts_with(kConstantPrefix) == constants &&
        is_key(trace, tensor)) {
      keys.insert(tensor.digest);
    }
  }
  return keys;
}

bool draws_numbers(std::string_view op) {
  return op.starts_with(kRandomPrefix) &&
         std::ranges::none_of(kMakeKeys, [&](std::string_view word) {
           return op.substr(kRandomPrefix.size()).find(word) != std::string_view::npos;
         });
}

}  // namespace

std::vector<Finding> find_key_is_constant(const AuditTrace& trace) {
  struct Compiled {
    std::vector<std::uint32_t> calls;
    std::map<std::vector<core::Digest>, std::size_t> inputs;  ///< calls that were given these
    bool takes_key = false;
    bool goes_on = false;  ///< a call was given what one before it returned
  };
  // By function and the keys in it: traced again, it may have another one.
  std::map<std::pair<TextId, std::set<core::Digest>>, Compiled> functions;
  for (const AuditDraw& draw : trace.draws()) {
    std::set<core::Digest> constants = keys_of(trace, draw.call, true);
    if (constants.empty()) continue;
    Compiled& compiled = functions[{trace[draw.call].op, std::move(constants)}];
    std::vector<core::Digest> given;
    for (const AuditTensor& tensor : trace.inputs(draw.call)) {
      if (trace.text(tensor.slot).starts_with(kConstantPrefix)) continue;
      given.push_back(tensor.is_known() ? tensor.digest : core::Digest{draw.call, 0});
      const auto made_by = static_cast<std::uint32_t>(tensor.producer);
      compiled.goes_on |= std::ranges::find(compiled.calls, made_by) != compiled.calls.end();
    }
    ++compiled.inputs[std::move(given)];
    compiled.calls.push_back(draw.call);
    compiled.takes_key |= !keys_of(trace, draw.call, false).empty();
  }
  std::vector<Finding> findings;
  for (const auto& [function, compiled] : functions) {
    if (compiled.calls.size() < 2) continue;  // as what makes the first weights
    const std::size_t alike = std::ranges::max_element(compiled.inputs, {}, [](const auto& given) {
                                return given.second;
                              })->second;
    // What evaluates a model may draw the same on purpose. Nobody asks for one result three times,
    // nor trains on one mask.
    using enum Finding::Weight;
    const bool is_proof = !compiled.takes_key && compiled.calls.size() >= kTellingCalls &&
                          (compiled.goes_on || alike >= kTellingCalls);
    findings.push_back(
        trace.at(FindingId::kKeyIsConstant, is_proof ? kProof : kSuspicion, compiled.calls.front())
            .with("calls", compiled.calls.size()));
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
    const auto other = std::ranges::find_if(
        calls, [&](std::uint32_t call) { return trace[call].site != trace[calls.front()].site; });
    if (calls.size() < 2) continue;
    // At one line a key may be kept on purpose, as for samples that are to be alike; and what a
    // library draws for weights it draws again for a copy of them.
    using enum Finding::Weight;
    const bool is_proof = other != calls.end() && trace.site(*other)->module_path.empty() &&
                          trace.site(calls.front())->module_path.empty();
    findings.push_back(trace
                           .at(FindingId::kKeyUsedTwice,
                               is_proof ? kProof : kSuspicion,
                               other == calls.end() ? calls[1] : *other)
                           .with("earlier", trace.said(calls.front()))
                           .with("draws", calls.size()));
  }
  return findings;
}

}  // namespace repro_check::comparators
