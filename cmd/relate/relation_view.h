// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "cmd/relate/shadow.h"
#include "cmd/render/json_form.h"
#include "cmd/reports/report_flags.h"
#include "cmd/terminal/global_options.h"
#include "comparators/relate/two_passes.h"
#include "core/error.h"

namespace repro_check::cmd {

template <>
inline constexpr std::string_view kWords<comparators::NoVerdict> =
    "|too-little-related|other-inputs|nothing-judged|no-measure|behind-cut";

/// `agree`, `diverged`, `inconclusive`, `not_comparable`.
const char* relation_status(core::ExitCode exit, comparators::NoVerdict no_verdict);

/// The first line, of the lines `VIEW-agree`, `VIEW-diverged` and `VIEW-none`: of a document with
/// its verdict and findings, and of what is known beside it.
std::string relation_headline(const std::string& view, Json document, comparators::NoVerdict why);

/// 0 of nothing.
double percent(std::uint64_t part, std::uint64_t of);

/// How float64 was computed; null where nothing was asked.
Json shadow_json(const ShadowDump* shadow);

/// Writes what two computations have in common: the document itself, or its headline, what `body`
/// says of it, and its `next` commands.
/// @param body  of all, or of the first of long lists
/// @throws core::Error{kIo}
void emit_relation(const Json& document,
                   const ReportFlags& flags,
                   const GlobalOptions& globals,
                   const std::function<std::string(bool all)>& body);

}  // namespace repro_check::cmd
