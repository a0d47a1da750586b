// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "cmd/inspect/inspect_json.h"
#include "cmd/render/text.h"
#include "core/error.h"
#include "core/text/glob.h"

namespace repro_check::cmd {
namespace {

std::optional<std::uint64_t> parse_index(std::string_view text, std::uint64_t when_empty) {
  if (text.empty()) return when_empty;
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stopped != end) return std::nullopt;
  return value;
}

std::string outputs_text(const core::OpRecord& op, bool with_digests) {
  std::string text;
  for (const core::TensorRecord& tensor : op.tensors) {
    if (tensor.role != core::TensorRole::kOutput) continue;
    if (!text.empty()) text += ", ";
    text += format_tensor_type(tensor.dtype, tensor.shape);
    if (with_digests && tensor.state == core::ContentState::kHashed) {
      text.append(" ").append(core::to_hex(tensor.digest));
    }
  }
  for (const core::Value& result : op.results) {
    if (std::holds_alternative<core::TensorSlot>(result.data)) continue;
    if (!text.empty()) text += ", ";
    text += escape_name(core::to_text(result));
  }
  return text;
}

std::string name_text(const core::OpRecord& op) {
  return op.op ? escape_name(op.op->full_name()) : "";
}

std::string module_text(const core::OpRecord& op) {
  return op.site ? escape_name(op.site->module_path) : "";
}

std::string source_line_text(const core::OpRecord& op) {
  const core::SourceFrame* frame = op.site ? core::display_frame(*op.site) : nullptr;
  if (frame == nullptr) return "";
  const std::size_t slash = frame->file.rfind('/');
  const std::string base = slash == std::string::npos ? frame->file : frame->file.substr(slash + 1);
  return escape_name(base) + ":" + std::to_string(frame->line);
}

std::string line_text(const core::OpRecord& op, ListForm form) {
  if (form == ListForm::kTabs) {
    return fmt::format("{}\t{}\t{}\n", name_text(op), module_text(op), outputs_text(op, true));
  }
  return fmt::format("{:>6}  {:<28}  {:<32}  {:<20}  {}\n",
                     op.index,
                     std::string(2 * std::min<std::size_t>(op.depth, 8), ' ') + name_text(op),
                     module_text(op),
                     source_line_text(op),
                     outputs_text(op, false));
}

OrderedJson list_head(const core::DumpSource& dump) {
  OrderedJson head = inspect_document(dump.location());
  head["total"] = dump.op_count();
  return head;
}

/// Calls each(record) for what is selected. What stops it is in the outcome when part of the
/// document has left already, and thrown when not.
template <typename Each>
ListOutcome for_each_selected(const core::DumpSource& dump,
                              const OpSelection& selection,
                              RowDocument& document,
                              Each each) {
  ListOutcome outcome;
  OrderedJson tail = OrderedJson::object();
  try {
    const std::uint64_t end = std::min(selection.end, dump.op_count());
    for (std::uint64_t index = selection.first; index < end; ++index) {
      if (selection.filters_heads() && !selection.matches_head(dump.op_head(index))) continue;
      const core::OpRecord op = dump.op(index);
      if (selection.where) {
        const Answer answer = selection.where->of(op);
        if (answer == Answer::kUnknown) ++outcome.unknown;
        if (answer != Answer::kYes) continue;
      }
      each(op);
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

bool draws(const core::OpRecord& op) { return op.generator || (op.op && op.op->seeded); }

std::string draw_text(const core::OpRecord& op, ListForm form) {
  const char* tab = form == ListForm::kTabs ? "\t" : "  ";
  std::string text;
  if (op.generator) {
    const core::GeneratorUse& use = *op.generator;
    text = fmt::format("{}{}{}{}{:016x}{}{:016x}{}{}",
                       escape_name(use.device),
                       tab,
                       use.seed,
                       tab,
                       use.position_before,
                       tab,
                       use.position_after,
                       tab,
                       use.drawn < 0 ? "?" : std::to_string(use.drawn));
  } else {
    text = form == ListForm::kTabs ? "\t\t\t\t0" : "not moved";
  }
  std::string changes;
  for (const core::Substitution& change : op.substitutions) {
    changes += fmt::format("{}{}: {} -> {}",
                           changes.empty() ? "" : ", ",
                           escape_name(change.argument),
                           escape_name(change.from),
                           escape_name(change.to));
  }
  return text + (form == ListForm::kTabs || !changes.empty() ? tab + changes : "");
}

std::string draw_line(const core::OpRecord& op, ListForm form) {
  if (form == ListForm::kTabs) {
    return fmt::format("{}\t{}\t{}\n", name_text(op), module_text(op), draw_text(op, form));
  }
  return fmt::format("{:>6}  {:<28}  {:<32}  {:<20}  {}\n",
                     op.index,
                     name_text(op),
                     module_text(op),
                     source_line_text(op),
                     draw_text(op, form));
}

/// Of the members of op_json() those that a ledger needs.
OrderedJson draw_json(const core::OpRecord& op) {
  OrderedJson whole = op_json(op);
  for (const char* key : {"arguments", "results", "inputs", "outputs", "wall_ns"}) whole.erase(key);
  return whole;
}

}  // namespace

NameSelector::NameSelector(const std::string& text) : glob_(text) {
  if (text.size() < 2 || !text.starts_with('/') || !text.ends_with('/')) return;
  pattern_.emplace(text.substr(1, text.size() - 2));
}

bool NameSelector::matches(std::string_view name) const {
  return pattern_ ? pattern_->matches(name) : core::glob_match(glob_, name);
}

bool OpSelection::matches_head(const core::OpRecord& op) const {
  if (operators &&
      !(op.op && (operators->matches(op.op->name) || operators->matches(op.op->full_name())))) {
    return false;
  }
  return !modules || modules->matches(op.site ? std::string_view(op.site->module_path) : "");
}

void parse_range(const std::string& text, OpSelection& selection) {
  const std::size_t colon = text.find(':');
  if (colon != std::string::npos) {
    const std::string_view view = text;
    const auto first = parse_index(view.substr(0, colon), 0);
    const auto end = parse_index(view.substr(colon + 1), std::numeric_limits<std::uint64_t>::max());
    if (first && end && *first < *end) {
      selection.first = *first;
      selection.end = *end;
      return;
    }
  }
  throw core::Error(core::ErrorKind::kUsage,
                    "--range " + text + ": expected FIRST:END with FIRST before END",
                    "--range 40:60 is op 40 to op 59; either number may be left out");
}

ListOutcome list_operators(const core::DumpSource& dump,
                           const OpSelection& selection,
                           ListForm form,
                           const TextSink& sink) {
  RowDocument document(list_head(dump), "ops", form, sink);
  return for_each_selected(dump, selection, document, [&](const core::OpRecord& op) {
    if (document.is_json()) {
      document.add_compact(op_text(op));
    } else {
      document.add_line(line_text(op, form));
    }
  });
}

ListOutcome list_generators(const core::DumpSource& dump,
                            const OpSelection& selection,
                            ListForm form,
                            const TextSink& sink) {
  RowDocument document(list_head(dump), "generators", form, sink);
  return for_each_selected(dump, selection, document, [&](const core::OpRecord& op) {
    if (!draws(op)) return;
    if (document.is_json()) {
      document.add(draw_json(op));
    } else {
      document.add_line(draw_line(op, form));
    }
  });
}

}  // namespace repro_check::cmd
