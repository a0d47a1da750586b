// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "cmd/inspect/inspect_json.h"
#include "cmd/render/json/json_text.h"
#include "cmd/render/text.h"

namespace repro_check::cmd {
namespace {

// Records are written as text, because a list has a million of them: a tree of JSON values takes
// ten times as long. Wherever a tree is wanted, it is made of this text.

void put_json(std::string& out, const OrderedJson& json) { out += json_piece(json, false); }

bool is_plain(char c) { return c >= ' ' && c < '\x7f' && c != '"' && c != '\\' && c != '#'; }

void put(std::string& out, std::string_view text) {
  if (std::ranges::all_of(text, is_plain)) {
    out.append("\"").append(text).append("\"");
  } else {
    put_json(out, clean_utf8(text));
  }
}
void put(std::string& out, bool value) { out += value ? "true" : "false"; }
void put(std::string& out, std::uint32_t value) {
  fmt::format_to(std::back_inserter(out), "{}", value);
}
void put(std::string& out, std::int64_t value) {
  fmt::format_to(std::back_inserter(out), "{}", value);
}
void put(std::string& out, std::uint64_t value) {
  fmt::format_to(std::back_inserter(out), "{}", value);
}
void put(std::string& out, double value) { put_json(out, number_json(value)); }
void put(std::string& out, const OrderedJson& value) { put_json(out, value); }

/// A comma, unless it is the first of an object or list.
void separate(std::string& out) {
  if (out.back() != '{' && out.back() != '[') out += ',';
}

void put_key(std::string& out, std::string_view key) {
  separate(out);
  out.append("\"").append(key).append("\":");
}

void member(std::string& out, std::string_view key, const auto& value) {
  put_key(out, key);
  put(out, value);
}

/// @param each  writes one item
void put_list(std::string& out, std::string_view key, const auto& items, const auto& each) {
  put_key(out, key);
  out += '[';
  for (const auto& item : items) {
    separate(out);
    each(item);
  }
  out += ']';
}

void put_numbers(std::string& out, std::string_view key, const std::vector<std::int64_t>& numbers) {
  put_list(out, key, numbers, [&](std::int64_t number) { put(out, number); });
}

void put_stats(std::string& out, const core::TensorStats& stats) {
  out += '{';
  member(out, "min", stats.min);
  member(out, "max", stats.max);
  member(out, "mean", stats.mean);
  member(out, "std", stats.std);
  member(out, "l2", stats.l2);
  member(out, "zeros", stats.zeros);
  member(out, "nan", stats.nans);
  member(out, "positive_inf", stats.positive_infs);
  member(out, "negative_inf", stats.negative_infs);
  member(out, "subnormals", stats.subnormals);
  out += '}';
}

std::string_view moved_text(core::InputWatch watch) {
  if (watch == core::InputWatch::kNotWatched) return "null";
  return watch == core::InputWatch::kMoved ? "true" : "false";
}

void put_tensor(std::string& out, const core::TensorRecord& tensor) {
  const bool hashed = tensor.state == core::ContentState::kHashed;
  out += '{';
  member(
      out, "role", std::string_view(tensor.role == core::TensorRole::kInput ? "input" : "output"));
  member(out, "slot", std::string_view(tensor.slot));
  member(out, "dtype", core::dtype_name(tensor.dtype));
  put_numbers(out, "shape", tensor.shape);
  put_numbers(out, "strides", tensor.strides);
  member(out, "offset", tensor.storage_offset);
  member(out, "device", std::string_view(tensor.device));
  member(out, "layout", std::string_view(tensor.layout));
  member(out, "attributes", std::string_view(tensor.attributes));
  member(out, "requires_grad", tensor.requires_grad);
  member(out, "state", core::content_state_name(tensor.state));
  put_key(out, "digest");
  out += hashed ? '"' + core::to_hex(tensor.digest) + '"' : "null";
  member(out, "stored", tensor.stored);
  put_key(out, "moved");
  out += moved_text(tensor.watch);
  member(out, "storage", tensor.storage);
  member(out, "producer", tensor.producer);
  member(out, "name", std::string_view(tensor.name));
  // Counts stand apart from the rest, so that `.outputs[].nan > 0` is all a filter has to say.
  const std::optional<core::NonFinite> counts = tensor.non_finite();
  put_key(out, "nan");
  out += counts ? std::to_string(counts->nans) : "null";
  put_key(out, "inf");
  out += counts ? std::to_string(counts->infs()) : "null";
  put_key(out, "stats");
  if (tensor.stats) {
    put_stats(out, *tensor.stats);
  } else {
    out += "null";
  }
  out += '}';
}

void put_frame(std::string& out, const core::SourceFrame& frame) {
  out += '{';
  member(out, "file", std::string_view(frame.file));
  member(out, "line", frame.line);
  member(out, "function", std::string_view(frame.function));
  out += '}';
}

void put_site(std::string& out, const core::CallSite& site) {
  member(out, "module", std::string_view(site.module_path));
  member(out, "module_type", std::string_view(site.module_type));
  put_list(out, "source", site.frames, [&](const auto& frame) { put_frame(out, frame); });
}

void put_change(std::string& out, const core::Substitution& change) {
  out += '{';
  member(out, "argument", std::string_view(change.argument));
  member(out, "from", std::string_view(change.from));
  member(out, "to", std::string_view(change.to));
  member(out, "reason", std::string_view(change.reason));
  out += '}';
}

OrderedJson generator_json(const std::optional<core::GeneratorUse>& use) {
  if (!use) return nullptr;
  return {{"device", clean_utf8(use->device)},
          {"seed", count_json(use->seed)},
          {"position_before", fmt::format("{:016x}", use->position_before)},
          {"position_after", fmt::format("{:016x}", use->position_after)},
          {"drawn", use->drawn < 0 ? OrderedJson(nullptr) : integer_json(use->drawn)}};
}

void put_values(std::string& out, const core::OpRecord& op) {
  put_list(out, "arguments", op.arguments, [&](const core::Argument& argument) {
    out += '{';
    member(out, "name", std::string_view(argument.name));
    member(out, "value", value_json(argument.value));
    out += '}';
  });
  put_list(out, "results", op.results, [&](const auto& result) { put(out, value_json(result)); });
}

void put_side(std::string& out, const core::OpRecord& op, core::TensorRole role) {
  put_key(out, role == core::TensorRole::kInput ? "inputs" : "outputs");
  out += '[';
  for (const core::TensorRecord& tensor : op.tensors) {
    if (tensor.role != role) continue;
    separate(out);
    put_tensor(out, tensor);
  }
  out += ']';
}

}  // namespace

std::string op_text(const core::OpRecord& op) {
  std::string out = "{";
  member(out, "index", op.index);
  const std::string name = op.op ? op.op->full_name() : "";
  member(out, "operator", std::string_view(name));
  member(out, "seeded", op.op != nullptr && op.op->seeded);
  put_site(out, op.site ? *op.site : core::CallSite{});
  member(out, "phase", core::phase_name(op.phase));
  member(out, "step", op.step);
  member(out, "rank", op.rank);
  member(out, "lane", op.lane);
  member(out, "depth", op.depth);
  member(out, "parent", op.parent);
  put_values(out, op);
  put_side(out, op, core::TensorRole::kInput);
  put_side(out, op, core::TensorRole::kOutput);
  put_list(
      out, "substitutions", op.substitutions, [&](const auto& change) { put_change(out, change); });
  member(out, "generator", generator_json(op.generator));
  member(out, "wall_ns", op.wall_ns);
  return out + '}';
}

OrderedJson stats_json(const core::TensorStats& stats) {
  std::string text;
  put_stats(text, stats);
  return OrderedJson::parse(text);
}

OrderedJson tensor_json(const core::TensorRecord& tensor) {
  std::string text;
  put_tensor(text, tensor);
  return OrderedJson::parse(text);
}

OrderedJson op_json(const core::OpRecord& op) { return OrderedJson::parse(op_text(op)); }

}  // namespace repro_check::cmd
