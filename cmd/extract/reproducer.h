// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/trace/dump_source.h"
#include "core/trace/replay_inputs.h"

namespace repro_check::cmd {

/// One recorded output of the operator.
struct ExpectedOutput {
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

/// Needs torch and numpy alone; exits 0 when every call gives the recorded result, else 1.
std::string python_reproducer(const Reproducer& reproducer);

/// A C++ program for LibTorch, with the CMake file it needs in its first comment.
std::string cpp_reproducer(const Reproducer& reproducer);

}  // namespace repro_check::cmd
