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
  Members& operator()(std::string_view key, const T& value) {
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

/// describe() says what the members of each kind of record are.
template <typename T>
void write_record(std::string& out, const T& record) {
  out += '{';
  Members members(out);
  describe(members, record);
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

void describe(Members& f, const core::TensorStats& it) {
  f MEMBER(min) MEMBER(max) MEMBER(mean) MEMBER(std) MEMBER(l2) MEMBER(zeros) NAMED("nan", nans)
      NAMED("positive_inf", positive_infs) NAMED("negative_inf", negative_infs) MEMBER(subnormals);
}

void describe(Members& f, const core::TensorRecord& it) {
  std::optional<std::string> digest;
  if (it.state == core::ContentState::kHashed) digest = core::to_hex(it.digest);
  std::optional<bool> moved;
  if (it.watch != core::InputWatch::kNotWatched) moved = it.watch == core::InputWatch::kMoved;
  std::optional<std::uint64_t> nans;
  std::optional<std::uint64_t> infs;
  if (const auto counts = it.non_finite()) {
    nans = counts->nans;
    infs = counts->infs();
  }
  f("role", it.role == core::TensorRole::kInput ? "input" : "output") MEMBER(slot);
  f("dtype", core::dtype_name(it.dtype)) MEMBER(shape) MEMBER(strides);
  f NAMED("offset", storage_offset) MEMBER(device) MEMBER(layout) MEMBER(attributes)
      MEMBER(requires_grad)("state", core::content_state_name(it.state));
  f("digest", digest) MEMBER(stored)("moved", moved) MEMBER(storage) MEMBER(producer) MEMBER(name);
  // Counts stand apart from the rest, so that `.outputs[].nan > 0` is all a filter has to say.
  f("nan", nans)("inf", infs) MEMBER(stats);
}

void describe(Members& f, const core::SourceFrame& it) {
  f MEMBER(file) MEMBER(line) MEMBER(function);
}

void describe(Members& f, const core::Argument& it) {
  f MEMBER(name)("value", value_json(it.value));
}

void describe(Members& f, const core::Substitution& it) {
  f MEMBER(argument) MEMBER(from) MEMBER(to) MEMBER(reason);
}

void describe(Members& f, const core::GeneratorUse& it) {
  f MEMBER(device)("seed", json_integer(it.seed));
  f("position_before", fmt::format("{:016x}", it.position_before));
  f("position_after", fmt::format("{:016x}", it.position_after));
  f("drawn", it.drawn < 0 ? Json(nullptr) : json_integer(it.drawn));
}

void describe(Members& f, const core::OpRecord& it) {
  const core::CallSite site = it.site ? *it.site : core::CallSite{};
  std::vector<Json> results;
  for (const core::Value& result : it.results) results.push_back(value_json(result));
  std::vector<const core::TensorRecord*> inputs;
  std::vector<const core::TensorRecord*> outputs;
  for (const core::TensorRecord& tensor : it.tensors) {
    (tensor.role == core::TensorRole::kInput ? inputs : outputs).push_back(&tensor);
  }
  f MEMBER(index)("operator", full_name(it))("seeded", it.op != nullptr && it.op->seeded);
  f("module", site.module_path)("module_type", site.module_type)("source", site.frames);
  f("phase", core::phase_name(it.phase)) MEMBER(step) MEMBER(rank) MEMBER(lane) MEMBER(depth);
  f MEMBER(parent) MEMBER(arguments)("results", results)("inputs", inputs)("outputs", outputs);
  f MEMBER(substitutions) MEMBER(generator) MEMBER(wall_ns);
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
