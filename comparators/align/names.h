// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>

#include "comparators/report/finding.h"
#include "configs/spec/name_pattern.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {

struct PairingOptions;

/// Paths of the candidate's modules, and what they are in the baseline (see find_renames()).
using ModuleRenames = std::map<std::string, std::string>;

/// Says by which names the baseline would know what the candidate calls otherwise. Without a map
/// every name stays as it is.
class NameRewriter {
 public:
  struct Name {
    std::string text;
    std::optional<std::size_t> entry;  ///< of the map, that matched it
    bool changed = false;              ///< another one than the candidate's own
  };

  NameRewriter() = default;
  /// @param map      borrowed
  /// @param renames  borrowed, of modules that no line of the map matches; null = none
  explicit NameRewriter(const configs::NameMap& map, const ModuleRenames* renames = nullptr)
      : map_(&map), renames_(renames) {}

  /// One that takes every module for the root.
  static NameRewriter without_modules() {
    NameRewriter rewriter;
    rewriter.without_modules_ = true;
    return rewriter;
  }

  /// Lines of the map.
  [[nodiscard]] std::size_t entries() const { return map_ == nullptr ? 0 : map_->entries.size(); }

  /// Name and overload. A pattern that matches the name alone leaves the overload as it is.
  [[nodiscard]] Name operator_name(const core::OperatorInfo& op) const;
  [[nodiscard]] Name module_path(const std::string& path) const;
  /// Of a parameter or buffer: the path of its module and its own name.
  [[nodiscard]] Name tensor_name(const std::string& name) const;

  /// Path of the module that made a call of the candidate.
  [[nodiscard]] std::string module_of(const core::OpRecord& head) const;

 private:
  const configs::NameMap* map_ = nullptr;
  const ModuleRenames* renames_ = nullptr;
  bool without_modules_ = false;
};

/// Modules of the candidate that the baseline knows under another path: renamed, or put into a
/// module that does nothing but call them. Told by what they ran: all operators of the one path
/// stand in the place of operators of the other, and neither path names a module of both models.
/// Dumps of one model file have none, since there another path is another module.
/// @throws core::Error{kDumpDamaged} when a record cannot be read
ModuleRenames find_renames(const core::DumpSource& baseline,
                           const core::DumpSource& candidate,
                           const PairingOptions& options);

/// Of two models of which one has modules that make calls, and the other, as a frozen one, does
/// everything in its root: which of them the latter is, `true` for the baseline. What they run can
/// be paired without modules alone. Dumps of one model file have none.
std::optional<bool> side_without_modules(const core::DumpSource& baseline,
                                         const core::DumpSource& candidate);

/// One for each part of a path that was renamed, and with how many modules; of many the first ones.
Phrases rename_notes(const ModuleRenames& renames);

}  // namespace repro_check::comparators
