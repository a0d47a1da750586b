// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>

namespace repro_check::capture {

/// Functions of one's own on an NVIDIA GPU. CUDA's driver and its compiler are looked for in what
/// the program's PyTorch has brought: nothing of CUDA is needed to build this, and nothing is there
/// where PyTorch is one for processors.
class CudaProgram {
 public:
  /// Compiled for the device, in the context that PyTorch uses.
  /// @param source  CUDA C++ that includes nothing
  /// @param names   of its functions, which are extern "C"
  /// @return null where that cannot be done: another maker's GPU, no compiler, one too old
  static std::unique_ptr<CudaProgram> compile(const char* source,
                                              std::initializer_list<const char*> names,
                                              c10::Device device);
  CudaProgram(const CudaProgram&) = delete;
  CudaProgram& operator=(const CudaProgram&) = delete;
  ~CudaProgram();

  /// The calling thread's current stream of the device, as the driver knows it (null is one);
  /// empty where it captures a graph, or the release does not tell enough of it.
  [[nodiscard]] std::optional<void*> current_stream() const;

  /// Starts a function behind what the stream has to do, in blocks of one dimension. Nothing is
  /// waited for.
  /// @param function   position among the names
  /// @param arguments  where each argument lies
  /// @return false where it could not be started
  [[nodiscard]] bool start(void* stream,
                           std::size_t function,
                           unsigned blocks,
                           unsigned threads,
                           void** arguments) const;

  /// Waits until the calling thread's current stream is done.
  /// @throws c10::Error what PyTorch says of what failed on it
  void wait() const;

  /// Puts an event behind what the stream has to do.
  /// @param event  null = it is made
  [[nodiscard]] bool record(void*& event, void* stream) const;
  enum class Progress { kGoing, kDone, kFailed };
  [[nodiscard]] Progress query(void* event) const;
  /// @return not kGoing
  [[nodiscard]] Progress wait_for(void* event) const;

 private:
  struct Impl;
  explicit CudaProgram(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Whether the calling thread's current stream of the device captures a graph: nothing is computed
/// on it, and it is neither to be waited for nor given work. False where there is no such stream.
bool captures_graph(const c10::Device& device);

}  // namespace repro_check::capture
