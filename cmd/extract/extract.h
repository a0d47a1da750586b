// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/dump_source.h"
#include "core/trace/replay_inputs.h"

namespace repro_check::cmd {

/// One recorded output of the operator.
struct ExpectedOutput {
  std::string slot;
  const core::TensorRecord* tensor = nullptr;  ///< borrowed from Reproducer::op
  std::string file;                            ///< empty = its values are not stored
};

/// What a stand-alone reproducer is made of.
struct Reproducer {
  core::OpRecord op;
  core::RunManifest manifest;
  std::vector<core::InputStorage> storages;
  std::vector<std::string> files;  ///< by storage, below `data`
  std::vector<ExpectedOutput> outputs;
  std::vector<std::string> result_slots;  ///< of the tensors among the results, in order
  std::string script;                     ///< file name of the reproducer
  std::string data;                       ///< name of the directory beside it
  std::optional<std::uint64_t> drawn;     ///< 32-bit numbers drawn since the seed; if known
};

/// What `extract` wrote.
struct Extraction {
  std::filesystem::path script;
  std::filesystem::path data;
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
};

/// Whether core::write_npy() takes the dtype.
bool numpy_has(core::Dtype dtype);

/// Writes `output` (`.py` or `.cpp`) and, beside it, a directory `<stem>.data` of .npy files.
/// Dtypes that NumPy lacks are stored as bytes.
/// @throws core::Error{kNotComparable} as core::require_replayable(), core::Error{kUsage},
///         core::Error{kIo}
Extraction extract(const core::DumpSource& dump,
                   std::uint64_t op,
                   const std::filesystem::path& output,
                   bool force);

/// Needs torch and numpy alone; exits 0 when every call gives the recorded result, else 1.
std::string python_reproducer(const Reproducer& reproducer);

/// A C++ program for LibTorch, with the CMake file it needs in its first comment.
std::string cpp_reproducer(const Reproducer& reproducer);

}  // namespace repro_check::cmd
