// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cmd/render/render.h"
#include "comparators/report/report.h"

namespace repro_check::tests {

/// A report made by hand, and how it is rendered in its golden file.
struct NamedReport {
  std::string name;  ///< of the golden file
  comparators::Report report;
  cmd::RenderOptions options;
};

/// A phrase of words of one's own.
inline comparators::Phrase told(std::string text) {
  return comparators::Phrase("value-note", {{"value", std::move(text)}});
}

/// One of every status and kind.
std::vector<NamedReport> handmade_reports();

/// Any combination of fields, plausible or not, with names that attack a terminal, a CI log and a
/// JSON reader. Its coverage adds up.
comparators::Report random_report(std::uint32_t seed);

/// Names as a hostile model may carry them.
const std::vector<std::string>& hostile_names();

}  // namespace repro_check::tests
