// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/engine/pending.h"

#include <unistd.h>

namespace repro_check::capture {

void Capture::keep(std::unique_ptr<Pending> pending) {
  pending_bytes_ += pending->bytes;
  pending_.push_back(std::move(pending));
  drain(options_.most_pending);
}

void Capture::drain(std::size_t most) {
  tensors_.devices().poll();
  while (!pending_.empty()) {
    if (const Awaited next = pending_.front()->next()) {
      if (pending_bytes_ <= most) return;
      if (most != 0) ++counts_.device_waits;
      DeviceDigests::wait_for(next);
      continue;
    }
    const std::unique_ptr<Pending> first = std::move(pending_.front());
    pending_.pop_front();
    pending_bytes_ -= first->bytes;
    first->write(*this);
  }
}

void Capture::wait_for(const Arrivals& arrivals) {
  while (const Awaited next = arrivals.next()) DeviceDigests::wait_for(next);
}

void Capture::flush() noexcept {
  // A forked child has the records of its parent, and not its device.
  if (::getpid() != process_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failed_ || pending_.empty()) return;
  try {
    drain(0);
  } catch (...) {
    fail(std::current_exception());
  }
}

void Capture::write(core::OpRecord& record, const Arrivals& arrivals) {
  if (!arrivals.empty()) {
    tensors_.settle(arrivals, record.tensors);
    for (const auto& [slot, before, after] : arrivals.changes) {
      if (OpenWrite{0, 0, nullptr, before, after}.happened()) warn_of_stale(record, slot);
    }
  }
  ++counts_.operators;
  if (core::is_returned(record)) ++counts_.returned;
  counts_.tensors += record.tensors.size();
  counts_.substitutions += record.substitutions.size();
  if (record.generator) ++counts_.drawing_operators;
  sink_->append(record);
}

}  // namespace repro_check::capture
