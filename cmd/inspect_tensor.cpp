// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "cmd/inspect_json.h"
#include "cmd/inspect_views.h"
#include "cmd/logging.h"
#include "cmd/render/text.h"
#include "core/error.h"
#include "core/npy.h"
#include "core/tensor_stats.h"

namespace repro_check::cmd {
namespace {

using core::TensorRecord;
using core::TensorRole;

std::string slots_text(const core::OpRecord& op) {
  std::string text;
  for (const TensorRecord& tensor : op.tensors) {
    text += fmt::format("{}{}:{}",
                        text.empty() ? "" : ", ",
                        tensor.role == TensorRole::kInput ? "in" : "out",
                        escape_name(tensor.slot));
  }
  return text.empty() ? "it has no tensors" : "it has " + text;
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
  throw core::Error(core::ErrorKind::kNotComparable,
                    fmt::format("op {} has no tensor {}", op.index, text),
                    slots_text(op));
}

std::vector<std::byte> read_content(const core::DumpSource& dump, const TensorRecord& tensor) {
  if (tensor.state != core::ContentState::kHashed || !tensor.stored) {
    throw core::Error(core::ErrorKind::kNotComparable,
                      "the dump holds no values of this tensor: " + state_text(tensor),
                      "record with dump.level \"tensor\"");
  }
  std::vector<std::byte> bytes;
  dump.read_content(tensor.content_key(), bytes);
  return bytes;
}

std::vector<std::int64_t> unravel(std::uint64_t flat, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    const auto size = static_cast<std::uint64_t>(shape[i]);
    index[i] = static_cast<std::int64_t>(flat % size);
    flat /= size;
  }
  return index;
}

/// Calls `each(index, element bytes)` for the first elements.
template <typename Each>
void for_first(core::TensorView view, const TensorRecord& tensor, std::uint64_t most, Each each) {
  const std::size_t size = core::element_size(view.dtype);
  const std::uint64_t count =
      std::min<std::uint64_t>(most, size == 0 ? 0 : view.bytes.size() / size);
  for (std::uint64_t i = 0; i < count; ++i) {
    each(unravel(i, tensor.shape), view.bytes.subspan(i * size, size));
  }
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

std::string text_view(const core::OpRecord& op,
                      const TensorRecord& tensor,
                      core::TensorView view,
                      const TensorQuery& query,
                      const std::optional<core::TensorStats>& stats) {
  std::string text = fmt::format("op {} {} {}: {}, {}\n",
                                 op.index,
                                 op.op ? escape_name(op.op->full_name()) : "",
                                 escape_name(query.slot),
                                 format_tensor_type(tensor.dtype, tensor.shape),
                                 state_text(tensor));
  if (stats) text += stats_text(*stats);
  if (!query.values) return text;
  std::uint64_t shown = 0;
  for_first(view, tensor, *query.values, [&](const auto& index, auto element) {
    text += format_index(index) + "\t" + element_text(tensor.dtype, element) + "\n";
    ++shown;
  });
  const auto total = static_cast<std::uint64_t>(core::element_count(tensor.shape));
  if (shown < total) {
    text += fmt::format("... and {} more: --values={}\n", format_count(total - shown), total);
  }
  return text;
}

OrderedJson json_view(const core::DumpSource& dump,
                      const core::OpRecord& op,
                      const TensorRecord& tensor,
                      core::TensorView view,
                      const TensorQuery& query,
                      const std::optional<core::TensorStats>& stats) {
  OrderedJson document = inspect_document(dump.location());
  document["op"] = op.index;
  document["operator"] = op.op ? clean_utf8(op.op->full_name()) : "";
  OrderedJson described = tensor_json(tensor);
  if (stats) {
    described["stats"] = stats_json(*stats);
    described["nan"] = stats->nans;
  }
  document["tensor"] = std::move(described);
  if (query.values) {
    OrderedJson values = OrderedJson::array();
    for_first(view, tensor, *query.values, [&](const auto& index, auto element) {
      OrderedJson entry{{"index", index}};
      entry.update(element_json(tensor.dtype, element));
      values.push_back(std::move(entry));
    });
    document["values"] = std::move(values);
  }
  return document;
}

}  // namespace

std::string tensor_view(const core::DumpSource& dump,
                        std::uint64_t index,
                        const TensorQuery& query,
                        ViewForm form) {
  const core::OpRecord op = dump.op(index);
  const TensorRecord& tensor = require_slot(op, query.slot);
  // Statistics may have been recorded where values were not.
  std::optional<core::TensorStats> stats = tensor.stats;
  if (!query.stats) stats.reset();
  std::vector<std::byte> bytes;
  const bool needs_bytes = query.values || query.export_to || (query.stats && !stats);
  if (needs_bytes) bytes = read_content(dump, tensor);
  const core::TensorView view{tensor.dtype, tensor.shape, bytes};
  if (query.stats && !stats) stats = core::tensor_stats(view.dtype, view.bytes);
  if (query.export_to) {
    core::write_npy(*query.export_to, view);
    log_info("wrote " + *query.export_to);
  }
  if (form == ViewForm::kText) return text_view(op, tensor, view, query, stats);
  return document_text(json_view(dump, op, tensor, view, query, stats),
                       form == ViewForm::kPrettyJson);
}

}  // namespace repro_check::cmd
