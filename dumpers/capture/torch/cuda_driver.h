// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <memory>

namespace repro_check::capture {

/// A function of one's own on an NVIDIA GPU. CUDA's driver and its compiler are looked for in what
/// the program's PyTorch has brought: nothing of CUDA is needed to build this, and nothing is there
/// where PyTorch is one for processors.
class CudaKernel {
 public:
  /// Compiled for the device, in the context that PyTorch uses.
  /// @param source  CUDA C++ that includes nothing
  /// @param name    of the function, which is extern "C"
  /// @return null where that cannot be done: another maker's GPU, no compiler, one too old
  static std::unique_ptr<CudaKernel> compile(const char* source,
                                             const char* name,
                                             c10::Device device);
  CudaKernel(const CudaKernel&) = delete;
  CudaKernel& operator=(const CudaKernel&) = delete;
  ~CudaKernel();

  /// Starts it behind what the calling thread's current stream of the device has to do, in blocks
  /// of one dimension, and waits until the stream is done.
  /// @param arguments  where each argument lies
  /// @return false where it could not be started, as on a side stream of which the release does not
  ///         tell enough
  /// @throws c10::Error what PyTorch says of what failed on the stream
  bool run(unsigned blocks, unsigned threads, void** arguments) const;

 private:
  struct Impl;
  explicit CudaKernel(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace repro_check::capture
