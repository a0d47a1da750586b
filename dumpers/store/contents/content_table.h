// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/digest/digest.h"
#include "core/system/id_slots.h"
#include "core/system/large_memory.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::store {

/// Where each content of a dump lies, in 32 bytes a content and a few more for its shape: there is
/// one for every tensor of a dump, at worst.
class ContentTable {
 public:
  /// @param place  as ContentRow::packed says it
  /// @return false for a content that is there already, whose first place holds
  bool add(const core::ContentKey& key, std::int64_t place);

  [[nodiscard]] std::optional<std::int64_t> find(const core::ContentKey& key) const;
  /// The content of a record, which has to be copied for nothing here.
  [[nodiscard]] std::optional<std::int64_t> find(const core::TensorRecord& tensor) const;

 private:
  struct Entry {
    core::Digest digest;
    std::int64_t place = 0;
    std::uint32_t shape_begin = 0;
    std::uint16_t shape_count = 0;
    core::Dtype dtype = core::Dtype::kUnknown;
  };
  struct Wanted {
    const core::Digest& digest;
    std::span<const std::int64_t> shape;
    core::Dtype dtype;
  };

  [[nodiscard]] std::optional<std::int64_t> find(const Wanted& wanted) const;
  [[nodiscard]] bool is(const Entry& entry, const Wanted& wanted) const;
  [[nodiscard]] std::span<const std::int64_t> shape_of(const Entry& entry) const;

  core::IdSlots slots_;
  core::LargeVector<Entry> entries_;
  core::LargeVector<std::int64_t> dims_;
};

}  // namespace repro_check::store
