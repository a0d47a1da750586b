// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "cmd/render/json/json_text.h"
#include "cmd/render/render.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// Operators that a page describes in full; the others have their row alone.
inline constexpr std::size_t kDescribedOperators = 1000;

/// What the scripts of a page are given of a report.
// NOLINTNEXTLINE(bugprone-exception-escape): moving a Json throws nothing
struct HtmlData {
  /// {report, trail}: the JSON report without its divergences and without what changes from one
  /// rendering to the next; every operator in columns of one entry a row, or null.
  Json overview;
  /// {items, maps}: the divergences, each as in the JSON report, and where their elements differ.
  Json details;
};

HtmlData html_data(const comparators::Report& report, const RenderOptions& options);

}  // namespace repro_check::cmd
