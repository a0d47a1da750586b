// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect_flow.h"

#include <fmt/format.h>

#include <algorithm>

#include "cmd/inspect/inspect_values.h"
#include "cmd/render/text.h"
#include "core/trace/dataflow.h"

namespace repro_check::cmd {
namespace {

constexpr std::size_t kMostReaders = 20;

std::string name_of(const core::OpRecord& op) { return op.op ? op.op->full_name() : ""; }

/// A weight is a parameter or a buffer: that is said by the manifest alone.
std::string state_kind(const core::RunManifest& manifest, std::string_view name) {
  const auto found = std::ranges::find_if(manifest.named_tensors, [&](const auto& named) {
    return named.kind != core::NamedTensorKind::kInput && named.name == name;
  });
  if (found == manifest.named_tensors.end()) return "state";
  return found->kind == core::NamedTensorKind::kParameter ? "parameter" : "buffer";
}

std::vector<FlowAlias> aliases_of(const core::OpRecord& op) {
  std::vector<FlowAlias> groups;
  for (const core::TensorRecord& tensor : op.tensors) {
    if (tensor.storage < 0) continue;
    auto group = std::ranges::find(groups, tensor.storage, &FlowAlias::storage);
    if (group == groups.end()) group = groups.insert(groups.end(), {tensor.storage, {}, false});
    group->tensors.push_back(side_slot(tensor));
    group->written = group->written || (tensor.role == core::TensorRole::kOutput &&
                                        std::cmp_equal(tensor.producer, op.index));
  }
  std::erase_if(groups, [](const FlowAlias& group) { return group.tensors.size() < 2; });
  return groups;
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + escape_name(name);
  return text;
}

OrderedJson text_or_null(const std::string& text) {
  return text.empty() ? OrderedJson(nullptr) : OrderedJson(clean_utf8(text));
}

}  // namespace

FlowSource flow_source(const core::DumpSource& dump, const core::TensorRecord& tensor) {
  FlowSource source;
  source.argument = tensor.slot;
  const core::TensorSource found = core::tensor_source(tensor);
  source.name = found.name;
  switch (found.kind) {
    case core::SourceKind::kOperator: {
      const core::OpRecord producer = dump.op(found.op);
      source.kind = "operator";
      source.op = found.op;
      source.operator_name = name_of(producer);
      const core::TensorRecord* output = core::written_output(producer, tensor);
      if (output != nullptr) source.output = output->slot;
      break;
    }
    case core::SourceKind::kInput:
      source.kind = "input";
      break;
    case core::SourceKind::kState:
      source.kind = state_kind(dump.manifest(), found.name);
      break;
    case core::SourceKind::kConstant:
      source.kind = "constant";
      break;
  }
  return source;
}

OpFlow op_flow(const core::DumpSource& dump, const core::OpRecord& op) {
  OpFlow flow;
  for (const core::TensorRecord& tensor : op.tensors) {
    if (tensor.role == core::TensorRole::kInput) {
      flow.producers.push_back(flow_source(dump, tensor));
    }
  }
  core::for_each_reader(
      dump, op, [&](const auto& reader, const auto& argument, const auto& output) {
        flow.consumers.push_back({output.slot, reader.index, name_of(reader), argument.slot});
      });
  flow.aliases = aliases_of(op);
  return flow;
}

std::string source_text(const FlowSource& source) {
  if (source.op) {
    return fmt::format("op {} {}{}",
                       *source.op,
                       escape_name(source.operator_name),
                       source.output.empty() ? "" : " out:" + escape_name(source.output));
  }
  if (source.kind == "constant") return "a constant";
  return (source.kind == "input" ? "model input " : source.kind + " ") + escape_name(source.name);
}

std::string op_row(std::string_view label, const std::string& text) {
  return fmt::format("  {:<11}{}\n", label, text);
}

std::string flow_rows(const OpFlow& flow, bool all) {
  std::string text;
  for (const FlowAlias& alias : flow.aliases) {
    text += op_row("alias",
                   fmt::format("{} share storage {}{}",
                               joined(alias.tensors),
                               alias.storage,
                               alias.written ? ", which the operator wrote" : ""));
  }
  const std::size_t shown = all ? flow.consumers.size() : kMostReaders;
  for (std::size_t i = 0; i < std::min(shown, flow.consumers.size()); ++i) {
    const FlowReader& reader = flow.consumers[i];
    text += op_row("read by",
                   fmt::format("op {} {} in:{}, which is out:{}",
                               reader.op,
                               escape_name(reader.operator_name),
                               escape_name(reader.argument),
                               escape_name(reader.output)));
  }
  if (shown < flow.consumers.size()) {
    text += op_row("", fmt::format("... and {} more: -v", flow.consumers.size() - shown));
  }
  return text;
}

void add_flow(const OpFlow& flow, OrderedJson& document) {
  OrderedJson producers = OrderedJson::array();
  for (const FlowSource& source : flow.producers) {
    producers.push_back({{"argument", clean_utf8(source.argument)},
                         {"kind", source.kind},
                         {"op", source.op ? OrderedJson(*source.op) : OrderedJson(nullptr)},
                         {"operator", text_or_null(source.operator_name)},
                         {"output", text_or_null(source.output)},
                         {"name", text_or_null(source.name)}});
  }
  OrderedJson consumers = OrderedJson::array();
  for (const FlowReader& reader : flow.consumers) {
    consumers.push_back({{"output", clean_utf8(reader.output)},
                         {"op", reader.op},
                         {"operator", clean_utf8(reader.operator_name)},
                         {"argument", clean_utf8(reader.argument)}});
  }
  OrderedJson aliases = OrderedJson::array();
  for (const FlowAlias& alias : flow.aliases) {
    OrderedJson tensors = OrderedJson::array();
    for (const std::string& tensor : alias.tensors) tensors.push_back(clean_utf8(tensor));
    aliases.push_back(
        {{"storage", alias.storage}, {"tensors", std::move(tensors)}, {"written", alias.written}});
  }
  document["producers"] = std::move(producers);
  document["consumers"] = std::move(consumers);
  document["aliases"] = std::move(aliases);
}

}  // namespace repro_check::cmd
