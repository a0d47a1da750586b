// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <vector>

#include "cmd/inspect_json.h"
#include "cmd/inspect_views.h"
#include "cmd/logging.h"
#include "cmd/render/text.h"
#include "core/content_slice.h"
#include "core/error.h"
#include "core/npy.h"
#include "core/tensor_stats.h"
#include "core/tensor_view.h"

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

/// Values of a tensor: all of them, or those of the slice that is stored.
struct StoredValues {
  std::vector<std::byte> bytes;
  std::vector<std::int64_t> shape;
  std::uint64_t stride = 1;
  std::string slice;  ///< `the first 8 of 4096 elements`; empty = all of them
};

StoredValues read_values(const core::DumpSource& dump, const TensorRecord& tensor) {
  const bool hashed = tensor.state == core::ContentState::kHashed;
  const core::ContentKey key = tensor.content_key();
  StoredValues values;
  values.shape = tensor.shape;
  if (const auto slice = hashed && !tensor.stored ? dump.find_slice(key) : std::nullopt) {
    const core::ContentKey own = core::slice_key(key, *slice);
    dump.read_content(own, values.bytes);
    values.shape = own.shape;
    values.stride = slice->stride;
    values.slice =
        core::describe_slice(*slice, static_cast<std::uint64_t>(core::element_count(tensor.shape)));
    return values;
  }
  if (!hashed || !tensor.stored) {
    throw core::Error(core::ErrorKind::kNotComparable,
                      "the dump holds no values of this tensor: " + state_text(tensor),
                      "record with dump.level \"tensor\"");
  }
  dump.read_content(key, values.bytes);
  return values;
}

/// Statistics of the whole cannot be made of a part.
void require_whole(const StoredValues& values) {
  if (values.slice.empty()) return;
  throw core::Error(core::ErrorKind::kNotComparable,
                    "of this tensor only " + values.slice + " are stored, and no statistics",
                    "record with dump.level \"stats\", or without dump.slice");
}

/// Calls `each(index, element bytes)` for the first elements.
template <typename Each>
void for_first(const StoredValues& values,
               const TensorRecord& tensor,
               std::uint64_t most,
               Each each) {
  const std::span<const std::byte> bytes(values.bytes);
  const std::size_t size = core::element_size(tensor.dtype);
  const std::uint64_t count = std::min<std::uint64_t>(most, size == 0 ? 0 : bytes.size() / size);
  for (std::uint64_t i = 0; i < count; ++i) {
    each(core::unravel(i * values.stride, tensor.shape), bytes.subspan(i * size, size));
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
                      const StoredValues& values,
                      const TensorQuery& query,
                      const std::optional<core::TensorStats>& stats) {
  std::string text = fmt::format("op {} {} {}: {}, {}\n",
                                 op.index,
                                 op.op ? escape_name(op.op->full_name()) : "",
                                 escape_name(query.slot),
                                 format_tensor_type(tensor.dtype, tensor.shape),
                                 state_text(tensor));
  if (stats) text += stats_text(*stats);
  if (!values.slice.empty()) text += "  stored: " + values.slice + "\n";
  if (!query.values) return text;
  std::uint64_t shown = 0;
  for_first(values, tensor, *query.values, [&](const auto& index, auto element) {
    text += format_index(index) + "\t" + element_text(tensor.dtype, element) + "\n";
    ++shown;
  });
  const auto total = static_cast<std::uint64_t>(core::element_count(values.shape));
  if (shown < total) {
    text += fmt::format("... and {} more: --values={}\n", format_count(total - shown), total);
  }
  return text;
}

OrderedJson json_view(const core::DumpSource& dump,
                      const core::OpRecord& op,
                      const TensorRecord& tensor,
                      const StoredValues& stored,
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
  if (!stored.slice.empty()) {
    document["slice"] = {{"elements", stored.shape.front()}, {"stride", stored.stride}};
  }
  if (query.values) {
    OrderedJson values = OrderedJson::array();
    for_first(stored, tensor, *query.values, [&](const auto& index, auto element) {
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
  StoredValues values;
  const bool needs_bytes = query.values || query.export_to || (query.stats && !stats);
  if (needs_bytes) values = read_values(dump, tensor);
  if (query.stats && !stats) {
    require_whole(values);
    stats = core::tensor_stats(tensor.dtype, values.bytes);
  }
  if (query.export_to) {
    core::write_npy(*query.export_to, {tensor.dtype, values.shape, values.bytes});
    log_info("wrote " + *query.export_to);
    if (!values.slice.empty()) {
      log_warning(*query.export_to + " holds " + values.slice + ", in one dimension");
    }
  }
  if (form == ViewForm::kText) return text_view(op, tensor, values, query, stats);
  return document_text(json_view(dump, op, tensor, values, query, stats),
                       form == ViewForm::kPrettyJson);
}

}  // namespace repro_check::cmd
