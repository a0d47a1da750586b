// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "cmd/inspect/inspect_against.h"
#include "cmd/inspect/inspect_values.h"
#include "cmd/inspect/inspect_views.h"
#include "core/trace/dump_source.h"

namespace repro_check::cmd {

enum class ExportFormat { kNpy, kSafetensors, kCsv, kJsonl };

/// By the ending of the name.
/// @throws core::Error{kUsage} for any other
ExportFormat export_format(const std::filesystem::path& file);

/// The dtype that `--as` names.
/// @throws core::Error{kUsage} when values are not converted to it
core::Dtype export_dtype(const std::string& name);

/// Writes values as query.as asks for, or as they are.
/// @throws core::Error{kUnsupportedDtype} for a dtype that the format lacks, or that is not
///         converted; core::Error{kIo}
void export_values(const std::filesystem::path& file,
                   const core::OpRecord& op,
                   const core::TensorRecord& tensor,
                   const TensorValues& values,
                   const TensorQuery& query);

/// Every element of both sides: .csv and .jsonl alone.
/// @throws core::Error{kNotComparable} when values of either are not stored; core::Error{kIo}
void export_pair(const std::filesystem::path& file,
                 const TensorPair& pair,
                 const TensorQuery& query);

/// All tensors of an operator that are stored, as .safetensors. Floating ones are converted by
/// `as`.
/// @throws core::Error{kNotComparable} when none is; core::Error{kUnsupportedDtype}; kIo
void export_op(const std::filesystem::path& file,
               const core::DumpSource& dump,
               std::uint64_t op,
               std::optional<core::Dtype> as);

}  // namespace repro_check::cmd
