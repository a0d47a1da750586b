// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cmd/inspect/inspect_json.h"
#include "cmd/terminal/new_file.h"

namespace repro_check::cmd {

enum class ListForm {
  kColumns,  ///< for a terminal, with op indices
  kTabs,     ///< no index, date or path in a line, so that plain diff of two lists works
  kJson,
  kPrettyJson,
};

/// A document of many rows, handed on while it is made, so that its length is no matter of memory.
/// As JSON it is one object: the members of `head`, the rows under `name`, the members of a tail.
class RowDocument {
 public:
  /// @param head  not empty
  RowDocument(const OrderedJson& head, std::string name, ListForm form, TextSink sink);

  [[nodiscard]] bool is_json() const noexcept {
    return form_ == ListForm::kJson || form_ == ListForm::kPrettyJson;
  }
  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }
  /// Whether something has left for the sink.
  [[nodiscard]] bool begun() const noexcept { return begun_; }

  /// For JSON.
  void add(const OrderedJson& row);
  /// For JSON that is text already, compact. Parsed again where the document is pretty.
  void add_compact(const std::string& row);
  /// For text; the line ends in a newline.
  void add_line(std::string_view line);
  /// To be called once, last. @param tail  an object, which text leaves out
  void finish(const OrderedJson& tail = OrderedJson::object());

 private:
  void put(std::string_view text);
  void flush();

  std::string name_;
  ListForm form_;
  TextSink sink_;
  std::string buffer_;
  std::uint64_t rows_ = 0;
  bool begun_ = false;
};

}  // namespace repro_check::cmd
