// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "dumpers/capture/tensors/tensor_sums.h"

namespace repro_check::capture {

/// Sums of elements where they lie, on an NVIDIA GPU, with the bits of the host's: before a device
/// is trusted with that it has to show it. What is copied to the host is the sums.
class DeviceSums {
 public:
  DeviceSums();
  DeviceSums(const DeviceSums&) = delete;
  DeviceSums& operator=(const DeviceSums&) = delete;
  ~DeviceSums();

  /// Fills the sums of all orders, behind what the calling thread's stream has to do, which is
  /// waited for once.
  /// @param orders  of tensors that lie on the device, and are added up on the host as well
  /// @return false where the host has to do it
  /// @throws c10::Error what PyTorch says of what failed on the device
  bool add_up(c10::Device device, std::span<SumOrder* const> orders);

 private:
  class Adder;
  std::mutex mutex_;
  std::map<int, std::unique_ptr<Adder>> adders_;  ///< by device; null = it cannot
};

}  // namespace repro_check::capture
