// SPDX-License-Identifier: Apache-2.0
// How a call ends: what it has written is noted, and its record goes to the sink.
#include <exception>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "dumpers/capture/engine/engine.h"

namespace repro_check::capture {

void Engine::apply_writes(Frame& frame) {
  const auto index = static_cast<std::int64_t>(frame.record.index);
  const StorageEffect effect = frame.plan->effect;
  if (effect == StorageEffect::kMetadata) return;
  for (const WrittenArgument& written : frame.written) {
    const bool grown =
        storage_size_of(written.tensor) > written.bytes_before ||
        (!written.tensor.is_nested() && written.tensor.numel() > written.elements_before);
    if (effect == StorageEffect::kResize && !grown) continue;
    const bool strided = form_of(written.tensor) == TensorForm::kStrided;
    for_each_storage(written.tensor, [&](const c10::Storage& storage) {
      StorageEntry& entry = tensors_.storages().find(storage);
      if (strided && effect == StorageEffect::kOrdinary) {
        entry.written_by(index, written.tensor, written.picked ? &*written.picked : nullptr);
      } else {
        entry.written_by(index);
      }
      if (effect != StorageEffect::kOrdinary) {
        entry.mark_uninitialised(*storage.unsafeGetStorageImpl());
      }
    });
  }
}

void Engine::append(std::unique_ptr<Frame> frame) {
  frame->tensors.finish();
  ++counts_.operators;
  counts_.tensors += frame->tensors.size();
  counts_.substitutions += frame->record.substitutions.size();
  if (frame->record.generator) ++counts_.drawing_operators;
  frame->written.clear();
  sink_->append(frame->record);
  frame->plan->idle.push_back(std::move(frame));
}

void Engine::raised(std::unique_ptr<Frame> frame) noexcept {
  if (!frame) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failed_) return;
  try {
    // The innermost call that raised is the one to name; its callers raise after it.
    if (!last_.raised) {
      last_.raised = true;
      last_.index = frame->record.index;
      last_.op = frame->record.op.get();
      last_.site = frame->record.site;
    }
    frame->record.results.clear();
    apply_writes(*frame);
    frame->written.clear();
    raised_.push_back(std::move(frame));
  } catch (...) {
    fail(std::current_exception());
  }
}

void Engine::append_raised() {
  if (raised_.empty()) return;
  std::vector<std::unique_ptr<Frame>> survived = std::exchange(raised_, {});
  for (std::unique_ptr<Frame>& frame : survived) append(std::move(frame));
}

}  // namespace repro_check::capture
