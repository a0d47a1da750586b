// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <string>
#include <utility>
#include <vector>

#include "core/digest/digest.h"
#include "dumpers/capture/engine/capture.h"
#include "tests/dumpers/capture/memory_sink.h"

namespace repro_check::capture {

inline CaptureOptions options_for(core::DumpDepth depth,
                                  core::DumpLevel level = core::DumpLevel::kDigest) {
  CaptureOptions options;
  options.depth = depth;
  options.level = level;
  return options;
}

/// As the model calls operators, with digests.
inline CaptureOptions top() { return options_for(core::DumpDepth::kTop); }

/// Runs `body` under a capture of its own.
template <class Body>
Trace record(const CaptureOptions& options, Body&& body) {
  MemorySink sink;
  Capture capture(options, sink, nullptr);
  {
    const Capture::Scope scope(capture);
    body();
  }
  capture.rethrow_failure();
  sink.warnings = capture.warnings();
  return std::move(static_cast<Trace&>(sink));
}

/// Digest of what a reader of the tensor sees, computed without the engine.
inline core::Digest digest_of(const at::Tensor& tensor) {
  const at::Tensor copy = tensor.detach().resolve_conj().resolve_neg().contiguous();
  return core::digest_bytes(
      {static_cast<const std::byte*>(copy.data_ptr()), static_cast<std::size_t>(copy.nbytes())});
}

inline std::string text_of(const core::OpRecord& record, const std::string& name) {
  return core::to_text(argument(record, name));
}

/// Bytes of two tensors, NaN and the sign of zero included.
inline bool same_bits(const at::Tensor& left, const at::Tensor& right) {
  return left.scalar_type() == right.scalar_type() && left.sizes() == right.sizes() &&
         digest_of(left) == digest_of(right);
}

}  // namespace repro_check::capture
