// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/named_tensors.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "core/content/content.h"
#include "core/tensor/tensor_view.h"

namespace repro_check::comparators {
namespace {

using core::NamedTensor;

core::ContentKey key_of(const NamedTensor& tensor) {
  return {tensor.dtype, tensor.shape, tensor.digest};
}

NamedTensorDifference one_sided(const NamedTensor& tensor, std::string_view missing_in) {
  NamedTensorDifference difference;
  difference.kind = tensor.kind;
  difference.name = tensor.name;
  difference.note = fmt::format("missing in {}", missing_in);
  return difference;
}

/// Empty when the two are the same, or nothing tells whether they are.
std::optional<NamedTensorDifference> compare(const NamedTensor& baseline,
                                             const NamedTensor& candidate,
                                             detail::TensorJudge& judge) {
  NamedTensorDifference difference;
  difference.kind = baseline.kind;
  difference.name = baseline.name;
  if (candidate.name != baseline.name) difference.candidate_name = candidate.name;
  if (baseline.dtype != candidate.dtype || baseline.shape != candidate.shape) {
    difference.note = fmt::format("{} against {}",
                                  detail::dtype_and_shape(baseline.dtype, baseline.shape),
                                  detail::dtype_and_shape(candidate.dtype, candidate.shape));
    return difference;
  }
  const std::string where = fmt::format("{} {}", kind_text(baseline.kind), baseline.name);
  if (judge.same_content(key_of(baseline), key_of(candidate), where).value_or(true)) {
    return std::nullopt;
  }
  if (auto measured = judge.measure_pair(
          {key_of(baseline), key_of(candidate), where, judge.rules().fallback()})) {
    difference.metrics = measured->metrics;
    difference.samples = std::move(measured->samples);
    difference.note = detail::describe_metrics(*difference.metrics);
    if (measured->slice) {
      const auto total = static_cast<std::uint64_t>(core::element_count(baseline.shape));
      difference.note += fmt::format("{}in {}",
                                     difference.note.empty() ? "" : "; ",
                                     core::describe_slice(*measured->slice, total));
    }
  } else {
    difference.note = "size unknown: no bytes to measure";
  }
  return difference;
}

}  // namespace

std::string_view kind_text(core::NamedTensorKind kind) noexcept {
  switch (kind) {
    case core::NamedTensorKind::kInput:
      return "input";
    case core::NamedTensorKind::kParameter:
      return "parameter";
    case core::NamedTensorKind::kBuffer:
      return "buffer";
  }
  return "tensor";
}

std::string size_text(const TensorMetrics& metrics) {
  std::string text = fmt::format(
      "{} of {} element{}", metrics.n_diff, metrics.elements, metrics.elements == 1 ? "" : "s");
  if (metrics.ulp_max) return fmt::format("{}, max {} ULP", text, *metrics.ulp_max);
  if (metrics.max_abs) return fmt::format("{}, abs max {:.4g}", text, *metrics.max_abs);
  return text;
}

std::vector<NamedTensorDifference> differing_named_tensors(const core::RunManifest& baseline,
                                                           const core::RunManifest& candidate,
                                                           const detail::NameRewriter& names,
                                                           detail::TensorJudge& judge,
                                                           std::vector<std::uint64_t>& matched) {
  using Name = std::pair<core::NamedTensorKind, std::string>;
  std::map<Name, const NamedTensor*> theirs;
  matched.assign(names.entries(), 0);
  for (const NamedTensor& tensor : candidate.named_tensors) {
    if (tensor.kind == core::NamedTensorKind::kInput) {
      theirs.emplace(Name(tensor.kind, tensor.name), &tensor);
      continue;
    }
    const detail::NameRewriter::Name name = names.tensor_name(tensor.name);
    if (name.entry) ++matched[*name.entry];
    theirs.emplace(Name(tensor.kind, name.text), &tensor);
  }
  std::vector<NamedTensorDifference> differences;
  for (const NamedTensor& tensor : baseline.named_tensors) {
    const auto node = theirs.extract(Name(tensor.kind, tensor.name));
    if (node.empty()) {
      differences.push_back(one_sided(tensor, "candidate"));
    } else if (auto difference = compare(tensor, *node.mapped(), judge)) {
      differences.push_back(std::move(*difference));
    }
  }
  for (const auto& [name, tensor] : theirs) differences.push_back(one_sided(*tensor, "baseline"));
  return differences;
}

}  // namespace repro_check::comparators
