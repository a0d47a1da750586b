// SPDX-License-Identifier: Apache-2.0
// What crosses the borders of blocks.
#include "dumpers/capture/engine/pending.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {

void Capture::read_ahead(std::span<const BorderLeaf> leaves) {
  const c10::impl::ExcludeDispatchKeyGuard unseen(kCaptureKey);
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<at::Tensor> ahead;
  for (const BorderLeaf& leaf : leaves) {
    if (leaf.tensor.defined()) ahead.push_back(leaf.tensor);
  }
  tensors_.read_ahead(ahead);
}

std::uint32_t Capture::read_border(std::span<const BorderLeaf> leaves, BorderReading& into) {
  const c10::impl::ExcludeDispatchKeyGuard unseen(kCaptureKey);
  const std::lock_guard<std::mutex> lock(mutex_);
  RecordList records(border_);
  RecordingOrder order;
  order.keep_bytes = false;
  order.hands_out = true;
  order.beside = true;
  order.verify = options_.verify_inputs;
  std::uint32_t unread = 0;
  for (const BorderLeaf& leaf : leaves) {
    if (!leaf.tensor.defined()) {
      into.add(core::digest_bytes(leaf.bytes), nullptr, leaf.dtype, leaf.shape);
      continue;
    }
    records.restart();
    tensors_.add(leaf.tensor, "", order, records);
    bool is_read = true;
    for (std::size_t i = 0; i < records.size(); ++i) {
      const core::TensorRecord& record = records[i];
      if (record.state == core::ContentState::kHashed) {
        into.add(record.digest, records.awaited(i), record.dtype, record.shape);
      } else if (record.state != core::ContentState::kComposite) {
        is_read = false;
      }
    }
    if (!is_read) ++unread;
  }
  note_unordered(nullptr);
  return unread;
}

template <typename Append>
void Capture::append_row(std::vector<BorderReading> borders, Append append) {
  if (failed_.load(std::memory_order_relaxed)) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    ++counts_.rows;
    if (pending_.empty() && std::ranges::all_of(borders, &BorderReading::is_settled)) {
      append(borders);
    } else {
      keep(std::make_unique<PendingRow>(std::move(borders), std::move(append)));
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

void Capture::append(core::BlockRow row, const BorderReading& in, const BorderReading& out) {
  append_row({in, out}, [this, row = std::move(row)](std::span<const BorderReading> read) mutable {
    row.in = read[0].finish();
    row.out = read[1].finish();
    sink_->block(row);
  });
}

void Capture::append(core::ParameterRow row, const BorderReading& content) {
  append_row({content}, [this, row = std::move(row)](std::span<const BorderReading> read) mutable {
    row.digest = read[0].finish();
    sink_->parameter(row);
  });
}

}  // namespace repro_check::capture
