// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor/tensor_record.h"
#include "core/trace/op_record.h"

namespace repro_check::cmd {

enum class Answer : std::uint8_t {
  kNo,
  kYes,
  kUnknown,  ///< the statistics that are asked for are not recorded
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

  enum class Relation : std::uint8_t { kAbove, kAtLeast, kBelow, kAtMost, kEqual, kOther };
  struct Comparison {
    std::size_t field = 0;  ///< in the table of fields
    Relation relation = Relation::kEqual;
    double number = 0;
    std::string word;
  };

 private:
  std::vector<std::vector<Comparison>> any_of_all_;
};

/// The fields a condition may name, for messages: `nan, inf, ...`.
std::string condition_fields();

}  // namespace repro_check::cmd
