// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "cmd/inspect/inspect_export.h"
#include "cmd/inspect/inspect_json.h"
#include "cmd/inspect/inspect_values.h"
#include "cmd/inspect/inspect_views.h"
#include "cmd/render/json/json_text.h"
#include "cmd/render/text.h"
#include "cmd/terminal/logging.h"
#include "core/error.h"
#include "core/tensor/element_number.h"
#include "core/tensor/tensor_stats.h"

namespace repro_check::cmd {
namespace {

using core::TensorRecord;

constexpr std::size_t kBins = 16;
constexpr std::size_t kLongestBar = 40;

/// What is said of the numbers as a whole.
struct Numbers {
  core::TensorStats stats;
  std::optional<core::ValueHistogram> histogram;  ///< empty where values are not stored
};

/// Statistics of the whole cannot be made of a part that happens to be stored.
void require_whole(const TensorValues& values) {
  if (values.stored.empty()) return;
  throw core::Error(core::ErrorKind::kNotComparable,
                    "of this tensor only " + values.stored + " are stored, and no statistics",
                    "record with dump.level \"stats\", or without dump.slice");
}

std::string stats_text(const core::TensorStats& stats) {
  return fmt::format(
      "  min {}, max {}, mean {}, std {}, l2 {}\n"
      "  {} zero, {} NaN, {} +Inf, {} -Inf, {} subnormal\n",
      format_error(stats.min),
      format_error(stats.max),
      format_error(stats.mean),
      format_error(stats.std),
      format_error(stats.l2),
      format_count(stats.zeros),
      format_count(stats.nans),
      format_count(stats.positive_infs),
      format_count(stats.negative_infs),
      format_count(stats.subnormals));
}

double edge(const core::ValueHistogram& histogram, std::size_t bin) {
  const auto bins = static_cast<double>(histogram.counts.size());
  // The last edge is the greatest number itself, not one that rounding has made of it.
  if (bin == histogram.counts.size()) return histogram.greatest;
  const double share = static_cast<double>(bin) / bins;
  return histogram.least * (1 - share) + histogram.greatest * share;
}

std::string histogram_text(const core::ValueHistogram& histogram) {
  std::string text;
  const std::uint64_t most =
      histogram.counts.empty() ? 0 : *std::ranges::max_element(histogram.counts);
  for (std::size_t bin = 0; bin < histogram.counts.size(); ++bin) {
    const std::uint64_t count = histogram.counts[bin];
    auto length = static_cast<std::size_t>(static_cast<double>(count) / static_cast<double>(most) *
                                           static_cast<double>(kLongestBar));
    if (count > 0) length = std::max<std::size_t>(length, 1);
    const std::string line = fmt::format("  {:>10} to {:>10}  {:>9}  {}",
                                         format_error(edge(histogram, bin)),
                                         format_error(edge(histogram, bin + 1)),
                                         format_count(count),
                                         std::string(length, '#'));
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

OrderedJson histogram_json(const std::optional<core::ValueHistogram>& histogram) {
  if (!histogram) return nullptr;
  OrderedJson edges = OrderedJson::array();
  for (std::size_t bin = 0; bin <= histogram->counts.size() && !histogram->counts.empty(); ++bin) {
    edges.push_back(number_json(edge(*histogram, bin)));
  }
  return {{"edges", std::move(edges)},
          {"counts", histogram->counts},
          {"not_finite", histogram->not_finite}};
}

std::string slice_text(const TensorValues& values) {
  if (!values.stored.empty()) return "  stored: " + values.stored + "\n";
  if (!values.chosen || values.chosen->is_whole()) return "";
  return fmt::format(
      "  slice: {}, {}\n", format_index(values.shape), format_count(values.count(), "element"));
}

std::string text_view(const core::OpRecord& op,
                      const TensorRecord& tensor,
                      const TensorValues& values,
                      const TensorQuery& query,
                      const std::optional<Numbers>& numbers) {
  std::string text = fmt::format("op {} {} {}: {}, {}\n",
                                 op.index,
                                 op.op ? escape_name(op.op->full_name()) : "",
                                 escape_name(query.slot),
                                 format_tensor_type(tensor.dtype, tensor.shape),
                                 state_text(tensor));
  text += slice_text(values);
  if (numbers) text += stats_text(numbers->stats);
  if (numbers && numbers->histogram) text += histogram_text(*numbers->histogram);
  if (!query.values) return text;
  const std::uint64_t shown = std::min(*query.values, values.count());
  for (std::uint64_t i = 0; i < shown; ++i) {
    text += format_index(values.index(i)) + "\t" + element_text(tensor.dtype, values.element(i));
    if (query.bits) text.append("\t").append(bits_text(values.element(i)));
    text += "\n";
  }
  if (shown < values.count()) {
    text += fmt::format(
        "... and {} more: --values={}\n", format_count(values.count() - shown), values.count());
  }
  return text;
}

OrderedJson json_view(const core::DumpSource& dump,
                      const core::OpRecord& op,
                      const TensorRecord& tensor,
                      const TensorValues& values,
                      const TensorQuery& query,
                      const std::optional<Numbers>& numbers) {
  OrderedJson document = inspect_document(dump.location());
  document["op"] = op.index;
  document["operator"] = op.op ? clean_utf8(op.op->full_name()) : "";
  OrderedJson described = tensor_json(tensor);
  if (numbers) {
    described["stats"] = stats_json(numbers->stats);
    described["nan"] = numbers->stats.nans;
    described["histogram"] = histogram_json(numbers->histogram);
  }
  document["tensor"] = std::move(described);
  if (!values.stored.empty()) {
    document["slice"] = {{"elements", values.shape.front()}, {"stride", values.stride}};
  } else if (values.chosen) {
    document["slice"] = {{"elements", values.count()}, {"shape", values.shape}};
  }
  if (query.values) {
    OrderedJson rows = OrderedJson::array();
    for (std::uint64_t i = 0; i < std::min(*query.values, values.count()); ++i) {
      OrderedJson entry{{"index", values.index(i)}};
      entry.update(element_json(tensor.dtype, values.element(i)));
      rows.push_back(std::move(entry));
    }
    document["values"] = std::move(rows);
  }
  return document;
}

/// Recorded statistics are of the whole, and need no values; a histogram does.
std::optional<Numbers> numbers_of(const TensorRecord& tensor, const TensorValues& values) {
  Numbers numbers;
  const bool is_whole = !values.chosen || values.chosen->is_whole();
  if (tensor.stats && is_whole) {
    numbers.stats = *tensor.stats;
  } else {
    require_whole(values);
    numbers.stats = core::tensor_stats(tensor.dtype, values.bytes);
  }
  if (values.dtype != core::Dtype::kUnknown && values.stored.empty()) {
    numbers.histogram = core::value_histogram(tensor.dtype, values.bytes, kBins);
  }
  return numbers;
}

}  // namespace

std::string tensor_view(const core::DumpSource& dump,
                        std::uint64_t index,
                        const TensorQuery& query,
                        ViewForm form) {
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
  if (form == ViewForm::kText) return text_view(op, tensor, values, query, numbers);
  return to_document(json_view(dump, op, tensor, values, query, numbers),
                     form == ViewForm::kPrettyJson);
}

}  // namespace repro_check::cmd
