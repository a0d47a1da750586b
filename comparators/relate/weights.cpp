// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/weights.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/trace/dataflow.h"
#include "core/trace/program_records.h"
#include "core/trace/record_names.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {
namespace {

/// The weights of one dump.
class Reader {
 public:
  Reader(const core::DumpSource& dump, std::size_t place, std::string prefix, WeightSide& side)
      : dump_(dump), place_(place), prefix_(std::move(prefix)), side_(side) {}

  void read(std::uint64_t end) {
    core::OpRecord record;
    for (std::uint64_t i = 0; i < std::min(end, dump_.op_count()); ++i) {
      dump_.read_op(i, record);
      const bool is_step = record.op->name == core::kStepRecord;
      const bool is_imported = record.op->name == core::kTensorRecord;
      for (const core::TensorRecord& tensor : record.tensors) {
        if (is_step && core::is_output(tensor) && tensor.slot.starts_with(core::kParameterPrefix)) {
          see(tensor.slot.substr(core::kParameterPrefix.size()), record.step + 1, tensor);
        } else if (is_imported && core::is_output(tensor)) {
          see(record.site->module_path, record.step, tensor);
        } else if (const core::TensorSource source = core::named_source(tensor.name);
                   core::is_input(tensor) && source.kind == core::SourceKind::kState) {
          see(std::string(source.name), record.step, tensor);
        }
      }
    }
    for (const std::string& name : unread_) {
      if (!places_.contains(name)) ++side_.unread;
    }
  }

 private:
  void see(const std::string& name, std::uint32_t steps, const core::TensorRecord& tensor) {
    if (tensor.state != core::ContentState::kHashed || tensor.watch == core::InputWatch::kMoved) {
      unread_.insert(name);
      return;
    }
    const auto [place, is_new] = places_.emplace(name, side_.weights.size());
    if (is_new) {
      side_.weights.push_back({prefix_ + name, place_, {}});
      forms_.push_back(tensor);
    }
    // A view of it has its name too, as the transpose that a backward pass reads; what reads it
    // first reads all of it.
    if (!core::is_same_view(forms_[place->second - first_], tensor)) return;
    side_.steps = std::max(side_.steps, steps);
    std::vector<WeightVersion>& versions = side_.weights[place->second].versions;
    core::ContentKey content = tensor.content_key();
    if (!versions.empty() && versions.back().content == content) {
      versions.back().until = std::max(versions.back().until, steps);
      return;
    }
    const bool stored = tensor.stored && dump_.has_content(content);
    versions.push_back({steps, steps, std::move(content), stored});
  }

  const core::DumpSource& dump_;
  std::size_t place_;
  std::string prefix_;
  WeightSide& side_;
  std::size_t first_ = side_.weights.size();
  std::map<std::string, std::size_t> places_;
  std::vector<core::TensorRecord> forms_;  ///< as each was seen first
  std::set<std::string> unread_;
};

}  // namespace

WeightSide read_weights(std::vector<std::unique_ptr<core::DumpSource>> dumps,
                        const std::vector<std::string>& prefix,
                        std::uint64_t end) {
  WeightSide side;
  side.dumps = std::move(dumps);
  for (std::size_t i = 0; i < side.dumps.size(); ++i) {
    const core::DumpSource& dump = *side.dumps[i];
    if (dump.manifest().is_of_blocks()) {
      throw core::not_comparable(
          dump.location() +
              ": is a recording of blocks, which has digests of weights and no values",
          "record the program again with --depth top --level tensor");
    }
    Reader(dump, i, prefix[i], side).read(end);
  }
  return side;
}

}  // namespace repro_check::comparators
