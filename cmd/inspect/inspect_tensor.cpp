// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "cmd/render/json/report_json.h"
#include "cmd/render/text.h"
#include "comparators/align/pairing.h"
#include "comparators/measure/metrics.h"
#include "comparators/measure/policy.h"
#include "core/error.h"
#include "core/tensor/content.h"
#include "core/tensor/element_number.h"
#include "core/tensor/tensor_stats.h"

namespace repro_check::cmd {
namespace {

using core::ContentState;
using core::ErrorKind;
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

bool has_ulp(core::Dtype dtype) { return core::is_floating(dtype) || core::is_complex(dtype); }

const TensorRecord& slot_of(const core::DumpSource& dump,
                            const core::OpRecord& op,
                            const std::string& slot) {
  try {
    return require_slot(op, slot);
  } catch (const core::Error& error) {
    if (error.kind() != ErrorKind::kNotComparable) throw;
    throw core::Error(error.kind(), dump.location() + ": " + error.what(), error.hint());
  }
}

/// What differs before any value is looked at; empty for two tensors that can be compared.
std::string structural_difference(const TensorRecord& here, const TensorRecord& there) {
  const auto type = [](const TensorRecord& tensor) {
    return tensor.state == ContentState::kUndefined
               ? std::string("undefined")
               : format_tensor_type(tensor.dtype, tensor.shape);
  };
  if ((here.state == ContentState::kUndefined) != (there.state == ContentState::kUndefined) ||
      here.dtype != there.dtype || here.shape != there.shape) {
    return type(here) + " against " + type(there);
  }
  if (here.layout != there.layout) {
    return "layout " + escape_name(here.layout) + " against " + escape_name(there.layout);
  }
  return here.attributes == there.attributes ? "" : "other quantiser or sparse parameters";
}

void require_known(const core::DumpSource& dump, const TensorRecord& tensor) {
  if (tensor.state == ContentState::kHashed || tensor.state == ContentState::kUndefined) return;
  throw core::Error(
      ErrorKind::kNotComparable,
      fmt::format("{}: nothing is known of the values: {}", dump.location(), state_text(tensor)));
}

/// Leaves them empty when the dumps do not hold the same elements, which only the whole can do
/// without.
void read_both(const core::DumpSource& dump,
               const core::DumpSource& other,
               const TensorQuery& query,
               TensorAgainst& pair) {
  try {
    TensorValues here = read_values(dump, pair.tensor, query.slice);
    TensorValues there = read_values(other, pair.other, query.slice);
    if (here.stride != there.stride || here.shape != there.shape) return;
    pair.values = std::move(here);
    pair.other_values = std::move(there);
  } catch (const core::Error& error) {
    // Of a part nothing but its values can say anything; of the whole the digests have spoken.
    if (error.kind() != ErrorKind::kNotComparable || query.slice) throw;
  }
}

std::string verdict_text(const TensorAgainst& pair) {
  std::string text = fmt::format("{} op {} {} {}",
                                 pair.equal ? "REPRODUCIBLE" : "DIVERGED",
                                 pair.op,
                                 escape_name(pair.operator_name),
                                 escape_name(side_slot(pair.tensor)));
  if (!pair.equal && !pair.metrics) return text + ": " + pair.difference + "\n";
  text += ", " + format_tensor_type(pair.tensor.dtype, pair.tensor.shape);
  if (pair.values && !pair.values->is_whole()) {
    text += ", slice " + format_index(pair.values->shape);
  } else if (pair.values && !pair.values->stored.empty()) {
    text += ", " + pair.values->stored;
  }
  if (pair.equal) {
    const auto elements = pair.values
                              ? pair.values->count()
                              : static_cast<std::uint64_t>(core::element_count(pair.tensor.shape));
    return text + ": " + format_count(elements, "element") + " bit-identical\n";
  }
  const comparators::TensorMetrics& m = *pair.metrics;
  text +=
      fmt::format(": {} of {} differ", format_count(m.n_diff), format_count(m.elements, "element"));
  if (m.ulp_max) text += fmt::format(", max {} ULP", format_ulp(*m.ulp_max));
  if (m.max_abs) text += ", abs max " + format_error(*m.max_abs);
  if (m.max_rel) text += ", rel max " + format_error(*m.max_rel);
  return text + "\n";
}

std::string element_lines(const TensorAgainst& pair, const TensorQuery& query) {
  std::string text = fmt::format("index\tvalue\tagainst\tabs error\tULP{}\n",
                                 query.bits ? "\tbits\tagainst bits" : "");
  for (const std::uint64_t position : differing_first(pair, *query.values)) {
    const ElementPair element = element_pair(pair, position);
    text += format_index(element.index) + "\t" + element.here + "\t" + element.there + "\t" +
            format_error(element.distance) + "\t";
    text += element.ulp                  ? format_ulp(*element.ulp)
            : has_ulp(pair.tensor.dtype) ? "incomparable"
                                         : "-";
    if (query.bits) text += "\t" + element.here_bits + "\t" + element.there_bits;
    text += "\n";
  }
  const std::uint64_t differing = pair.metrics ? pair.metrics->n_diff : 0;
  if (*query.values < differing) {
    text += fmt::format("... and {} more that differ: --values={}\n",
                        format_count(differing - *query.values),
                        differing);
  }
  return text;
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

std::uint64_t counterpart(const core::DumpSource& dump,
                          std::uint64_t index,
                          const core::DumpSource& other) {
  const auto pairing = comparators::pair_records(dump, other);
  const std::uint32_t found = pairing.candidate_of[index];
  if (found != comparators::kUnmatched) return found;
  throw core::Error(ErrorKind::kNotComparable,
                    fmt::format("{} has no counterpart of op {}", other.location(), index),
                    "name another operator with --op, or leave --against out");
}

TensorAgainst compare_tensor(const core::DumpSource& dump,
                             std::uint64_t op,
                             const core::DumpSource& other,
                             const TensorQuery& query) {
  TensorAgainst pair;
  pair.op = op;
  pair.other_op = counterpart(dump, op, other);
  const core::OpRecord record = dump.op(op);
  pair.operator_name = full_name(record);
  pair.tensor = slot_of(dump, record, query.slot);
  pair.other = slot_of(other, other.op(pair.other_op), query.slot);
  pair.difference = structural_difference(pair.tensor, pair.other);
  if (!pair.difference.empty()) return pair;
  require_known(dump, pair.tensor);
  require_known(other, pair.other);
  const bool same_digest = pair.tensor.digest == pair.other.digest;
  const bool looks = query.values || query.slice || query.export_to;
  if (pair.tensor.state == ContentState::kUndefined || (same_digest && !looks)) {
    pair.equal = true;
    return pair;
  }
  read_both(dump, other, query, pair);
  pair.equal = pair.values ? pair.values->bytes == pair.other_values->bytes : same_digest;
  if (!pair.values) {
    if (!same_digest) pair.difference = "digests differ; the dumps do not both hold the values";
  } else if (pair.equal && !same_digest && !query.slice) {
    // Of a tensor whose digests differ, equal bytes are those of a part that is stored.
    pair.equal = false;
    pair.difference = "digests differ, though not in " + pair.values->stored;
  } else if (!pair.equal) {
    pair.metrics = comparators::measure(pair.values->view(),
                                        pair.other_values->view(),
                                        comparators::element_policy({}, pair.tensor.dtype),
                                        0);
  }
  return pair;
}

ElementPair element_pair(const TensorAgainst& pair, std::uint64_t position) {
  const core::Dtype dtype = pair.tensor.dtype;
  const auto here = pair.values->element(position);
  const auto there = pair.other_values->element(position);
  ElementPair element{pair.values->index(position),
                      pair.values->text(position),
                      pair.other_values->text(position),
                      bits_text(here),
                      bits_text(there),
                      core::element_distance(dtype, here, there),
                      std::nullopt};
  constexpr std::array<std::int64_t, 1> kOne{1};
  const auto samples = comparators::first_differences({dtype, kOne, here}, {dtype, kOne, there}, 1);
  if (!samples.empty()) {
    element.ulp = samples.front().ulp;
  } else if (has_ulp(dtype) && std::isfinite(element.distance)) {
    element.ulp = 0;
  }
  return element;
}

Json ElementPair::json() const {
  return {{"index", index},
          {"baseline", element_json(here, here_bits)},
          {"candidate", element_json(there, there_bits)},
          {"differs", here_bits != there_bits},
          {"abs_error", json_number(distance)},
          {"ulp", json_integer(ulp)}};
}

std::vector<std::uint64_t> differing_first(const TensorAgainst& pair, std::uint64_t most) {
  std::vector<std::uint64_t> positions;
  if (!pair.values) return positions;
  for (const bool wanted : {true, false}) {
    for (std::uint64_t i = 0; i < pair.values->count() && positions.size() < most; ++i) {
      const bool differs =
          !std::ranges::equal(pair.values->element(i), pair.other_values->element(i));
      if (differs == wanted) positions.push_back(i);
    }
  }
  return positions;
}

std::string against_view(const core::DumpSource& dump,
                         const core::DumpSource& other,
                         const TensorAgainst& pair,
                         const TensorQuery& query,
                         Form form) {
  const bool has_values = query.values && pair.values;
  if (!is_json(form)) return verdict_text(pair) + (has_values ? element_lines(pair, query) : "");
  Json document = inspect_document(dump);
  document["against"] = other.location();
  document["op"] = pair.op;
  document["against_op"] = pair.other_op;
  document["operator"] = pair.operator_name;
  document["equal"] = pair.equal;
  document["difference"] = json_text_or_null(pair.difference);
  document["baseline"] = tensor_json(pair.tensor);
  document["candidate"] = tensor_json(pair.other);
  document["metrics"] = json_of(pair.metrics);
  if (has_values) {
    Json& values = document["values"] = Json::array();
    for (const std::uint64_t position : differing_first(pair, *query.values)) {
      values.push_back(element_pair(pair, position).json());
    }
  }
  return print_document(document, form);
}

}  // namespace repro_check::cmd
