// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/tensor/dtype.h"
#include "dumpers/capture/tensors/device_stream.h"
#include "dumpers/capture/tensors/digest_ring.h"

namespace repro_check::capture {

/// Which devices digest contents where they lie.
struct DigestingDevices {
  /// Whether the tensor lies on one, strided, with elements in its storage.
  std::function<bool(const at::Tensor&)> hold;
  /// Null where the device cannot.
  std::function<std::unique_ptr<DeviceStream>(const c10::Device&)> make;
  /// Whether the calling thread's stream of the device captures a graph: it is to be left alone.
  std::function<bool(const c10::Device&)> capture;
  /// Tells the device's allocator that the stream reads the tensor's memory.
  std::function<void(const at::Tensor&)> note_use;
  RingSize ring = {};  ///< of each
};
/// NVIDIA's.
DigestingDevices cuda_devices();

/// A content on a device.
struct DeviceContent {
  at::Tensor tensor;  ///< that the devices hold
  core::Dtype dtype = core::Dtype::kUnknown;
};

/// Digests of contents where they lie, behind what the calling thread's stream has to do. Nothing
/// waits for them, and no reference to a tensor is kept. They are those that the host would find;
/// before a device is trusted with that it has to show it. Not thread safe.
class DeviceDigests {
 public:
  explicit DeviceDigests(DigestingDevices devices);
  DeviceDigests(const DeviceDigests&) = delete;
  DeviceDigests& operator=(const DeviceDigests&) = delete;
  ~DeviceDigests();

  [[nodiscard]] bool hold(const at::Tensor& tensor) const { return devices_.hold(tensor); }

  /// What does not lie in one piece is copied on the device first; where there is no room for that,
  /// or a graph is captured, it is not read.
  /// @param contents  all on one device
  /// @return one for each; empty where the host has to read them
  std::vector<Awaited> start(std::span<const DeviceContent> contents);

  /// Takes what has come, without a wait.
  void poll();
  /// Until it has come.
  static void wait_for(const Awaited& content);

  /// How often there was no room for more, and what had been started was waited for.
  [[nodiscard]] std::uint64_t stalls() const;

 private:
  struct Reader;
  Reader* reader_of(const c10::Device& device);

  DigestingDevices devices_;
  std::map<int, std::unique_ptr<Reader>> readers_;  ///< by device; null = it cannot
};

}  // namespace repro_check::capture
