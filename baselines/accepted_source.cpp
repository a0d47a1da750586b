// SPDX-License-Identifier: Apache-2.0
#include "baselines/accepted_source.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <utility>

#include "baselines/summary.h"
#include "core/error.h"

namespace repro_check::baselines {
namespace {

std::shared_ptr<const core::OperatorInfo> operator_of(const std::string& full_name) {
  auto info = std::make_shared<core::OperatorInfo>();
  const std::size_t space = full_name.rfind("::");
  const std::size_t dot = full_name.find('.', space == std::string::npos ? 0 : space + 2);
  info->name = full_name.substr(0, dot);
  if (dot != std::string::npos) info->overload = full_name.substr(dot + 1);
  return info;
}

core::TensorRecord tensor_of(const AcceptedOutput& output) {
  core::TensorRecord tensor;
  tensor.role = core::TensorRole::kOutput;
  tensor.slot = output.slot;
  tensor.dtype = output.dtype;
  tensor.shape = output.shape;
  tensor.state = output.state;
  tensor.digest = output.digest;
  return tensor;
}

std::string prefix_of(core::NamedTensorKind kind) {
  return kind == core::NamedTensorKind::kInput ? "input:" : "state:";
}

bool is_output(const core::TensorRecord& tensor) {
  return tensor.role == core::TensorRole::kOutput;
}

/// Keeps what the comparison looks at beside the content, where the content still fits it.
core::TensorRecord merged(const core::TensorRecord& candidate, const AcceptedOutput& output) {
  core::TensorRecord tensor = tensor_of(output);
  tensor.device = candidate.device;
  tensor.layout = candidate.layout;
  tensor.attributes = candidate.attributes;
  tensor.requires_grad = candidate.requires_grad;
  tensor.storage = candidate.storage;
  tensor.producer = candidate.producer;
  tensor.name = candidate.name;
  if (tensor.shape == candidate.shape) {
    tensor.strides = candidate.strides;
    tensor.storage_offset = candidate.storage_offset;
  }
  return tensor;
}

}  // namespace

AcceptedSource::AcceptedSource(Baseline baseline,
                               std::string location,
                               const core::DumpSource& candidate,
                               core::LargeVector<std::uint32_t> candidate_of)
    : baseline_(std::move(baseline)),
      location_(std::move(location)),
      candidate_(candidate),
      candidate_of_(std::move(candidate_of)),
      baseline_of_(candidate.op_count(), kNoPartner),
      manifest_(candidate.manifest()),
      differs_(candidate.op_count(), true) {
  for (std::size_t i = 0; i < candidate_of_.size(); ++i) {
    if (candidate_of_[i] != kNoPartner) {
      baseline_of_[candidate_of_[i]] = static_cast<std::uint32_t>(i);
    }
  }
  manifest_.run_name = "accepted";
  manifest_.trace.operators = baseline_.ops.size();
  manifest_.trace.returned = static_cast<std::uint64_t>(std::ranges::count_if(
      baseline_.ops, [](const AcceptedOp& op) { return op.name == core::kReturnedOperator; }));
  manifest_.trace.index_digest = baseline_.root;
  // Nothing is stored here, and nothing was left out: contents are simply not asked for.
  manifest_.trace.level = "digest";
  manifest_.trace.keep_ops.clear();
  manifest_.trace.reference.reset();
  take_named_tensors();
  for (const core::NamedTensor& tensor : manifest_.named_tensors) {
    named_.emplace(prefix_of(tensor.kind) + tensor.name, tensor.digest);
  }
  index_candidate();
}

/// Of a kind that is folded nothing is known by name: those of the candidate stand for it.
void AcceptedSource::take_named_tensors() {
  const auto is_folded = [&](const core::NamedTensor& tensor) {
    return std::ranges::find(baseline_.folded, tensor.kind, &AcceptedTensors::kind) !=
           baseline_.folded.end();
  };
  std::vector<core::NamedTensor> tensors = baseline_.tensors;
  for (const core::NamedTensor& now : manifest_.named_tensors) {
    if (is_folded(now)) tensors.push_back(now);
  }
  std::ranges::stable_sort(tensors, {}, &core::NamedTensor::kind);
  manifest_.named_tensors = std::move(tensors);
}

void AcceptedSource::index_candidate() {
  for (std::uint64_t i = 0; i < candidate_.op_count(); ++i) {
    const AcceptedOp now = summarise(candidate_.op(i));
    for (std::size_t k = 0; k < now.outputs.size(); ++k) {
      if (now.outputs[k].state != core::ContentState::kHashed) continue;
      makers_[now.outputs[k].digest].push_back({i, k});
    }
    if (baseline_of_[i] == kNoPartner) continue;
    const AcceptedOp& accepted = baseline_.ops[baseline_of_[i]];
    differs_[i] = accepted.outputs != now.outputs || accepted.scalars != now.scalars;
  }
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
      const auto& outputs = baseline_.ops[op].outputs;
      return maker.output < outputs.size() ? outputs[maker.output].digest : core::Digest{};
    }
  }
  const bool is_made = input.producer >= 0 && std::cmp_less(input.producer, differs_.size());
  if (is_made && differs_[static_cast<std::size_t>(input.producer)]) return core::Digest{};
  return input.digest;
}

void AcceptedSource::put_outputs(const AcceptedOp& op, core::OpRecord& record) const {
  std::vector<core::TensorRecord> before;
  for (const core::TensorRecord& tensor : record.tensors) {
    if (is_output(tensor)) before.push_back(tensor);
  }
  std::erase_if(record.tensors, is_output);
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    record.tensors.push_back(i < before.size() ? merged(before[i], op.outputs[i])
                                               : tensor_of(op.outputs[i]));
  }
  if (op.outputs.size() != before.size()) record.results.clear();
}

core::OpRecord AcceptedSource::head_of(std::uint64_t index) const {
  const AcceptedOp& op = baseline_.ops.at(index);
  core::OpRecord record;
  record.op = operator_of(op.name);
  auto site = std::make_shared<core::CallSite>();
  site->module_path = op.module;
  record.site = std::move(site);
  record.phase = op.phase;
  record.step = op.step;
  record.rank = op.rank;
  record.lane = op.lane;
  record.depth = op.depth;
  record.index = index;
  return record;
}

core::OpRecord AcceptedSource::op_head(std::uint64_t index) const {
  const std::uint32_t partner = candidate_of_.at(index);
  if (partner == kNoPartner) return head_of(index);
  core::OpRecord record = candidate_.op_head(partner);
  record.index = index;
  const std::uint32_t parent =
      record.parent < 0 ? kNoPartner : baseline_of_.at(static_cast<std::size_t>(record.parent));
  record.parent = parent == kNoPartner ? -1 : static_cast<std::int64_t>(parent);
  return record;
}

core::OpRecord AcceptedSource::op(std::uint64_t index) const {
  const AcceptedOp& accepted = baseline_.ops.at(index);
  const std::uint32_t partner = candidate_of_.at(index);
  if (partner == kNoPartner) {
    core::OpRecord record = head_of(index);
    for (const AcceptedOutput& output : accepted.outputs) {
      record.tensors.push_back(tensor_of(output));
    }
    return record;
  }
  const core::OpRecord untouched = candidate_.op(partner);
  core::OpRecord record = untouched;
  const core::OpRecord head = op_head(index);
  const bool same_scalars = summarise(record).scalars == accepted.scalars;
  record.index = index;
  record.parent = head.parent;
  for (core::TensorRecord& tensor : record.tensors) {
    tensor.stored = false;
    if (tensor.producer >= 0) {
      const std::uint32_t maker = baseline_of_.at(static_cast<std::size_t>(tensor.producer));
      tensor.producer = maker == kNoPartner ? core::kNoProducer : std::int64_t{maker};
    }
    if (is_output(tensor) || tensor.state != core::ContentState::kHashed) continue;
    // By the candidate's own numbers, which `tensor` has lost.
    const auto position = static_cast<std::size_t>(&tensor - record.tensors.data());
    tensor.digest = accepted_digest(untouched.tensors[position], partner);
  }
  put_outputs(accepted, record);
  // What it was exactly is not known any more, only how it read.
  if (!same_scalars) record.results = {core::Value{core::Symbol{accepted.scalars}}};
  return record;
}

void AcceptedSource::read_content(const core::ContentKey& key, std::vector<std::byte>&) const {
  throw core::Error(core::ErrorKind::kNotComparable,
                    location_ + ": a baseline holds no values: " + core::content_name(key));
}

}  // namespace repro_check::baselines
