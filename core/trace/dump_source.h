// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/content/content.h"
#include "core/system/pinned.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"

namespace repro_check::core {

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

}  // namespace repro_check::core
