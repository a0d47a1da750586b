// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "cmd/inspect/inspect_rows.h"
#include "cmd/inspect/inspect_where.h"
#include "configs/spec/name_pattern.h"
#include "core/error.h"
#include "core/trace/dump_source.h"

namespace repro_check::cmd {

/// Names that are meant: a glob, or between slashes a regular expression for the whole name.
class NameSelector {
 public:
  /// @throws core::Error{kUsage} when it is no regular expression
  explicit NameSelector(const std::string& text);

  [[nodiscard]] bool matches(std::string_view name) const;

 private:
  std::string glob_;
  std::optional<configs::NamePattern> pattern_;
};

/// Which operators of a dump are meant; an empty member selects all.
struct OpSelection {
  std::optional<NameSelector> operators;  ///< by `aten::add` or `aten::add.Tensor`
  std::optional<NameSelector> modules;
  std::uint64_t first = 0;
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();  ///< not included
  std::optional<OutputCondition> where;                           ///< at least one output meets it

  [[nodiscard]] bool filters_heads() const { return operators || modules; }
  /// Whether the names are meant; the range and `where` may still say no.
  [[nodiscard]] bool matches_head(const core::OpRecord& op) const;
};

/// `40:60`, `40:`, `:60`: op indices, the end not included.
/// @throws core::Error{kUsage}
void parse_range(const std::string& text, OpSelection& selection);

struct ListOutcome {
  std::uint64_t shown = 0;
  /// Operators of which `where` could not be told, because no statistics are recorded.
  std::uint64_t unknown = 0;
  /// What stopped the list when part of it had left already; JSON says so too, as `failed`.
  std::optional<core::Error> failure;
};

/// One line an operator.
/// @throws core::Error{kDumpDamaged} before anything has left
ListOutcome list_operators(const core::DumpSource& dump,
                           const OpSelection& selection,
                           ListForm form,
                           const TextSink& sink);

/// The operators that drew random numbers, or are known to, and where their generators stood
/// before and after. @throws as list_operators()
ListOutcome list_generators(const core::DumpSource& dump,
                            const OpSelection& selection,
                            ListForm form,
                            const TextSink& sink);

}  // namespace repro_check::cmd
