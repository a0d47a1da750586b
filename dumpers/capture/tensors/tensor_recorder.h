// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/trace/dump.h"
#include "core/trace/run_manifest.h"
#include "dumpers/capture/tensors/arrivals.h"
#include "dumpers/capture/tensors/device_digests.h"
#include "dumpers/capture/tensors/storage_table.h"
#include "dumpers/capture/tensors/strided_bytes.h"

namespace repro_check::capture {

/// The bytes of a strided tensor whose dtype a dump has no name for, as uint8 on the same storage:
/// of `quint4x2` and `quint2x4` one flat row of packed elements, of `bits*`, `int1` to `int7` and
/// `uint1` to `uint7` the tensor's own shape, with one more dimension where an element has several
/// bytes. Undefined where it cannot be told which bytes are the tensor's: LibTorch takes the
/// offset and the strides of packed elements for bytes, so that a view of them shows others than
/// it means; and for a dtype that is none of these.
at::Tensor raw_bytes(const at::Tensor& tensor);

/// Bits of the last byte of raw_bytes() that no element of the tensor lies in; 0 for none.
std::uint8_t unused_bits(const at::Tensor& tensor);

/// A copy with these bits of the last byte 0.
/// @param bytes  uint8, contiguous, on the host, with at least one element
at::Tensor without_bits(const at::Tensor& bytes, std::uint8_t bits);

/// Which of the awkward kinds a tensor is (trap 8).
enum class TensorForm : std::uint8_t {
  kUndefined,
  kStrided,
  kSparseCoo,
  kSparseCompressed,
  kNested,
  kMkldnn,
  kTransformed,  ///< stands for another inside of `vmap` or `grad`
  kOpaque,       ///< nothing of it can be read: Python subclasses
};

TensorForm form_of(const at::Tensor& tensor);

/// Tensors a composite, packed or quantised one is made of, with the ending their slots get.
using TensorParts = std::vector<std::pair<std::string, at::Tensor>>;

/// @param attributes  set to what is known besides the parts, exactly: `sparse_dim=2 ...`
TensorParts parts_of(const at::Tensor& tensor, TensorForm form, std::string& attributes);

/// Bytes of the storage of a strided tensor; 0 for any other.
std::size_t storage_size_of(const at::Tensor& tensor);

/// Those parts of a composite tensor that lie in a storage.
std::vector<at::Tensor> strided_parts(const at::Tensor& tensor, TensorForm form);

/// Calls `each` with the tensor, or with the parts of a composite one. Opaque ones have none.
template <class Each>
void for_each_strided(const at::Tensor& tensor, Each&& each) {
  const TensorForm form = form_of(tensor);
  if (form == TensorForm::kStrided) {
    each(tensor);
    return;
  }
  for (const at::Tensor& part : strided_parts(tensor, form)) each(part);
}

/// Calls `each` with every storage the tensor's content lies in.
template <class Each>
void for_each_storage(const at::Tensor& tensor, Each&& each) {
  for_each_strided(
      tensor, [&](const at::Tensor& part) { each(part.unsafeGetTensorImpl()->unsafe_storage()); });
}

/// A tensor's elements in host memory, with what keeps them alive.
struct HostContent {
  at::Tensor holder;
  StridedBytes bytes;
};

/// Empty where there are no bytes to read (meta, freed storage), or the view reaches past the end.
/// Device tensors are waited for and copied.
std::optional<HostContent> host_content(const at::Tensor& tensor);

/// Tensor records being filled. The vector keeps its elements between calls, so that their strings
/// and vectors keep their memory.
class RecordList {
 public:
  explicit RecordList(std::vector<core::TensorRecord>& records) : records_(&records) {}

  void restart() noexcept {
    used_ = 0;
    arrivals.clear();
  }
  [[nodiscard]] std::size_t size() const noexcept { return used_; }
  core::TensorRecord& operator[](std::size_t index) { return (*records_)[index]; }

  /// The next one, as an earlier call left it. Invalidates references to the others.
  core::TensorRecord& add() {
    if (used_ == records_->size()) records_->emplace_back();
    return (*records_)[used_++];
  }

  /// Drops what is left over from a longer call.
  void finish() { records_->resize(used_); }

  /// Null where the record itself has the digest.
  [[nodiscard]] Awaited awaited(std::size_t index) const;
  /// What a record says of its content.
  [[nodiscard]] Awaited content_of(std::size_t index) const;

  Arrivals arrivals;

 private:
  std::vector<core::TensorRecord>* records_;
  std::size_t used_ = 0;
};

/// How one tensor is to be recorded.
struct RecordingOrder {
  core::TensorRole role = core::TensorRole::kInput;
  bool excluded = false;   ///< leave the content alone
  bool keep_bytes = true;  ///< at level tensor, hand them to the sink
  bool verify = false;     ///< hash although the digest is known
  bool reads = true;       ///< the operator looks at the content
  bool hands_out = false;  ///< hash memory that nobody has written as well
  bool beside = false;     ///< of a record of the front end: no operator reads it now
  /// It will be written before anybody reads it, without an operator: there is nothing to hash yet.
  bool filled_next = false;
  /// Bits of the last byte that belong to no element, and hold anything.
  std::uint8_t unused_bits = 0;
  /// Storages numbered from here on were first met inside the call that makes this one. Its kernel
  /// may write them without an operator, so that what is known of their content does not last.
  std::int64_t first_inner = std::numeric_limits<std::int64_t>::max();
};

/// Turns tensors into records: what they are, whose storage they share, their digest with the
/// counts of NaN and infinities, and at the deeper levels all statistics, and bytes. Not thread
/// safe. Calls nothing that autograd, the engine itself or a generator could notice.
class TensorRecorder {
 public:
  /// @param unseen_writes  as in CaptureOptions
  /// @param sink           borrowed
  TensorRecorder(core::DumpLevel level,
                 bool unseen_writes,
                 core::DumpSink& sink,
                 DigestingDevices devices)
      : level_(level), unseen_writes_(unseen_writes), sink_(&sink), devices_(std::move(devices)) {}

  /// Adds the record of `tensor`, and those of its components behind it.
  /// @return position of its own record
  std::size_t add(const at::Tensor& tensor,
                  const std::string& slot,
                  const RecordingOrder& order,
                  RecordList& into);

  /// Reads the contents of tensors that will be added next, on all of LibTorch's threads or those
  /// of their device: many small ones, each of which add() would read on this one.
  void read_ahead(std::span<const at::Tensor> tensors);

  /// Of a tensor of one element, statistics (they are its number) and bytes at every level.
  void note_number(const at::Tensor& tensor, std::size_t index, RecordList& in);

  /// Of memory that somebody filled without an operator: it has been read after all.
  /// @param index  of its record as an argument
  void read_filled(const at::Tensor& tensor, bool keep_bytes, std::size_t index, RecordList& in);

  /// Fills in what has come of contents that devices digested.
  /// @param arrivals  all of which have come
  /// @param records   those that they are of
  void settle(const Arrivals& arrivals, std::vector<core::TensorRecord>& records);
  DeviceDigests& devices() noexcept { return devices_; }
  [[nodiscard]] const DeviceDigests& devices() const noexcept { return devices_; }

  StorageTable& storages() noexcept { return storages_; }
  [[nodiscard]] std::uint64_t hashed_bytes() const noexcept { return hashed_bytes_; }
  /// Where the first tensor was that was not in host memory: `cuda:0`; empty = none was.
  [[nodiscard]] const std::string& accelerator() const noexcept { return accelerator_; }

  /// Slots whose content had changed though the cache thought it had not, or may have where both
  /// contents are not null; emptied by the call.
  std::vector<Arrivals::Change> take_stale() { return std::exchange(stale_, {}); }
  /// Slots whose content was read on another stream than the one that wrote it, where nothing that
  /// was seen orders the two; emptied by the call.
  std::vector<std::string> take_unordered() { return std::exchange(unordered_, {}); }
  /// Slots whose content somebody wrote between its digest and its storing; emptied by the call.
  std::vector<std::string> take_raced() { return std::exchange(raced_, {}); }

 private:
  void add_strided(const at::Tensor& tensor,
                   const RecordingOrder& order,
                   std::size_t index,
                   RecordList& into);
  /// Gives the record of memory written in part the digest of what was written.
  void digest_written(const at::Tensor& tensor,
                      const StorageEntry& entry,
                      core::TensorRecord& record);
  void add_parts(const at::Tensor& tensor,
                 TensorForm form,
                 const RecordingOrder& order,
                 std::size_t index,
                 RecordList& into);
  static CachedDigest* find_cached(const at::Tensor& tensor, StorageEntry* entry, bool verify);
  void fill_content(const at::Tensor& tensor,
                    StorageEntry* entry,
                    const RecordingOrder& order,
                    core::TensorRecord& record);
  /// What was just digested. Other bytes than were known: nothing known of the storage holds.
  CachedDigest& remember(const at::Tensor& tensor,
                         std::int64_t version,
                         StorageEntry& entry,
                         const RecordingOrder& order,
                         const core::TensorRecord& record);
  void complete(const StridedBytes* content,
                CachedDigest* cached,
                const RecordingOrder& order,
                core::TensorRecord& record);
  /// The record's digest is that of the bytes stored, should they have changed meanwhile.
  bool store_bytes(const StridedBytes& content, core::TensorRecord& record);
  void summarise(const StridedBytes& content, core::TensorRecord& record);
  /// The same where the content lies on a device that can digest it: null elsewhere.
  Awaited start_there(const at::Tensor& tensor,
                      const RecordingOrder& order,
                      const core::TensorRecord& record);
  void remember_awaited(const at::Tensor& tensor,
                        std::int64_t version,
                        StorageEntry& entry,
                        const RecordingOrder& order,
                        const core::TensorRecord& record,
                        const Awaited& content);
  /// On which stream the content is read, and whether something orders that behind its writing.
  void note_stream(const AwaitedContent& content,
                   StorageEntry& entry,
                   const RecordingOrder& order,
                   core::TensorRecord& record);
  /// Of what has come: the record's digest. What has not is kept for its list.
  void take_awaited(const Awaited& content, core::TensorRecord& record);
  /// @param tensor  strided
  StorageEntry* unread_entry(const at::Tensor& tensor);
  void read_ahead_there(std::span<const at::Tensor> tensors);
  void remember_ahead(const at::Tensor& tensor,
                      std::int64_t version,
                      const ContentSummary& summary,
                      StorageEntry& entry);
  void take_summary(const ContentSummary& summary, core::TensorRecord& record) const;
  [[nodiscard]] bool with_stats() const { return level_ != core::DumpLevel::kDigest; }
  [[nodiscard]] bool wants_bytes(const RecordingOrder& order) const {
    return level_ == core::DumpLevel::kTensor && order.keep_bytes;
  }

  core::DumpLevel level_;
  bool unseen_writes_;
  std::string accelerator_;
  core::DumpSink* sink_;
  StorageTable storages_;
  DeviceDigests devices_;
  std::uint64_t hashed_bytes_ = 0;
  std::vector<Arrivals::Change> stale_;
  Awaited awaited_;  ///< of the record that is being filled
  std::vector<std::string> raced_;
  std::vector<std::string> unordered_;
};

}  // namespace repro_check::capture
