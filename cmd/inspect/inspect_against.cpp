// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect_against.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "cmd/inspect/counterpart.h"
#include "cmd/inspect/inspect_json.h"
#include "cmd/render/json/json_op.h"
#include "cmd/render/json/json_text.h"
#include "cmd/render/text.h"
#include "comparators/measure/metrics.h"
#include "comparators/measure/policy.h"
#include "comparators/measure/samples.h"
#include "core/error.h"
#include "core/tensor/element_number.h"

namespace repro_check::cmd {
namespace {

using core::ContentState;
using core::ErrorKind;
using core::TensorRecord;

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
  return here.attributes == there.attributes ? std::string()
                                             : "other quantiser or sparse parameters";
}

void require_known(const core::DumpSource& dump, const TensorRecord& tensor) {
  if (tensor.state == ContentState::kHashed || tensor.state == ContentState::kUndefined) return;
  throw core::Error(
      ErrorKind::kNotComparable,
      fmt::format("{}: nothing is known of the values: {}", dump.location(), state_text(tensor)));
}

/// @return false when the dumps do not hold the same elements, which only the whole can do without
bool read_both(const core::DumpSource& dump,
               const core::DumpSource& other,
               const TensorQuery& query,
               TensorPair& pair) {
  try {
    pair.values = read_values(dump, pair.tensor, query.slice);
    pair.other_values = read_values(other, pair.other, query.slice);
  } catch (const core::Error& error) {
    // Of a part nothing but its values can say anything; of the whole the digests have spoken.
    if (error.kind() != ErrorKind::kNotComparable || query.slice) throw;
    pair.values.reset();
    pair.other_values.reset();
    return false;
  }
  const bool same_part = pair.values->stride == pair.other_values->stride &&
                         pair.values->shape == pair.other_values->shape;
  if (same_part) return true;
  pair.values.reset();
  pair.other_values.reset();
  return false;
}

std::string verdict_text(const TensorPair& pair) {
  const std::string where =
      fmt::format("op {} {} {}",
                  pair.op,
                  escape_name(pair.operator_name),
                  (pair.tensor.role == core::TensorRole::kInput ? "in:" : "out:") +
                      escape_name(pair.tensor.slot));
  const std::string type = format_tensor_type(pair.tensor.dtype, pair.tensor.shape);
  std::string part;
  if (pair.values && pair.values->chosen && !pair.values->chosen->is_whole()) {
    part = ", slice " + format_index(pair.values->shape);
  } else if (pair.values && !pair.values->stored.empty()) {
    part = ", " + pair.values->stored;
  }
  if (pair.equal) {
    const auto elements = pair.values
                              ? pair.values->count()
                              : static_cast<std::uint64_t>(core::element_count(pair.tensor.shape));
    return fmt::format("REPRODUCIBLE {}, {}{}: {} bit-identical\n",
                       where,
                       type,
                       part,
                       format_count(elements, "element"));
  }
  if (!pair.metrics) return fmt::format("DIVERGED {}: {}\n", where, pair.difference);
  const comparators::TensorMetrics& m = *pair.metrics;
  std::string text = fmt::format("DIVERGED {}, {}{}: {} of {} differ",
                                 where,
                                 type,
                                 part,
                                 format_count(m.n_diff),
                                 format_count(m.elements, "element"));
  if (m.ulp_max) text += fmt::format(", max {} ULP", format_ulp(*m.ulp_max));
  if (m.max_abs) text += ", abs max " + format_error(*m.max_abs);
  if (m.max_rel) text += ", rel max " + format_error(*m.max_rel);
  return text + "\n";
}

std::string ulp_text(const TensorPair& pair, const ElementPair& element) {
  if (element.ulp) return format_ulp(*element.ulp);
  return core::is_floating(pair.tensor.dtype) || core::is_complex(pair.tensor.dtype)
             ? "incomparable"
             : "-";
}

std::string element_lines(const TensorPair& pair, const TensorQuery& query) {
  std::string text = fmt::format("index\tvalue\tagainst\tabs error\tULP{}\n",
                                 query.bits ? "\tbits\tagainst bits" : "");
  for (const std::uint64_t position : differing_first(pair, *query.values)) {
    const ElementPair element = element_pair(pair, position);
    text += fmt::format("{}\t{}\t{}\t{}\t{}",
                        format_index(element.index),
                        element.here,
                        element.there,
                        format_error(element.distance),
                        ulp_text(pair, element));
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

TensorPair compare_tensor(const core::DumpSource& dump,
                          std::uint64_t op,
                          const core::DumpSource& other,
                          const TensorQuery& query) {
  TensorPair pair;
  pair.op = op;
  pair.other_op = counterpart(dump, op, other);
  const core::OpRecord record = dump.op(op);
  pair.operator_name = record.op ? record.op->full_name() : "";
  pair.tensor = slot_of(dump, record, query.slot);
  pair.other = slot_of(other, other.op(pair.other_op), query.slot);
  pair.difference = structural_difference(pair.tensor, pair.other);
  if (!pair.difference.empty()) return pair;
  require_known(dump, pair.tensor);
  require_known(other, pair.other);
  if (pair.tensor.state == ContentState::kUndefined) {
    pair.equal = true;
    return pair;
  }
  const bool same_digest = pair.tensor.digest == pair.other.digest;
  if (same_digest && !query.values && !query.slice && !query.export_to) {
    pair.equal = true;
    return pair;
  }
  if (!read_both(dump, other, query, pair)) {
    pair.equal = same_digest;
    if (!same_digest) pair.difference = "digests differ; the dumps do not both hold the values";
    return pair;
  }
  pair.equal = pair.values->bytes == pair.other_values->bytes;
  if (pair.equal && !same_digest && !query.slice) {
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

std::vector<std::uint64_t> differing_first(const TensorPair& pair, std::uint64_t most) {
  std::vector<std::uint64_t> positions;
  if (!pair.values || !pair.other_values) return positions;
  for (const bool wanted : {true, false}) {
    for (std::uint64_t i = 0; i < pair.values->count() && positions.size() < most; ++i) {
      const bool differs =
          !std::ranges::equal(pair.values->element(i), pair.other_values->element(i));
      if (differs == wanted) positions.push_back(i);
    }
  }
  return positions;
}

ElementPair element_pair(const TensorPair& pair, std::uint64_t position) {
  const core::Dtype dtype = pair.tensor.dtype;
  const auto here = pair.values->element(position);
  const auto there = pair.other_values->element(position);
  ElementPair element{pair.values->index(position),
                      element_text(dtype, here),
                      element_text(dtype, there),
                      bits_text(here),
                      bits_text(there),
                      core::element_distance(dtype, here, there),
                      std::nullopt};
  constexpr std::array<std::int64_t, 1> kOne{1};
  const auto samples = comparators::first_differences({dtype, kOne, here}, {dtype, kOne, there}, 1);
  if (!samples.empty()) {
    element.ulp = samples.front().ulp;
  } else if ((core::is_floating(dtype) || core::is_complex(dtype)) &&
             std::isfinite(element.distance)) {
    element.ulp = 0;
  }
  return element;
}

OrderedJson element_pair_json(const TensorPair& pair, std::uint64_t position) {
  const ElementPair element = element_pair(pair, position);
  const core::Dtype dtype = pair.tensor.dtype;
  return {{"index", element.index},
          {"baseline", element_json(dtype, pair.values->element(position))},
          {"candidate", element_json(dtype, pair.other_values->element(position))},
          {"differs", element.here_bits != element.there_bits},
          {"abs_error", number_json(element.distance)},
          {"ulp", element.ulp ? count_json(*element.ulp) : OrderedJson(nullptr)}};
}

std::string against_view(const core::DumpSource& dump,
                         const core::DumpSource& other,
                         const TensorPair& pair,
                         const TensorQuery& query,
                         ViewForm form) {
  const bool has_values = query.values && pair.values && pair.other_values;
  if (form == ViewForm::kText) {
    return verdict_text(pair) + (has_values ? element_lines(pair, query) : "");
  }
  OrderedJson document = inspect_document(dump.location());
  document["against"] = clean_utf8(other.location());
  document["op"] = pair.op;
  document["against_op"] = pair.other_op;
  document["operator"] = clean_utf8(pair.operator_name);
  document["equal"] = pair.equal;
  document["difference"] =
      pair.difference.empty() ? OrderedJson(nullptr) : OrderedJson(pair.difference);
  document["baseline"] = tensor_json(pair.tensor);
  document["candidate"] = tensor_json(pair.other);
  document["metrics"] = json_metrics(pair.metrics);
  if (has_values) {
    OrderedJson values = OrderedJson::array();
    for (const std::uint64_t position : differing_first(pair, *query.values)) {
      values.push_back(element_pair_json(pair, position));
    }
    document["values"] = std::move(values);
  }
  return to_document(document, form == ViewForm::kPrettyJson);
}

}  // namespace repro_check::cmd
