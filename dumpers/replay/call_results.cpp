// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/call_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "core/tensor/element_number.h"
#include "core/trace/record_tensors.h"
#include "dumpers/replay/recorded_call.h"

namespace repro_check::replay {
namespace {

using core::ContentState;

void add(const core::TensorRecord& tensor, Fingerprint& print) {
  print.text += fmt::format("{} {}", tensor.slot, core::dtype_name(tensor.dtype));
  for (const std::int64_t size : tensor.shape) print.text += fmt::format(" {}", size);
  print.text += ": " + core::to_hex(tensor.digest) + "\n";
  print.digests.push_back(tensor.digest);
}

void add(const core::Value& value, Fingerprint& print) {
  if (std::holds_alternative<core::TensorSlot>(value.data)) return;
  if (const auto* list = std::get_if<core::ValueList>(&value.data)) {
    for (const core::Value& item : list->items) add(item, print);
    print.text += fmt::format("list of {}\n", list->items.size());
  } else {
    print.text += core::to_text(value) + "\n";
  }
}

OutputDistance measure(const std::string& slot,
                       const std::vector<double>& a,
                       const std::vector<double>& b) {
  OutputDistance distance;
  distance.slot = slot;
  distance.elements = a.size();
  double max = 0;
  long double squares = 0;
  std::uint64_t finite = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool both_nan = std::isnan(a[i]) && std::isnan(b[i]);
    if (a[i] != b[i] && !both_nan) ++distance.differing;
    if (std::isfinite(a[i]) && std::isfinite(b[i])) {
      const double gap = std::abs(a[i] - b[i]);
      max = std::max(max, gap);
      squares += static_cast<long double>(gap) * static_cast<long double>(gap);
      ++finite;
    } else if (a[i] != b[i] && !both_nan) {
      ++distance.incomparable;
    }
  }
  if (finite > 0) {
    distance.max_abs = max;
    distance.rmse = static_cast<double>(std::sqrt(squares / static_cast<long double>(finite)));
  }
  return distance;
}

/// Whether the tensor is a part of another output: the scales of a quantised one.
bool is_part(const core::OpRecord& record, const core::TensorRecord& tensor) {
  return std::ranges::any_of(record.tensors, [&](const core::TensorRecord& whole) {
    return whole.role == tensor.role && tensor.slot.starts_with(whole.slot + '.');
  });
}

/// The greatest magnitude among finite numbers.
double largest_of(const core::DumpSource& dump, const core::TensorRecord& tensor) {
  std::vector<std::byte> content;
  dump.read_content(tensor.content_key(), content);
  double largest = 0;
  for (const double number : core::numbers_of(tensor.dtype, content)) {
    if (std::isfinite(number)) largest = std::max(largest, std::abs(number));
  }
  return largest;
}

}  // namespace

core::Digest Fingerprint::digest() const {
  if (digests.size() == 1) return digests.front();
  return core::digest_bytes(text);
}

Fingerprint fingerprint(const core::OpRecord& record) {
  Fingerprint print;
  for (const core::TensorRecord& tensor : record.tensors) {
    if (tensor.role != core::TensorRole::kOutput || tensor.state == ContentState::kUndefined) {
      continue;
    }
    if (tensor.state == ContentState::kUninitialised) {
      cannot(fmt::format(
                 "op {} {}: output {} is memory that was never written, so its values mean nothing",
                 record.index,
                 record.op->full_name(),
                 tensor.slot),
             "replay the operator that reads it");
    }
    // Of a quantised, sparse or nested tensor, what its parts do not say.
    if (!tensor.attributes.empty()) {
      print.text += fmt::format("{}: {}\n", tensor.slot, tensor.attributes);
    }
    if (tensor.state == ContentState::kComposite) continue;
    if (tensor.state == ContentState::kHashed) {
      add(tensor, print);
    } else {
      print.unknown = tensor.slot;
    }
  }
  for (const core::Value& value : record.results) add(value, print);
  return print;
}

std::string print_of(const core::OpRecord& record) {
  const Fingerprint print = fingerprint(record);
  if (!print.unknown.empty()) {
    cannot(fmt::format(
               "op {}: output {} has no values that can be compared", record.index, print.unknown),
           "");
  }
  return print.text;
}

std::vector<OutputDistance> measure_outputs(const core::DumpSource& dump,
                                            const core::OpRecord& record,
                                            const CallSink& made,
                                            bool floating_only) {
  std::vector<OutputDistance> distances;
  for (const core::TensorRecord& tensor : record.tensors) {
    const bool real = core::is_floating(tensor.dtype) || core::is_complex(tensor.dtype);
    const bool wanted = tensor.role == core::TensorRole::kOutput && (real || !floating_only) &&
                        tensor.dtype != core::Dtype::kFloat4E2M1FNX2 &&
                        !core::is_quantised(tensor.dtype) && !is_part(record, tensor);
    if (!wanted || tensor.state != ContentState::kHashed ||
        !dump.has_content(tensor.content_key())) {
      continue;
    }
    const auto* found = core::find_tensor(made.record, tensor.role, tensor.slot);
    if (found == nullptr || found->state != ContentState::kHashed || found->shape != tensor.shape ||
        !made.has_content(found->content_key())) {
      continue;
    }
    std::vector<std::byte> content;
    dump.read_content(tensor.content_key(), content);
    const std::vector<double> recorded = core::numbers_of(tensor.dtype, content);
    made.read(found->content_key(), content);
    distances.push_back(measure(tensor.slot, recorded, core::numbers_of(found->dtype, content)));
  }
  return distances;
}

std::optional<SweptOutput> worst_output(const core::DumpSource& dump,
                                        const core::OpRecord& record,
                                        const CallSink& made) {
  std::optional<SweptOutput> worst;
  double worst_share = -1;
  for (const OutputDistance& distance : measure_outputs(dump, record, made, false)) {
    if (distance.differing == 0) continue;
    const double largest =
        largest_of(dump, *core::find_tensor(record, core::TensorRole::kOutput, distance.slot));
    const double share = largest == 0 ? HUGE_VAL : distance.max_abs.value_or(0) / largest;
    if (share <= worst_share) continue;
    worst_share = share;
    worst = {distance.slot, distance.elements, distance.differing, distance.max_abs, largest};
  }
  return worst;
}

}  // namespace repro_check::replay
