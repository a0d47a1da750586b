// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/tensors/storage_table.h"

#include <c10/util/accumulate.h>

#include <algorithm>
#include <array>

#include "core/text/short_text.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {
namespace {

/// Views remembered of one storage. A loop over the rows of a large tensor must not grow it.
constexpr std::size_t kMaxViews = 32;

/// Entries of dead storages kept to be used again.
constexpr std::size_t kMostSpare = 128;

/// Bytes looked at, at either end of a fresh storage.
constexpr std::size_t kFingerprintBytes = 4096;

bool same_numbers(at::IntArrayRef left, const c10::SmallVector<std::int64_t, 5>& right) {
  return core::same_sizes({left.data(), left.size()}, {right.data(), right.size()});
}

std::optional<core::Digest> fingerprint_of(const c10::StorageImpl& storage) {
  const std::size_t bytes = storage.nbytes();
  if (bytes == 0 || storage.device_type() != c10::DeviceType::CPU) return std::nullopt;
  const std::byte* memory = storage_bytes(storage);
  if (memory == nullptr) return std::nullopt;
  const std::size_t part = std::min(bytes, kFingerprintBytes);
  const std::array<core::Digest, 2> ends = {core::digest_leaf({memory, part}),
                                            core::digest_leaf({memory + bytes - part, part})};
  return core::digest_leaf(std::as_bytes(std::span(ends)));
}

}  // namespace

std::int64_t version_of(const c10::TensorImpl& tensor) {
  const c10::VariableVersion& counter = tensor.version_counter();
  return counter.enabled() ? static_cast<std::int64_t>(counter.current_version()) : -1;
}

CachedDigest* StorageEntry::find(const at::Tensor& tensor) {
  if (digests.empty()) return nullptr;
  const std::int64_t version = version_of(*tensor.unsafeGetTensorImpl());
  for (CachedDigest& cached : digests) {
    if (cached.version == version && cached.offset == tensor.storage_offset() &&
        cached.type == tensor.scalar_type() && cached.conjugated == tensor.is_conj() &&
        cached.negated == tensor.is_neg() && same_numbers(tensor.sizes(), cached.sizes) &&
        same_numbers(tensor.strides(), cached.strides)) {
      return &cached;
    }
  }
  return nullptr;
}

const CachedDigest* StorageEntry::find_same_bytes(const at::Tensor& tensor) const {
  if (digests.empty() || !tensor.is_contiguous()) return nullptr;
  const std::int64_t version = version_of(*tensor.unsafeGetTensorImpl());
  for (const CachedDigest& cached : digests) {
    if (!cached.contiguous || cached.version != version || cached.type != tensor.scalar_type() ||
        cached.offset != tensor.storage_offset() || cached.conjugated != tensor.is_conj() ||
        cached.negated != tensor.is_neg()) {
      continue;
    }
    if (c10::multiply_integers(cached.sizes) == tensor.numel()) return &cached;
  }
  return nullptr;
}

CachedDigest& StorageEntry::remember(const at::Tensor& tensor,
                                     const core::Digest& digest,
                                     std::int64_t version) {
  if (digests.size() >= kMaxViews) digests.erase(digests.begin());
  CachedDigest& cached = digests.emplace_back();
  cached.offset = tensor.storage_offset();
  cached.type = tensor.scalar_type();
  cached.conjugated = tensor.is_conj();
  cached.negated = tensor.is_neg();
  cached.contiguous = tensor.is_contiguous();
  cached.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  cached.strides.assign(tensor.strides().begin(), tensor.strides().end());
  cached.version = version;
  cached.digest = digest;
  return cached;
}

void StorageEntry::put_name(const at::Tensor& tensor, const std::string& name) {
  const ByteRange range = extent_of(tensor);
  const auto known = std::ranges::find(names_, range, &Name::range);
  if (known == names_.end()) {
    names_.push_back({range, name});
  } else {
    known->text = name;
  }
}

const std::string& StorageEntry::name_of(const at::Tensor& tensor) const {
  static const std::string kNone;
  if (names_.empty()) return kNone;
  if (names_.size() == 1) return names_.front().text;
  const ByteRange range = extent_of(tensor);
  const Name* best = nullptr;
  for (const Name& name : names_) {
    if (name.range.holds(range) && (best == nullptr || best->range.holds(name.range))) best = &name;
  }
  return best == nullptr ? kNone : best->text;
}

void StorageEntry::written_by(std::int64_t index) {
  writer = index;
  names_.clear();
  uninitialised = false;
  written.clear();
  follows_writes = false;
  foreign = false;
  fingerprint.reset();
  digests.clear();
  memory.reset();
}

void StorageEntry::written_by(std::int64_t index,
                              const at::Tensor& tensor,
                              const std::vector<ByteRange>* picked) {
  if (!uninitialised || !follows_writes) return written_by(index);
  const auto pieces = picked != nullptr ? std::optional(*picked) : pieces_of(tensor);
  if (pieces) written.add(*pieces);
  const c10::StorageImpl& storage =
      *tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  const bool whole = !pieces || written.pieces() > kMostPieces ||
                     written.contains({{0, static_cast<std::size_t>(storage.nbytes())}});
  if (whole) return written_by(index);
  writer = index;
  digests.clear();
  memory.reset();
  fingerprint = fingerprint_of(storage);
}

void StorageEntry::notice_memory(const c10::StorageImpl& storage) {
  const Memory now{storage_bytes(storage), storage.nbytes()};
  if (memory == now) return;
  const bool grown = memory && now.bytes > memory->bytes;
  if (memory) digests.clear();
  memory = now;
  if (grown) mark_uninitialised(storage);
}

void StorageEntry::mark_uninitialised(const c10::StorageImpl& storage) {
  uninitialised = true;
  digests.clear();
  fingerprint = fingerprint_of(storage);
}

void StorageEntry::take_as_written() noexcept {
  uninitialised = false;
  written.clear();
  fingerprint.reset();
}

bool StorageEntry::is_uninitialised(const at::Tensor& tensor) {
  if (!uninitialised) return false;
  const c10::StorageImpl& storage =
      *tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  if (fingerprint && fingerprint_of(storage) != fingerprint) {
    take_as_written();
    return false;
  }
  if (written.empty()) return true;
  const auto pieces = pieces_of(tensor);
  return pieces && !written.contains(*pieces);
}

void StorageEntry::renew(c10::weak_intrusive_ptr<c10::StorageImpl> storage, std::int64_t ordinal) {
  written_by(core::kNoProducer);
  alive = std::move(storage);
  number = ordinal;
}

StorageEntry& StorageTable::find(const c10::Storage& storage) {
  const c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  if (impl == last_) return *last_entry_;
  auto found = entries_.find(impl);
  if (found == entries_.end()) {
    forget_dead();
    found = insert(storage);
  }
  last_ = impl;
  last_entry_ = &found->second;
  return *last_entry_;
}

StorageTable::Entries::iterator StorageTable::insert(const c10::Storage& storage) {
  const c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  Entries::iterator place;
  if (spare_.empty()) {
    place = entries_.try_emplace(impl, storage.getWeakStorageImpl(), next_number_++).first;
  } else {
    Entries::node_type node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = impl;
    node.mapped().renew(storage.getWeakStorageImpl(), next_number_++);
    place = entries_.insert(std::move(node)).position;
  }
  round_.push_back(&*place);
  return place;
}

/// Looks at two entries for each new one, so that the dead are never many more than the living.
/// They go soon, because the weak reference holds the storage's own block, which the allocator then
/// hands out again while it is still in the cache.
void StorageTable::forget_dead() {
  for (int look = 0; look < 2 && !round_.empty(); ++look) {
    if (next_look_ >= round_.size()) next_look_ = 0;
    Entries::value_type*& place = round_[next_look_];
    if (!place->second.alive.expired()) {
      ++next_look_;
      continue;
    }
    if (last_ == place->first) last_ = nullptr;
    Entries::node_type dead = entries_.extract(place->first);
    place = round_.back();
    round_.pop_back();
    dead.mapped().alive.reset();
    if (spare_.size() < kMostSpare) spare_.push_back(std::move(dead));
  }
}

}  // namespace repro_check::capture
