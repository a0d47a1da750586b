// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "cmd/render/json_form.h"
#include "cmd/render/render.h"
#include "cmd/render/say.h"
#include "cmd/reports/report_flags.h"
#include "cmd/terminal/global_options.h"
#include "comparators/audit/audit.h"
#include "core/error.h"
#include "core/trace/run_manifest.h"

namespace repro_check::cmd {

/// An audit, and what its reports say beside it.
struct Audited {
  comparators::AuditReport report;
  std::string dump;  ///< as it was given
  /// Of each recording, in the order in which they were read.
  std::vector<std::vector<core::SourceFile>> sources;
  core::ExitCode exit_code = core::ExitCode::kReproducible;
};

/// What is said of an audit: the line that comes first, and the document.
struct AuditSaid {
  std::string headline;  ///< escaped
  Json document;
};

AuditSaid said_of(const Audited& audited);

/// The text report, ending in a newline.
std::string audit_text(const AuditSaid& said, const DocumentOptions& options);

// The same for CI systems.

std::string audit_sarif(const Audited& audited,
                        const AuditSaid& said,
                        const DocumentOptions& options);
std::string audit_github(const Audited& audited,
                         const AuditSaid& said,
                         const DocumentOptions& options);
std::string audit_codequality(const Audited& audited,
                              const AuditSaid& said,
                              const DocumentOptions& options);
std::string audit_junit(const Audited& audited,
                        const AuditSaid& said,
                        const DocumentOptions& options);
std::string audit_markdown(const AuditSaid& said);
std::string audit_html(const AuditSaid& said);

/// The formats that are made of an audit. @throws core::Error{kUsage} for another one
void require_audit_formats(const ReportFlags& flags);

/// Writes the reports. @return Audited::exit_code
core::ExitCode emit_audit(const Audited& audited,
                          const ReportFlags& flags,
                          const GlobalOptions& globals);

}  // namespace repro_check::cmd
