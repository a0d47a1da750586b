// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/render/json_form.h"
#include "cmd/render/say.h"
#include "cmd/terminal/output.h"
#include "core/error.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/dump.h"
#include "dumpers/store/directory/rank_dumps.h"

namespace repro_check::cmd {

// A view is one JSON document, its model. As JSON it is printed as it stands; as text, line by
// line, say() puts members of it into a sentence. Strings in it are as the dump has them: what is
// printed is clean.

/// How a view is printed.
enum class Form : std::uint8_t {
  kColumns,  ///< text for a terminal; lists have op indices
  kTabs,     ///< text without date or path, so that two lists can be compared by diff
  kJson,
  kPrettyJson,
};
constexpr bool is_json(Form form) noexcept {
  return form == Form::kJson || form == Form::kPrettyJson;
}

/// The start of every document `inspect` prints.
Json inspect_document(const core::DumpSource& dump);
std::string print_document(Json document, Form form);

/// A document of many rows, handed on while it is made, so that its length is no matter of memory.
/// As JSON it is one object: the members of `head`, the rows under `name`, the members of a tail.
class RowDocument {
 public:
  /// @param head     of JSON; not empty
  /// @param heading  of text: a line above the first row
  RowDocument(const Json& head,
              const std::string& name,
              Form form,
              TextSink sink,
              std::string heading = {});

  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }
  /// Whether something has left for the sink.
  [[nodiscard]] bool begun() const noexcept { return begun_; }

  /// A row of JSON as text, compact; or a line, which ends in a newline.
  void add(std::string_view row);
  /// To be called once, last. @param tail  an object, which text leaves out
  void finish(const Json& tail = Json::object());

 private:
  void put(std::string_view text);
  void flush();

  Form form_;
  TextSink sink_;
  std::string heading_;
  std::string buffer_;
  std::uint64_t rows_ = 0;
  bool begun_ = false;
};

/// A record as compact JSON text: a list has a million of them, and a tree of JSON values takes ten
/// times as long. None is null; a tensor among the values is {"tensor": position in `tensors`}, a
/// symbol {"symbol": name}, an opaque value {"opaque": type}, a complex number {"complex": [re,
/// im]}. An integer beyond 2^53-1 is a decimal string, because many readers would round it.
std::string op_text(const core::OpRecord& op);
Json op_json(const core::OpRecord& op);
Json tensor_json(const core::TensorRecord& tensor);
Json stats_json(const core::TensorStats& stats);

std::string full_name(const core::OpRecord& op);
/// The digest, or what there is in place of content.
std::string state_text(const core::TensorRecord& tensor);
/// `{"value": 0.5, "bits": "3f000000"}`. @param text, bits  as element_text(), core::hex_text()
Json element_json(const std::string& text, const std::string& bits);

/// Of a program that ran on several ranks: how much each of them recorded, and what cannot be read.
struct RanksView {
  std::string text;
  core::ExitCode code = core::ExitCode::kReproducible;
};
/// @param place  that holds the dumps of `ranks`
RanksView ranks_view(const std::filesystem::path& place,
                     const std::vector<store::RankDump>& ranks,
                     Form form);

/// One screen: who recorded what, with what, and how much.
/// @param verbosity  from 1 on every setting, fact and named tensor
std::string summary_view(const core::DumpSource& dump, Form form, int verbosity);

/// Checks every stored content against its digest, and says so.
/// @throws core::Error{kDumpDamaged} naming the first that fails
std::string verified_view(const core::DumpSource& dump, Form form);

/// All of one record, where its arguments came from, and who reads its outputs.
/// @param index      below dump.op_count()
/// @param verbosity  from 1 on every reader
std::string op_view(const core::DumpSource& dump,
                    std::uint64_t index,
                    Form form,
                    int verbosity = 0);

}  // namespace repro_check::cmd
