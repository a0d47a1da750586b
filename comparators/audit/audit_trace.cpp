// SPDX-License-Identifier: Apache-2.0
#include "comparators/audit/audit_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>
#include <variant>

#include "core/error.h"
#include "core/trace/program_records.h"
#include "core/trace/record_names.h"

namespace repro_check::comparators {
namespace {

core::Digest scalars_of(const core::OpRecord& record) {
  std::string text;
  for (const core::Argument& argument : record.arguments) {
    if (std::holds_alternative<core::TensorSlot>(argument.value.data)) continue;
    text += argument.name + "=" + core::to_text(argument.value) + ";";
  }
  return core::digest_bytes(text);
}

/// Of a generator, and where it stands.
core::Digest place_of(const core::GeneratorUse& use) {
  return core::digest_bytes(fmt::format("{}|{}|{}", use.device, use.seed, use.position_before));
}

TrainFlag train_flag(const core::OpRecord& record) {
  for (const core::Argument& argument : record.arguments) {
    if (argument.name == "train" || argument.name == "training") {
      const auto* flag = std::get_if<bool>(&argument.value.data);
      if (flag != nullptr) return *flag ? TrainFlag::kOn : TrainFlag::kOff;
    }
    if (argument.name == "dropout_p") {
      const auto* share = std::get_if<double>(&argument.value.data);
      if (share != nullptr) return *share > 0 ? TrainFlag::kOn : TrainFlag::kOff;
    }
  }
  return TrainFlag::kUntold;
}

/// `fill_`, `add_` and `sub_` with a number, which a tensor that is a sum over ranks has once a
/// rank.
bool adds_number(const core::OpRecord& record) {
  constexpr std::array<std::string_view, 3> kAdding{"aten::fill_", "aten::add_", "aten::sub_"};
  if (std::ranges::find(kAdding, record.op->name) == kAdding.end()) return false;
  return std::ranges::any_of(record.arguments, [](const core::Argument& argument) {
    if (argument.name != "value" && argument.name != "other") return false;
    const auto* real = std::get_if<double>(&argument.value.data);
    const auto* integer = std::get_if<std::int64_t>(&argument.value.data);
    return (real != nullptr && *real != 0) || (integer != nullptr && *integer != 0);
  });
}

bool sums_ranks(const core::OpRecord& record) {
  if (!record.op->name.starts_with("_c10d_functional::")) return false;
  const auto* kind = core::argument_as<std::string>(record, "reduce_op");
  return kind != nullptr && *kind == "sum";
}

bool has_rate(const core::OpRecord& record) {
  bool tells = false;
  for (const core::Argument& argument : record.arguments) {
    const auto* rate = std::get_if<double>(&argument.value.data);
    if (rate == nullptr || !argument.name.starts_with(core::kLearningRatePrefix)) continue;
    if (*rate != 0) return true;
    tells = true;
  }
  return !tells;
}

}  // namespace

AuditTrace::AuditTrace(const core::DumpSource& dump, const std::function<bool()>& is_late)
    : dump_(dump) {
  const std::string* mode = core::environment_fact(dump.manifest(), core::kModelMode);
  is_in_eval_ = !dump.manifest().is_of_program() && mode != nullptr && *mode == "eval";
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max());
  if (dump.op_count() > kMost) {
    throw core::not_comparable(
        fmt::format("{}: an audit takes no more than {} operators", dump.location(), kMost),
        "record fewer steps, with --steps");
  }
  calls_.reserve(dump.op_count());
  tensors_.reserve(dump.manifest().trace.tensors);
  UnwrittenReader unwritten(dump);
  StillParameterReader still;
  DataOrderReader data;
  core::OpRecord record;
  for (std::uint64_t op = 0; op < dump.op_count(); ++op) {
    constexpr std::uint64_t kBetween = 1024;
    if (op % kBetween == 0 && is_late && is_late()) return;
    dump.read_op(op, record);
    unwritten.see(record);
    if (record.op->name == core::kStepRecord) still.see_step(record);
    data.see(record);
    add(record);
  }
  unwritten_ = unwritten.reads();
  still_ = still.finish(dump.manifest());
  data_ = data.finish();
  is_whole_ = true;
}

TextId AuditTrace::number(std::string_view text) {
  const auto found = ids_.find(text);
  if (found != ids_.end()) return found->second;
  const auto id = static_cast<TextId>(texts_.size());
  texts_.emplace_back(text);
  ids_.emplace(text, id);
  return id;
}

TextId AuditTrace::id_of(std::string_view text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? std::numeric_limits<TextId>::max() : found->second;
}

std::uint32_t AuditTrace::number(const std::shared_ptr<const core::CallSite>& site) {
  const auto [found, is_new] =
      site_ids_.try_emplace(site.get(), static_cast<std::uint32_t>(sites_.size()));
  if (is_new) sites_.push_back(site);
  return found->second;
}

/// Of so many bytes that are 0.
core::Digest AuditTrace::zeros(std::uint64_t bytes) {
  const auto [found, is_new] = zeros_.try_emplace(bytes);
  if (!is_new) return found->second;
  static const std::vector<std::byte> zeros(core::kDigestChunk);
  const std::span<const std::byte> leaf(zeros);
  const std::uint64_t rest = bytes % core::kDigestChunk;
  std::vector<core::Digest> leaves;
  if (bytes >= core::kDigestChunk) {
    leaves.assign(bytes / core::kDigestChunk, core::digest_leaf(leaf));
  }
  if (rest != 0 || leaves.empty()) leaves.push_back(core::digest_leaf(leaf.first(rest)));
  return found->second = core::digest_of_leaves(leaves);
}

void AuditTrace::add(const core::TensorRecord& tensor) {
  AuditTensor& row = tensors_.emplace_back();
  row.digest = tensor.digest;
  row.storage = static_cast<std::int32_t>(tensor.storage);
  row.producer = static_cast<std::int32_t>(tensor.producer);
  row.slot = number(tensor.slot);
  row.name = number(tensor.name);
  row.shape = number(std::string_view(reinterpret_cast<const char*>(tensor.shape.data()),
                                      tensor.shape.size() * sizeof(std::int64_t)));
  row.dtype = tensor.dtype;
  row.state = tensor.state;
  row.moved = tensor.watch == core::InputWatch::kMoved;
  const auto counted = tensor.non_finite();
  row.has_nan = counted && counted->nans != 0;
  row.is_narrow = tensor.dtype == core::Dtype::kFloat16 || tensor.dtype == core::Dtype::kBFloat16;
  if (row.is_known() && core::element_size(tensor.dtype) != 0) {
    row.is_zero = row.digest == zeros(core::content_size(tensor.content_key()));
  }
  row.is_single = std::ranges::all_of(tensor.shape, [](std::int64_t size) { return size == 1; });
}

void AuditTrace::add(const core::OpRecord& record) {
  AuditCall& call = calls_.emplace_back();
  const auto index = static_cast<std::uint32_t>(calls_.size() - 1);
  call.first = tensors_.size();
  for (const core::TensorRecord& tensor : record.tensors) {
    add(tensor);
    ++(core::is_input(tensor) ? call.inputs : call.outputs);
  }
  call.op = number(record.op->full_name());
  call.base = number(record.op->name);
  std::string_view modes = record.modes;
  const bool is_told = modes.ends_with(core::kModuleInEval);
  call.in_eval = is_told || is_in_eval_;
  if (is_told) modes.remove_suffix(core::kModuleInEval.size());
  call.modes = number(modes.ends_with(' ') ? modes.substr(0, modes.size() - 1) : modes);
  call.parent = static_cast<std::int32_t>(record.parent);
  call.site = number(record.site);
  call.step = record.step;
  call.lane = record.lane;
  call.phase = record.phase;
  call.drew = record.generator.has_value();
  call.is_named = core::is_named_values(record);
  if (call.drew) {
    call.scalars = scalars_of(record);
    draws_.push_back({index,
                      place_of(*record.generator),
                      record.generator->device.starts_with(core::kConstantKey)});
  }
  if (!call.is_named) {
    call.training = train_flag(record);
    call.adds_number = adds_number(record);
    call.sums_ranks = sums_ranks(record);
    if (call.phase == core::Phase::kEval && !batches_.empty()) batches_.back().evaluated = true;
    return;
  }
  if (record.op->name == core::kLossRecord) losses_.push_back(index);
  if (record.op->name == core::kStepRecord) {
    AuditStep& step = steps_.emplace_back();
    step.call = index;
    if (const auto* norm = core::argument_as<double>(record, core::kGradientNorm)) {
      step.gradient_norm = *norm;
    }
    step.has_rate = has_rate(record);
  }
  add_batch(record);
}

void AuditTrace::add_batch(const core::OpRecord& record) {
  if (record.op->name == core::kOrderRecord) {
    ordered_[record.lane] = {core::argument_or<std::int64_t>(record, core::kOrderLoader),
                             core::argument_or<std::int64_t>(record, core::kOrderEpoch),
                             core::argument_or<std::int64_t>(record, core::kOrderWorkers),
                             core::list_argument<std::int64_t>(record, core::kOrderSamples),
                             {}};
    const auto* unseen = core::argument_as<std::string>(record, core::kOrderUnseen);
    if (unseen != nullptr) ordered_[record.lane].unseen = *unseen;
  }
  if (record.op->name != core::kBatchRecord) return;
  AuditBatch& batch = batches_.emplace_back();
  batch.call = static_cast<std::uint32_t>(calls_.size() - 1);
  batch.step = record.step;
  const auto ordered = ordered_.find(record.lane);
  if (ordered != ordered_.end()) {
    batch.loader = ordered->second.loader;
    batch.epoch = ordered->second.epoch;
    batch.workers = ordered->second.workers;
    batch.samples = std::move(ordered->second.samples);
    batch.unseen = std::move(ordered->second.unseen);
    ordered_.erase(ordered);
  }
  batch.contents = digests_in(core::list_argument<std::int64_t>(record, core::kSampleDigests));
}

core::ContentKey AuditTrace::content_key(const AuditTensor& tensor) const {
  const std::string_view bytes = text(tensor.shape);
  std::vector<std::int64_t> shape(bytes.size() / sizeof(std::int64_t));
  std::memcpy(shape.data(), bytes.data(), bytes.size());
  return {tensor.dtype, std::move(shape), tensor.digest};
}

const AuditTensor* AuditTrace::input(std::uint32_t call, TextId slot) const {
  const auto given = inputs(call);
  const auto found = std::ranges::find(given, slot, &AuditTensor::slot);
  return found == given.end() ? nullptr : &*found;
}

bool AuditTrace::is_view(std::uint32_t call) const {
  const auto given = inputs(call);
  const auto returned = outputs(call);
  return !returned.empty() && !calls_[call].is_named &&
         std::ranges::all_of(returned, [&](const AuditTensor& output) {
           return output.storage >= 0 && !wrote(call, output) &&
                  std::ranges::find(given, output.storage, &AuditTensor::storage) != given.end();
         });
}

std::string AuditTrace::said(std::uint32_t call) const {
  const std::string place = core::place_of(site(call).get());
  std::string name(text(calls_[call].base));
  if (name.starts_with(core::kNamedPrefix)) name.erase(0, core::kNamedPrefix.size());
  return place.empty() ? name : fmt::format("{} ({})", name, place);
}

Finding AuditTrace::at(FindingId id, Finding::Weight weight, std::uint32_t call) const {
  Finding finding{id, weight};
  finding.where.step = calls_[call].step;
  finding.where.op = call;
  finding.where.line = core::line_text(site(call).get());
  finding.with("reader", said(call));
  return finding;
}

}  // namespace repro_check::comparators
