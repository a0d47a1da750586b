// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "cmd/render/gate_outcome.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// What a recorder left on stderr, for a run that failed.
struct RunLog {
  std::string path;       ///< empty = there is none
  std::string last_line;  ///< as it stands in the file: hostile
};

/// Divergent operators listed by default.
inline constexpr std::size_t kDefaultTop = 10;
/// Of a terminal: a report of the default verbosity shows as many items of its lists as fit.
inline constexpr std::size_t kDefaultReportLines = 24;

struct RenderOptions {
  int verbosity = 0;   ///< -1 = verdict line only, 0, 1 = every metric, 2 as 1
  bool color = false;  ///< ANSI colours; decide with use_color()
  /// That text is wrapped to, but for the first line and the `next:` lines; 0 = a line a paragraph.
  /// Decide with text_columns().
  std::size_t columns = 0;
  /// Host of the files that places are linked to (OSC 8); empty = no links. See use_links().
  std::string link_host;
  bool all = false;               ///< list every divergent operator the report holds
  std::size_t top = kDefaultTop;  ///< further divergent operators listed, unless `all`
  bool name_pair = false;         ///< say below the verdict which two dumps it is about
  bool pretty_json = false;       ///< two-space indent: for a terminal
  std::string command_prefix = "repro-check";  ///< first word of the `next:` commands
  std::string config_path;                     ///< as the user typed it; empty = not known
  /// The user's own options that changed what the configuration says, to be given again.
  std::vector<std::string> config_flags;
  std::string output_directory;       ///< that the user gave to `run`; empty = the configuration's
  std::string hdf5_version;           ///< `1.10.8`; empty = not known
  const GateOutcome* gate = nullptr;  ///< of the gate the report is about; may be null
  std::vector<RunLog> logs;           ///< by position in Report::runs; may be shorter
};

/// The verdict line: plain, one physical line whatever its length, names escaped, no newline.
std::string headline(const comparators::Report& report);

/// The text report, ending in a newline. Not a stable interface; the JSON is.
std::string render_text(const comparators::Report& report, const RenderOptions& options);

/// The JSON report (docs/report.schema.json), ending in a newline. Of `options` it heeds
/// `pretty_json`, `hdf5_version` and `gate` alone, so that no verbosity changes a byte.
std::string render_json(const comparators::Report& report, const RenderOptions& options);

/// The HTML report: one page that loads nothing from anywhere, for a browser without a network. It
/// shows every operator of a report that has a trail, else its first ones as a list. Several
/// reports share a page, the first one in front. Not a stable interface; the JSON is. Heeds no
/// verbosity and no colour.
/// @param reports  one at least
/// @throws core::Error{kInternal} when the data cannot be packed
std::string render_html(std::span<const comparators::Report> reports, const RenderOptions& options);

}  // namespace repro_check::cmd
