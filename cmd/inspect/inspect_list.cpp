// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cmd/render/text.h"

namespace repro_check::cmd {
namespace {

void append_item(std::string& list, const std::string& item) {
  list.append(list.empty() ? "" : ", ").append(item);
}

std::string outputs_text(const core::OpRecord& op, bool with_digests) {
  std::string text;
  for (const core::TensorRecord& tensor : op.tensors) {
    if (tensor.role != core::TensorRole::kOutput) continue;
    const bool shows = with_digests && tensor.state == core::ContentState::kHashed;
    append_item(text,
                format_tensor_type(tensor.dtype, tensor.shape) +
                    (shows ? " " + core::to_hex(tensor.digest) : ""));
  }
  for (const core::Value& result : op.results) {
    if (std::holds_alternative<core::TensorSlot>(result.data)) continue;
    append_item(text, escape_name(core::to_text(result)));
  }
  return text;
}

std::string module_text(const core::OpRecord& op) {
  return op.site ? escape_name(op.site->module_path) : "";
}

std::string source_line_text(const core::OpRecord& op) {
  const core::SourceFrame* frame = op.site ? core::display_frame(*op.site) : nullptr;
  if (frame == nullptr) return "";
  const std::string base = frame->file.substr(frame->file.rfind('/') + 1);
  return escape_name(base) + ":" + std::to_string(frame->line);
}

bool draws(const core::OpRecord& op) { return op.generator || (op.op && op.op->seeded); }

std::string draw_text(const core::OpRecord& op, Form form) {
  const bool tabs = form == Form::kTabs;
  const std::string tab = tabs ? "\t" : "  ";
  std::string text = tabs ? "\t\t\t\t0" : "not moved";
  if (op.generator) {
    const core::GeneratorUse& use = *op.generator;
    text = escape_name(use.device) + tab + std::to_string(use.seed) + tab +
           fmt::format("{:016x}{}{:016x}", use.position_before, tab, use.position_after) + tab +
           (use.drawn < 0 ? "?" : std::to_string(use.drawn));
  }
  std::string changes;
  for (const core::Substitution& change : op.substitutions) {
    append_item(changes,
                escape_name(change.argument) + ": " + escape_name(change.from) + " -> " +
                    escape_name(change.to));
  }
  return text + (tabs || !changes.empty() ? tab + changes : "");
}

/// Of the members of op_json() those that a ledger needs.
std::string draw_json(const core::OpRecord& op) {
  Json whole = op_json(op);
  for (const char* key : {"arguments", "results", "inputs", "outputs", "wall_ns"}) whole.erase(key);
  return json_piece(whole, false);
}

/// @param depth  by which the name is indented
/// @param last   what stands in the last column
std::string line(const core::OpRecord& op, Form form, std::size_t depth, const std::string& last) {
  const std::string name = escape_name(full_name(op));
  if (form == Form::kTabs) return fmt::format("{}\t{}\t{}\n", name, module_text(op), last);
  return fmt::format("{:>6}  {:<28}  {:<32}  {:<20}  {}\n",
                     op.index,
                     std::string(2 * std::min<std::size_t>(depth, 8), ' ') + name,
                     module_text(op),
                     source_line_text(op),
                     last);
}

bool matches_head(const OpSelection& selection, const core::OpRecord& op) {
  if (selection.operators && !(op.op && (selection.operators->matches(op.op->name) ||
                                         selection.operators->matches(op.op->full_name())))) {
    return false;
  }
  return !selection.modules ||
         selection.modules->matches(op.site ? std::string_view(op.site->module_path) : "");
}

/// A row of what is selected, where row(record) is not empty. What stops it is in the outcome when
/// part of the document has left already, and thrown when not.
template <typename Row>
ListOutcome list_selected(const core::DumpSource& dump,
                          const OpSelection& selection,
                          const char* name,
                          Form form,
                          const TextSink& sink,
                          Row row) {
  Json head = inspect_document(dump);
  head["total"] = dump.op_count();
  RowDocument document(head, name, form, sink);
  ListOutcome outcome;
  Json tail = Json::object();
  const bool filters_heads = selection.operators || selection.modules;
  try {
    const std::uint64_t end = std::min(selection.end, dump.op_count());
    for (std::uint64_t index = selection.first; index < end; ++index) {
      if (filters_heads && !matches_head(selection, dump.op_head(index))) continue;
      const core::OpRecord op = dump.op(index);
      const Answer answer = selection.where ? selection.where->of(op) : Answer::kYes;
      if (answer == Answer::kUnknown) ++outcome.unknown;
      if (answer != Answer::kYes) continue;
      const std::string text = row(op);
      if (!text.empty()) document.add(text);
    }
  } catch (const core::Error& error) {
    if (!document.begun()) throw;
    outcome.failure = error;
    tail["failed"] = clean_utf8(error.what());
  }
  outcome.shown = document.rows();
  tail["shown"] = outcome.shown;
  if (selection.where) tail["unknown"] = outcome.unknown;
  document.finish(tail);
  return outcome;
}

}  // namespace

ListOutcome list_operators(const core::DumpSource& dump,
                           const OpSelection& selection,
                           Form form,
                           const TextSink& sink) {
  return list_selected(dump, selection, "ops", form, sink, [&](const core::OpRecord& op) {
    return is_json(form) ? op_text(op)
                         : line(op, form, op.depth, outputs_text(op, form == Form::kTabs));
  });
}

ListOutcome list_generators(const core::DumpSource& dump,
                            const OpSelection& selection,
                            Form form,
                            const TextSink& sink) {
  return list_selected(dump, selection, "generators", form, sink, [&](const core::OpRecord& op) {
    if (!draws(op)) return std::string();
    return is_json(form) ? draw_json(op) : line(op, form, 0, draw_text(op, form));
  });
}

}  // namespace repro_check::cmd
