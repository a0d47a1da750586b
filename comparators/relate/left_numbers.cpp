// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/left_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comparators/relate/distance.h"
#include "comparators/relate/two_passes.h"
#include "core/tensor/content.h"
#include "core/trace/op_record.h"
#include "core/trace/program_records.h"
#include "core/trace/record_names.h"

namespace repro_check::comparators {
namespace {

/// One thing that is left: contents in their order, since a module that is compiled may have
/// another name, and numbers.
struct Left {
  LeftKind kind{};
  std::uint64_t at = 0;
  std::vector<core::ContentKey> contents;
  std::vector<double> numbers;
  bool is_known = true;
};

void take_contents(const core::DumpSource& dump,
                   const core::OpRecord& record,
                   std::string_view prefix,
                   Left& left) {
  for (const core::TensorRecord& tensor : record.tensors) {
    if (!core::is_output(tensor) || !tensor.slot.starts_with(prefix)) continue;
    const bool has_values = tensor.state == core::ContentState::kHashed && tensor.stored &&
                            dump.has_content(tensor.content_key());
    left.is_known = left.is_known && has_values;
    if (has_values) left.contents.push_back(tensor.content_key());
  }
}

/// What `tensor.item()` gave the program itself, and no optimizer.
bool take_item(const core::OpRecord& record, Left& left) {
  if (record.op->name != "aten::item" || record.parent >= 0 || record.results.empty()) return false;
  if (record.phase == core::Phase::kOptimizer) return false;
  // Code that the compiler wrote around a region.
  const std::vector<core::SourceFrame>& frames = record.site->frames;
  if (!frames.empty() && frames.front().file.starts_with('<')) return false;
  const core::Value& result = record.results.front();
  if (const auto* number = std::get_if<double>(&result.data)) {
    left.numbers.push_back(*number);
  } else if (const auto* integer = std::get_if<std::int64_t>(&result.data)) {
    left.numbers.push_back(static_cast<double>(*integer));
  } else if (const auto* truth = std::get_if<bool>(&result.data)) {
    left.numbers.push_back(*truth ? 1 : 0);
  } else {
    return false;
  }
  return true;
}

std::vector<Left> left_in(const core::DumpSource& dump) {
  std::vector<Left> all;
  core::OpRecord record;
  std::uint64_t items = 0;
  bool is_inside = false;  // of compiled code, which reads numbers of its own
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    dump.read_op(i, record);
    const std::string_view name = record.op->name;
    Left left;
    if (name == core::kLossRecord) {
      left.at = record.step;
      take_contents(dump, record, core::kLossValues, left);
    } else if (name == core::kStepRecord) {
      left.kind = LeftKind::kParameters;
      left.at = record.step;
      take_contents(dump, record, core::kParameterPrefix, left);
    } else if (name == core::kRegionInputsRecord || name == core::kRegionRecord) {
      is_inside = name == core::kRegionInputsRecord;
      continue;
    } else if (!is_inside && take_item(record, left)) {
      left.kind = LeftKind::kNumber;
      left.at = items++;
    } else {
      continue;
    }
    // Of steps that were not asked for there are no values.
    if (left.is_known) all.push_back(std::move(left));
  }
  return all;
}

/// Relative, over all that it holds; infinite where the two are not of the same form.
double distance_of(const core::DumpSource& one,
                   const Left& left,
                   const core::DumpSource& other,
                   const Left& right) {
  constexpr double kFar = std::numeric_limits<double>::infinity();
  Distances all;
  const auto add = [&](const std::vector<double>& from, const std::vector<double>& to) {
    if (from.size() != to.size()) return false;
    for (std::size_t i = 0; i < from.size(); ++i) all.add(from[i], from[i], to[i], from[i]);
    return true;
  };
  if (left.contents.size() != right.contents.size() || !add(left.numbers, right.numbers))
    return kFar;
  for (std::size_t i = 0; i < left.contents.size(); ++i) {
    if (left.contents[i] == right.contents[i] && all.error_b == 0) continue;
    if (!add(read_numbers(one, left.contents[i]), read_numbers(other, right.contents[i])))
      return kFar;
  }
  return all.error_b == 0 ? 0 : std::sqrt(all.error_b) / std::sqrt(all.exact);
}

}  // namespace

LeftNumbers compare_left(const core::DumpSource& one, const core::DumpSource& other) {
  // Numbers of so many digits that other kernels round.
  constexpr double kNear = 1e-4;
  const std::vector<Left> left = left_in(one);
  const std::vector<Left> right = left_in(other);
  LeftNumbers compared;
  if (left.empty() && right.empty()) return compared;
  compared.alike = LeftAlike::kSame;
  const std::size_t both = std::min(left.size(), right.size());
  for (std::size_t i = 0; i < both; ++i) {
    const double apart = left[i].kind == right[i].kind ? distance_of(one, left[i], other, right[i])
                                                       : std::numeric_limits<double>::infinity();
    if (apart == 0) continue;
    const LeftAlike alike = apart <= kNear ? LeftAlike::kNear : LeftAlike::kApart;
    if (alike <= compared.alike) continue;
    compared.alike = alike;
    compared.kind = left[i].kind;
    compared.at = left[i].at;
  }
  if (left.size() != right.size() && compared.alike != LeftAlike::kApart) {
    compared.alike = LeftAlike::kApart;
    const Left& more = (left.size() > right.size() ? left : right)[both];
    compared.kind = more.kind;
    compared.at = more.at;
  }
  return compared;
}

}  // namespace repro_check::comparators
