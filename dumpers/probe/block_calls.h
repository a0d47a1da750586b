// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/digest/digest.h"
#include "core/trace/program_plan.h"
#include "dumpers/capture/engine/capture.h"
#include "dumpers/probe/program_sites.h"

namespace repro_check::probe {

/// What goes into a call of a block, or comes out, as Python tells it: a letter each for tensors
/// (T), and for bool, int, float, complex and text (b, i, d, c, s). A word each: the address of the
/// TensorImpl, or how many bytes stand in the place of a tensor; these one after the other.
struct Border {
  const char* kinds = "";
  const std::uint64_t* words = nullptr;
  const std::byte* bytes = nullptr;
  std::uint32_t unopened = 0;  ///< leaves of types that Python does not open
};

/// Makes rows of the calls of a program's blocks. Any thread.
class BlockCalls {
 public:
  /// @param sites  borrowed
  BlockCalls(const core::ProgramPlan& plan, ProgramSites& sites);

  /// Whether borders are recorded in a step.
  [[nodiscard]] bool are_recorded(std::uint32_t step) const {
    return sites_.is_recorded(step) && step % every_ == 0;
  }

  /// On the thread that calls the block, which it has entered.
  /// @return how many tensors could not be read
  std::uint32_t begin(capture::Capture& capture,
                      std::uint32_t number,
                      bool training,
                      const Border& border);
  /// @param border  what comes out; of a call that raised the class of the exception, as a text
  std::uint32_t end(capture::Capture& capture, std::uint32_t number, const Border& border);
  /// The calling thread is outside of all modules: calls that have begun there do not end.
  static void leave_all();

 private:
  [[nodiscard]] std::string path_of(std::uint32_t number, std::uint32_t lane);
  /// @return how many tensors could not be read
  std::uint32_t read(capture::Capture& capture,
                     const Border& border,
                     std::string_view record,
                     capture::BorderReading& into) const;

  ProgramSites& sites_;
  std::uint32_t every_;
  bool keeps_;  ///< more than digests
  std::mutex mutex_;
  struct Count {
    std::uint32_t step = 0;
    std::uint32_t calls = 0;
  };
  std::map<std::pair<std::string, core::Phase>, Count> counts_;  ///< by path
};

}  // namespace repro_check::probe
