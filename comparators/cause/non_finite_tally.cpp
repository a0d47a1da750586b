// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/non_finite_tally.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <variant>

#include "comparators/report/op_text.h"

namespace repro_check::comparators::detail {
namespace {

/// `op 4 aten::log (head, model.py:12)`
std::string op_and_line(const core::OpRecord& record) {
  std::string text = op_text(record);
  const core::SourceFrame* frame = record.site ? core::display_frame(*record.site) : nullptr;
  if (frame == nullptr || frame->line == 0) return text;
  const std::string_view file = frame->file;
  const std::string line = fmt::format("{}:{}", file.substr(file.rfind('/') + 1), frame->line);
  if (!text.ends_with(')')) return fmt::format("{} ({})", text, line);
  text.pop_back();
  return fmt::format("{}, {})", text, line);
}

/// `argument self (state:mask)`
std::string argument_text(const core::TensorRecord& tensor) {
  const std::string name = tensor.name.empty() ? "" : fmt::format(" ({})", tensor.name);
  return fmt::format("argument {}{}", tensor.slot, name);
}

std::string plural(std::uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

std::uint64_t NonFiniteTally::count_in(const core::TensorRecord& tensor) const {
  const core::NonFinite counts = tensor.non_finite().value_or(core::NonFinite{});
  return kind_ == Kind::kNan ? counts.nans : counts.infs();
}

/// Somebody wrote it down, as a mask of -inf is.
bool NonFiniteTally::asked_for(const core::OpRecord& record) const {
  return std::ranges::any_of(record.arguments, [&](const core::Argument& argument) {
    const auto* number = std::get_if<double>(&argument.value.data);
    if (number == nullptr) return false;
    return kind_ == Kind::kNan ? std::isnan(*number) : std::isinf(*number);
  });
}

void NonFiniteTally::see(const core::OpRecord& record) {
  const core::TensorRecord* given = nullptr;
  bool unwritten = false;
  bool holds = false;
  for (const core::TensorRecord& tensor : record.tensors) {
    unwritten |= tensor.role == core::TensorRole::kInput &&
                 tensor.state == core::ContentState::kUninitialised;
    const std::uint64_t count = count_in(tensor);
    if (count == 0) continue;
    if (tensor.role == core::TensorRole::kInput) {
      if (given == nullptr) given = &tensor;
      continue;
    }
    holds = true;
    ++outputs_;
    elements_ += count;
  }
  if (!holds || !made_.empty()) return;
  const bool is_asked_for = asked_for(record);
  if (given == nullptr && !is_asked_for && !unwritten) {
    made_ = op_and_line(record);
  } else if (first_.empty()) {
    first_ =
        op_and_line(record) + (given != nullptr ? ", which was given it as " + argument_text(*given)
                               : is_asked_for   ? ", whose arguments ask for it"
                                                : ", which was given unwritten memory");
  }
}

std::string NonFiniteTally::text() const {
  if (outputs_ == 0) return {};
  return fmt::format("{} ({}), first {}",
                     plural(outputs_, "output"),
                     plural(elements_, "element"),
                     made_.empty() ? "in " + first_ : "made by " + made_);
}

}  // namespace repro_check::comparators::detail
