// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "cmd/inspect/inspect_view.h"
#include "cmd/render/text.h"

namespace repro_check::cmd {
namespace {

bool is_plain(char c) { return c >= ' ' && c < '\x7f' && c != '"' && c != '\\' && c != '#'; }

/// A comma, unless it is the first of an object or list.
void separate(std::string& out) {
  if (out.back() != '{' && out.back() != '[') out += ',';
}

template <typename T>
void write_record(std::string& out, const T& record);

/// The members of an object, written one after another.
class Members {
 public:
  explicit Members(std::string& out) : out_(out) {}

  template <typename T>
  Members& put(std::string_view key, const T& value) {
    separate(out_);
    out_.append("\"").append(key).append("\":");
    write(value);
    return *this;
  }

 private:
  template <typename T>
  void write(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      out_ += value ? "true" : "false";
    } else if constexpr (std::is_integral_v<T>) {
      fmt::format_to(std::back_inserter(out_), "{}", value);
    } else if constexpr (std::is_floating_point_v<T>) {
      out_ += json_piece(json_number(value), false);
    } else if constexpr (std::is_same_v<T, Json>) {
      out_ += json_piece(value, false);
    } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
      const std::string_view text = value;
      if (!std::ranges::all_of(text, is_plain)) return write(json_text(text));
      out_.append("\"").append(text).append("\"");
    } else if constexpr (std::is_pointer_v<T>) {
      write(*value);
    } else {
      write_record(out_, value);
    }
  }
  template <typename T>
  void write(const std::optional<T>& value) {
    if (value) return write(*value);
    out_ += "null";
  }
  template <typename T>
  void write(const std::vector<T>& items) {
    out_ += '[';
    for (const T& item : items) {
      separate(out_);
      write(item);
    }
    out_ += ']';
  }
  std::string& out_;
};

/// fill() says what the members of each kind of record are.
template <typename T>
void write_record(std::string& out, const T& record) {
  out += '{';
  Members members(out);
  fill(members, record);
  out += '}';
}

Json value_json(const core::Value& value) {
  return std::visit(
      [](const auto& data) -> Json {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return nullptr;
        else if constexpr (std::is_same_v<T, std::int64_t>)
          return json_integer(data);
        else if constexpr (std::is_same_v<T, double>)
          return json_number(data);
        else if constexpr (std::is_same_v<T, std::complex<double>>)
          return {{"complex", Json::array({json_number(data.real()), json_number(data.imag())})}};
        else if constexpr (std::is_same_v<T, std::string>)
          return json_text(data);
        else if constexpr (std::is_same_v<T, core::Symbol>)
          return {{"symbol", json_text(data.name)}};
        else if constexpr (std::is_same_v<T, core::TensorSlot>)
          return {{"tensor", data.index}};
        else if constexpr (std::is_same_v<T, core::Opaque>)
          return {{"opaque", json_text(data.type)}};
        else if constexpr (std::is_same_v<T, core::ValueList>) {
          Json items = Json::array();
          for (const core::Value& item : data.items) items.push_back(value_json(item));
          return items;
        } else
          return data;
      },
      value.data);
}

void fill(Members& members, const core::TensorStats& stats) {
  members.put("min", stats.min)
      .put("max", stats.max)
      .put("mean", stats.mean)
      .put("std", stats.std)
      .put("l2", stats.l2)
      .put("zeros", stats.zeros)
      .put("nan", stats.nans)
      .put("positive_inf", stats.positive_infs)
      .put("negative_inf", stats.negative_infs)
      .put("subnormals", stats.subnormals);
}

void fill(Members& members, const core::TensorRecord& tensor) {
  std::optional<std::string> digest;
  if (tensor.state == core::ContentState::kHashed) digest = core::to_hex(tensor.digest);
  std::optional<bool> moved;
  if (tensor.watch != core::InputWatch::kNotWatched) {
    moved = tensor.watch == core::InputWatch::kMoved;
  }
  std::optional<std::uint64_t> nans;
  std::optional<std::uint64_t> infs;
  if (const auto counts = tensor.non_finite()) {
    nans = counts->nans;
    infs = counts->infs();
  }
  members.put("role", tensor.role == core::TensorRole::kInput ? "input" : "output")
      .put("slot", tensor.slot)
      .put("dtype", core::dtype_name(tensor.dtype))
      .put("shape", tensor.shape)
      .put("strides", tensor.strides)
      .put("offset", tensor.storage_offset)
      .put("device", tensor.device)
      .put("layout", tensor.layout)
      .put("attributes", tensor.attributes)
      .put("requires_grad", tensor.requires_grad)
      .put("state", core::content_state_name(tensor.state))
      .put("digest", digest)
      .put("stored", tensor.stored)
      .put("moved", moved)
      .put("storage", tensor.storage)
      .put("producer", tensor.producer)
      .put("name", tensor.name)
      // Counts stand apart from the rest, so that `.outputs[].nan > 0` is all a filter has to say.
      .put("nan", nans)
      .put("inf", infs)
      .put("stats", tensor.stats);
}

void fill(Members& members, const core::SourceFrame& frame) {
  members.put("file", frame.file).put("line", frame.line).put("function", frame.function);
}

void fill(Members& members, const core::Argument& argument) {
  members.put("name", argument.name).put("value", value_json(argument.value));
}

void fill(Members& members, const core::Substitution& change) {
  members.put("argument", change.argument)
      .put("from", change.from)
      .put("to", change.to)
      .put("reason", change.reason);
}

void fill(Members& members, const core::GeneratorUse& use) {
  members.put("device", use.device)
      .put("seed", json_integer(use.seed))
      .put("position_before", fmt::format("{:016x}", use.position_before))
      .put("position_after", fmt::format("{:016x}", use.position_after))
      .put("drawn", use.drawn < 0 ? Json(nullptr) : json_integer(use.drawn));
}

void fill(Members& members, const core::OpRecord& op) {
  const core::CallSite site = op.site ? *op.site : core::CallSite{};
  std::vector<Json> results;
  for (const core::Value& result : op.results) results.push_back(value_json(result));
  std::vector<const core::TensorRecord*> inputs;
  std::vector<const core::TensorRecord*> outputs;
  for (const core::TensorRecord& tensor : op.tensors) {
    (tensor.role == core::TensorRole::kInput ? inputs : outputs).push_back(&tensor);
  }
  members.put("index", op.index)
      .put("operator", full_name(op))
      .put("seeded", op.op != nullptr && op.op->seeded)
      .put("module", site.module_path)
      .put("module_type", site.module_type)
      .put("source", site.frames)
      .put("phase", core::phase_name(op.phase))
      .put("step", op.step)
      .put("rank", op.rank)
      .put("lane", op.lane)
      .put("depth", op.depth)
      .put("parent", op.parent)
      .put("arguments", op.arguments)
      .put("results", results)
      .put("inputs", inputs)
      .put("outputs", outputs)
      .put("substitutions", op.substitutions)
      .put("generator", op.generator)
      .put("wall_ns", op.wall_ns);
}

template <typename T>
std::string record_text(const T& record) {
  std::string out;
  write_record(out, record);
  return out;
}

}  // namespace

std::string op_text(const core::OpRecord& op) { return record_text(op); }
Json op_json(const core::OpRecord& op) { return Json::parse(record_text(op)); }
Json tensor_json(const core::TensorRecord& tensor) { return Json::parse(record_text(tensor)); }
Json stats_json(const core::TensorStats& stats) { return Json::parse(record_text(stats)); }

std::string full_name(const core::OpRecord& op) { return op.op ? op.op->full_name() : ""; }

std::string state_text(const core::TensorRecord& tensor) {
  if (tensor.state == core::ContentState::kHashed) {
    return core::to_hex(tensor.digest) + (tensor.stored ? "" : " (not stored)");
  }
  if (tensor.state == core::ContentState::kNone) return "no values";
  return std::string(core::content_state_name(tensor.state));
}

Json element_json(const std::string& text, const std::string& bits) {
  // What is no JSON number (nan, a complex value, a bool) stays as people read it.
  Json value = Json::parse(text, nullptr, false);
  const bool rounds =
      (value.is_number_unsigned() && json_integer(value.get<std::uint64_t>()).is_string()) ||
      (value.is_number_integer() && json_integer(value.get<std::int64_t>()).is_string());
  if (!value.is_primitive() || value.is_discarded() || rounds) value = text;
  return {{"value", std::move(value)}, {"bits", bits}};
}

}  // namespace repro_check::cmd
