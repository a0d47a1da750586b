// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect_json.h"

#include <fmt/format.h>

#include <cmath>
#include <type_traits>
#include <variant>

#include "cmd/render/text.h"

namespace repro_check::cmd {
namespace {

constexpr std::int64_t kLargestExact = (std::int64_t{1} << 53) - 1;

std::string hex_of(std::span<const std::byte> element) {
  std::string text;
  for (std::size_t i = element.size(); i > 0; --i) {
    text += fmt::format("{:02x}", std::to_integer<unsigned>(element[i - 1]));
  }
  return text;
}

OrderedJson site_json(const core::CallSite* site) {
  OrderedJson frames = OrderedJson::array();
  if (site == nullptr) return frames;
  for (const core::SourceFrame& frame : site->frames) {
    frames.push_back({{"file", clean_utf8(frame.file)},
                      {"line", frame.line},
                      {"function", clean_utf8(frame.function)}});
  }
  return frames;
}

OrderedJson generator_json(const std::optional<core::GeneratorUse>& use) {
  if (!use) return nullptr;
  return {{"device", clean_utf8(use->device)},
          {"seed", count_json(use->seed)},
          {"position_before", fmt::format("{:016x}", use->position_before)},
          {"position_after", fmt::format("{:016x}", use->position_after)},
          {"drawn", use->drawn < 0 ? OrderedJson(nullptr) : integer_json(use->drawn)}};
}

OrderedJson digest_json(const core::TensorRecord& tensor) {
  if (tensor.state != core::ContentState::kHashed) return nullptr;
  return core::to_hex(tensor.digest);
}

}  // namespace

OrderedJson inspect_document(const std::string& location) {
  return {{"format", "repro-check-inspect"}, {"version", "1.2"}, {"dump", clean_utf8(location)}};
}

std::string document_text(const OrderedJson& document, bool pretty) {
  return document.dump(pretty ? 2 : -1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

OrderedJson number_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

OrderedJson integer_json(std::int64_t value) {
  if (value > kLargestExact || value < -kLargestExact) return std::to_string(value);
  return value;
}

OrderedJson count_json(std::uint64_t value) {
  if (value > static_cast<std::uint64_t>(kLargestExact)) return std::to_string(value);
  return value;
}

OrderedJson value_json(const core::Value& value) {
  return std::visit(
      [](const auto& data) -> OrderedJson {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return nullptr;
        else if constexpr (std::is_same_v<T, std::int64_t>)
          return integer_json(data);
        else if constexpr (std::is_same_v<T, double>)
          return number_json(data);
        else if constexpr (std::is_same_v<T, std::complex<double>>) {
          return {{"complex",
                   OrderedJson::array({number_json(data.real()), number_json(data.imag())})}};
        } else if constexpr (std::is_same_v<T, std::string>)
          return clean_utf8(data);
        else if constexpr (std::is_same_v<T, core::Symbol>)
          return {{"symbol", clean_utf8(data.name)}};
        else if constexpr (std::is_same_v<T, core::TensorSlot>)
          return {{"tensor", data.index}};
        else if constexpr (std::is_same_v<T, core::Opaque>)
          return {{"opaque", clean_utf8(data.type)}};
        else if constexpr (std::is_same_v<T, core::ValueList>) {
          OrderedJson items = OrderedJson::array();
          for (const core::Value& item : data.items) items.push_back(value_json(item));
          return items;
        } else
          return data;
      },
      value.data);
}

OrderedJson stats_json(const core::TensorStats& stats) {
  return {{"min", number_json(stats.min)},
          {"max", number_json(stats.max)},
          {"mean", number_json(stats.mean)},
          {"std", number_json(stats.std)},
          {"l2", number_json(stats.l2)},
          {"zeros", stats.zeros},
          {"nan", stats.nans},
          {"positive_inf", stats.positive_infs},
          {"negative_inf", stats.negative_infs},
          {"subnormals", stats.subnormals}};
}

OrderedJson tensor_json(const core::TensorRecord& tensor) {
  OrderedJson json{{"role", tensor.role == core::TensorRole::kInput ? "input" : "output"},
                   {"slot", clean_utf8(tensor.slot)},
                   {"dtype", core::dtype_name(tensor.dtype)},
                   {"shape", tensor.shape},
                   {"strides", tensor.strides},
                   {"offset", tensor.storage_offset},
                   {"device", clean_utf8(tensor.device)},
                   {"layout", clean_utf8(tensor.layout)},
                   {"attributes", clean_utf8(tensor.attributes)},
                   {"requires_grad", tensor.requires_grad},
                   {"state", core::content_state_name(tensor.state)},
                   {"digest", digest_json(tensor)},
                   {"stored", tensor.stored},
                   {"storage", tensor.storage},
                   {"producer", tensor.producer},
                   {"name", clean_utf8(tensor.name)}};
  // Counts stand apart from the rest, so that `.outputs[].nan > 0` is all a filter has to say.
  json["nan"] = tensor.stats ? OrderedJson(tensor.stats->nans) : OrderedJson(nullptr);
  json["stats"] = tensor.stats ? stats_json(*tensor.stats) : OrderedJson(nullptr);
  return json;
}

OrderedJson op_json(const core::OpRecord& op) {
  OrderedJson arguments = OrderedJson::array();
  for (const core::Argument& argument : op.arguments) {
    arguments.push_back(
        {{"name", clean_utf8(argument.name)}, {"value", value_json(argument.value)}});
  }
  OrderedJson results = OrderedJson::array();
  for (const core::Value& result : op.results) results.push_back(value_json(result));
  OrderedJson inputs = OrderedJson::array();
  OrderedJson outputs = OrderedJson::array();
  for (const core::TensorRecord& tensor : op.tensors) {
    (tensor.role == core::TensorRole::kInput ? inputs : outputs).push_back(tensor_json(tensor));
  }
  OrderedJson changes = OrderedJson::array();
  for (const core::Substitution& change : op.substitutions) {
    changes.push_back({{"argument", clean_utf8(change.argument)},
                       {"from", clean_utf8(change.from)},
                       {"to", clean_utf8(change.to)},
                       {"reason", clean_utf8(change.reason)}});
  }
  const core::CallSite* site = op.site.get();
  return {{"index", op.index},
          {"operator", op.op ? clean_utf8(op.op->full_name()) : ""},
          {"seeded", op.op != nullptr && op.op->seeded},
          {"module", site == nullptr ? "" : clean_utf8(site->module_path)},
          {"module_type", site == nullptr ? "" : clean_utf8(site->module_type)},
          {"source", site_json(site)},
          {"phase", core::phase_name(op.phase)},
          {"step", op.step},
          {"rank", op.rank},
          {"lane", op.lane},
          {"depth", op.depth},
          {"parent", op.parent},
          {"arguments", std::move(arguments)},
          {"results", std::move(results)},
          {"inputs", std::move(inputs)},
          {"outputs", std::move(outputs)},
          {"substitutions", std::move(changes)},
          {"generator", generator_json(op.generator)},
          {"wall_ns", op.wall_ns}};
}

OrderedJson element_json(core::Dtype dtype, std::span<const std::byte> element) {
  const std::string text = element_text(dtype, element);
  // What is no JSON number (nan, a complex value, a bool) stays as people read it.
  OrderedJson value = OrderedJson::parse(text, nullptr, false);
  const bool rounds =
      value.is_number_integer() && (value > kLargestExact || value < -kLargestExact);
  if (!value.is_primitive() || value.is_discarded() || rounds) value = text;
  return {{"value", std::move(value)}, {"bits", hex_of(element)}};
}

}  // namespace repro_check::cmd
