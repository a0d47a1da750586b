// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "core/system/pinned.h"
#include "dumpers/capture/tensors/leaf_kernel.h"

namespace repro_check::capture {

/// What digests ask of one device, and nothing else. Every call but wait() returns at once.
class DeviceStream : core::Pinned {
 public:
  using Handle = void*;
  enum class Progress { kGoing, kDone, kFailed };

  virtual ~DeviceStream() = default;

  /// The calling thread's current stream; empty where it is not to be given work, as while it
  /// captures a graph.
  virtual std::optional<Handle> current() = 0;

  /// Memory that host and device know by the same addresses, which is kept to the end; null where
  /// there is none.
  virtual std::byte* allocate(std::size_t bytes) = 0;

  /// Starts the digests of leaves behind what the stream has to do.
  /// @return false where that failed: none of them will be found
  virtual bool start(Handle stream,
                     const kernel::LeafOrder* orders,
                     kernel::LeafResult* results,
                     std::byte* copied,
                     std::size_t count) = 0;

  /// Makes an event stand behind what the stream has been given until now.
  /// @param event  0, 1, ..., each of which is the caller's
  virtual bool record(std::size_t event, Handle stream) = 0;
  virtual Progress query(std::size_t event) = 0;
  /// @return kDone or kFailed
  virtual Progress wait(std::size_t event) = 0;
};

}  // namespace repro_check::capture
