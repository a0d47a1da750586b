// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/regions.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "core/trace/program_records.h"
#include "core/trace/record_names.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {
namespace {

class RegionReader {
 public:
  explicit RegionReader(RegionSide& side) : side_(side), dump_(*side.dump) {}

  void read() {
    core::OpRecord record;
    for (std::uint64_t i = 0; i < dump_.op_count(); ++i) {
      dump_.read_op(i, record);
      take(record);
    }
  }

 private:
  void take(const core::OpRecord& record) {
    const std::string_view name = record.op->name;
    if (name == core::kRegionInputsRecord) {
      begin(record);
    } else if (name == core::kRegionNodeRecord) {
      take_node(record);
    } else if (name == core::kRegionRecord) {
      end(record);
    } else if (name == core::kRegionGradientRecord) {
      take_tensors(
          RegionRole::kGradient, record, text(record, core::kRegionOf), core::kGradientValues);
    } else if (!core::is_named_values(record)) {
      side_.steps.insert(record.step);
      if (open_.empty()) return;
      if (record.generator) drew_.insert(open_);
      if (is_custom(name)) called_.insert(record.op->name);
    }
  }

  void begin(const core::OpRecord& record) {
    open_ = text(record, core::kRegionGraph);
    Region& region = side_.regions[open_];
    ++region.calls;
    region.line = text(record, core::kRegionLine);
    region.function = text(record, core::kRegionFunction);
    take_tensors(RegionRole::kInput, record, "", "");
  }

  void take_node(const core::OpRecord& record) {
    const std::string graph = text(record, core::kRegionGraph);
    const std::string node = text(record, core::kRegionNode);
    Region& region = side_.regions[graph];
    region.nodes.try_emplace(node,
                             RegionPlace{text(record, core::kRegionLine),
                                         text(record, core::kRegionModule),
                                         text(record, core::kRegionOperator)});
    if (drew_.erase(graph) > 0 && region.draws.empty()) region.draws = node;
    for (const std::string& name : std::exchange(called_, {}))
      region.custom.try_emplace(name, node);
    // `split[0]`, of what gives several.
    take_tensors(RegionRole::kNode, record, node, core::kNodeValues);
  }

  void end(const core::OpRecord& record) {
    Region& region = side_.regions[text(record, core::kRegionGraph)];
    for (const core::Argument& argument : record.arguments) {
      if (argument.name.starts_with(core::kRegionMaker)) {
        region.makers[argument.name.substr(core::kRegionMaker.size())] =
            core::argument_or<std::string>(record, argument.name, "");
      }
    }
    take_tensors(RegionRole::kOutput, record, "", "");
    open_.clear();
  }

  static bool is_custom(std::string_view name) {
    constexpr std::array kOwn{"aten::", "prim::", "prims::", "profiler::", "c10d::", "quantized::"};
    return std::ranges::none_of(kOwn, [&](const char* own) { return name.starts_with(own); });
  }

  static std::string text(const core::OpRecord& record, std::string_view name) {
    return core::argument_or<std::string>(record, name, "");
  }

  /// @param name   instead of `of` in the name of its slot
  void take_tensors(RegionRole role,
                    const core::OpRecord& record,
                    const std::string& name,
                    std::string_view of) {
    const std::string graph = text(record, core::kRegionGraph);
    for (std::size_t i = 0; i < record.tensors.size(); ++i) {
      const core::TensorRecord& tensor = record.tensors[i];
      if (!core::is_output(tensor)) continue;
      RegionTensor made;
      made.role = role;
      made.region = graph;
      made.name = name + tensor.slot.substr(of.size());
      made.time = times_[{role, graph, made.name}]++;
      made.step = record.step;
      made.op = record.index;
      made.tensor = static_cast<std::uint32_t>(i);
      if (tensor.state == core::ContentState::kHashed) made.content = tensor.content_key();
      made.stored = tensor.stored && tensor.state == core::ContentState::kHashed &&
                    dump_.has_content(made.content);
      side_.tensors.push_back(std::move(made));
    }
  }

  RegionSide& side_;
  const core::DumpSource& dump_;
  std::string open_;              ///< the region that runs; empty = none
  std::set<std::string> drew_;    ///< regions whose operator that runs has drawn
  std::set<std::string> called_;  ///< what that operator has called
  std::map<std::tuple<RegionRole, std::string, std::string>, std::uint64_t> times_;
};

}  // namespace

RegionSide read_regions(std::unique_ptr<core::DumpSource> dump) {
  if (const core::TraceSummary& trace = dump->manifest().trace; trace.level != "tensor") {
    throw core::not_comparable(dump->location() + ": does not hold values: level " + trace.level,
                               "record with --level tensor");
  }
  RegionSide side;
  side.dump = std::move(dump);
  RegionReader(side).read();
  return side;
}

}  // namespace repro_check::comparators
