// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cmd/render/findings.h"
#include "cmd/render/formats.h"
#include "core/trace/op_record.h"

namespace repro_check::cmd {

/// A line of a file as CI systems name it; not escaped.
struct SourcePlace {
  std::string file;        ///< relative to the source root, with `/`
  std::uint32_t line = 1;  ///< 1-based
  bool is_call = false;    ///< whether it is where the call stands, not a stand-in for it
  bool is_file = true;     ///< false where it is a name for readers that drop what has no file
};

/// The innermost frame of `site` whose file lies below the source root and is none of an installed
/// package; where there is none, the first line of the configuration, else of the model's file.
/// @param site  may be null
SourcePlace source_place(const core::CallSite* site,
                         const comparators::Report& report,
                         const DocumentOptions& options);

/// The call that a finding is about; of differing inputs and weights, and of streams that part, the
/// first one that is not fine. Null where there is none.
const core::CallSite* site_of(const Finding& finding, const comparators::Report& report);

/// A report as the formats that CI systems read show it.
struct CiReport {
  const comparators::Report& report;
  const GateOutcome* gate = nullptr;  ///< of the first report: it is about the runs as a whole
  const DocumentOptions& options;
  /// What is checked, as one word: options.subject, else the stem of the model's file, else
  /// `model`; with the candidate's name where several reports share a document.
  std::string subject;
  std::string platform;  ///< as one word: options.platform, else the candidate's device
  std::vector<Finding> findings;

  /// Where every format shows one of the findings.
  [[nodiscard]] SourcePlace place_of(const Finding& finding) const {
    return source_place(site_of(finding, report), report, options);
  }
};

/// @param reports, options  borrowed
std::vector<CiReport> ci_reports(std::span<const comparators::Report> reports,
                                 const DocumentOptions& options);

}  // namespace repro_check::cmd
