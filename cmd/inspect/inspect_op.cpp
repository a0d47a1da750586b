// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "cmd/inspect/inspect_tensor.h"
#include "cmd/inspect/inspect_view.h"
#include "cmd/render/text.h"
#include "core/trace/dataflow.h"
#include "core/trace/lane.h"

namespace repro_check::cmd {
namespace {

using core::TensorRecord;

/// Of the document's `op`, and what text_model() adds to it.
constexpr std::array kOperator{
    ViewLine{"module", "{path}[ ({module_type})]", "place"},
    ViewLine{"source", "{file}:{line} in {function}", "source"},
    ViewLine{
        "phase",
        "{phase}, step {step}, depth {depth}[, inside op {inside}][, rank {other_rank}][, lane "
        "{other_lane}]"},
    ViewLine{"argument", "{name} = {text}", "arguments"},
    ViewLine{"result", "{}", "results"},
    ViewLine{"{role}",
             "{slot} = {dtype} {shape}[ {other_layout}] on {device}, {content}[, strides {strides}]"
             "[, from {from}][, {written} while it was being digested][, storage {place}]",
             "tensors"},
    ViewLine{"changed", "{argument}: {from} -> {to} ({reason})", "substitutions"},
    ViewLine{"alias", "{tensors} share storage {storage}[, which the operator {wrote}]", "aliases"},
    ViewLine{"read by", "op {op} {operator} in:{argument}, which is out:{output}", "consumers"},
    ViewLine{"", "... and {} more: -v", "unread"},
    ViewLine{
        "generator",
        "{device} seed {seed}, position {position_before} -> {position_after}[, {drawn} drawn]",
        "generator"},
    ViewLine{"generator", "seeded, not moved", "unmoved"},
    ViewLine{"time", "{seconds:seconds}"},
};

/// A weight is a parameter or a buffer: that is said by the manifest alone.
std::string state_kind(const core::RunManifest& manifest, std::string_view name) {
  const auto found = std::ranges::find_if(manifest.named_tensors, [&](const auto& named) {
    return named.kind != core::NamedTensorKind::kInput && named.name == name;
  });
  if (found == manifest.named_tensors.end()) return "state";
  return found->kind == core::NamedTensorKind::kParameter ? "parameter" : "buffer";
}

/// Where the value of `tensor` came from. No output is named where its operator wrote memory that
/// it did not return.
Json source_json(const core::DumpSource& dump, const TensorRecord& tensor) {
  const core::TensorSource found = core::tensor_source(tensor);
  Json source{{"argument", tensor.slot},
              {"kind", "constant"},
              {"op", nullptr},
              {"operator", nullptr},
              {"output", nullptr},
              {"name", nullptr}};
  if (!found.name.empty()) source["name"] = std::string(found.name);
  if (found.kind == core::SourceKind::kOperator) {
    const core::OpRecord producer = dump.op(found.op);
    source["kind"] = "operator";
    source["op"] = found.op;
    if (producer.op) source["operator"] = full_name(producer);
    const TensorRecord* output = core::written_output(producer, tensor);
    if (output != nullptr && !output->slot.empty()) source["output"] = output->slot;
  } else if (found.kind == core::SourceKind::kInput) {
    source["kind"] = "input";
  } else if (found.kind == core::SourceKind::kState) {
    source["kind"] = state_kind(dump.manifest(), found.name);
  }
  return source;
}

/// `op 1 aten::relu out:0`, `parameter head.weight`, `model input x`, `a constant`.
std::string source_text(const Json& source) {
  if (!source["op"].is_null()) return say("op {op} {operator}[ out:{output}]", source);
  if (source["kind"] == "constant") return "a constant";
  return say(source["kind"] == "input" ? "model input {name}" : "{kind} {name}", source);
}

/// Tensors of one call that share memory, by first appearance.
Json aliases_json(const core::OpRecord& op) {
  Json groups = Json::array();
  for (const TensorRecord& tensor : op.tensors) {
    if (tensor.storage < 0) continue;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Json& one) {
      return one["storage"] == tensor.storage;
    });
    if (group == groups.end()) {
      groups.push_back(
          {{"storage", tensor.storage}, {"tensors", Json::array()}, {"written", false}});
      group = std::prev(groups.end());
    }
    (*group)["tensors"].push_back(side_slot(tensor));
    if (tensor.role == core::TensorRole::kOutput && std::cmp_equal(tensor.producer, op.index)) {
      (*group)["written"] = true;
    }
  }
  Json shared = Json::array();
  for (Json& group : groups) {
    if (group["tensors"].size() > 1) shared.push_back(std::move(group));
  }
  return shared;
}

/// What flows into an operator and out of it.
void add_flow(const core::DumpSource& dump, const core::OpRecord& op, Json& document) {
  Json& producers = document["producers"] = Json::array();
  for (const TensorRecord& tensor : op.tensors) {
    if (tensor.role == core::TensorRole::kInput) producers.push_back(source_json(dump, tensor));
  }
  Json& consumers = document["consumers"] = Json::array();
  core::for_each_reader(
      dump, op, [&](const auto& reader, const auto& argument, const auto& output) {
        consumers.push_back({{"output", output.slot},
                             {"op", reader.index},
                             {"operator", full_name(reader)},
                             {"argument", argument.slot}});
      });
  document["aliases"] = aliases_json(op);
}

/// Whether an output says of its source nothing that its operator does not.
bool says_no_source(const TensorRecord& tensor, std::uint64_t index) {
  if (tensor.state == core::ContentState::kUndefined) return true;
  if (std::cmp_equal(tensor.producer, index)) return true;
  return tensor.producer < 0 && tensor.name.empty() && tensor.role == core::TensorRole::kOutput;
}

Json tensor_model(const core::DumpSource& dump, const TensorRecord& tensor, std::uint64_t index) {
  Json model = tensor_json(tensor);
  model["slot"] = tensor.slot;
  model["device"] = tensor.device;
  model["content"] = state_text(tensor);
  if (tensor.layout != "strided") model["other_layout"] = tensor.layout;
  if (!says_no_source(tensor, index)) model["from"] = source_text(source_json(dump, tensor));
  if (tensor.watch == core::InputWatch::kMoved) model["written"] = "written";
  if (tensor.storage >= 0) model["place"] = tensor.storage;
  return model;
}

/// What text says besides the members of `document`, or in other words.
Json text_model(const core::DumpSource& dump, const core::OpRecord& op, Json document, bool all) {
  constexpr std::size_t kMostReaders = 20;
  Json model = std::move(document["op"]);
  model["source"] = Json::array();
  if (op.site) {
    const std::string& path = op.site->module_path;
    model["place"] = {{"path", path.empty() ? "(root)" : path},
                      {"module_type", op.site->module_type}};
    for (const core::SourceFrame& frame : op.site->frames) {
      model["source"].push_back(
          {{"file", frame.file}, {"line", frame.line}, {"function", frame.function}});
    }
  }
  if (op.parent >= 0) model["inside"] = op.parent;
  if (op.rank > 0) model["other_rank"] = op.rank;
  if (op.lane > 0) model["other_lane"] = core::lane_text(op.lane);
  model["arguments"] = Json::array();
  for (const core::Argument& argument : op.arguments) {
    model["arguments"].push_back(
        {{"name", argument.name}, {"text", core::to_text(argument.value)}});
  }
  model["results"] = Json::array();
  for (const core::Value& result : op.results) {
    model["results"].push_back(core::to_text(result));
  }
  for (const TensorRecord& tensor : op.tensors) {
    model["tensors"].push_back(tensor_model(dump, tensor, op.index));
  }
  for (Json& alias : document["aliases"]) {
    if (alias["written"] == true) alias["wrote"] = "wrote";
  }
  model["aliases"] = std::move(document["aliases"]);
  Json& readers = model["consumers"] = std::move(document["consumers"]);
  if (!all && readers.size() > kMostReaders) {
    model["unread"] = readers.size() - kMostReaders;
    readers.erase(readers.begin() + kMostReaders, readers.end());
  }
  model["unmoved"] = !op.generator && op.op && op.op->seeded;
  model["seconds"] = static_cast<double>(op.wall_ns) * 1e-9;
  return model;
}

}  // namespace

std::string op_view(const core::DumpSource& dump, std::uint64_t index, Form form, int verbosity) {
  const core::OpRecord op = dump.op(index);
  Json document = inspect_document(dump);
  document["op"] = op_json(op);
  add_flow(dump, op, document);
  if (is_json(form)) return print_document(document, form);
  return fmt::format("op {} {}\n", op.index, escape_name(full_name(op))) +
         say_lines(kOperator, text_model(dump, op, std::move(document), verbosity > 0), 2);
}

}  // namespace repro_check::cmd
