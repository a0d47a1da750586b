// SPDX-License-Identifier: Apache-2.0
#include "cmd/relate/relation_view.h"

#include "cmd/render/say.h"
#include "cmd/render/text.h"

namespace repro_check::cmd {

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
