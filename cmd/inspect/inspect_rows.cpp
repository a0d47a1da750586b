// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect_rows.h"

#include <cstddef>
#include <utility>

#include "cmd/render/json/json_text.h"

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

RowDocument::RowDocument(const OrderedJson& head, std::string name, ListForm form, TextSink sink)
    : name_(std::move(name)), form_(form), sink_(std::move(sink)) {
  if (!is_json()) return;
  const bool pretty = form_ == ListForm::kPrettyJson;
  std::string text = json_piece(head, pretty);
  text.resize(text.size() - (pretty ? 2 : 1));
  buffer_ = text + (pretty ? ",\n  \"" : ",\"") + name_ + (pretty ? "\": [" : "\":[");
}

void RowDocument::add(const OrderedJson& row) {
  const bool pretty = form_ == ListForm::kPrettyJson;
  if (rows_++ > 0) put(",");
  put(pretty ? "\n    " + indented(json_piece(row, true), 4) : json_piece(row, false));
}

void RowDocument::add_compact(const std::string& row) {
  if (form_ == ListForm::kPrettyJson) {
    add(OrderedJson::parse(row));
    return;
  }
  if (rows_++ > 0) put(",");
  put(row);
}

void RowDocument::add_line(std::string_view line) {
  ++rows_;
  put(line);
}

void RowDocument::finish(const OrderedJson& tail) {
  if (is_json()) {
    const bool pretty = form_ == ListForm::kPrettyJson;
    put(pretty && rows_ > 0 ? "\n  ]" : "]");
    for (const auto& [key, value] : tail.items()) {
      put((pretty ? ",\n  " : ",") + json_piece(key, false) + (pretty ? ": " : ":"));
      put(pretty ? indented(json_piece(value, true), 2) : json_piece(value, false));
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
