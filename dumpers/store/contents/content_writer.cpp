// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/contents/content_writer.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_view.h"
#include "core/trace/dump_sink.h"

namespace repro_check::store {

namespace {

void check_size(const core::ContentKey& key, std::size_t bytes) {
  const auto elements = static_cast<std::uint64_t>(core::element_count(key.shape));
  const std::size_t element = core::element_size(key.dtype);
  if (element != 0 && elements == bytes / element && bytes % element == 0) return;
  throw core::Error(core::ErrorKind::kInternal,
                    fmt::format("content {} was handed {} bytes", core::content_name(key), bytes));
}

}  // namespace

ContentWriter::ContentWriter(std::filesystem::path trace,
                             const ContentDatasets& datasets,
                             journal::JournalWriter& journal,
                             std::size_t memory)
    : trace_(std::move(trace)), datasets_(datasets), journal_(journal), memory_(memory) {}

void ContentWriter::put(const core::ContentKey& key, const core::ContentBytes& bytes) {
  check();
  if (known_.contains(key)) return;
  check_size(key, bytes.size());
  const bool small = bytes.size() <= journal::kSmallContent;
  std::uint64_t offset = 0;
  if (small) {
    small_.resize(bytes.size());
    if (!small_.empty()) bytes.read(0, small_);
  } else {
    offset = stage(key, bytes);
  }
  core::ContentKey read = core::key_of_read(key, bytes);
  if (!small && read.digest != key.digest) relabel(key, read);
  if (known_.contains(read)) return;
  if (small) {
    journal_.content(read, small_);
  } else {
    journal_.content(read, journal::ContentPlace::kTrace, offset);
  }
  kept.push_back({&*known_.insert(std::move(read)).first,
                  small ? static_cast<std::int64_t>(small_bytes) : kOwnDataset});
  stored_bytes += bytes.size();
  if (!small) return;
  small_bytes += bytes.size();
  ++small_contents;
}

void ContentWriter::note_slice(const core::ContentKey& key, const core::ContentSlice& slice) {
  if (slices.try_emplace(key, slice).second) journal_.sliced({key, slice});
}

void ContentWriter::refer(const core::ContentKey& key) {
  if (known_.contains(key)) return;
  journal_.content(key, journal::ContentPlace::kReference, 0);
  kept.push_back({&*known_.insert(key).first, kInReference});
  referred.insert(key);
  referred_bytes += core::content_size(key);
}

std::uint64_t ContentWriter::stage(const core::ContentKey& key, const core::ContentBytes& bytes) {
  if (!file_) file_.emplace(trace_);
  if (!queue_) queue_.emplace(*file_, memory_);
  const std::uint64_t offset = datasets_.allocate(key);
  queue_->put(offset, bytes);
  return offset;
}

void ContentWriter::relabel(const core::ContentKey& key, const core::ContentKey& read) {
  if (!known_.contains(read)) return datasets_.rename(key, read);
  queue_->drain();  // HDF5 may give the room to the next dataset
  datasets_.remove(key);
}

void ContentWriter::check() {
  if (queue_) queue_->check();
}

void ContentWriter::drain() {
  if (queue_) queue_->drain();
}

}  // namespace repro_check::store
