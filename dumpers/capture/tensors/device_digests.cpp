// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/tensors/device_digests.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "core/tensor/tensor_stats.h"
#include "dumpers/capture/tensors/device_memory.h"
#include "dumpers/capture/tensors/leaf_kernel.h"
#include "dumpers/capture/torch/cuda_driver.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {

kernel::Odd kernel::odd_of(core::Dtype dtype) {
  const core::Spelling spelling = core::spelling_of(dtype);
  const std::uint64_t width = spelling.odd.width;
  if (width == 0) return {};
  // 1 in each element of a word.
  const std::uint64_t ones =
      width == 8 ? 1 : ~std::uint64_t{0} / ((std::uint64_t{1} << 8 * width) - 1);
  return {static_cast<std::uint32_t>(width),
          spelling.sign != 0 ? 1U : 0U,
          spelling.odd.mask,
          spelling.odd.flip,
          spelling.odd.top,
          spelling.odd.top | spelling.sign,
          spelling.odd.mask * ones,
          (spelling.odd.flip ^ spelling.odd.top) * ones,
          ones,
          ones << (8 * width - 1)};
}

namespace {

using kernel::LeafOrder;
using kernel::LeafResult;

constexpr std::uint64_t kAlignment = 16;
/// Up to here a leaf is hashed on the host.
constexpr std::size_t kCopied = 1024;
static_assert(kCopied >= kernel::kShort);
/// Leaves that are read at once: 4 GiB.
constexpr std::size_t kLeaves = 4096;

/// What the kernel takes it for: one piece, that begins where 16 bytes can be read at once.
at::Tensor in_one_piece(const at::Tensor& tensor) {
  at::Tensor whole = tensor.resolve_conj().resolve_neg().contiguous();
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(whole.data_ptr()) % kAlignment == 0;
  return is_aligned ? whole : whole.clone();
}

struct Leaf {
  DeviceContent* content;
  std::size_t begin;
  std::size_t size;
};

std::vector<Leaf> leaves_of(std::span<DeviceContent> contents) {
  std::vector<Leaf> leaves;
  for (DeviceContent& content : contents) {
    content.tensor = in_one_piece(content.tensor);
    content.summary = {};
    const std::size_t bytes = content.tensor.nbytes();
    std::size_t begin = 0;
    do {
      leaves.push_back({&content, begin, std::min(core::kDigestChunk, bytes - begin)});
      begin += core::kDigestChunk;
    } while (begin < bytes);
  }
  return leaves;
}

}  // namespace

/// Of one device.
class DeviceDigests::Reader {
 public:
  /// Null where the device cannot, or finds other digests than the host.
  static std::unique_ptr<Reader> make(c10::Device device) {
    auto kernel = CudaProgram::compile(kernel::kText, {"digest_leaves"}, device);
    if (kernel == nullptr) return nullptr;
    auto reader = std::make_unique<Reader>(std::move(kernel));
    return reader->agrees_with_host(device) ? std::move(reader) : nullptr;
  }

  explicit Reader(std::unique_ptr<CudaProgram> kernel) : kernel_(std::move(kernel)) {}

  bool summarise(std::span<DeviceContent> contents) {
    const std::vector<Leaf> leaves = leaves_of(contents);
    std::vector<core::Digest> digests;
    digests.reserve(leaves.size());
    for (std::size_t first = 0; first < leaves.size(); first += kLeaves) {
      const auto some = std::span(leaves).subspan(first, std::min(kLeaves, leaves.size() - first));
      for (std::size_t i = 0; i < some.size(); ++i) orders_[i] = order_of(some[i], i);
      if (!run(some.size())) return false;
      for (std::size_t i = 0; i < some.size(); ++i) digests.push_back(take(some[i], i));
    }
    for (std::size_t first = 0, end = 0; first < leaves.size(); first = end) {
      while (end < leaves.size() && leaves[end].content == leaves[first].content) ++end;
      leaves[first].content->summary.digest =
          core::digest_of_leaves(std::span(digests).subspan(first, end - first));
    }
    return true;
  }

 private:
  static LeafOrder order_of(const Leaf& leaf, std::size_t place) {
    const bool is_copied = leaf.size <= kCopied;
    return {static_cast<const kernel::u8*>(leaf.content->tensor.data_ptr()) + leaf.begin,
            static_cast<std::uint32_t>(leaf.size),
            is_copied ? static_cast<std::uint32_t>(1 + place * kCopied) : 0,
            kernel::odd_of(leaf.content->dtype)};
  }

  bool run(std::size_t leaves) {
    LeafOrder* orders = orders_.data();
    LeafResult* results = results_.data();
    std::byte* copied = copied_.data();
    std::array<void*, 3> arguments{static_cast<void*>(&orders), &results, &copied};
    if (!kernel_->start(0, static_cast<unsigned>(leaves), kernel::kThreads, arguments.data())) {
      return false;
    }
    kernel_->wait();
    return true;
  }

  core::Digest take(const Leaf& leaf, std::size_t place) {
    core::NonFinite& counts = leaf.content->summary.non_finite;
    if (leaf.size <= kCopied) {
      const auto bytes = std::span(copied_.data() + place * kCopied, leaf.size);
      const core::CountedLeaf counted = core::count_leaf(leaf.content->dtype, bytes);
      counts += counted.counts;
      return counted.digest;
    }
    const LeafResult& found = results_[place];
    counts += {found.odd - found.positive - found.negative, found.positive, found.negative};
    return {found.high, found.low};
  }

  bool agrees_with_host(c10::Device device) {
    at::Tensor floats = at::arange(270'000, at::TensorOptions(at::kFloat)).div_(7);
    floats.slice(0, 3, 260'000, 1'001).fill_(std::numeric_limits<float>::quiet_NaN());
    floats.slice(0, 5, 270'000, 777).fill_(-std::numeric_limits<float>::infinity());
    const std::array<at::Tensor, 3> tensors{
        floats, floats.slice(0, 0, 7), floats.view(at::kByte).slice(0, 1, 100'003)};
    for (const at::Tensor& tensor : tensors) {
      const core::Dtype dtype =
          tensor.scalar_type() == at::kFloat ? core::Dtype::kFloat32 : core::Dtype::kUInt8;
      DeviceContent there{tensor.to(device), dtype, {}};
      const StridedBytes here(static_cast<const std::byte*>(tensor.data_ptr()),
                              static_cast<std::size_t>(tensor.element_size()),
                              {tensor.sizes().data(), tensor.sizes().size()},
                              {tensor.strides().data(), tensor.strides().size()});
      const ContentSummary expected = summarise_content(here, dtype, false);
      if (!summarise({&there, 1}) || there.summary.digest != expected.digest ||
          !(there.summary.non_finite == expected.non_finite)) {
        return false;
      }
    }
    return true;
  }

  std::unique_ptr<CudaProgram> kernel_;
  PinnedRows<LeafOrder> orders_{kLeaves};
  PinnedRows<LeafResult> results_{kLeaves};
  PinnedRows<std::byte> copied_{kLeaves * kCopied};
};

DeviceDigests::DeviceDigests() = default;
DeviceDigests::~DeviceDigests() = default;

bool DeviceDigests::summarise(std::span<DeviceContent> contents) {
  if (contents.empty()) return true;
  const EngineCalls guard;
  const c10::Device device = contents.front().tensor.device();
  auto [reader, is_new] = readers_.try_emplace(device.index());
  if (is_new) reader->second = Reader::make(device);
  if (reader->second == nullptr) return false;
  try {
    return reader->second->summarise(contents);
  } catch (const c10::OutOfMemoryError&) {  // for a copy in one piece
    return false;
  }
}

}  // namespace repro_check::capture
