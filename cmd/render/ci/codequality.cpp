// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <set>
#include <span>

#include "cmd/render/escape.h"
#include "cmd/render/findings.h"
#include "cmd/render/formats.h"
#include "cmd/render/json/json_text.h"
#include "cmd/render/source_place.h"
#include "cmd/render/text.h"
#include "cmd/render/words.h"
#include "core/digest/digest.h"

namespace repro_check::cmd {
namespace {

using comparators::Report;

constexpr std::size_t kMostIssues = 1000;
constexpr std::size_t kMostDescription = 1024;

/// Without an op index or a line, so that GitLab knows the issue again when code has moved.
std::string fingerprint(const Finding& finding, const SourcePlace& place) {
  std::string text = fmt::format("{}|{}", rule(finding.rule).id, static_cast<int>(finding.subject));
  if (finding.subject == Subject::kExpected && finding.entry != nullptr) {
    text += "|" + finding.entry->match;
  } else if (finding.op == nullptr) {
    text += fmt::format("|{}", finding.run);
  } else {
    const core::OpRecord& record = shown_record(*finding.op);
    text += fmt::format("|{}|{}|{}|{}",
                        operator_text(record),
                        module_of(record),
                        finding.op->occurrence,
                        place.file);
  }
  return core::to_hex(core::digest_bytes(std::as_bytes(std::span(text))));
}

std::string description(const Finding& finding) {
  if (finding.subject != Subject::kOperator) return finding.message;
  const core::OpRecord& record = shown_record(*finding.op);
  const std::string_view module = module_of(record);
  return fmt::format(
      "{}{}{}: {}", operator_text(record), module.empty() ? "" : " in ", module, finding.message);
}

}  // namespace

std::string render_codequality(std::span<const Report> reports, const DocumentOptions& options) {
  Json out = Json::array();
  std::set<std::string> known;
  for (const CiReport& view : ci_reports(reports, options)) {
    for (const Finding& finding : view.findings) {
      if (finding.consequence || finding.is_excused() || out.size() == kMostIssues) continue;
      const SourcePlace place = view.place_of(finding);
      const std::string print = fingerprint(finding, place);
      // Several candidates may show the same; GitLab takes equal fingerprints for one issue.
      if (!known.insert(print).second) continue;
      Json item;
      item["description"] = shorten_bytes(escape_lines(description(finding)), kMostDescription);
      item["check_name"] = rule(finding.rule).id;
      item["fingerprint"] = print;
      item["severity"] = is_trouble(finding.rule) ? "blocker" : "major";
      item["location"] =
          Json{{"path", escape_name(place.file)}, {"lines", Json{{"begin", place.line}}}};
      out.push_back(std::move(item));
    }
  }
  return to_document(out, options.pretty_json);
}

}  // namespace repro_check::cmd
