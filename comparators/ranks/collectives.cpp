// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <variant>

#include "comparators/report/report.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

/// Of the others each rank may have sizes of its own, or only one has any.
bool has_equal_sizes(std::string_view name) {
  constexpr std::array<std::string_view, 4> kNames{
      "allreduce_", "allreduce_coalesced_", "broadcast_", "reduce_"};
  return std::ranges::find(kNames, name) != kNames.end();
}

std::string text_in(const core::OpRecord& record, std::string_view name) {
  const core::Value* value = core::find_argument(record, name);
  const auto* text = value == nullptr ? nullptr : std::get_if<std::string>(&value->data);
  return text == nullptr ? std::string() : *text;
}

}  // namespace

CollectiveCall collective_of(const core::OpRecord& record) {
  CollectiveCall call{text_in(record, core::kCollectiveName), {}, {}};
  if (has_equal_sizes(std::string_view(call.op).substr(call.op.rfind(':') + 1))) {
    call.sizes = " " + text_in(record, core::kCollectiveTensors);
  }
  if (const std::string line = line_text(record); !line.empty()) {
    call.place = fmt::format(" ({})", line);
  }
  return call;
}

std::vector<CollectiveCall> collectives_of(const core::DumpSource& dump, std::uint32_t step) {
  std::vector<CollectiveCall> calls;
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    const core::OpRecord head = dump.op_head(i);
    if (head.step == step && head.op->name == core::kCollectiveRecord) {
      calls.push_back(collective_of(dump.op(i)));
    }
  }
  return calls;
}

void CollectiveRoots::add(std::uint32_t step, const CollectiveCall& call) {
  core::Digest& root = roots_[step];
  std::string bytes(reinterpret_cast<const char*>(&root), sizeof root);
  bytes += call.op + call.sizes;
  root = core::digest_leaf(std::as_bytes(std::span(bytes)));
  ++count_;
}

core::Digest CollectiveRoots::at(std::uint32_t step) const {
  const auto found = roots_.find(step);
  return found == roots_.end() ? core::Digest{} : found->second;
}

std::uint32_t CollectiveRoots::last_step() const {
  return roots_.empty() ? 0 : roots_.rbegin()->first;
}

}  // namespace repro_check::comparators
