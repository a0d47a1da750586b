// SPDX-License-Identifier: Apache-2.0
// Compiled with OpenMP: at::parallel_for is a template, and runs on one thread without it.
#include "dumpers/capture/detail/hashing.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <vector>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#ifndef _OPENMP
#error "hashing.cpp needs -fopenmp"
#endif

namespace repro_check::capture {
namespace {

/// Below this many leaves waking a team costs more than it saves.
constexpr std::size_t kParallelLeaves = 4;

core::Digest digest_leaf_at(const StridedBytes& content,
                            std::size_t leaf,
                            std::vector<std::byte>& buffer) {
  const std::size_t begin = leaf * core::kDigestChunk;
  const std::size_t length = std::min(core::kDigestChunk, content.byte_count() - begin);
  if (content.contiguous()) return core::digest_leaf(content.bytes().subspan(begin, length));
  buffer.resize(length);
  content.copy(begin / content.element_size(), buffer);
  return core::digest_leaf(buffer);
}

}  // namespace

core::Digest digest_content(const StridedBytes& content) {
  const std::size_t bytes = content.byte_count();
  const std::size_t leaf_count =
      std::max<std::size_t>(1, (bytes + core::kDigestChunk - 1) / core::kDigestChunk);
  std::vector<std::byte> buffer;
  if (leaf_count == 1) return digest_leaf_at(content, 0, buffer);
  std::vector<core::Digest> leaves(leaf_count);
  const auto hash_range = [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::byte> own;
    for (auto leaf = static_cast<std::size_t>(begin); leaf < static_cast<std::size_t>(end);
         ++leaf) {
      leaves[leaf] = digest_leaf_at(content, leaf, own);
    }
  };
  const auto count = static_cast<std::int64_t>(leaf_count);
  if (leaf_count < kParallelLeaves) {
    hash_range(0, count);
  } else {
    at::parallel_for(0, count, 1, hash_range);
  }
  return core::digest_of_leaves(leaves);
}

ThreadTeam measure_team() {
  const int reported = at::get_num_threads();  // the first call on a thread sizes its team
  std::atomic<int> measured = 0;
#pragma omp parallel
  {
    if (omp_get_thread_num() == 0) measured = omp_get_num_threads();
  }
  return {reported, measured};
}

bool set_flush_denormal(bool on) {
  std::atomic<bool> supported = true;
#pragma omp parallel
  {
    if (!at::Context::setFlushDenormal(on)) supported = false;
  }
  return supported;
}

std::uint32_t read_mxcsr() noexcept {
#if defined(__SSE2__)
  return _mm_getcsr();
#else
  return 0;
#endif
}

}  // namespace repro_check::capture
