// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/dump_source.h"
#include "core/tensor_record.h"

namespace repro_check::cmd {

/// Whether a view is text or JSON, and whether the JSON is indented for a terminal.
enum class ViewForm { kText, kJson, kPrettyJson };

/// One screen: who recorded what, with what, and how much.
/// @param verbosity  from 1 on every setting, fact and named tensor
std::string summary_view(const core::DumpSource& dump, ViewForm form, int verbosity);

/// Checks every stored content against its digest, and says so.
/// @throws core::Error{kDumpDamaged} naming the first that fails
std::string verified_view(const core::DumpSource& dump, ViewForm form);

/// All of one record.
/// @param index  below dump.op_count()
std::string op_view(const core::DumpSource& dump, std::uint64_t index, ViewForm form);

/// What is asked of one tensor.
struct TensorQuery {
  std::string slot;  ///< `out:0`, `in:1`, `in:self`
  bool stats = false;
  std::optional<std::uint64_t> values;   ///< so many elements from the first
  std::optional<std::string> export_to;  ///< .npy file
};

/// @throws core::Error{kNotComparable} when the op has no such tensor or its content is not stored
std::string tensor_view(const core::DumpSource& dump,
                        std::uint64_t index,
                        const TensorQuery& query,
                        ViewForm form);

/// The digest, or what there is in place of content.
std::string state_text(const core::TensorRecord& tensor);

}  // namespace repro_check::cmd
