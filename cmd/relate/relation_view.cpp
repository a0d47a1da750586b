// SPDX-License-Identifier: Apache-2.0
#include "cmd/relate/relation_view.h"

#include "cmd/render/say.h"
#include "cmd/render/text.h"
#include "cmd/words/catalogue.h"

namespace repro_check::cmd {

using comparators::NoVerdict;

const char* relation_status(core::ExitCode exit, NoVerdict no_verdict) {
  if (exit == core::ExitCode::kReproducible) return "agree";
  if (exit == core::ExitCode::kDivergence) return "diverged";
  const bool is_inconclusive = no_verdict == NoVerdict::kNoMeasure ||
                               no_verdict == NoVerdict::kBehindCut ||
                               no_verdict == NoVerdict::kNothingJudged;
  return is_inconclusive ? "inconclusive" : "not_comparable";
}

std::string relation_headline(const std::string& view, Json document, NoVerdict why) {
  const std::string status = document["verdict"]["status"];
  const bool has_verdict = status == "agree" || status == "diverged";
  if (!document["findings"].empty()) document["first"] = document["findings"].front();
  document["because"] = Json::object();
  if (why != NoVerdict::kNone) document["because"][json_of(why).get<std::string>()] = true;
  return say_unescaped(view_lines(view + (has_verdict ? "-" + status : "-none")).front().text,
                       document);
}

double percent(std::uint64_t part, std::uint64_t of) {
  return of == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(of);
}

Json shadow_json(const ShadowDump* shadow) {
  if (shadow == nullptr) return nullptr;
  Json json{{"libtorch", json_text(shadow->libtorch())},
            {"executed", json_integer(shadow->counts().executed)},
            {"decisions", json_integer(shadow->counts().decisions)},
            {"cuts", Json::array()}};
  for (const replay::ShadowCut& cut : shadow->cuts()) {
    json["cuts"].push_back({{"op", json_integer(cut.op)}, {"why", json_text(cut.why)}});
  }
  return json;
}

void emit_relation(const Json& document,
                   const ReportFlags& flags,
                   const GlobalOptions& globals,
                   const std::function<std::string(bool all)>& body) {
  const auto produce = [&](std::string_view format, const auto& options, const TextSink& sink) {
    if (format == "json") {
      sink(to_document(document, options.pretty_json));
      return;
    }
    std::string text = escape_name(document["headline"].get<std::string>()) + "\n";
    if (options.verbosity >= 0) {
      const bool all = flags.wants_all() || options.verbosity > 0;
      text = wrapped(text + body(all), options.columns);
      for (const Json& command : document["next"]) {
        text += "next: " + escape_name(command.get<std::string>()) + "\n";
      }
    }
    sink(text);
  };
  flags.emit(flags.style(globals, "text"), produce);
}

}  // namespace repro_check::cmd
