// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/trace/op_record.h"
#include "dumpers/journal/detail/entry_buffer.h"
#include "dumpers/journal/detail/mapped_log.h"

namespace repro_check::journal {

/// Numbers texts, operators, sites and forms as they first appear, and writes each one's definition
/// to the log before anything can refer to it.
class Interner {
 public:
  explicit Interner(MappedLog& log) : log_(log) {}

  /// kNoId for null. The object is kept alive, so that its address is proof enough when it comes
  /// again.
  std::uint32_t op(const std::shared_ptr<const core::OperatorInfo>& op);
  std::uint32_t site(const std::shared_ptr<const core::CallSite>& site);
  /// By address where it is known, else by content.
  std::uint32_t op(const core::OperatorInfo* op);
  std::uint32_t site(const core::CallSite* site);

  /// Refers to the form whose bytes are the payload of `form`, and whose kind it was begun with.
  /// @param shared  whether it may be kept and referred to; else it is written out
  /// @return what was put to refer to it, which may be put again; kFormFollows when it was written
  ///         out
  std::uint64_t put_form(const EntryBuffer& form, bool shared, EntryBuffer& into);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept;
  };
  using Ids = std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>>;
  struct Pin {
    std::uint32_t id = 0;
    std::shared_ptr<const void> object;
  };

  /// A pin looked up lately: a record asks for what its entry has just asked for.
  struct Recent {
    const void* object = nullptr;
    std::uint32_t id = 0;
  };

  std::optional<std::uint32_t> pinned(const void* object);
  std::uint32_t text(std::string_view text);
  std::uint32_t define_op(const core::OperatorInfo& op);
  std::uint32_t define_site(const core::CallSite& site);
  std::uint32_t define(Ids& ids, EntryKind kind, std::string_view body);
  void pin(const void* address, std::uint32_t id, std::shared_ptr<const void> object);

  MappedLog& log_;
  EntryBuffer body_;  ///< of an operator or a site, without its id: what makes it the same
  EntryBuffer definition_;
  Ids texts_;
  Ids ops_;
  Ids sites_;
  Ids call_forms_;
  Ids tensor_forms_;
  std::unordered_map<const void*, Pin> pins_;
  std::array<Recent, 64> recent_;  ///< of objects that are pinned
};

}  // namespace repro_check::journal
