// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/system/pinned.h"
#include "core/tensor/content.h"
#include "core/trace/block_row.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"

namespace repro_check::core {

/// What `bytes`, read for `key`, are kept under.
inline ContentKey key_of_read(const ContentKey& key, const ContentBytes& bytes) {
  return {key.dtype, key.shape, bytes.digest_read().value_or(key.digest)};
}

/// Where the capture engine writes. Calls come one at a time (the engine holds its lock), in the
/// order begin, if at all, then enter, then put_content and append when the operator is done;
/// nested calls enter before their parent is appended. Every method throws Error{kIo} when the
/// system refuses to write.
class DumpSink : Pinned {
 public:
  virtual ~DumpSink() = default;

  /// What is known of the run before its first operator: who records what, and how. Kept for the
  /// case that the run never ends.
  virtual void begin(const RunManifest& /*manifest*/) {}

  /// Told before an operator runs, so that a crash inside it can be named.
  virtual void enter(const OpHead& call) = 0;

  [[nodiscard]] virtual bool has_content(const ContentKey& key) const = 0;

  /// Keeps `bytes` under `key`, or where ContentBytes::digest_read() then says otherwise under the
  /// digest of what was really read; a second call with a key already there does nothing. What was
  /// read of `bytes` when the call returns may still be on its way to the disk.
  /// @return whether they are kept: false beyond a limit of the sink
  virtual bool put_content(const ContentKey& key, const ContentBytes& bytes) = 0;
  bool put_content(const ContentKey& key, std::span<const std::byte> bytes) {
    return put_content(key, SpanBytes(bytes));
  }

  virtual void append(const OpRecord& record) = 0;

  /// Of a recording of blocks, between records.
  virtual void block(const BlockRow& row);
  virtual void parameter(const ParameterRow& row);

  /// Notes why the run is failing; the dump will never be completed.
  virtual void fail(const std::string& message) = 0;
};

/// A complete recording, read. Implementations are safe to call from one thread at a time.
class DumpSource : Pinned {
 public:
  virtual ~DumpSource() = default;

  /// For messages: the directory as the user gave it.
  [[nodiscard]] virtual const std::string& location() const = 0;
  [[nodiscard]] virtual const RunManifest& manifest() const = 0;
  [[nodiscard]] virtual std::uint64_t op_count() const = 0;

  /// What aligns a record: operator, site, depth, parent, phase, step, rank, lane. The other
  /// members are left empty, which makes it cheaper than op().
  /// @param index  below op_count()
  /// @throws Error{kDumpDamaged}
  [[nodiscard]] virtual OpRecord op_head(std::uint64_t index) const = 0;

  /// The whole record.
  /// @param index  below op_count()
  /// @throws Error{kDumpDamaged}
  [[nodiscard]] virtual OpRecord op(std::uint64_t index) const = 0;

  /// The same into a record that is there, whose memory is used again where that is cheaper.
  virtual void read_op(std::uint64_t index, OpRecord& into) const { into = op(index); }

  /// How many calls of blocks and parameters that were read there are, and one of them.
  /// @param position  below that count
  /// @throws Error{kDumpDamaged}
  [[nodiscard]] virtual std::uint64_t block_count() const { return 0; }
  [[nodiscard]] virtual BlockRow block(std::uint64_t /*position*/) const { return {}; }
  [[nodiscard]] virtual std::uint64_t parameter_count() const { return 0; }
  [[nodiscard]] virtual ParameterRow parameter(std::uint64_t /*position*/) const { return {}; }

  /// Whether read_content() has all its bytes.
  [[nodiscard]] virtual bool has_content(const ContentKey& key) const = 0;

  /// What is stored of a content that is not stored whole; its bytes are those of slice_key().
  [[nodiscard]] virtual std::optional<ContentSlice> find_slice(const ContentKey& /*key*/) const {
    return std::nullopt;
  }

  /// Content bytes, verified against the key's digest.
  /// @param into  replaced; its capacity is reused
  /// @throws Error{kDumpDamaged} when the bytes do not match, Error{kNotComparable} when not stored
  virtual void read_content(const ContentKey& key, std::vector<std::byte>& into) const = 0;

  /// The same content for reading in parts. What is read is verified by whoever has read it all.
  /// @return valid for as long as the source is
  /// @throws as read_content()
  [[nodiscard]] virtual std::unique_ptr<ContentParts> open_content(const ContentKey& key) const;

  /// Why the contents that manifest().trace.reference counts cannot be read, nor verified; empty
  /// where they can, or where there are none.
  [[nodiscard]] virtual std::string missing_reference() const { return {}; }

  [[nodiscard]] virtual std::uint64_t content_count() const = 0;
  /// One of the contents; empty where its bytes are not here: in a reference that was not given.
  /// @param position  below content_count()
  /// @throws Error{kDumpDamaged}
  [[nodiscard]] virtual std::optional<ContentKey> content(std::uint64_t position) const = 0;
};

struct ContentCheck {
  /// 0 = as many as there are processors for this process.
  unsigned threads = 0;
  /// Contents that need not be looked at; none where it is empty.
  std::function<bool(const ContentKey&)> skip;
  /// Told the bytes of each content that is done with, by one thread at a time, in no order.
  std::function<void(std::uint64_t)> progress;
};

/// Reads the contents of a dump and verifies each against its digest. No thread holds more than
/// kDigestChunk bytes of a content that the dump reads in parts.
/// @throws Error{kDumpDamaged} for the first content of the dump that does not match, whatever the
///         number of threads; Error{kIo}
void verify_contents(const DumpSource& dump, const ContentCheck& check = {});

}  // namespace repro_check::core
