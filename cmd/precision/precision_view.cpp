// SPDX-License-Identifier: Apache-2.0
#include "cmd/precision/precision_view.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "cmd/render/say.h"
#include "cmd/render/text.h"
#include "cmd/words/catalogue.h"

namespace repro_check::cmd {
namespace {

/// Of the result's error: a place that moves less is not shown unless all are.
constexpr double kLeastShown = 0.01;

constexpr std::array<std::string_view, 3> kPrecisionFormats{"text", "json", "html"};

/// The longer lists cut, and what was left out said.
Json shortened(Json document, const DocumentOptions& options) {
  if (options.all || options.verbosity > 0) return document;
  const auto large =
      static_cast<std::size_t>(std::ranges::count_if(document["places"], [](const Json& place) {
        return place["share"].get<double>() >= kLeastShown;
      }));
  for (const char* list : {"places", "modules", "cuts"}) {
    const std::size_t there = document[list].size();
    const bool by_share = std::string_view(list) == "places";
    const std::size_t most = by_share ? std::min(options.top, large) : options.top;
    if (there <= most) continue;
    Json& items = document[list];
    items.erase(items.begin() + static_cast<std::ptrdiff_t>(most), items.end());
    document[std::string("more_") + list] = there - most;
  }
  return document;
}

std::string precision_text(const Json& document, const DocumentOptions& options) {
  std::string text = escape_name(document["headline"].get<std::string>()) + "\n";
  if (options.verbosity < 0) return text;
  text += say_lines(view_lines("precision"), shortened(document, options), 2);
  return wrapped(text, options.columns);
}

}  // namespace

void require_precision_formats(const ReportFlags& flags) {
  flags.require_formats(kPrecisionFormats, "where digits are lost");
}

void emit_precision(const Json& document, const ReportFlags& flags, const GlobalOptions& globals) {
  const auto produce = [&](std::string_view format, const auto& options, const TextSink& sink) {
    sink(format == "json"   ? to_document(document, options.pretty_json)
         : format == "html" ? precision_page(document, precision_text(document, DocumentOptions()))
                            : precision_text(document, options));
  };
  flags.emit(flags.style(globals, "text"), produce);
}

}  // namespace repro_check::cmd
