// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "cmd/inspect_json.h"
#include "cmd/render/text.h"
#include "core/error.h"
#include "core/glob.h"

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

std::string module_of(const core::OpRecord& op) {
  return op.site ? escape_name(op.site->module_path) : "";
}

std::string source_of(const core::OpRecord& op) {
  const core::SourceFrame* frame = op.site ? core::display_frame(*op.site) : nullptr;
  if (frame == nullptr) return "";
  const std::size_t slash = frame->file.rfind('/');
  const std::string base = slash == std::string::npos ? frame->file : frame->file.substr(slash + 1);
  return escape_name(base) + ":" + std::to_string(frame->line);
}

std::string line_text(const core::OpRecord& op, ListForm form) {
  const std::string name = op.op ? escape_name(op.op->full_name()) : "";
  if (form == ListForm::kTabs) {
    return fmt::format("{}\t{}\t{}\n", name, module_of(op), outputs_text(op, true));
  }
  return fmt::format("{:>6}  {:<28}  {:<32}  {:<20}  {}\n",
                     op.index,
                     std::string(2 * std::min<std::size_t>(op.depth, 8), ' ') + name,
                     module_of(op),
                     source_of(op),
                     outputs_text(op, false));
}

}  // namespace

bool OpSelection::matches(const core::OpRecord& op) const {
  if (op.index < first || op.index >= end) return false;
  if (operator_glob && !(op.op && (core::glob_match(*operator_glob, op.op->name) ||
                                   core::glob_match(*operator_glob, op.op->full_name())))) {
    return false;
  }
  return !module_glob ||
         core::glob_match(*module_glob, op.site ? std::string_view(op.site->module_path) : "");
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

OpList list_operators(const core::DumpSource& dump, const OpSelection& selection, ListForm form) {
  OpList list;
  const bool json = form == ListForm::kJson || form == ListForm::kPrettyJson;
  OrderedJson ops = OrderedJson::array();
  const std::uint64_t end = std::min(selection.end, dump.op_count());
  for (std::uint64_t index = selection.first; index < end; ++index) {
    if (!selection.matches(dump.op_head(index))) continue;
    const core::OpRecord op = dump.op(index);
    ++list.shown;
    if (json) {
      ops.push_back(op_json(op));
    } else {
      list.text += line_text(op, form);
    }
  }
  if (json) {
    OrderedJson document = inspect_document(dump.location());
    document["total"] = dump.op_count();
    document["shown"] = list.shown;
    document["ops"] = std::move(ops);
    list.text = document_text(document, form == ListForm::kPrettyJson);
  }
  return list;
}

}  // namespace repro_check::cmd
