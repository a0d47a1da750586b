// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/op_record.h"
#include "dumpers/journal/detail/entry_buffer.h"
#include "dumpers/journal/detail/mapped_log.h"

namespace repro_check::journal {

/// Numbers texts, operators and sites as they first appear, and writes each one's definition to the
/// log before anything can refer to it.
class Interner {
 public:
  explicit Interner(MappedLog& log) : log_(log) {}

  std::uint32_t text(std::string_view text);
  std::uint32_t op(const core::OperatorInfo& op);
  std::uint32_t site(const core::CallSite& site);

  /// As above; kNoId for null. The object is kept alive, so that its address is proof enough when
  /// it comes again.
  std::uint32_t op(const std::shared_ptr<const core::OperatorInfo>& op);
  std::uint32_t site(const std::shared_ptr<const core::CallSite>& site);
  /// By address where it is known, else by content.
  std::uint32_t op(const core::OperatorInfo* op);
  std::uint32_t site(const core::CallSite* site);

  /// Says that the texts of a record of `op` follow. Calls of one operator repeat their texts in
  /// the same order, so each is first held against its predecessor: a comparison instead of a hash.
  void begin_record(std::uint32_t op);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };
  using Ids = std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>>;
  struct Pin {
    std::uint32_t id = 0;
    std::shared_ptr<const void> object;
  };

  std::uint32_t look_up(std::string_view text);
  std::uint32_t define(Ids& ids, EntryKind kind);
  void pin(const void* address, std::uint32_t id, std::shared_ptr<const void> object);

  MappedLog& log_;
  EntryBuffer body_;  ///< of an operator or a site, without its id: what makes it the same
  EntryBuffer definition_;
  Ids texts_;
  Ids ops_;
  Ids sites_;
  std::vector<const std::string*> text_of_;  ///< keys of texts_, by id
  std::unordered_map<const void*, Pin> pins_;
  std::vector<std::vector<std::uint32_t>> trails_;  ///< by operator: text ids of its last record
  std::vector<std::uint32_t>* trail_ = nullptr;
  std::size_t step_ = 0;  ///< position in *trail_
};

}  // namespace repro_check::journal
