// SPDX-License-Identifier: Apache-2.0
// Records that another process made, as a loader's worker does.
#include "dumpers/capture/engine/pending.h"

namespace repro_check::capture {

void Capture::adopt(ForeignRecords& foreign) {
  if (failed_.load(std::memory_order_relaxed)) return;
  const auto here = sites_ == nullptr ? std::nullopt : sites_->current_phase();
  const core::Phase phase = here.value_or(core::Phase::kForward);
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    append_raised();
    for (const core::OpRecord& record : foreign.records) {
      (*foreign.indices)[static_cast<std::int64_t>(record.index)] =
          static_cast<std::int64_t>(next_index_++);
    }
    for (core::OpRecord& record : foreign.records) {
      renumber(record, foreign, phase);
      sink_->enter(record);
    }
    for (core::OpRecord& record : foreign.records) {
      keep_contents(record, foreign);
      if (is_settled({})) {
        write(record, {});
      } else {
        keep(std::make_unique<PendingRecord>(std::move(record), Arrivals()));
      }
    }
    if (!foreign.failure.empty()) {
      throw core::run_failed(core::lane_text(foreign.lane) + ": " + foreign.failure);
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

void Capture::renumber(core::OpRecord& record, const ForeignRecords& foreign, core::Phase phase) {
  const auto here = [&](std::int64_t index) {
    const auto found = foreign.indices->find(index);
    return found == foreign.indices->end() ? core::kNoProducer : found->second;
  };
  record.index = static_cast<std::uint64_t>(here(static_cast<std::int64_t>(record.index)));
  record.parent = here(record.parent);
  record.phase = phase;
  record.step = step();
  record.lane = foreign.lane;
  for (core::TensorRecord& tensor : record.tensors) {
    tensor.producer = here(tensor.producer);
    if (tensor.storage >= 0) tensor.storage += foreign.first_storage;
  }
}

void Capture::keep_contents(core::OpRecord& record, const ForeignRecords& foreign) {
  const bool wanted = options_.keep_ops.empty() || core::contains(options_.keep_ops, record.index);
  for (core::TensorRecord& tensor : record.tensors) {
    if (!tensor.stored) continue;
    tensor.stored = false;
    if (!wanted) continue;
    const core::ContentKey key = tensor.content_key();
    const auto bytes = sink_->has_content(key) ? std::nullopt : foreign.read(key);
    tensor.stored = bytes ? sink_->put_content(key, *bytes) : sink_->has_content(key);
  }
}

}  // namespace repro_check::capture
