// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

#include "core/tensor/tensor_record.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"
#include "dumpers/store/dump_writer.h"

namespace repro_check::imports {

/// The dump of one rank, while it is made of what another tool wrote.
class ImportedDump {
 public:
  ImportedDump(const std::filesystem::path& directory,
               const store::DumpWriterOptions& options,
               core::RunManifest manifest);

  /// Stores the values of a tensor.
  /// @return its record, without role and slot
  core::TensorRecord keep(const core::TensorView& values);

  /// Appends a call. Index and producers are set here.
  void append(core::OpRecord record);

  /// @return what was counted: operators, tensors, bytes
  core::TraceSummary finish();

 private:
  store::DumpWriter writer_;
  core::RunManifest manifest_;
  std::int64_t storages_ = 0;
};

}  // namespace repro_check::imports
