// SPDX-License-Identifier: Apache-2.0
#include "dumpers/imports/imported_dump.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "core/digest/digest.h"

namespace repro_check::imports {
namespace {

std::vector<std::int64_t> contiguous(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) {
    strides[axis - 1] = strides[axis] * std::max<std::int64_t>(shape[axis], 1);
  }
  return strides;
}

}  // namespace

ImportedDump::ImportedDump(const std::filesystem::path& directory,
                           const store::DumpWriterOptions& options,
                           core::RunManifest manifest)
    : writer_(directory, options), manifest_(std::move(manifest)) {
  manifest_.trace.digest_algorithm = core::kDigestAlgorithm;
  writer_.begin(manifest_);
}

core::TensorRecord ImportedDump::keep(const core::TensorView& values) {
  core::TensorRecord tensor;
  tensor.dtype = values.dtype;
  tensor.shape.assign(values.shape.begin(), values.shape.end());
  tensor.strides = contiguous(tensor.shape);
  tensor.device = "cpu";
  tensor.state = core::ContentState::kHashed;
  tensor.digest = core::digest_bytes(values.bytes);
  tensor.stored = true;
  if (!writer_.has_content(tensor.content_key())) {
    writer_.put_content(tensor.content_key(), values.bytes);
    manifest_.trace.stored_bytes += values.bytes.size();
  }
  return tensor;
}

void ImportedDump::append(core::OpRecord record) {
  record.index = manifest_.trace.operators++;
  manifest_.trace.tensors += record.tensors.size();
  for (core::TensorRecord& tensor : record.tensors) {
    tensor.storage = storages_++;
    if (core::is_output(tensor)) tensor.producer = static_cast<std::int64_t>(record.index);
  }
  writer_.enter(record);
  writer_.append(record);
}

core::TraceSummary ImportedDump::finish() {
  writer_.finish(manifest_);
  return manifest_.trace;
}

}  // namespace repro_check::imports
