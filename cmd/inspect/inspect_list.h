// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/inspect/inspect_view.h"
#include "configs/spec/name_pattern.h"
#include "core/error.h"
#include "core/trace/dump.h"

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

/// The least of some is what holds for all of them, the greatest what holds for any.
enum class Answer : std::uint8_t {
  kNo,
  kUnknown,  ///< the statistics that are asked for are not recorded
  kYes,
};

/// A condition on one output: comparisons such as `nan>0`, `max>=65504` or `dtype=bfloat16`, joined
/// by `and` (which binds first) and `or`; `&&`, `,` and `||` are the same.
///
///     condition  = all { ("or" | "||") all }
///     all        = comparison { ("and" | "&&" | ",") comparison }
///     comparison = number-field (">" | ">=" | "<" | "<=" | "=" | "==" | "!=") number
///                | ("dtype" | "device") ("=" | "==" | "!=") glob
///
/// Numbers are those of core::TensorStats, and `elements`. A statistic that is NaN, because there
/// is nothing finite, compares as no with everything.
class OutputCondition {
 public:
  /// @throws core::Error{kUsage} saying where it is wrong
  explicit OutputCondition(const std::string& text);

  /// Whether any output meets it. Unknown where none does, and one might.
  [[nodiscard]] Answer of(const core::OpRecord& op) const;
  [[nodiscard]] Answer of(const core::TensorRecord& tensor) const;

  using Comparison = std::function<Answer(const core::TensorRecord&)>;

 private:
  std::vector<std::vector<Comparison>> any_of_all_;
};

/// Which operators of a dump are meant; an empty member selects all.
struct OpSelection {
  std::optional<NameSelector> operators;  ///< by `aten::add` or `aten::add.Tensor`
  std::optional<NameSelector> modules;
  std::uint64_t first = 0;
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();  ///< not included
  std::optional<OutputCondition> where;                           ///< at least one output meets it
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
                           Form form,
                           const TextSink& sink);

/// The operators that drew random numbers, or are known to, and where their generators stood
/// before and after. @throws as list_operators()
ListOutcome list_generators(const core::DumpSource& dump,
                            const OpSelection& selection,
                            Form form,
                            const TextSink& sink);

/// The modules that called operators, each with those of the modules inside it, in order of first
/// call. What stands before a dot of a path is a module of its own.
/// @throws core::Error{kDumpDamaged}
void list_modules(const core::DumpSource& dump, Form form, const TextSink& sink);

}  // namespace repro_check::cmd
