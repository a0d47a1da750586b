// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "cmd/render/text.h"
#include "core/content/content_slice.h"
#include "core/error.h"
#include "core/tensor/element_number.h"
#include "core/tensor/tensor_stats.h"

namespace repro_check::cmd {
namespace {

using core::TensorRecord;
using core::TensorRole;

constexpr std::size_t kBins = 16;
constexpr std::size_t kLongestBar = 40;
constexpr std::size_t kBesideBar = 39;  ///< columns that stand in front of it

/// What is said of the numbers as a whole.
struct Numbers {
  core::TensorStats stats;
  std::optional<core::ValueHistogram> histogram;  ///< empty where values are not stored
};

double edge(const core::ValueHistogram& histogram, std::size_t bin) {
  // The last edge is the greatest number itself, not one that rounding has made of it.
  if (bin == histogram.counts.size()) return histogram.greatest;
  const double share = static_cast<double>(bin) / static_cast<double>(histogram.counts.size());
  return histogram.least * (1 - share) + histogram.greatest * share;
}

std::string numbers_text(const Numbers& numbers, std::size_t columns) {
  std::string text =
      say("  min {min:number}, max {max:number}, mean {mean:number}, std {std:number}, l2 "
          "{l2:number}\n  {zeros:count} zero, {nan:count} NaN, {positive_inf:count} +Inf, "
          "{negative_inf:count} -Inf, {subnormals:count} subnormal\n",
          stats_json(numbers.stats));
  if (!numbers.histogram) return text;
  const std::vector<std::uint64_t>& counts = numbers.histogram->counts;
  const std::size_t room = columns == 0 ? kLongestBar : std::max(columns, kBesideBar) - kBesideBar;
  const auto longest = static_cast<double>(std::min(room, kLongestBar));
  for (std::size_t bin = 0; bin < counts.size(); ++bin) {
    const double share =
        static_cast<double>(counts[bin]) / static_cast<double>(*std::ranges::max_element(counts));
    const auto length = static_cast<std::size_t>(share * longest);
    const std::string line = fmt::format("  {:>10} to {:>10}  {:>9}  {:#<{}}",
                                         format_error(edge(*numbers.histogram, bin)),
                                         format_error(edge(*numbers.histogram, bin + 1)),
                                         format_count(counts[bin]),
                                         "",
                                         counts[bin] > 0 ? std::max<std::size_t>(length, 1) : 0);
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

Json histogram_json(const std::optional<core::ValueHistogram>& histogram) {
  if (!histogram) return nullptr;
  Json edges = Json::array();
  for (std::size_t bin = 0; bin <= histogram->counts.size() && !histogram->counts.empty(); ++bin) {
    edges.push_back(json_number(edge(*histogram, bin)));
  }
  return {{"edges", std::move(edges)},
          {"counts", histogram->counts},
          {"not_finite", histogram->not_finite}};
}

std::string text_view(const core::OpRecord& op,
                      const TensorRecord& tensor,
                      const TensorValues& values,
                      const TensorQuery& query,
                      const std::optional<Numbers>& numbers) {
  std::string text = fmt::format("op {} {} {}: {}, {}\n",
                                 op.index,
                                 escape_name(full_name(op)),
                                 escape_name(query.slot),
                                 format_tensor_type(tensor.dtype, tensor.shape),
                                 state_text(tensor));
  if (!values.stored.empty()) {
    text += "  stored: " + values.stored + "\n";
  } else if (!values.is_whole()) {
    text += "  slice: " + format_index(values.shape) + ", " +
            format_count(values.count(), "element") + "\n";
  }
  if (numbers) text += numbers_text(*numbers, query.columns);
  if (!query.values) return text;
  const std::uint64_t shown = std::min(*query.values, values.count());
  for (std::uint64_t i = 0; i < shown; ++i) {
    text += format_index(values.index(i)) + "\t" + values.text(i);
    if (query.bits) text += "\t" + bits_text(values.element(i));
    text += "\n";
  }
  if (shown < values.count()) {
    text += fmt::format(
        "... and {} more: --values={}\n", format_count(values.count() - shown), values.count());
  }
  return text;
}

Json json_view(const core::DumpSource& dump,
               const core::OpRecord& op,
               const TensorRecord& tensor,
               const TensorValues& values,
               const TensorQuery& query,
               const std::optional<Numbers>& numbers) {
  Json document = inspect_document(dump);
  document["op"] = op.index;
  document["operator"] = full_name(op);
  Json& described = document["tensor"] = tensor_json(tensor);
  if (numbers) {
    described["stats"] = stats_json(numbers->stats);
    described["nan"] = numbers->stats.nans;
    described["histogram"] = histogram_json(numbers->histogram);
  }
  if (!values.stored.empty()) {
    document["slice"] = {{"elements", values.shape.front()}, {"stride", values.stride}};
  } else if (values.chosen) {
    document["slice"] = {{"elements", values.count()}, {"shape", values.shape}};
  }
  if (query.values) {
    Json& rows = document["values"] = Json::array();
    for (std::uint64_t i = 0; i < std::min(*query.values, values.count()); ++i) {
      rows.push_back(values.json(i));
    }
  }
  return document;
}

/// Recorded statistics are of the whole, and need no values; a histogram does.
Numbers numbers_of(const TensorRecord& tensor, const TensorValues& values) {
  Numbers numbers;
  if (tensor.stats && values.is_whole()) {
    numbers.stats = *tensor.stats;
  } else if (values.stored.empty()) {
    numbers.stats = core::tensor_stats(tensor.dtype, values.bytes);
  } else {
    // Those of the whole cannot be made of a part that happens to be stored.
    throw core::Error(core::ErrorKind::kNotComparable,
                      "of this tensor only " + values.stored + " are stored, and no statistics",
                      "record with dump.level \"stats\", or without dump.slice");
  }
  if (values.dtype != core::Dtype::kUnknown && values.stored.empty()) {
    numbers.histogram = core::value_histogram(tensor.dtype, values.bytes, kBins);
  }
  return numbers;
}

/// A slot by its name, else by its position among those of its side.
const TensorRecord* find_slot(const core::OpRecord& op, TensorRole role, const std::string& slot) {
  std::vector<const TensorRecord*> side;
  for (const TensorRecord& tensor : op.tensors) {
    if (tensor.role != role) continue;
    if (tensor.slot == slot) return &tensor;
    side.push_back(&tensor);
  }
  std::size_t position = 0;
  const char* end = slot.data() + slot.size();
  const auto [stopped, error] = std::from_chars(slot.data(), end, position);
  if (error != std::errc{} || stopped != end || position >= side.size()) return nullptr;
  return side[position];
}

}  // namespace

std::string side_slot(const TensorRecord& tensor) {
  return (tensor.role == TensorRole::kInput ? "in:" : "out:") + tensor.slot;
}

const TensorRecord& require_slot(const core::OpRecord& op, const std::string& text) {
  const bool input = text.starts_with("in:");
  if (!input && !text.starts_with("out:")) {
    throw core::Error(core::ErrorKind::kUsage,
                      "--tensor " + text + ": expected in:SLOT or out:SLOT",
                      "for example --tensor out:0, or --tensor in:self");
  }
  const std::string slot = text.substr(text.find(':') + 1);
  const TensorRecord* found = find_slot(op, input ? TensorRole::kInput : TensorRole::kOutput, slot);
  if (found != nullptr) return *found;
  std::string slots;
  for (const TensorRecord& tensor : op.tensors) {
    slots += (slots.empty() ? "it has " : ", ") + escape_name(side_slot(tensor));
  }
  throw core::Error(core::ErrorKind::kNotComparable,
                    fmt::format("op {} has no tensor {}", op.index, text),
                    slots.empty() ? "it has no tensors" : slots);
}

std::uint64_t TensorValues::count() const {
  const std::size_t size = core::element_size(dtype);
  return size == 0 ? 0 : bytes.size() / size;
}

std::vector<std::int64_t> TensorValues::index(std::uint64_t position) const {
  return core::unravel((chosen ? chosen->flat(position) : position) * stride, whole);
}

std::span<const std::byte> TensorValues::element(std::uint64_t position) const {
  const std::size_t size = core::element_size(dtype);
  return std::span<const std::byte>(bytes).subspan(position * size, size);
}

std::string TensorValues::text(std::uint64_t position) const {
  return element_text(dtype, element(position));
}

Json TensorValues::json(std::uint64_t position) const {
  Json entry{{"index", index(position)}};
  entry.update(element_json(text(position), bits_text(element(position))));
  return entry;
}

TensorValues read_values(const core::DumpSource& dump,
                         const TensorRecord& tensor,
                         const std::optional<core::Subscript>& part) {
  const bool hashed = tensor.state == core::ContentState::kHashed;
  const core::ContentKey key = tensor.content_key();
  TensorValues values;
  values.dtype = tensor.dtype;
  values.shape = tensor.shape;
  values.whole = tensor.shape;
  if (const auto slice = hashed && !tensor.stored ? dump.find_slice(key) : std::nullopt) {
    const core::ContentKey own = core::slice_key(key, *slice);
    values.stored =
        core::describe_slice(*slice, static_cast<std::uint64_t>(core::element_count(tensor.shape)));
    if (part) {
      throw core::Error(core::ErrorKind::kNotComparable,
                        "of this tensor only " + values.stored + " are stored",
                        "leave out --slice, or record without dump.slice");
    }
    dump.read_content(own, values.bytes);
    values.shape = own.shape;
    values.stride = slice->stride;
    return values;
  }
  if (!hashed || !tensor.stored) {
    throw core::Error(core::ErrorKind::kNotComparable,
                      "the dump holds no values of this tensor: " + state_text(tensor),
                      "record with dump.level \"tensor\"");
  }
  if (part) values.chosen.emplace(tensor.shape, *part);
  dump.read_content(key, values.bytes);
  if (values.is_whole()) return values;
  values.bytes = values.chosen->take(values.bytes, core::element_size(tensor.dtype));
  values.shape = values.chosen->shape();
  return values;
}

std::string tensor_view(const core::DumpSource& dump,
                        std::uint64_t index,
                        const TensorQuery& query,
                        Form form) {
  const core::OpRecord op = dump.op(index);
  const TensorRecord& tensor = require_slot(op, query.slot);
  TensorValues values;
  // Statistics may have been recorded where values were not.
  const bool stats_suffice = query.stats && tensor.stats && !tensor.stored && !query.slice;
  const bool needs_bytes = query.values || query.export_to || query.slice;
  if (needs_bytes || (query.stats && !stats_suffice)) {
    values = read_values(dump, tensor, query.slice);
  }
  std::optional<Numbers> numbers;
  if (query.stats) numbers = numbers_of(tensor, values);
  if (query.export_to) export_values(*query.export_to, op, tensor, values, query);
  if (!is_json(form)) return text_view(op, tensor, values, query, numbers);
  return print_document(json_view(dump, op, tensor, values, query, numbers), form);
}

}  // namespace repro_check::cmd
