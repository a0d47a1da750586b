// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/reductions.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "comparators/ranks/collectives.h"
#include "core/digest/digest.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

/// Of a walk back from a gradient: one that was reduced is near.
constexpr std::size_t kMostReductions = 1024;

/// Whether some output has at least as many elements.
bool holds(const core::OpRecord& record, std::int64_t elements) {
  return std::ranges::any_of(record.tensors, [&](const core::TensorRecord& tensor) {
    return core::is_output(tensor) && core::element_count(tensor.shape) >= elements;
  });
}

/// Whether an operator gives something of the size of an input, element by element. Else that is a
/// factor, as a norm of all gradients, or what a gradient is computed from.
bool is_changed(const core::OpRecord& record, const core::TensorRecord& input) {
  return std::ranges::any_of(record.tensors, [&](const core::TensorRecord& tensor) {
    return core::is_output(tensor) &&
           core::element_count(tensor.shape) == core::element_count(input.shape);
  });
}

/// What an operator made of a gradient.
struct Change {
  ReplicaItem item;
  std::set<std::int64_t> of;  ///< the operators that made what it changed
  bool computes = false;      ///< it belongs to the backward pass of a module
};

/// Whether a number was made of a norm, a few operators before.
bool is_of_norm(const core::DumpSource& dump, std::int64_t producer, int depth = 0) {
  constexpr int kDeepest = 6;
  if (producer < 0 || depth > kDeepest) return false;
  const core::OpRecord record = dump.op(static_cast<std::uint64_t>(producer));
  if (record.op->name.find("norm") != std::string::npos) return true;
  return std::ranges::any_of(record.tensors, [&](const core::TensorRecord& tensor) {
    return core::is_input(tensor) && tensor.producer != producer &&
           is_of_norm(dump, tensor.producer, depth + 1);
  });
}

/// Whether it changes a gradient by such a factor.
bool scales_by_norm(const core::DumpSource& dump, const core::OpRecord& record) {
  return std::ranges::any_of(record.tensors, [&](const core::TensorRecord& tensor) {
    return core::is_input(tensor) && core::element_count(tensor.shape) == 1 &&
           std::cmp_less(tensor.producer, record.index) && is_of_norm(dump, tensor.producer);
  });
}

Change change_of(const core::OpRecord& record, std::int64_t elements) {
  Change change;
  change.item = {record.op->name, digest_of_outputs(record).value_or(core::Digest()), record.index};
  if (const std::string line = core::line_text(record.site.get()); !line.empty()) {
    change.item.name += " (" + line + ")";
  }
  change.computes =
      record.phase == core::Phase::kBackward && record.site && !record.site->module_type.empty();
  for (const core::TensorRecord& tensor : record.tensors) {
    if (!core::is_input(tensor) || core::element_count(tensor.shape) < elements) continue;
    const bool is_earlier = std::cmp_less(tensor.producer, record.index);
    if (is_earlier && is_changed(record, tensor)) change.of.insert(tensor.producer);
  }
  return change;
}

/// @param behind  the last first, down to the collective. Empty where a gradient of this rank alone
///                was added to what that gave
ReplicaItems made_of(const std::vector<Change>& behind) {
  const std::uint64_t collective = behind.back().item.op;
  if (behind.back().item.digest == core::Digest()) return {};
  std::set<std::int64_t> derived{static_cast<std::int64_t>(collective)};
  ReplicaItems items;
  const std::vector<Change> in_order(behind.rbegin(), behind.rend());
  for (const Change& change : in_order) {
    const bool is_derived =
        std::ranges::any_of(change.of, [&](std::int64_t op) { return derived.contains(op); });
    if (is_derived) derived.insert(static_cast<std::int64_t>(change.item.op));
    if (!is_derived && change.computes && change.item.op != collective) return {};
    items.push_back(change.item);
  }
  return items;
}

}  // namespace

ReplicaItems reduction_of(const core::DumpSource& dump,
                          const core::OpRecord& step,
                          const std::set<std::string_view>& names) {
  std::int64_t elements = 0;
  std::set<std::int64_t, std::greater<>> ahead;
  for (const core::TensorRecord& tensor : step.tensors) {
    const std::string_view slot = tensor.slot;
    if (!core::is_input(tensor) || !slot.starts_with(core::kGradientPrefix)) continue;
    if (!names.contains(slot.substr(core::kGradientPrefix.size()))) continue;
    const std::int64_t count = core::element_count(tensor.shape);
    if (count > elements) ahead = {tensor.producer};
    elements = std::max(elements, count);
  }
  std::vector<Change> behind;
  while (!ahead.empty() && behind.size() < kMostReductions) {
    const std::int64_t next = *ahead.begin();
    ahead.erase(ahead.begin());
    if (next < 0) break;
    const core::OpRecord record = dump.op(static_cast<std::uint64_t>(next));
    if (record.step != step.step) continue;
    Change& change = behind.emplace_back(change_of(record, elements));
    if (gives_alike(record.op->name) && holds(record, elements)) return made_of(behind);
    change.item.by_norm = !change.computes && scales_by_norm(dump, record);
    ahead.insert(change.of.begin(), change.of.end());
  }
  while (!behind.empty() && !behind.back().computes) behind.pop_back();
  return behind.empty() ? ReplicaItems() : made_of(behind);
}

}  // namespace repro_check::comparators
