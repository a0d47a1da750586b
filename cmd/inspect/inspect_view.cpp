// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect_view.h"

#include <utility>

namespace repro_check::cmd {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 18U;

/// JSON text as it stands so many levels deep. Strings hold no newline of their own.
std::string indented(const std::string& text, std::size_t by) {
  std::string out;
  for (const char c : text) {
    out += c;
    if (c == '\n') out.append(by, ' ');
  }
  return out;
}

}  // namespace

Json inspect_document(const core::DumpSource& dump) {
  return {{"format", "repro-check-inspect"}, {"version", "1.2"}, {"dump", dump.location()}};
}

std::string print_document(Json document, Form form) {
  return to_document(cleaned(std::move(document)), form == Form::kPrettyJson);
}

RowDocument::RowDocument(const Json& head, const std::string& name, Form form, TextSink sink)
    : form_(form), sink_(std::move(sink)) {
  if (!is_json(form_)) return;
  buffer_ = print_document(head, form_);
  const bool pretty = form_ == Form::kPrettyJson;
  buffer_.resize(buffer_.size() - (pretty ? 3 : 2));
  buffer_ += (pretty ? ",\n  \"" : ",\"") + name + (pretty ? "\": [" : "\":[");
}

void RowDocument::add(std::string_view row) {
  if (rows_++ > 0 && is_json(form_)) put(",");
  if (form_ != Form::kPrettyJson) return put(row);
  put("\n    " + indented(json_piece(Json::parse(row), true), 4));
}

void RowDocument::finish(const Json& tail) {
  if (is_json(form_)) {
    const bool pretty = form_ == Form::kPrettyJson;
    put(pretty && rows_ > 0 ? "\n  ]" : "]");
    for (const auto& [key, value] : tail.items()) {
      put((pretty ? ",\n  " : ",") + json_piece(key, false) + (pretty ? ": " : ":"));
      put(indented(json_piece(value, pretty), 2));
    }
    put(pretty ? "\n}\n" : "}\n");
  }
  flush();
}

void RowDocument::put(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= kPiece) flush();
}

void RowDocument::flush() {
  if (buffer_.empty()) return;
  begun_ = true;
  sink_(buffer_);
  buffer_.clear();
}

}  // namespace repro_check::cmd
