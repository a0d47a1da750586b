// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/tensors/sample_digests.h"

#include <cstddef>
#include <optional>
#include <utility>

#include "core/digest/digest.h"
#include "core/tensor/dtype.h"
#include "dumpers/capture/tensors/strided_bytes.h"
#include "dumpers/capture/tensors/tensor_recorder.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {
namespace {

/// A batch that one thread digests before another one is awake.
constexpr std::size_t kFewBytes = std::size_t{1} << 19U;

/// The rows of one tensor of a batch.
struct SampleRows {
  HostContent content;
  core::Dtype dtype;
  std::size_t elements;  ///< in one

  [[nodiscard]] std::size_t bytes() const { return elements * content.bytes.element_size(); }

  [[nodiscard]] core::Digest digest(std::size_t row) const {
    if (content.bytes.contiguous()) {
      return core::digest_bytes(content.bytes.bytes().subspan(row * bytes(), bytes()));
    }
    std::vector<std::byte> scratch(bytes());
    content.bytes.copy(row * elements, scratch);
    return core::digest_bytes(scratch);
  }
};

core::Digest digest_of_sample(const std::vector<SampleRows>& batch, std::size_t sample) {
  std::vector<core::Digest> parts;
  for (const SampleRows& rows : batch) {
    parts.push_back(rows.digest(sample));
    parts.push_back({0, static_cast<std::uint64_t>(rows.dtype)});
  }
  return core::digest_leaf(std::as_bytes(std::span(parts)));
}

}  // namespace

std::vector<std::int64_t> sample_digests(std::span<const at::Tensor> tensors) {
  std::vector<SampleRows> batch;
  std::size_t samples = 0;
  std::size_t bytes = 0;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined() || tensor.dim() == 0 || !tensor.is_cpu()) continue;
    if (form_of(tensor) != TensorForm::kStrided || tensor.numel() == 0) continue;
    const auto length = static_cast<std::size_t>(tensor.size(0));
    if (samples != 0 && length != samples) continue;
    std::optional<HostContent> content = host_content(tensor);
    if (!content) return {};
    samples = length;
    const std::size_t elements = content->bytes.count() / length;
    batch.push_back({*std::move(content), dtype_of(tensor.scalar_type()), elements});
    bytes += batch.back().bytes();
  }
  std::vector<std::int64_t> digests(2 * samples);
  if (batch.empty()) return digests;
  share_out(samples, samples * bytes > kFewBytes, [&](std::size_t i) {
    const core::Digest digest = digest_of_sample(batch, i);
    digests[2 * i] = static_cast<std::int64_t>(digest.high);
    digests[2 * i + 1] = static_cast<std::int64_t>(digest.low);
  });
  return digests;
}

}  // namespace repro_check::capture
