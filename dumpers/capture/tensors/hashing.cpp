// SPDX-License-Identifier: Apache-2.0
// Compiled with OpenMP: at::parallel_for is a template, and runs on one thread without it.
#include "dumpers/capture/tensors/hashing.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <span>
#include <vector>

#include "core/tensor/tensor_stats.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#ifndef _OPENMP
#error "hashing.cpp needs -fopenmp"
#endif

namespace repro_check::capture {
namespace {

/// One leaf as a plain span; `buffer` takes those that are not.
std::span<const std::byte> leaf_at(const StridedBytes& content,
                                   std::size_t leaf,
                                   std::vector<std::byte>& buffer) {
  const std::size_t begin = leaf * core::kDigestChunk;
  const std::size_t length = std::min(core::kDigestChunk, content.byte_count() - begin);
  if (content.contiguous()) return content.bytes().subspan(begin, length);
  buffer.resize(length);
  content.copy(begin / content.element_size(), buffer);
  return buffer;
}

}  // namespace

ContentSummary summarise_content(const StridedBytes& content, core::Dtype dtype, bool with_stats) {
  const std::size_t bytes = content.byte_count();
  const std::size_t leaf_count =
      std::max<std::size_t>(1, (bytes + core::kDigestChunk - 1) / core::kDigestChunk);
  if (leaf_count == 1) {
    std::vector<std::byte> buffer;
    const std::span<const std::byte> leaf = leaf_at(content, 0, buffer);
    if (!with_stats) {
      const core::CountedLeaf counted = core::count_leaf(dtype, leaf);
      return {counted.digest, counted.counts, std::nullopt};
    }
    const core::LeafSummary summary = core::summarise_leaf(dtype, leaf);
    return {summary.digest, {}, core::stats_of_leaves({&summary.stats, 1})};
  }
  std::vector<core::Digest> digests(leaf_count);
  std::vector<core::NonFinite> counts(with_stats ? 0 : leaf_count);
  std::vector<core::LeafStats> stats(with_stats ? leaf_count : 0);
  const auto walk = [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::byte> buffer;
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const std::span<const std::byte> leaf = leaf_at(content, i, buffer);
      if (!with_stats) {
        const core::CountedLeaf counted = core::count_leaf(dtype, leaf);
        digests[i] = counted.digest;
        counts[i] = counted.counts;
        continue;
      }
      const core::LeafSummary summary = core::summarise_leaf(dtype, leaf);
      digests[i] = summary.digest;
      stats[i] = summary.stats;
    }
  };
  at::parallel_for(0, static_cast<std::int64_t>(leaf_count), 1, walk);
  ContentSummary summary{core::digest_of_leaves(digests), {}, std::nullopt};
  for (const core::NonFinite& leaf : counts) summary.non_finite += leaf;
  if (with_stats) summary.stats = core::stats_of_leaves(stats);
  return summary;
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
