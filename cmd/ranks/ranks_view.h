// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cmd/render/json_form.h"
#include "cmd/render/say.h"
#include "cmd/reports/report_flags.h"
#include "cmd/terminal/global_options.h"
#include "comparators/ranks/rank_reads.h"
#include "core/error.h"

namespace repro_check::cmd {

/// Judges what ranks say, and writes what is said of them.
/// @param dumps  as they were given
/// @throws core::Error{kUsage} for a format that nobody makes of it, core::Error{kIo}
core::ExitCode emit_ranks(const comparators::RankReads& reads,
                          const std::vector<std::string>& dumps,
                          const ReportFlags& report,
                          const GlobalOptions& globals);

/// To be called before a dump is read. @throws core::Error{kUsage}
void require_rank_formats(const ReportFlags& report);

/// The first line of a text report.
struct RanksHeadline {
  std::string verdict;  ///< `IN SYNC`
  std::string text;     ///< `2 ranks, 3 steps`

  [[nodiscard]] std::string line() const { return verdict + ": " + text + "\n"; }
};

/// What follows the headline.
struct RanksBody {
  std::vector<SaidLine> said;
  std::vector<std::string> next;  ///< commands

  [[nodiscard]] std::string text() const;
};

/// The page about ranks that were held against each other: what the text report says, and a map of
/// ranks by steps, in the colour of the kind that parts first.
/// @param document  of JSON
std::string ranks_page(const comparators::RankReads& reads,
                       const RanksHeadline& headline,
                       const RanksBody& body,
                       const Json& document);

}  // namespace repro_check::cmd
