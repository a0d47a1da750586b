// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "core/content/content.h"
#include "core/system/pinned.h"
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

  /// Notes why the run is failing; the dump will never be completed.
  virtual void fail(const std::string& message) = 0;
};

}  // namespace repro_check::core
