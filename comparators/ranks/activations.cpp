// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/activations.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "comparators/report/report.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

/// `enters layers.0.up (train.py:31), backward`
std::string name_of(const core::OpRecord& record, std::string_view way) {
  std::string name(way);
  if (record.site && !record.site->module_path.empty()) name += " " + record.site->module_path;
  if (const std::string line = line_text(record); !line.empty()) {
    name += fmt::format(" ({})", line);
  }
  if (record.phase == core::Phase::kBackward) name += ", backward";
  return name;
}

}  // namespace

std::vector<Crossing> CrossingReader::read(const core::OpRecord& record, std::uint64_t& unread) {
  if (std::exchange(step_, record.step) != record.step) seen_.clear();
  std::vector<Crossing> crossings;
  for (ReplicaItem& item : items_below(record, "", unread)) {
    const std::string_view slot = item.name;
    const std::size_t holders = slot.rfind(core::kHoldersMark);
    const std::string_view placed = slot.substr(0, holders);
    const std::size_t place = std::min(placed.find(core::kShardMark), placed.size());
    const bool shared = slot.find(',', std::min(holders, slot.size())) != std::string_view::npos;
    std::string part(shared ? slot.substr(holders) : placed.substr(place));
    std::string name = name_of(record, placed.substr(0, place));
    const std::size_t times = ++seen_[{part, name}];
    if (times > 1) name += fmt::format(" #{}", times);
    crossings.push_back({std::move(part), {std::move(name), item.digest, record.index}});
  }
  return crossings;
}

ReplicaItems crossings_of(const core::DumpSource& dump,
                          std::uint64_t first,
                          const std::string& part) {
  ReplicaItems items;
  CrossingReader reader;
  std::uint64_t ignored = 0;
  const std::uint32_t step = dump.op_head(first).step;
  for (std::uint64_t i = first; i < dump.op_count(); ++i) {
    const core::OpRecord head = dump.op_head(i);
    if (head.step > step) break;
    if (head.step == step && head.op->name == core::kPlacedRecord) {
      for (Crossing& crossing : reader.read(dump.op(i), ignored)) {
        if (crossing.part == part) items.push_back(std::move(crossing.item));
      }
    }
  }
  return items;
}

}  // namespace repro_check::comparators
