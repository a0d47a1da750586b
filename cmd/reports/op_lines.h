// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

#include "cmd/recording/spawn.h"
#include "cmd/render/render.h"
#include "cmd/terminal/output.h"
#include "comparators/compare.h"

namespace repro_check::cmd {

/// The operators of one comparison as JSON Lines, however many: they go to a temporary file as they
/// are judged, and from there into the document once the header and the verdict are known. So a
/// document is whole or not there, and no more than a piece of it is held in memory.
class OpLines {
 public:
  /// @throws core::Error{kIo}, as the other members
  OpLines();

  /// For CompareOptions::observer. Borrows this.
  /// @param all  operators that are fine as well
  [[nodiscard]] comparators::OpObserver observer(bool all);

  /// The document, from header to verdict.
  void write(const comparators::Report& report, const RenderOptions& options, const TextSink& sink);

 private:
  void put(const std::string& line);

  TemporaryFile file_;
  std::ofstream out_;
  std::uint64_t not_fine_ = 0;
};

}  // namespace repro_check::cmd
