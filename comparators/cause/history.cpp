// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comparators/cause/cause.h"
#include "comparators/report/report.h"
#include "core/trace/dataflow.h"
#include "core/trace/given_seed.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

std::string drawn_text(std::int64_t drawn) {
  return drawn < 0 ? std::string("an unknown count of") : fmt::format("{}", drawn);
}

void mix(std::uint64_t& hash, std::uint64_t value) noexcept {
  // Steps of splitmix64 (Steele, Lea, Flood 2014).
  hash += 0x9E3779B97F4A7C15U + value;
  hash = (hash ^ (hash >> 30U)) * 0xBF58476D1CE4E5B9U;
  hash = (hash ^ (hash >> 27U)) * 0x94D049BB133111EBU;
  hash ^= hash >> 31U;
}

std::uint64_t view_of(const core::TensorRecord& tensor) noexcept {
  std::uint64_t hash = 0;
  mix(hash, static_cast<std::uint64_t>(tensor.dtype));
  mix(hash, static_cast<std::uint64_t>(tensor.storage_offset));
  mix(hash, tensor.shape.size());
  for (const auto* list : {&tensor.shape, &tensor.strides}) {
    for (const std::int64_t value : *list) mix(hash, static_cast<std::uint64_t>(value));
  }
  return hash;
}

bool is_plain(const core::TensorRecord& tensor) noexcept {
  return tensor.storage >= 0 && tensor.producer >= 0 && tensor.layout == "strided" &&
         tensor.state == core::ContentState::kHashed;
}

using core::ContentState;
using core::TensorRecord;

std::string_view base_name(const core::OpRecord& record) {
  return record.op ? core::base_name(record.op->name) : std::string_view();
}

bool is_shared_with_output(const core::OpRecord& record, const TensorRecord& input) {
  return std::ranges::any_of(record.tensors, [&](const TensorRecord& output) {
    return core::is_output(output) && output.storage >= 0 && output.storage == input.storage;
  });
}

bool has_values(const core::OpRecord& record) {
  return std::ranges::any_of(record.tensors, [](const TensorRecord& output) {
    return core::is_output(output) && output.state == ContentState::kHashed;
  });
}

/// `baddbmm(self, ..., beta=0)` is documented to ignore `self`.
bool is_ignored(const core::OpRecord& record, const TensorRecord& input) {
  if (input.slot != "self" && input.slot != "input") return false;
  const auto* number = core::argument_as<double>(record, "beta");
  const auto* integer = core::argument_as<std::int64_t>(record, "beta");
  return (number != nullptr && *number == 0) || (integer != nullptr && *integer == 0);
}

/// The first argument that is unwritten memory, and of which more than the form is taken.
const TensorRecord* unwritten_input(const core::OpRecord& record) {
  for (const TensorRecord& tensor : record.tensors) {
    if (!core::is_input(tensor) || tensor.state != ContentState::kUninitialised) continue;
    if (core::is_returned(record)) return &tensor;
    if (core::reads_values(*record.op, tensor.slot) && !is_shared_with_output(record, tensor) &&
        !is_ignored(record, tensor)) {
      return &tensor;
    }
  }
  return nullptr;
}

/// They look at some elements, which may be written ones.
bool is_picking(const core::OpRecord& record) {
  return is_word_of(
      "embedding embedding_bag gather index index_select masked_fill masked_scatter masked_select "
      "scatter index_put index_copy index_fill take take_along_dim where _unsafe_index",
      base_name(record));
}

}  // namespace

const TensorRecord* unwritten_argument(const core::OpRecord& record) {
  const TensorRecord* input = unwritten_input(record);
  if (input == nullptr || core::is_returned(record)) return input;
  return is_picking(record) || !has_values(record) ? nullptr : input;
}

bool may_read_unwritten(const core::OpRecord& record) { return unwritten_input(record) != nullptr; }

void WriteHistory::see(const core::OpRecord& record, bool differs) {
  for (const core::TensorRecord& tensor : record.tensors) {
    if (!core::is_output(tensor) || !is_plain(tensor)) continue;
    // An alias that nobody has touched says nothing new of its storage.
    if (tensor.producer != static_cast<std::int64_t>(record.index)) continue;
    const Write write{tensor.producer, view_of(tensor), tensor.digest};
    writes_[tensor.storage] = write;
    const Write* before = differing_.find(tensor.storage);
    if (differs || (before != nullptr && before->view == write.view)) {
      differing_[tensor.storage] = differs ? write : Write{};
    }
    if (allocations_.find(tensor.storage) != nullptr) {
      Allocation& allocation = allocations_[tensor.storage];
      allocation.writer = tensor.producer;
      allocation.written += core::element_count(tensor.shape);
    }
  }
  see_allocations(record);
}

std::int64_t WriteHistory::differing_writer(const core::TensorRecord& tensor) const {
  const Write* found = differing_.find(tensor.storage);
  return found == nullptr ? core::kNoProducer : found->producer;
}

bool WriteHistory::contradicts(const core::TensorRecord& input) const {
  if (!is_plain(input)) return false;
  const Write* found = writes_.find(input.storage);
  return found != nullptr && found->producer == input.producer && found->view == view_of(input) &&
         found->content != input.digest;
}

bool WriteHistory::is_unwritten_state(const TensorRecord& tensor) const {
  if (core::named_source(tensor.name).kind != core::SourceKind::kState) return false;
  const Allocation* allocation = allocations_.find(tensor.storage);
  return allocation != nullptr && !allocation->is_shown && allocation->op == tensor.producer;
}

void UnwrittenReader::see(const core::OpRecord& record) {
  for (const TensorRecord& tensor : record.tensors) {
    // A step of an optimizer holds every parameter, and reads none.
    if (core::is_named_values(record)) break;
    if (!core::is_input(tensor) || !history_.is_unwritten_state(tensor)) continue;
    if (!core::reads_values(*record.op, tensor.slot) || !known_.insert(tensor.storage).second) {
      continue;
    }
    reads_.push_back({std::string(core::named_source(tensor.name).name),
                      record.index,
                      static_cast<std::uint64_t>(tensor.producer)});
  }
  history_.see(record, false);
}

void WriteHistory::see_allocations(const core::OpRecord& record) {
  for (const TensorRecord& output : record.tensors) {
    const bool shows = core::is_output(output) && output.storage >= 0 &&
                       output.producer != static_cast<std::int64_t>(record.index);
    if (shows && allocations_.find(output.storage) != nullptr) {
      allocations_[output.storage].is_shown = true;
    }
  }
  // A kernel may write what it has allocated without an operator.
  if (record.depth != 0) return;
  for (const TensorRecord& output : record.tensors) {
    if (!core::is_output(output) || output.state != ContentState::kUninitialised) continue;
    if (output.storage < 0 || output.producer != static_cast<std::int64_t>(record.index)) continue;
    const bool given = std::ranges::any_of(record.tensors, [&](const TensorRecord& input) {
      return core::is_input(input) && input.storage == output.storage;
    });
    if (!given || base_name(record).starts_with("resize"))
      allocations_[output.storage] = {.op = output.producer};
  }
}

bool WriteHistory::is_written_in_part(const TensorRecord& tensor) const {
  const Allocation* allocation = allocations_.find(tensor.storage);
  return allocation != nullptr && allocation->writer == tensor.producer &&
         allocation->written < core::element_count(tensor.shape);
}

std::optional<Phrase> WriteHistory::describe_unwritten(const TensorRecord& tensor) const {
  const Allocation* allocation = allocations_.find(tensor.storage);
  if (allocation == nullptr) return std::nullopt;
  const auto text = [&](std::int64_t op) {
    return op_text(dump_.op_head(static_cast<std::uint64_t>(op)));
  };
  Phrase what("unwritten",
              {{"slot", tensor.slot},
               {"allocator", text(allocation->op)},
               {"allocated_by", allocation->op}});
  const bool known =
      tensor.producer >= 0 && static_cast<std::uint64_t>(tensor.producer) < dump_.op_count();
  if (tensor.producer != allocation->op && known) what.with("writer", text(tensor.producer));
  return what;
}

Phrases WriteHistory::unwritten(const TensorRecord& tensor) const {
  const auto what = describe_unwritten(tensor);
  return what ? Phrases{*what} : Phrases{};
}

Phrase seeds_apart(std::string baseline, std::string candidate) {
  return Phrase("seeds-apart",
                {{"baseline", std::move(baseline)}, {"candidate", std::move(candidate)}});
}

RngLedger::RngLedger(const core::RunManifest& baseline, const core::RunManifest& candidate)
    : baseline_seed_(core::given_seed(baseline)),
      candidate_seed_(core::given_seed(candidate)),
      drawn_apart_(
          baseline.rng == candidate.rng
              ? std::nullopt
              : std::optional(Phrase("draws-otherwise",
                                     {{"baseline", baseline.rng}, {"candidate", candidate.rng}}))) {
}

void RngLedger::part(Phrase how) {
  if (!parting_.empty()) return;
  parting_ = {std::move(how)};
  if (!last_draw_.empty()) parting_.push_back(Phrase("last-drawn-alike", {{"op", last_draw_}}));
}

void RngLedger::count_calls(const core::OpRecord& record) {
  const auto found = below_.find(record.index);
  std::uint64_t drew = found == below_.end() ? 0 : found->second;
  if (found != below_.end()) below_.erase(found);
  if (record.generator) {
    draws_.operators -= std::exchange(drew, 1);
    count(record);
  }
  if (drew > 0 && record.parent >= 0) below_[static_cast<std::uint64_t>(record.parent)] += drew;
}

void RngLedger::count(const core::OpRecord& record) {
  ++draws_.operators;
  if (std::ranges::find(draws_.devices, record.generator->device) == draws_.devices.end()) {
    draws_.devices.push_back(record.generator->device);
  }
  const std::uint64_t seed = record.generator->seed;
  const bool is_known = std::ranges::find(draws_.seeds, seed) != draws_.seeds.end();
  if (!is_known && draws_.seeds.size() < RandomDraws::kMostSeeds) draws_.seeds.push_back(seed);
}

RandomDraws RngLedger::draws() const {
  RandomDraws draws = draws_;
  draws.parting = parting_;
  return draws;
}

bool has_own_generator(const core::OpRecord& record) {
  const core::Value* own = core::find_argument(record, "generator");
  return own != nullptr && !std::holds_alternative<std::monostate>(own->data);
}

bool RngLedger::is_drawn_by_threads(const core::OpRecord& record) {
  if (has_own_generator(record) || core::is_of_worker(record.lane)) return false;
  in_threads_ = in_threads_ || record.lane != core::kMainLane;
  return in_threads_;
}

void RngLedger::see(const JudgedCall& call) {
  const core::OpRecord& baseline = call.baseline;
  const auto& from = baseline.generator;
  const auto& to = call.candidate.generator;
  if (from.has_value() == to.has_value()) count_calls(baseline);
  if (!from && !to) return;
  // Places then say nothing: on the host each draw is one, whatever it draws.
  if (drawn_apart_) part(*drawn_apart_);
  if (!from || !to) {
    see_unmatched(from ? baseline : call.candidate, from.has_value());
    return;
  }
  const bool elsewhere = from->position_before != to->position_before;
  if (!process_started_apart_ && !has_own_generator(baseline)) {
    process_started_apart_ =
        baseline.lane == core::kMainLane && (from->seed != to->seed || elsewhere);
  }
  const bool is_of_threads = is_drawn_by_threads(baseline);
  // Not by the seeds of the runs: the model may have seeded its generators alike since.
  if (from->seed != to->seed) {
    started_apart_ = started_apart_ || parting_.empty();
    part(seeds_apart(std::to_string(from->seed), std::to_string(to->seed)));
  } else if (elsewhere && is_of_threads) {
    parted_in_threads_ = parted_in_threads_ || parting_.empty();
    part(Phrase("threads-draw",
                {{"op", op_text(baseline)}, {"lane", core::lane_text(baseline.lane)}}));
  } else if (elsewhere) {
    part(Phrase("generator-moved-unseen", {{"op", op_text(baseline)}}));
  } else if (from->position_after != to->position_after) {
    part(Phrase("stream-parted",
                {{"op", op_text(baseline)},
                 {"baseline", drawn_text(from->drawn)},
                 {"candidate", drawn_text(to->drawn)}}));
  } else if (parting_.empty()) {
    last_draw_ = op_text(baseline);
  }
}

void RngLedger::see_unmatched(const core::OpRecord& record, bool in_baseline) {
  if (!record.generator) return;
  part(Phrase("stream-parted-alone",
              {{"op", op_text(record)},
               {"drawn", drawn_text(record.generator->drawn)},
               {"run", run_field(in_baseline)}}));
}

std::optional<bool> RngLedger::stood_elsewhere(const JudgedCall& call) const {
  const auto& from = call.baseline.generator;
  const auto& to = call.candidate.generator;
  if (from && to) return from->seed != to->seed || from->position_before != to->position_before;
  if (from || to) return true;
  if (baseline_seed_ != candidate_seed_) return true;
  return std::nullopt;
}

}  // namespace repro_check::comparators
