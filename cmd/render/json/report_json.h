// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/render/json_form.h"
#include "cmd/render/render.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

inline constexpr const char* kReportVersion = "2.0";

/// The object that render_json() writes, for documents that hold it.
Json json_report(const Report& report, const RenderOptions& options);

/// Of its members those that a text report puts into words: coverage, rules, growth, name_map,
/// repeat, resume, observer, control_flow, expected.
Json json_summary(const Report& report, const GateOutcome* gate);

// Parts of it that other documents hold as well.
void describe(auto f, Of<decltype(f), comparators::TensorMetrics>& metrics);
void describe(auto f, Of<decltype(f), core::GeneratorUse>& use);

/// The lines of JSON Lines, each with its newline.
std::string jsonl_header(const Report& report, const RenderOptions& options);
/// An operator that is not fine: every field of the JSON report's.
std::string jsonl_op(const OpDivergence& op);
/// Any other: its key, its indices and its state, and the outputs that differ within the policy.
std::string jsonl_fine_op(const OpDivergence& op, comparators::OpState state);
/// The warnings, and last the verdict.
/// @param shown  lines of jsonl_op() before it
std::string jsonl_end(const Report& report, std::uint64_t shown);

/// Reports as a JSON document has them.
struct ReadReports {
  std::vector<Report> reports;      ///< one at least
  std::optional<GateOutcome> gate;  ///< of the first, where it is about a gate
  std::string hdf5_version;         ///< of the tool that wrote it; may be empty
};

/// The inverse of the format `json`. What the JSON does not hold is empty: settings that do
/// not differ, records of operators but for what names them, the module tally, the trail.
/// Rendered again as JSON it gives what was read, which is checked; only the digests of named
/// tensors and the platform's keys, which are made of what it does not hold, are taken on trust.
/// @param origin  named in messages
/// @throws core::Error{kUsage} when it is no report, one of another version, or one that does not
///         give itself again
ReadReports read_reports(std::string_view document, const std::string& origin);

}  // namespace repro_check::cmd
