// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/training.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "comparators/data/data_order.h"
#include "comparators/ranks/ranks.h"
#include "core/error.h"
#include "core/trace/dataflow.h"
#include "core/trace/program_records.h"
#include "core/trace/record_names.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {
namespace {

/// `head.weight` and `exp_avg` of `head.weight.exp_avg`, the part of the tensor behind both.
/// @param names  of the weights of the record
std::optional<std::pair<std::string, std::string>> state_of(
    std::string_view text, const std::set<std::string, std::less<>>& names) {
  const core::PlacedName placed = core::placed_name(text);
  const std::string behind(text.substr(placed.whole.size()));
  for (std::size_t dot = placed.whole.rfind('.'); dot != std::string_view::npos && dot > 0;
       dot = placed.whole.rfind('.', dot - 1)) {
    const std::string_view whole = placed.whole.substr(0, dot);
    const std::string state(placed.whole.substr(dot + 1));
    // A number of steps has no parts.
    for (const std::string& name : {std::string(whole) + behind, std::string(whole)}) {
      if (names.contains(name)) return std::pair(name, state);
    }
    const auto part = names.lower_bound(std::string(whole) + core::kShardMark);
    if (part != names.end() && core::placed_name(*part).whole == whole)
      return std::pair(*part, state);
  }
  return std::nullopt;
}

/// The training of one process.
class TrainingReader {
 public:
  TrainingReader(std::size_t place, Training& training)
      : training_(training), dump_(*training.weights.dumps[place]), place_(place) {}

  void read() {
    TrainedProcess process;
    process.dump = place_;
    process.rank =
        static_cast<std::uint32_t>(number_fact(dump_.manifest(), core::kRank).value_or(place_));
    core::OpRecord record;
    for (std::uint64_t i = 0; i < dump_.op_count(); ++i) {
      dump_.read_op(i, record);
      if (!stepped_) see_weights(record);
      take(record);
    }
    for (auto& [number, step] : steps_) {
      if (step.records.empty()) continue;
      std::ranges::stable_sort(step.tensors, {}, &Trained::kind);
      for (Trained& tensor : step.tensors) tensor.step = process.steps.size();
      process.steps.push_back(std::move(step));
    }
    if (process.steps.empty()) {
      throw core::not_comparable(dump_.location() + ": has no step of an optimizer",
                                 "record the training from its beginning");
    }
    training_.processes.push_back(std::move(process));
  }

 private:
  /// What parameters are before the first step: as a rank tells of its replica, or as an operator
  /// reads them.
  void see_weights(const core::OpRecord& record) {
    const bool is_replica = record.op->name == core::kReplicaRecord;
    for (const core::TensorRecord& tensor : record.tensors) {
      if (!core::is_input(tensor)) continue;
      if (is_replica && tensor.slot.starts_with(core::kParameterPrefix)) {
        const std::string name = tensor.slot.substr(core::kParameterPrefix.size());
        if (told_.insert(name).second) begun_[name] = tensor;
      } else if (const core::TensorSource source = core::named_source(tensor.name);
                 source.kind == core::SourceKind::kState) {
        begun_.try_emplace(std::string(source.name), tensor);
      }
    }
  }

  void take(const core::OpRecord& record) {
    const std::string_view name = record.op->name;
    TrainedStep& step = steps_[record.step];
    if (name == core::kBatchRecord) {
      take_batch(record, step);
    } else if (name == core::kLossRecord) {
      take_number(TrainedKind::kLoss, record, step);
    } else if (name == core::kClipRecord) {
      take_number(TrainedKind::kNorm, record, step);
    } else if (name == core::kStepRecord) {
      take_step(record, step);
      stepped_ = true;
    }
  }

  void take_batch(const core::OpRecord& record, TrainedStep& step) {
    const std::vector<core::Digest> samples =
        digests_in(core::list_argument<std::int64_t>(record, core::kSampleDigests));
    if (batches_[record.step]++ == 0) step.knows_samples = true;
    if (samples.empty()) step.knows_samples = false;
    step.samples.insert(step.samples.end(), samples.begin(), samples.end());
    samples_ += samples.size();
  }

  void take_number(TrainedKind kind, const core::OpRecord& record, TrainedStep& step) {
    for (std::size_t i = 0; i < record.tensors.size(); ++i) {
      const core::TensorRecord& tensor = record.tensors[i];
      if (!core::is_output(tensor) || core::element_count(tensor.shape) != 1) continue;
      Trained number = trained(kind, record, i);
      if (kind == TrainedKind::kLoss) number.samples = std::exchange(samples_, 0);
      step.tensors.push_back(std::move(number));
      return;
    }
  }

  void take_step(const core::OpRecord& record, TrainedStep& step) {
    step.records.push_back(record.index);
    std::set<std::string, std::less<>> names;
    for (const core::TensorRecord& tensor : record.tensors) {
      if (core::is_output(tensor) && tensor.slot.starts_with(core::kParameterPrefix)) {
        names.insert(tensor.slot.substr(core::kParameterPrefix.size()));
      }
    }
    for (std::size_t i = 0; i < record.tensors.size(); ++i) {
      if (!core::is_output(record.tensors[i])) continue;
      const std::string_view slot = record.tensors[i].slot;
      const auto add = [&](TrainedKind kind, const std::string& name, std::string state) {
        const auto weight = weight_of(name);
        if (!weight) return;
        Trained tensor = trained(kind, record, i);
        tensor.weight = *weight;
        tensor.state = std::move(state);
        step.tensors.push_back(std::move(tensor));
      };
      if (slot.starts_with(core::kGradientPrefix)) {
        add(TrainedKind::kGradient, std::string(slot.substr(core::kGradientPrefix.size())), "");
      } else if (slot.starts_with(core::kParameterPrefix)) {
        add(TrainedKind::kParameter, std::string(slot.substr(core::kParameterPrefix.size())), "");
      } else if (slot.starts_with(core::kStatePrefix)) {
        const auto state = state_of(slot.substr(core::kStatePrefix.size()), names);
        if (state) add(TrainedKind::kState, state->first, state->second);
      }
    }
  }

  [[nodiscard]] Trained trained(TrainedKind kind,
                                const core::OpRecord& record,
                                std::size_t place) const {
    const core::TensorRecord& tensor = record.tensors[place];
    Trained made;
    made.kind = kind;
    made.op = record.index;
    made.tensor = static_cast<std::uint32_t>(place);
    if (tensor.state == core::ContentState::kHashed) made.content = tensor.content_key();
    made.stored = tensor.stored && tensor.state == core::ContentState::kHashed &&
                  dump_.has_content(made.content);
    return made;
  }

  /// Empty where nobody knows what it was before the first step.
  std::optional<std::size_t> weight_of(const std::string& name) {
    const auto [known, is_new] = weights_.emplace(name, std::nullopt);
    if (!is_new) return known->second;
    auto begun = begun_.find(name);
    if (begun == begun_.end()) begun = begun_.find(std::string(core::placed_name(name).whole));
    if (begun == begun_.end() || begun->second.state != core::ContentState::kHashed) {
      ++training_.unknown;
      return std::nullopt;
    }
    const core::TensorRecord& tensor = begun->second;
    core::ContentKey content = tensor.content_key();
    const bool stored = tensor.stored && dump_.has_content(content);
    known->second = training_.weights.weights.size();
    training_.weights.weights.push_back({name, place_, {{0, 0, std::move(content), stored}}});
    return known->second;
  }

  Training& training_;
  const core::DumpSource& dump_;
  std::size_t place_;
  bool stepped_ = false;
  std::uint64_t samples_ = 0;  ///< of batches since the last loss
  std::map<std::uint32_t, TrainedStep> steps_;
  std::map<std::uint32_t, std::uint64_t> batches_;
  std::set<std::string> told_;
  std::map<std::string, core::TensorRecord> begun_;
  std::map<std::string, std::optional<std::size_t>> weights_;
};

}  // namespace

Training read_training(std::vector<std::unique_ptr<core::DumpSource>> dumps) {
  Training training;
  training.weights.dumps = std::move(dumps);
  for (std::size_t i = 0; i < training.weights.dumps.size(); ++i) {
    const core::DumpSource& dump = *training.weights.dumps[i];
    const core::TraceSummary& trace = dump.manifest().trace;
    if (const std::uint32_t ranks = number_fact(dump.manifest(), core::kRanks).value_or(1);
        ranks != training.weights.dumps.size()) {
      throw core::not_comparable(fmt::format("{}: is one of {} ranks, of which {} are here",
                                             dump.location(),
                                             ranks,
                                             training.weights.dumps.size()),
                                 "give the directory with the recordings of all ranks");
    }
    if (trace.level != "tensor" || dump.manifest().is_of_blocks()) {
      throw core::not_comparable(dump.location() +
                                     ": does not hold the values of a training: level " +
                                     trace.level + ", depth " + trace.depth,
                                 "record with --level tensor");
    }
    TrainingReader(i, training).read();
  }
  return training;
}

std::string name_of(const Trained& tensor, const Training& training) {
  return std::string(core::placed_name(training.weights.weights[tensor.weight].name).whole);
}

}  // namespace repro_check::comparators
