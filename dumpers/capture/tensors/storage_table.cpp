// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/tensors/storage_table.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <tuple>

#include "core/text/short_text.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {

namespace {

struct Dimension {
  std::size_t stride = 0;  ///< in bytes
  std::size_t size = 0;
};

/// Appends, or joins with the last one where they touch or overlap.
void append(std::vector<ByteRange>& ranges, const ByteRange& next) {
  if (!ranges.empty() && next.begin <= ranges.back().end) {
    ranges.back().end = std::max(ranges.back().end, next.end);
  } else {
    ranges.push_back(next);
  }
}

/// The outermost first; without those along which nothing moves.
std::vector<Dimension> dimensions_of(const at::Tensor& tensor) {
  const auto width = static_cast<std::size_t>(tensor.element_size());
  std::vector<Dimension> dimensions;
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    if (tensor.size(d) == 1 || tensor.stride(d) == 0) continue;
    dimensions.push_back({static_cast<std::size_t>(tensor.stride(d)) * width,
                          static_cast<std::size_t>(tensor.size(d))});
  }
  std::ranges::stable_sort(dimensions, std::ranges::greater{}, &Dimension::stride);
  return dimensions;
}

}  // namespace

ByteRange extent_of(const at::Tensor& tensor) {
  const auto width = static_cast<std::size_t>(tensor.element_size());
  ByteRange range{static_cast<std::size_t>(tensor.storage_offset()) * width, 0};
  range.end = range.begin;
  if (tensor.numel() == 0) return range;
  for (const Dimension& dimension : dimensions_of(tensor)) {
    range.end += (dimension.size - 1) * dimension.stride;
  }
  range.end += width;
  return range;
}

std::optional<std::vector<ByteRange>> pieces_of(const at::Tensor& tensor) {
  std::vector<ByteRange> pieces;
  if (tensor.numel() == 0) return pieces;
  std::vector<Dimension> dimensions = dimensions_of(tensor);
  const auto width = static_cast<std::size_t>(tensor.element_size());
  std::size_t length = width;
  while (!dimensions.empty() && dimensions.back().stride <= length) {
    length += (dimensions.back().size - 1) * dimensions.back().stride;
    dimensions.pop_back();
  }
  std::size_t count = 1;
  for (const Dimension& dimension : dimensions) {
    if (dimension.size > kMostPieces / count) return std::nullopt;
    count *= dimension.size;
  }
  pieces.reserve(count);
  std::vector<std::size_t> index(dimensions.size(), 0);
  std::size_t begin = static_cast<std::size_t>(tensor.storage_offset()) * width;
  for (std::size_t piece = 0; piece < count; ++piece) {
    pieces.push_back({begin, begin + length});
    for (std::size_t d = index.size(); d-- > 0;) {
      begin += dimensions[d].stride;
      if (++index[d] < dimensions[d].size) break;
      begin -= dimensions[d].stride * dimensions[d].size;
      index[d] = 0;
    }
  }
  // Views that overlap themselves are not ascending.
  std::ranges::sort(pieces, {}, &ByteRange::begin);
  std::vector<ByteRange> apart;
  for (const ByteRange& piece : pieces) append(apart, piece);
  return apart;
}

void ByteRanges::add(const std::vector<ByteRange>& pieces) {
  std::vector<ByteRange> merged;
  merged.reserve(ranges_.size() + pieces.size());
  auto known = ranges_.begin();
  for (const ByteRange& piece : pieces) {
    for (; known != ranges_.end() && known->begin < piece.begin; ++known) append(merged, *known);
    append(merged, piece);
  }
  for (; known != ranges_.end(); ++known) append(merged, *known);
  ranges_ = std::move(merged);
}

bool ByteRanges::contains(const std::vector<ByteRange>& pieces) const {
  auto known = ranges_.begin();
  for (const ByteRange& piece : pieces) {
    known = std::find_if(
        known, ranges_.end(), [&](const ByteRange& range) { return range.end >= piece.end; });
    if (known == ranges_.end() || !known->holds(piece)) return false;
  }
  return true;
}

namespace {

/// What the arguments after the first are.
enum class Picking : std::uint8_t { kIndices, kMask, kScatter, kIndex };

struct Picker {
  std::string_view base;
  Picking by;
};

constexpr std::array<Picker, 10> kPickers{{{"index_put_", Picking::kIndices},
                                           {"_index_put_impl_", Picking::kIndices},
                                           {"masked_fill_", Picking::kMask},
                                           {"masked_scatter_", Picking::kMask},
                                           {"scatter_", Picking::kScatter},
                                           {"scatter_add_", Picking::kScatter},
                                           {"scatter_reduce_", Picking::kScatter},
                                           {"index_fill_", Picking::kIndex},
                                           {"index_copy_", Picking::kIndex},
                                           {"index_add_", Picking::kIndex}}};

const Picker* find_picker(std::string_view base) {
  const auto* found = std::ranges::find(kPickers, base, &Picker::base);
  return found == kPickers.end() ? nullptr : found;
}

/// A mask of bytes is an old spelling of truths, which not every kernel takes: `index_put_` does,
/// and the `masked_fill_` that it becomes for one value does not.
at::Tensor without_byte_mask(const at::Tensor& index) {
  return index.scalar_type() == at::kByte ? index.to(at::kBool) : index;
}

/// Sets what the operator picks, by doing the same to truths.
void pick(Picking by, const c10::IValue* arguments, at::Tensor& picked) {
  switch (by) {
    case Picking::kIndices: {
      c10::List<c10::optional<at::Tensor>> indices;
      for (const c10::IValue& index : arguments[1].toListRef()) {
        indices.push_back(index.isNone() ? c10::optional<at::Tensor>()
                                         : without_byte_mask(index.toTensor()));
      }
      picked.index_put_(indices, at::ones({}, picked.options()));
      return;
    }
    case Picking::kMask:
      picked.masked_fill_(without_byte_mask(arguments[1].toTensor()), true);
      return;
    case Picking::kScatter:
      picked.scatter_(arguments[1].toInt(), arguments[2].toTensor(), true);
      return;
    case Picking::kIndex:
      picked.index_fill_(arguments[1].toInt(), arguments[2].toTensor(), true);
      return;
  }
}

}  // namespace

bool picks_elements(std::string_view base) { return find_picker(base) != nullptr; }

std::optional<std::vector<ByteRange>> picked_bytes(std::string_view base,
                                                   const c10::IValue* arguments) {
  const Picker* picker = find_picker(base);
  const at::Tensor& self = arguments[0].toTensor();
  if (picker == nullptr || !self.is_contiguous() || self.is_meta()) return std::nullopt;
  const EngineCalls guard;
  const UnheardWarnings quiet;
  at::Tensor picked = at::zeros(self.sizes(), self.options().dtype(at::kBool).requires_grad(false));
  try {
    pick(picker->by, arguments, picked);
  } catch (const c10::Error&) {
    return std::nullopt;  // the operator itself is about to say what is wrong
  }
  picked = picked.cpu();
  const bool* at = picked.data_ptr<bool>();
  const auto width = static_cast<std::size_t>(self.element_size());
  const std::size_t first = extent_of(self).begin;
  std::vector<ByteRange> pieces;
  for (std::int64_t i = 0; i < picked.numel(); ++i) {
    if (!at[i]) continue;
    const std::size_t begin = first + static_cast<std::size_t>(i) * width;
    if (!pieces.empty() && pieces.back().end == begin) {
      pieces.back().end += width;
    } else if (pieces.size() == kMostPieces) {
      return std::nullopt;
    } else {
      pieces.push_back({begin, begin + width});
    }
  }
  return pieces;
}

namespace {

/// Views remembered of one storage: a bucket of gradients has some hundred. A loop over the rows of
/// a large tensor must not grow it.
constexpr std::size_t kMaxViews = 256;

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
    if (cached.offset == tensor.storage_offset() && cached.version == version &&
        cached.type == tensor.scalar_type() && cached.conjugated == tensor.is_conj() &&
        cached.negated == tensor.is_neg() && same_numbers(tensor.sizes(), cached.sizes) &&
        same_numbers(tensor.strides(), cached.strides)) {
      return &cached;
    }
  }
  return nullptr;
}

CachedDigest* StorageEntry::take_same_bytes(const at::Tensor& tensor) {
  if (digests.empty() || !tensor.is_contiguous()) return nullptr;
  const std::int64_t version = version_of(*tensor.unsafeGetTensorImpl());
  for (const CachedDigest& cached : digests) {
    if (!cached.contiguous || cached.version != version || cached.type != tensor.scalar_type() ||
        cached.offset != tensor.storage_offset() || cached.conjugated != tensor.is_conj() ||
        cached.negated != tensor.is_neg()) {
      continue;
    }
    if (c10::multiply_integers(cached.sizes) != tensor.numel()) continue;
    const auto [digest, stats, counted, awaited] =
        std::tuple(cached.digest, cached.stats, cached.counted, cached.awaited);
    CachedDigest& taken = remember(tensor, digest, version);
    taken.stats = stats;
    taken.counted = counted;
    taken.awaited = awaited;
    return &taken;
  }
  return nullptr;
}

CachedDigest& StorageEntry::remember(const at::Tensor& tensor,
                                     const core::Digest& digest,
                                     std::int64_t version) {
  CachedDigest& cached =
      digests.size() < kMaxViews ? digests.emplace_back() : digests[next_view_++ % kMaxViews] = {};
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
  static const std::string none;
  if (names_.empty()) return none;
  if (names_.size() == 1) return names_.front().text;
  const ByteRange range = extent_of(tensor);
  const Name* best = nullptr;
  for (const Name& name : names_) {
    if (name.range.holds(range) && (best == nullptr || best->range.holds(name.range))) best = &name;
  }
  return best == nullptr ? none : best->text;
}

void StorageEntry::open_writer(std::int64_t index, const Awaited& before, const Awaited& after) {
  settle_writer();
  open_write = std::make_shared<OpenWrite>(OpenWrite{index, writer, open_write, before, after});
}

void StorageEntry::settle_writer() {
  if (open_write == nullptr || is_on_the_way(open_write->before) ||
      is_on_the_way(open_write->after)) {
    return;
  }
  // Those before it have come before.
  if (open_write->any_happened()) names_.clear();
  set_writer(open_write->last());
}

void StorageEntry::written_by(std::int64_t index) {
  set_writer(index);
  names_.clear();
  uninitialised = false;
  written.clear();
  follows_writes = false;
  foreign = false;
  fingerprint.reset();
  digests.clear();
  memory.reset();
  stream.reset();
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
  set_writer(index);
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

void StorageEntry::grow(std::int64_t index,
                        const c10::StorageImpl& storage,
                        std::size_t bytes_before) {
  ByteRanges kept;
  if (uninitialised) {
    kept = std::move(written);
  } else if (bytes_before != 0) {
    kept.add({{0, bytes_before}});
  }
  written_by(index);
  mark_uninitialised(storage);
  written = std::move(kept);
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
  shared = false;
}

StorageEntry& StorageTable::find(const c10::Storage& storage) {
  const c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  if (impl == last_) return *last_entry_;
  next_asked_ = (next_asked_ + 1) % asked_.size();
  if (asked_[next_asked_] != nullptr) forget_if_dead(asked_[next_asked_]);
  const auto found = entries_.find(impl);
  Place place = found != entries_.end() ? &*found : insert(storage);
  asked_[next_asked_] = place;
  last_ = impl;
  last_entry_ = &place->second;
  return *last_entry_;
}

const StorageEntry* StorageTable::known(const c10::Storage& storage) const {
  const auto found = entries_.find(storage.unsafeGetStorageImpl());
  return found == entries_.end() ? nullptr : &found->second;
}

StorageTable::Place StorageTable::insert(const c10::Storage& storage) {
  forget_dead();
  const c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  Place place = nullptr;
  if (spare_.empty()) {
    place = &*entries_.try_emplace(impl, storage.getWeakStorageImpl(), next_number_++).first;
  } else {
    Entries::node_type node = std::move(spare_.back());
    spare_.pop_back();
    node.key() = impl;
    node.mapped().renew(storage.getWeakStorageImpl(), next_number_++);
    place = &*entries_.insert(std::move(node)).position;
  }
  place->second.turn_ = round_.size();
  round_.push_back(place);
  return place;
}

void StorageTable::forget_contents() {
  for (auto& [storage, entry] : entries_) {
    entry.take_as_written();
    entry.digests.clear();
    entry.set_writer(core::kNoProducer);
    entry.stream.reset();
  }
}

/// The weak reference holds the storage's own block, which lies among the tensors: as long as it is
/// there, what was freed on either side of it stays apart, and the heap grows with every step. So
/// find() looks again at one that was asked for a while ago, since most die soon after; here it is
/// the turn of four others, and of more where those have died.
void StorageTable::forget_dead() {
  for (int looks = 4; looks > 0 && !round_.empty(); --looks) {
    if (next_look_ >= round_.size()) next_look_ = 0;
    if (forget_if_dead(round_[next_look_])) {
      looks += 4;
    } else {
      ++next_look_;
    }
  }
}

bool StorageTable::forget_if_dead(Place place) {
  StorageEntry& entry = place->second;
  if (entry.turn_ == StorageEntry::kNoTurn || !entry.alive.expired()) return false;
  if (last_ == place->first) last_ = nullptr;
  round_.back()->second.turn_ = entry.turn_;
  round_[entry.turn_] = round_.back();
  round_.pop_back();
  entry.turn_ = StorageEntry::kNoTurn;
  entry.alive.reset();
  spare_.push_back(entries_.extract(place->first));
  return true;
}

}  // namespace repro_check::capture
