// SPDX-License-Identifier: Apache-2.0
#include "baselines/accepted_source.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "core/error.h"
#include "core/trace/op_record.h"

namespace repro_check::baselines {
namespace {

std::string prefix_of(core::NamedTensorKind kind) {
  return kind == core::NamedTensorKind::kInput ? "input:" : "state:";
}

std::vector<core::TensorRecord> outputs_of(const core::OpRecord& record) {
  std::vector<core::TensorRecord> outputs;
  std::ranges::copy_if(record.tensors, std::back_inserter(outputs), core::is_output);
  return outputs;
}

/// Keeps what the comparison looks at beside the content, where the content still fits it.
core::TensorRecord merged(core::TensorRecord candidate, const core::TensorRecord& accepted) {
  if (accepted.shape != candidate.shape) {
    candidate.shape = accepted.shape;
    candidate.strides.clear();
    candidate.storage_offset = 0;
  }
  candidate.slot = accepted.slot;
  candidate.dtype = accepted.dtype;
  candidate.state = accepted.state;
  candidate.digest = accepted.digest;
  candidate.watch = core::InputWatch::kNotWatched;
  candidate.stats.reset();
  candidate.counted.reset();
  return candidate;
}

}  // namespace

AcceptedSource::AcceptedSource(const Baseline& baseline,
                               std::string location,
                               const core::DumpSource& candidate)
    : location_(std::move(location)),
      candidate_(candidate),
      blocks_(baseline.blocks.value_or(AcceptedBlocks{})),
      candidate_of_(baseline.ops.size(), kNoPartner),
      baseline_of_(candidate.op_count(), kNoPartner),
      manifest_(candidate.manifest()) {
  take_lines(baseline);
  manifest_.run_name = "accepted";
  manifest_.trace.operators = ops_.size();
  manifest_.trace.returned = static_cast<std::uint64_t>(std::ranges::count_if(
      ops_, [](const AcceptedOp& op) { return core::is_returned(op.record); }));
  manifest_.trace.index_digest = baseline.root;
  if (manifest_.trace.blocks) {
    manifest_.trace.blocks->rows = blocks_.calls.size();
    manifest_.trace.blocks->parameters = blocks_.parameters.size();
  }
  // Nothing is stored here, and nothing was left out: contents are simply not asked for.
  manifest_.trace.level = "digest";
  manifest_.trace.keep_ops.clear();
  manifest_.trace.reference.reset();
  // Nor of how a program ended: a run that failed is never accepted.
  if (manifest_.end) manifest_.end.emplace();
  manifest_.notes.clear();
  manifest_.processes.clear();
  take_named_tensors(baseline);
  index_candidate();
}

/// A call at some depth stands in the last one before it in its lane that is less deep.
void AcceptedSource::take_lines(const Baseline& baseline) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::uint64_t>> open;
  for (const std::string& line : baseline.ops) {
    core::OpRecord& record = ops_.emplace_back(op_of(line)).record;
    record.index = ops_.size() - 1;
    auto& around = open[{record.rank, record.lane}];
    around.resize(std::min(around.size(), std::size_t{record.depth}));
    if (!around.empty()) record.parent = static_cast<std::int64_t>(around.back());
    around.push_back(record.index);
  }
}

/// Of a kind that is folded nothing is known by name: those of the candidate stand for it.
void AcceptedSource::take_named_tensors(const Baseline& baseline) {
  std::vector<core::NamedTensor> tensors = baseline.tensors;
  for (const core::NamedTensor& now : manifest_.named_tensors) {
    const bool is_folded = std::ranges::find(baseline.folded, now.kind, &AcceptedTensors::kind) !=
                           baseline.folded.end();
    if (is_folded) tensors.push_back(now);
  }
  std::ranges::stable_sort(tensors, {}, &core::NamedTensor::kind);
  manifest_.named_tensors = std::move(tensors);
  for (const core::NamedTensor& tensor : manifest_.named_tensors) {
    named_.emplace(prefix_of(tensor.kind) + tensor.name, tensor.digest);
  }
}

void AcceptedSource::index_candidate() {
  // Where there is no order, only what it gave tells a call from its like.
  std::multimap<std::string, std::uint32_t> unordered;
  for (std::uint64_t i = 0; i < candidate_.op_count(); ++i) {
    const core::OpRecord record = candidate_.op(i);
    if (core::is_unordered(record.lane)) {
      unordered.emplace(to_line(record), static_cast<std::uint32_t>(i));
    }
    const auto outputs = outputs_of(record);
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      if (outputs[k].state != core::ContentState::kHashed) continue;
      makers_[outputs[k].digest].push_back({i, k});
    }
  }
  for (std::size_t i = 0; i < ops_.size() && !unordered.empty(); ++i) {
    const auto like = unordered.find(to_line(ops_[i].record, ops_[i].scalars));
    if (like == unordered.end()) continue;
    candidate_of_[i] = like->second;
    unordered.erase(like);
  }
}

void AcceptedSource::take_partners(std::span<const std::uint32_t> candidate_of) {
  is_paired_ = true;
  candidate_of_.assign(candidate_of.begin(), candidate_of.end());
  for (std::size_t i = 0; i < candidate_of_.size(); ++i) {
    if (candidate_of_[i] != kNoPartner) {
      baseline_of_[candidate_of_[i]] = static_cast<std::uint32_t>(i);
    }
  }
}

/// Whether an operator of the candidate gave something else than what was accepted of it.
bool AcceptedSource::differs(std::int64_t candidate_op) const {
  const auto index = static_cast<std::uint64_t>(candidate_op);
  if (index >= baseline_of_.size() || baseline_of_[index] == kNoPartner) return true;
  const AcceptedOp& accepted = ops_[baseline_of_[index]];
  const core::OpRecord now = candidate_.op(index);
  core::OpRecord expected = accepted.record;
  // What it gave, under one name.
  expected.op = now.op;
  expected.site = now.site;
  return to_line(expected, accepted.scalars) != to_line(now);
}

core::Digest AcceptedSource::accepted_digest(const core::TensorRecord& input,
                                             std::uint64_t reader) const {
  if (const auto named = named_.find(input.name); named != named_.end()) {
    // A view of a parameter has its name and other bytes.
    for (const core::NamedTensor& now : candidate_.manifest().named_tensors) {
      if (prefix_of(now.kind) + now.name != input.name) continue;
      if (now.digest == named->second) return input.digest;
      return now.digest == input.digest ? named->second : core::Digest{};
    }
  }
  if (const auto makers = makers_.find(input.digest); makers != makers_.end()) {
    const auto& list = makers->second;
    const auto later = std::ranges::lower_bound(list, reader, {}, &Maker::candidate_op);
    if (later != list.begin()) {
      const Maker& maker = *std::prev(later);
      const std::uint32_t op = baseline_of_[maker.candidate_op];
      if (op == kNoPartner) return core::Digest{};
      const auto& outputs = ops_[op].record.tensors;
      return maker.output < outputs.size() ? outputs[maker.output].digest : core::Digest{};
    }
  }
  return input.producer >= 0 && differs(input.producer) ? core::Digest{} : input.digest;
}

/// A record of the candidate, where and as the baseline knows it.
core::OpRecord AcceptedSource::placed(core::OpRecord record, std::uint64_t index) const {
  const core::OpRecord& own = ops_[index].record;
  if (!record.site || record.site->module_path != own.site->module_path) record.site = own.site;
  if (!record.op || record.op->full_name() != own.op->full_name()) record.op = own.op;
  record.index = index;
  record.parent = own.parent;
  return record;
}

core::OpRecord AcceptedSource::op_head(std::uint64_t index) const {
  const std::uint32_t partner = candidate_of_.at(index);
  if (partner != kNoPartner) return placed(candidate_.op_head(partner), index);
  core::OpRecord head = ops_[index].record;
  head.tensors.clear();
  return head;
}

core::OpRecord AcceptedSource::op(std::uint64_t index) const {
  const AcceptedOp& accepted = ops_.at(index);
  const std::uint32_t partner = candidate_of_[index];
  if (partner == kNoPartner) return accepted.record;
  const core::OpRecord now = candidate_.op(partner);
  core::OpRecord record = placed(now, index);
  if (!is_paired_) return record;  // one that gave the same
  record.tensors.clear();
  const auto add = [&](core::TensorRecord tensor) {
    tensor.stored = false;
    if (tensor.producer >= 0) {
      const std::uint32_t maker = baseline_of_.at(static_cast<std::size_t>(tensor.producer));
      tensor.producer = maker == kNoPartner ? core::kNoProducer : std::int64_t{maker};
    }
    record.tensors.push_back(std::move(tensor));
  };
  for (const core::TensorRecord& input : now.tensors) {
    if (core::is_output(input)) continue;
    core::TensorRecord known = input;
    if (input.state == core::ContentState::kHashed) {
      known.digest = accepted_digest(input, partner);
    }
    add(std::move(known));
  }
  const std::vector<core::TensorRecord> outputs = outputs_of(now);
  const std::vector<core::TensorRecord>& known = accepted.record.tensors;
  for (std::size_t i = 0; i < known.size(); ++i) {
    add(i < outputs.size() ? merged(outputs[i], known[i]) : known[i]);
  }
  if (known.size() != outputs.size()) record.results.clear();
  // What it was exactly is not known any more, only how it read.
  if (scalars_of(now) != accepted.scalars) {
    record.results = {core::Value{core::Symbol{accepted.scalars}}};
  }
  return record;
}

void AcceptedSource::read_content(const core::ContentKey& key, std::vector<std::byte>&) const {
  throw core::not_comparable(location_ +
                             ": a baseline holds no values: " + core::content_name(key));
}

}  // namespace repro_check::baselines
