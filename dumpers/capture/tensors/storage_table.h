// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Storage.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/digest/digest.h"
#include "core/tensor/tensor_record.h"
#include "dumpers/capture/tensors/arrivals.h"

namespace repro_check::capture {

/// Bytes `[begin, end)` of a storage.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  [[nodiscard]] bool holds(const ByteRange& other) const noexcept {
    return begin <= other.begin && other.end <= end;
  }
  bool operator==(const ByteRange&) const = default;
};

/// What lies in more pieces is not followed: to keep them must not cost more than the tensor.
inline constexpr std::size_t kMostPieces = 16384;

/// From the first byte of a strided tensor to its last, what it leaves out in between included.
ByteRange extent_of(const at::Tensor& tensor);

/// The bytes of a strided tensor in its storage, ascending and apart from each other; empty where
/// they lie in too many pieces to be told.
std::optional<std::vector<ByteRange>> pieces_of(const at::Tensor& tensor);

/// A set of bytes of one storage.
class ByteRanges {
 public:
  /// @param pieces  ascending, as pieces_of() gives them
  void add(const std::vector<ByteRange>& pieces);
  [[nodiscard]] bool contains(const std::vector<ByteRange>& pieces) const;
  /// Shows the parts of `range` that are not in the set.
  template <class Visit>
  void for_each_gap(ByteRange range, const Visit& visit) const {
    for (const ByteRange& known : ranges_) {
      if (known.end <= range.begin) continue;
      if (known.begin >= range.end) break;
      if (known.begin > range.begin) visit(ByteRange{range.begin, known.begin});
      range.begin = known.end;
    }
    if (range.begin < range.end) visit(range);
  }

  [[nodiscard]] std::size_t pieces() const noexcept { return ranges_.size(); }
  [[nodiscard]] bool empty() const noexcept { return ranges_.empty(); }
  void clear() noexcept { ranges_.clear(); }

 private:
  std::vector<ByteRange> ranges_;  ///< ascending, none touches the next
};

/// Whether an operator (`scatter_`) writes those elements of its first argument that others pick.
bool picks_elements(std::string_view base);

/// Which bytes of the storage of the first argument such an operator is going to write; empty where
/// that cannot be told.
/// @param arguments  as its schema has them
std::optional<std::vector<ByteRange>> picked_bytes(std::string_view base,
                                                   const c10::IValue* arguments);

/// Moves with every write through autograd or the dispatcher; -1 for inference tensors, which have
/// no counter.
std::int64_t version_of(const c10::TensorImpl& tensor);

/// Digest of one view of a storage, valid until the storage is written.
struct CachedDigest {
  std::int64_t offset = 0;
  c10::ScalarType type = c10::ScalarType::Undefined;
  bool conjugated = false;
  bool negated = false;
  bool contiguous = false;
  c10::SmallVector<std::int64_t, 5> sizes;
  c10::SmallVector<std::int64_t, 5> strides;
  /// Of the tensor that was hashed: catches what is written without the engine seeing it.
  std::int64_t version = -1;
  core::Digest digest;
  Awaited awaited;      ///< of a device: not null where the rest is to be had from it
  bool stored = false;  ///< the sink has the bytes
  std::optional<core::TensorStats> stats;
  std::optional<core::NonFinite> counted;
};

/// What the engine knows of one storage of the trace.
struct StorageEntry {
  StorageEntry(c10::weak_intrusive_ptr<c10::StorageImpl> storage, std::int64_t ordinal)
      : alive(std::move(storage)), number(ordinal) {}

  /// Makes it the entry of another storage, with the memory it already has.
  void renew(c10::weak_intrusive_ptr<c10::StorageImpl> storage, std::int64_t ordinal);

  /// Keeps the address from being handed out again (trap 17); the memory itself is not held.
  c10::weak_intrusive_ptr<c10::StorageImpl> alive;
  std::int64_t number = -1;
  std::int64_t writer = core::kNoProducer;      ///< op index
  std::shared_ptr<const OpenWrite> open_write;  ///< of an operator behind the writer
  bool uninitialised = false;  ///< memory just handed out, of which not all has been written
  /// Of such memory what operators have written, where that is followed; else the first write is
  /// taken for one of the whole.
  ByteRanges written;
  bool follows_writes = false;
  /// Of the device's streams the one on which an operator wrote it last, where that was seen.
  std::optional<DeviceStream::Handle> stream;
  /// Memory a kernel made for itself, first met as an argument of a call of its own: it holds what
  /// the kernel computed there, or nothing yet. Only being read tells.
  bool foreign = false;
  /// NumPy or another process has it too, and may write it past all operators: no digest lasts.
  bool shared = false;
  /// Of memory just handed out, to notice when it is filled without an operator (a list turned into
  /// a tensor); empty where it cannot be read.
  std::optional<core::Digest> fingerprint;
  std::vector<CachedDigest> digests;
  /// Where the content lies, as last noticed since it was written.
  struct Memory {
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    bool operator==(const Memory&) const = default;
  };
  std::optional<Memory> memory;

  /// The entry for `tensor` as it is now, or null.
  CachedDigest* find(const at::Tensor& tensor);
  /// Remembers what is known of another contiguous view of the same bytes, or gives null: digest
  /// and statistics do not depend on shape.
  CachedDigest* take_same_bytes(const at::Tensor& tensor);
  /// @param version  of the tensor before its content was read: who writes it meanwhile makes the
  ///                 digest one of nothing
  CachedDigest& remember(const at::Tensor& tensor,
                         const core::Digest& digest,
                         std::int64_t version);

  /// Names what `tensor` shows of the storage.
  void put_name(const at::Tensor& tensor, const std::string& name);
  /// Of the narrowest named range that holds the tensor; of one that lies anywhere where there is
  /// but one; empty where there is none.
  [[nodiscard]] const std::string& name_of(const at::Tensor& tensor) const;
  void forget_names() noexcept { names_.clear(); }

  /// That is who wrote the content last.
  void set_writer(std::int64_t index) noexcept {
    writer = index;
    open_write.reset();
  }
  /// Op `index` has written the content if the two turn out to differ.
  void open_writer(std::int64_t index, const Awaited& before, const Awaited& after);
  /// Says who wrote it, where that is known by now.
  void settle_writer();

  /// Op `index` has written the content, and may have given the storage other memory for it.
  void written_by(std::int64_t index);
  /// Op `index` has written what `tensor` shows of it.
  /// @param picked  the bytes of that which it wrote; null = all
  void written_by(std::int64_t index,
                  const at::Tensor& tensor,
                  const std::vector<ByteRange>* picked);
  /// To be told before the digests are asked: forgets them where the storage has been given other
  /// memory, or another size, and no operator wrote it (a storage that is resized, a `set_` beyond
  /// the end). What it has grown by is whatever the memory held before.
  void notice_memory(const c10::StorageImpl& storage);
  /// Op `index` has given it more memory, and kept what it held: the rest is whatever was there.
  void grow(std::int64_t index, const c10::StorageImpl& storage, std::size_t bytes_before);
  /// The content is whatever the memory held before.
  void mark_uninitialised(const c10::StorageImpl& storage);
  /// The content is that of somebody who was not seen.
  void take_as_written() noexcept;
  /// Whether some of what `tensor` shows still is; asks the memory where it can.
  bool is_uninitialised(const at::Tensor& tensor);

 private:
  struct Name {
    ByteRange range;
    std::string text;
  };
  std::vector<Name> names_;    ///< until an operator writes the storage
  std::size_t next_view_ = 0;  ///< of the digests, to be forgotten for another

  friend class StorageTable;
  static constexpr std::size_t kNoTurn = static_cast<std::size_t>(-1);
  std::size_t turn_ = kNoTurn;  ///< among the table's entries; kNoTurn = its storage is dead
};

/// Every living storage the engine has met. Not thread safe.
class StorageTable {
 public:
  /// The entry of a storage, made when it is new.
  StorageEntry& find(const c10::Storage& storage);
  /// The entry of a storage that has one, else null.
  [[nodiscard]] const StorageEntry* known(const c10::Storage& storage) const;
  /// Operators were not seen: whatever the storages hold, somebody else has written it.
  void forget_contents();
  /// Number the next new storage will get.
  [[nodiscard]] std::int64_t next_number() const noexcept { return next_number_; }

  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

 private:
  using Entries = std::unordered_map<const c10::StorageImpl*, StorageEntry>;
  using Place = Entries::value_type*;

  void forget_dead();
  /// False for one that lives, or was forgotten before.
  bool forget_if_dead(Place place);
  Place insert(const c10::Storage& storage);

  Entries entries_;
  /// Of dead storages, to be used again. None is ever freed, so that a Place stays one.
  std::vector<Entries::node_type> spare_;
  /// The one asked for last is mostly the one asked for next: a result, then an argument.
  const c10::StorageImpl* last_ = nullptr;
  StorageEntry* last_entry_ = nullptr;
  std::int64_t next_number_ = 0;
  std::vector<Place> round_;  ///< all entries, to look at one after the other
  std::size_t next_look_ = 0;
  std::array<Place, 32> asked_{};  ///< lately; null = none yet
  std::size_t next_asked_ = 0;
};

}  // namespace repro_check::capture
