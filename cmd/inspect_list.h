// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "core/dump_source.h"

namespace repro_check::cmd {

/// Which operators of a dump are meant; an empty member selects all.
struct OpSelection {
  std::optional<std::string> operator_glob;  ///< on `aten::add` or `aten::add.Tensor`
  std::optional<std::string> module_glob;
  std::uint64_t first = 0;
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();  ///< not included

  [[nodiscard]] bool matches(const core::OpRecord& op) const;
};

/// `40:60`, `40:`, `:60`: op indices, the end not included.
/// @throws core::Error{kUsage}
void parse_range(const std::string& text, OpSelection& selection);

enum class ListForm {
  kColumns,  ///< for a terminal, with op indices
  kTabs,     ///< no index, date or path in a line, so that plain diff of two lists works
  kJson,
  kPrettyJson,
};

struct OpList {
  std::string text;
  std::uint64_t shown = 0;
};

/// One line an operator.
OpList list_operators(const core::DumpSource& dump, const OpSelection& selection, ListForm form);

}  // namespace repro_check::cmd
