// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "configs/name_map.h"
#include "core/op_record.h"

namespace repro_check::comparators::detail {

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
  /// @param map  borrowed
  explicit NameRewriter(const configs::NameMap& map) : map_(&map) {}

  /// Name and overload. A pattern that matches the name alone leaves the overload as it is.
  [[nodiscard]] Name operator_name(const core::OperatorInfo& op) const;
  [[nodiscard]] Name module_path(const std::string& path) const;
  /// Of a parameter or buffer: the path of its module and its own name.
  [[nodiscard]] Name tensor_name(const std::string& name) const;

  /// Path of the module that made a call of the candidate.
  [[nodiscard]] std::string module_of(const core::OpRecord& head) const;

 private:
  const configs::NameMap* map_ = nullptr;
};

}  // namespace repro_check::comparators::detail
