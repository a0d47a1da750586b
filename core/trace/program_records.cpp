// SPDX-License-Identifier: Apache-2.0
#include "core/trace/program_records.h"

#include <cmath>
#include <limits>

#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"
#include "core/text/text.h"

namespace repro_check::core {
namespace {

/// The only element, from the statistics of it: they are exact, but for the sign of a zero.
std::optional<double> only_element(const TensorRecord& tensor) {
  if (!tensor.stats || element_count(tensor.shape) != 1) return std::nullopt;
  if (is_complex(tensor.dtype)) return std::nullopt;
  const TensorStats& stats = *tensor.stats;
  if (stats.nans != 0) return std::numeric_limits<double>::quiet_NaN();
  return stats.min;
}

/// Of `0:1/2,partial:0/4`; nothing of anything else.
std::optional<std::vector<NamedPart>> parts_in(std::string_view text) {
  std::vector<NamedPart> parts;
  for (const std::string_view each : split(text, ',')) {
    const auto words = split(each, ':');
    const auto counts = split(words.back(), '/');
    const auto is_number = parse_number<std::uint64_t>(words.front()).has_value();
    const bool is_known = is_number || words.front() == "partial" || words.front() == "rank";
    const auto place = parse_number<std::uint64_t>(counts.front());
    const auto count = counts.size() == 1 ? std::optional(std::uint64_t{0})
                                          : parse_number<std::uint64_t>(counts.back());
    if (words.size() != 2 || counts.size() > 2 || !is_known || !place || !count)
      return std::nullopt;
    parts.push_back({words.front(), *place, *count});
  }
  return parts;
}

}  // namespace

std::optional<double> number_in(const OpRecord& record, const Value& value) {
  if (const auto* number = std::get_if<double>(&value.data)) return *number;
  const auto* slot = std::get_if<TensorSlot>(&value.data);
  if (slot == nullptr || slot->index >= record.tensors.size()) return std::nullopt;
  return only_element(record.tensors[slot->index]);
}

std::string with_root(std::string text, const RootNames& names) {
  if (names.empty()) return text;
  for (auto mark = text.find(kLaneMark); mark != std::string::npos;
       mark = text.find(kLaneMark, mark + 1)) {
    const std::size_t before = text.find_last_of(".:", mark);
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    const std::size_t end = std::min(text.find('.', mark), text.size());
    const auto name = names.find(std::string_view(text).substr(begin, end - begin));
    if (name == names.end()) continue;
    // The first root that the main thread calls has no name: what is below it begins the path.
    const bool takes_dot = name->second.empty() && end < text.size();
    return text.replace(begin, end - begin + (takes_dot ? 1 : 0), name->second);
  }
  return text;
}

PlacedName placed_name(std::string_view name) {
  const std::size_t mark = name.rfind(kShardMark);
  if (mark != std::string_view::npos) {
    const std::size_t end = std::min(name.find(kHoldersMark, mark), name.size());
    const std::string_view part = name.substr(mark, end - mark);
    // A tensor that lies whole on its ranks has the mark alone.
    auto parts = part.size() == 1 ? std::vector<NamedPart>() : parts_in(part.substr(1));
    if (parts && (!parts->empty() || end < name.size())) {
      return {name.substr(0, mark), part, name.substr(end), *std::move(parts)};
    }
  }
  const std::size_t bar = std::min(name.rfind(kHoldersMark), name.size());
  const bool is_placed = name.find_first_not_of("0123456789,", bar + 1) == std::string_view::npos;
  return {name.substr(0, is_placed ? bar : name.size()), {}, is_placed ? name.substr(bar) : "", {}};
}

double sketch_distance(std::span<const double> baseline, std::span<const double> candidate) {
  double squares = 0;
  for (std::size_t i = 0; i < baseline.size(); ++i) {
    const double apart = candidate[i] - baseline[i];
    squares += apart * apart;
  }
  return std::sqrt(squares);
}

}  // namespace repro_check::core
