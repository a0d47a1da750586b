// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "dumpers/capture/engine/capture.h"

namespace repro_check::capture {

// What waits for digests that a device still makes, in the order of the dump.

struct Capture::Pending : core::Pinned {
  explicit Pending(std::size_t size) : bytes(size) {}
  virtual ~Pending() = default;
  /// Something that it waits for; null = all has come.
  [[nodiscard]] virtual Awaited next() const = 0;
  virtual void write(Capture& capture) = 0;

  const std::size_t bytes;  ///< about what it holds
};

inline std::size_t bytes_of(const core::OpRecord& record) {
  constexpr std::size_t kOfTensor = 256;
  return sizeof(Frame) + record.tensors.size() * (sizeof(core::TensorRecord) + kOfTensor) +
         record.arguments.size() * sizeof(core::Argument);
}

struct Capture::PendingCall final : Pending {
  explicit PendingCall(std::unique_ptr<Frame> its)
      : Pending(bytes_of(its->record)), frame(std::move(its)) {}
  [[nodiscard]] Awaited next() const override { return frame->tensors.arrivals.next(); }
  void write(Capture& capture) override {
    capture.write(frame->record, frame->tensors.arrivals);
    frame->plan->idle.push_back(std::move(frame));
  }
  std::unique_ptr<Frame> frame;
};

struct Capture::PendingRecord final : Pending {
  PendingRecord(core::OpRecord its, Arrivals awaited)
      : Pending(bytes_of(its)), record(std::move(its)), arrivals(std::move(awaited)) {}
  [[nodiscard]] Awaited next() const override { return arrivals.next(); }
  void write(Capture& capture) override { capture.write(record, arrivals); }
  core::OpRecord record;
  Arrivals arrivals;
};

struct Capture::PendingRow final : Pending {
  using Append = std::function<void(std::span<const BorderReading>)>;
  PendingRow(std::vector<BorderReading> read, Append append)
      : Pending(sizeof(PendingRow) + read.size() * 1024),
        borders(std::move(read)),
        append_to_sink(std::move(append)) {}
  [[nodiscard]] Awaited next() const override {
    for (const BorderReading& border : borders) {
      if (Awaited content = border.next()) return content;
    }
    return nullptr;
  }
  void write(Capture& capture) override {
    const auto unread = std::ranges::count_if(borders, &BorderReading::is_unread);
    capture.counts_.unread_borders += static_cast<std::uint64_t>(unread);
    append_to_sink(borders);
  }
  std::vector<BorderReading> borders;
  Append append_to_sink;
};

}  // namespace repro_check::capture
