// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "cmd/inspect/inspect_flow.h"
#include "cmd/inspect/inspect_json.h"
#include "cmd/inspect/inspect_views.h"
#include "cmd/render/json/json_text.h"
#include "cmd/render/text.h"
#include "core/trace/lane.h"
#include "core/trace/op_record.h"

namespace repro_check::cmd {
namespace {

std::string place_rows(const core::OpRecord& op) {
  std::string text;
  if (op.site) {
    const std::string& type = op.site->module_type;
    text += op_row("module",
                   (op.site->module_path.empty() ? "(root)" : escape_name(op.site->module_path)) +
                       (type.empty() ? "" : " (" + escape_name(type) + ")"));
    for (const core::SourceFrame& frame : op.site->frames) {
      text += op_row(
          "source",
          fmt::format(
              "{}:{} in {}", escape_name(frame.file), frame.line, escape_name(frame.function)));
    }
  }
  std::string where =
      fmt::format("{}, step {}, depth {}", core::phase_name(op.phase), op.step, op.depth);
  if (op.parent >= 0) where += fmt::format(", inside op {}", op.parent);
  if (op.rank > 0) where += fmt::format(", rank {}", op.rank);
  if (op.lane > 0) where += ", lane " + core::lane_text(op.lane);
  return text + op_row("phase", where);
}

/// Empty where an output says nothing that its operator does not.
std::string producer_text(const core::DumpSource& dump,
                          const core::TensorRecord& tensor,
                          std::uint64_t index) {
  const bool own = tensor.producer >= 0 && static_cast<std::uint64_t>(tensor.producer) == index;
  const bool fresh = tensor.producer < 0 && tensor.name.empty();
  if (tensor.state == core::ContentState::kUndefined) return "";
  if (own || (fresh && tensor.role == core::TensorRole::kOutput)) return "";
  return ", from " + source_text(flow_source(dump, tensor));
}

std::string tensor_row(const core::DumpSource& dump,
                       const core::TensorRecord& tensor,
                       std::uint64_t index) {
  std::string text = fmt::format(
      "{} = {}", escape_name(tensor.slot), format_tensor_type(tensor.dtype, tensor.shape));
  if (tensor.layout != "strided") text.append(" ").append(escape_name(tensor.layout));
  text += fmt::format(" on {}, {}", escape_name(tensor.device), state_text(tensor));
  if (!tensor.strides.empty()) text += ", strides " + format_index(tensor.strides);
  text += producer_text(dump, tensor, index);
  if (tensor.watch == core::InputWatch::kMoved) text += ", written while it was being digested";
  if (tensor.storage >= 0) text += fmt::format(", storage {}", tensor.storage);
  return op_row(tensor.role == core::TensorRole::kInput ? "input" : "output", text);
}

std::string generator_row(const core::OpRecord& op) {
  if (!op.generator) return op.op && op.op->seeded ? op_row("generator", "seeded, not moved") : "";
  const core::GeneratorUse& use = *op.generator;
  std::string text = fmt::format("{} seed {}, position {:016x} -> {:016x}",
                                 escape_name(use.device),
                                 use.seed,
                                 use.position_before,
                                 use.position_after);
  if (use.drawn >= 0) text += fmt::format(", {} drawn", use.drawn);
  return op_row("generator", text);
}

}  // namespace

std::string state_text(const core::TensorRecord& tensor) {
  if (tensor.state == core::ContentState::kHashed) {
    return core::to_hex(tensor.digest) + (tensor.stored ? "" : " (not stored)");
  }
  if (tensor.state == core::ContentState::kNone) return "no values";
  return std::string(core::content_state_name(tensor.state));
}

std::string op_view(const core::DumpSource& dump,
                    std::uint64_t index,
                    ViewForm form,
                    int verbosity) {
  const core::OpRecord op = dump.op(index);
  const OpFlow flow = op_flow(dump, op);
  if (form != ViewForm::kText) {
    OrderedJson document = inspect_document(dump.location());
    document["op"] = op_json(op);
    add_flow(flow, document);
    return to_document(document, form == ViewForm::kPrettyJson);
  }
  std::string text =
      fmt::format("op {} {}\n", op.index, op.op ? escape_name(op.op->full_name()) : "");
  text += place_rows(op);
  for (const core::Argument& argument : op.arguments) {
    text += op_row("argument",
                   escape_name(argument.name) + " = " + escape_name(core::to_text(argument.value)));
  }
  for (const core::Value& result : op.results) {
    text += op_row("result", escape_name(core::to_text(result)));
  }
  for (const core::TensorRecord& tensor : op.tensors) text += tensor_row(dump, tensor, op.index);
  for (const core::Substitution& change : op.substitutions) {
    text += op_row("changed",
                   fmt::format("{}: {} -> {} ({})",
                               escape_name(change.argument),
                               escape_name(change.from),
                               escape_name(change.to),
                               escape_name(change.reason)));
  }
  text += flow_rows(flow, verbosity > 0) + generator_row(op);
  return text + op_row("time", format_seconds(static_cast<double>(op.wall_ns) * 1e-9));
}

}  // namespace repro_check::cmd
