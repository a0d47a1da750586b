// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "cmd/terminal/command.h"
#include "dumpers/store/pack.h"

namespace repro_check::cmd {

/// What a verb makes of what, and how it speaks of it.
struct Packing {
  std::string word;  ///< `PACKED`: how the summary begins
  std::string from;  ///< what is read
  std::string pack;
  std::string dump;
  std::string format = "text";  ///< text | json
};

/// Shows progress while `make` runs, and prints what came of it; what cannot be read is a report,
/// as it is for every verb.
core::ExitCode carry_out(const GlobalOptions& globals,
                         const Packing& packing,
                         const std::function<store::PackSummary(const store::PackProgress&)>& make);

}  // namespace repro_check::cmd
