// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cmd/inspect/inspect_rows.h"
#include "core/tensor/dtype.h"
#include "core/tensor/subarray.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/dump_source.h"

namespace repro_check::cmd {

/// Whether a view is text or JSON, and whether the JSON is indented for a terminal.
enum class ViewForm { kText, kJson, kPrettyJson };

/// One screen: who recorded what, with what, and how much.
/// @param verbosity  from 1 on every setting, fact and named tensor
std::string summary_view(const core::DumpSource& dump, ViewForm form, int verbosity);

/// Checks every stored content against its digest, and says so.
/// @throws core::Error{kDumpDamaged} naming the first that fails
std::string verified_view(const core::DumpSource& dump, ViewForm form);

/// All of one record, where its arguments came from, and who reads its outputs.
/// @param index      below dump.op_count()
/// @param verbosity  from 1 on every reader
std::string op_view(const core::DumpSource& dump,
                    std::uint64_t index,
                    ViewForm form,
                    int verbosity = 0);

/// The modules that called operators, each with those of the modules inside it, in order of first
/// call. What stands before a dot of a path is a module of its own.
/// @throws core::Error{kDumpDamaged}
void list_modules(const core::DumpSource& dump, ListForm form, const TextSink& sink);

/// What is asked of one tensor.
struct TensorQuery {
  std::string slot;  ///< `out:0`, `in:1`, `in:self`
  bool stats = false;
  std::optional<std::uint64_t> values;   ///< so many elements from the first
  std::optional<std::string> export_to;  ///< file
  std::optional<core::Subscript> slice;  ///< all of this is about a part
  bool bits = false;                     ///< beside every value
  std::optional<core::Dtype> as;         ///< of what is exported
};

/// @throws core::Error{kNotComparable} when the op has no such tensor or its content is not stored
std::string tensor_view(const core::DumpSource& dump,
                        std::uint64_t index,
                        const TensorQuery& query,
                        ViewForm form);

/// The digest, or what there is in place of content.
std::string state_text(const core::TensorRecord& tensor);

}  // namespace repro_check::cmd
