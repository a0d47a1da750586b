// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/trace/op_record.h"

namespace repro_check::probe {

/// Frames of the Python program that this process is, where it is one. Python's functions are looked
/// up by name, so that the probe is linked to no release of it.
class PythonFrames {
 public:
  /// Where the calling thread stands: its innermost frames outside of the framework, a few of them.
  struct Chain {
    std::uint64_t id = 0;  ///< one for each distinct chain, from 1
    std::vector<core::SourceFrame> frames;
  };

  PythonFrames();

  /// Null on a thread that runs no Python, where there is no Python, and once it is shutting down.
  /// Takes the interpreter's lock for a moment: to be called with no lock of ours held. What is
  /// returned lives as long as this object.
  const Chain* here();

 private:
  struct Code {
    std::string file;
    std::string function;
    bool framework = false;
  };
  struct Step {
    const void* code = nullptr;
    int line = 0;
    bool operator==(const Step&) const = default;
  };
  using Steps = std::vector<Step>;
  struct StepsHash {
    std::size_t operator()(const Steps& steps) const noexcept;
  };

  const Code& describe(void* code);
  void collect(Steps& steps);

  /// Both guarded by the interpreter's lock. A code object that is a key is kept alive.
  std::unordered_map<const void*, Code> codes_;
  std::unordered_map<Steps, std::unique_ptr<Chain>, StepsHash> chains_;
};

}  // namespace repro_check::probe
