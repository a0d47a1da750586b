// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "cmd/inspect/counterpart.h"
#include "cmd/inspect/inspect_tensor.h"
#include "cmd/render/json/op_json.h"
#include "cmd/render/text.h"
#include "comparators/align/pairing.h"
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

std::uint64_t counterpart(const core::DumpSource& dump,
                          std::uint64_t index,
                          const core::DumpSource& other) {
  const auto pairing = comparators::detail::pair_records(dump, other);
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
