// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <span>

#include "core/tensor/dtype.h"
#include "dumpers/capture/tensors/strided_bytes.h"

namespace repro_check::capture {

/// A content on a device.
struct DeviceContent {
  at::Tensor tensor;  ///< strided, with elements in its storage
  core::Dtype dtype = core::Dtype::kUnknown;
  ContentSummary summary;  ///< to be filled: digest, and what is no number; no statistics
};

/// Digests of contents where they lie, on an NVIDIA GPU: what is copied to the host is the digests.
/// They are those that the host would find; before a device is trusted with that it has to show it.
/// Not thread safe.
class DeviceDigests {
 public:
  DeviceDigests();
  DeviceDigests(const DeviceDigests&) = delete;
  DeviceDigests& operator=(const DeviceDigests&) = delete;
  ~DeviceDigests();

  /// Fills all summaries, behind what the calling thread's stream has to do, which is waited for.
  /// What does not lie in one piece is copied on the device first, where there is room.
  /// @param contents  all on one device
  /// @return false where the host has to read them
  /// @throws c10::Error what PyTorch says of what failed on the device
  bool summarise(std::span<DeviceContent> contents);

 private:
  class Reader;
  std::map<int, std::unique_ptr<Reader>> readers_;  ///< by device; null = it cannot
};

}  // namespace repro_check::capture
