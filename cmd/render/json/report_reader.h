// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/render/gate_outcome.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// Reports as a JSON document has them.
struct ReadReports {
  std::vector<comparators::Report> reports;  ///< one at least
  std::optional<GateOutcome> gate;           ///< of the first, where it is about a gate
  std::string hdf5_version;                  ///< of the tool that wrote it; may be empty
};

/// The inverse of render_json_document(). What the JSON does not hold is empty: settings that do
/// not differ, records of operators but for what names them, the module tally, the trail.
/// Rendered again as JSON it gives what was read, which is checked; only the digests of named
/// tensors and the platform's keys, which are made of what it does not hold, are taken on trust.
/// @param origin  named in messages
/// @throws core::Error{kUsage} when it is no report, one of another version, or one that does not
///         give itself again
ReadReports read_reports(std::string_view document, const std::string& origin);

}  // namespace repro_check::cmd
