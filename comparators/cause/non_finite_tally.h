// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "core/trace/op_record.h"

namespace repro_check::comparators::detail {

/// What the outputs of one run's operators hold of NaN, or of infinities, and where it began. NaN
/// made of infinities began there, whatever made those.
class NonFiniteTally {
 public:
  enum class Kind { kNan, kInfinity };

  explicit NonFiniteTally(Kind kind) : kind_(kind) {}

  /// To be told every operator, in trace order. What is not counted holds none, here.
  void see(const core::OpRecord& record);

  /// `3 outputs (98 elements), first made by op 4 aten::log (head, model.py:12)`; empty where
  /// there are none.
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] std::uint64_t count_in(const core::TensorRecord& tensor) const;
  [[nodiscard]] bool asked_for(const core::OpRecord& record) const;

  Kind kind_;
  std::uint64_t outputs_ = 0;
  std::uint64_t elements_ = 0;
  std::string made_;   ///< by the first operator whose inputs held none, and nobody asked for it
  std::string first_;  ///< the first one that holds any, and why it does
};

}  // namespace repro_check::comparators::detail
