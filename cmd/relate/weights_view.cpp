// SPDX-License-Identifier: Apache-2.0
#include "cmd/relate/weights_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cmd/relate/relation_view.h"
#include "cmd/render/json_form.h"
#include "cmd/render/say.h"
#include "cmd/render/text.h"
#include "cmd/words/catalogue.h"
#include "cmd/words/finding_words.h"
#include "core/tensor/dtype.h"

namespace repro_check::cmd {

template <>
inline constexpr std::string_view kWords<comparators::WeightState> =
    "arrived|earlier|misplaced|unmerged|rounded|other|unrelated|unread";

namespace {

using comparators::ArrivedWeight;
using comparators::kLeadingAxes;
using comparators::RelatedWeight;
using comparators::Segment;
using comparators::Weight;
using comparators::WeightSide;
using comparators::WeightsReport;
using comparators::WeightState;

const std::vector<std::int64_t>& shape_of(const Segment& segment, const WeightSide& sender) {
  return sender.weights[segment.source].versions[segment.version].content.shape;
}

/// Of a source with dimensions.
bool is_whole(const Segment& segment, const std::vector<std::int64_t>& shape) {
  return segment.from == 0 && segment.rows == comparators::row_count(shape, segment.axis);
}

bool is_turned(const Segment& segment,
               const RelatedWeight& relation,
               const std::vector<std::int64_t>& shape) {
  return segment.axis != relation.axis && shape.size() == 2 && segment.axis != kLeadingAxes &&
         relation.axis != kLeadingAxes;
}

/// The rows of one segment: `q.weight`, `q.weight.T[0:64]`, `experts.3.w1[:, 0:64]`,
/// `(q.weight + 2 * q.lora_B @ q.lora_A).T`.
std::string source_text(const Segment& segment,
                        const RelatedWeight& relation,
                        const WeightSide& sender) {
  const Weight& source = sender.weights[segment.source];
  const std::vector<std::int64_t>& shape = shape_of(segment, sender);
  std::string text = source.name;
  if (segment.merged) {
    text = fmt::format("({} + {:.3g} * {} @ {})",
                       text,
                       segment.merged->scale,
                       sender.weights[segment.merged->up].name,
                       sender.weights[segment.merged->down].name);
  }
  if (segment.has_factors) text += ", each row times a number";
  if (shape.empty()) return text;
  const bool turned = is_turned(segment, relation, shape);
  if (turned) text += ".T";
  if (is_whole(segment, shape)) return text;
  const std::string range = fmt::format("{}:{}", segment.from, segment.from + segment.rows);
  if (segment.axis == kLeadingAxes) return text + fmt::format(".flatten(0, -2)[{}]", range);
  std::string before;
  const std::size_t axis = turned ? relation.axis : segment.axis;
  for (std::size_t i = 0; i < axis; ++i) before += ":, ";
  return text + "[" + before + range + "]";
}

constexpr std::array<std::string_view, 2> kWeightFormats{"text", "json"};

Json weight_json(const ArrivedWeight& weight, const WeightSide& sender) {
  Json json{{"name", json_text(weight.name)},
            {"dtype", core::dtype_name(weight.dtype)},
            {"shape", weight.shape},
            {"state", json_of(weight.state)},
            {"rows", json_integer(weight.relation.rows)},
            {"related_rows", json_integer(weight.relation.related_rows())},
            {"steps", json_of(weight.steps)},
            {"relation", json_text(relation_text(weight, sender))},
            {"segments", Json::array()}};
  for (const Segment& segment : weight.relation.segments) {
    const Weight& source = sender.weights[segment.source];
    Json part{{"rows", {segment.begin, segment.begin + segment.rows}},
              {"source", json_text(source.name)},
              {"source_rows", {segment.from, segment.from + segment.rows}},
              {"source_axis", nullptr},
              {"steps", source.versions[segment.version].until},
              {"rounded", nullptr}};
    if (segment.axis != kLeadingAxes) part["source_axis"] = segment.axis;
    if (segment.rounded != core::Dtype::kUnknown) {
      part["rounded"] = core::dtype_name(segment.rounded);
    }
    json["segments"].push_back(std::move(part));
  }
  return json;
}

Json document_of(const WeightsReport& report,
                 const WeightSide& sender,
                 const std::string& sent_from,
                 const std::string& received_by) {
  Json document{
      {"format", "repro-check-weights"},
      {"version", "2.0"},
      {"sender", json_text(sent_from)},
      {"receiver", json_text(received_by)},
      {"verdict",
       {{"status",
         relation_status(comparators::exit_code_of(report), comparators::NoVerdict::kNone)},
        {"exit_code", static_cast<int>(comparators::exit_code_of(report))}}},
      {"steps", report.steps},
      {"elements", json_integer(report.elements)},
      {"related_elements", json_integer(report.related)},
      {"least_share", report.least}};
  document["counts"] = Json::object();
  for (std::size_t i = 0; i < word_count(kWords<WeightState>); ++i) {
    const auto state = static_cast<WeightState>(i);
    document["counts"][json_of(state).get<std::string>()] = json_integer(report.count(state));
  }
  document["unsent"] = report.unsent;
  document["unread"] = json_integer(report.unread);
  document["weights"] = Json::array();
  for (const ArrivedWeight& weight : report.weights) {
    document["weights"].push_back(weight_json(weight, sender));
  }
  document["findings"] = json_of(report.findings);
  return cleaned(std::move(document));
}

std::string headline(const WeightsReport& report, const Json& document) {
  const std::string last = "the sender's after " + format_count(report.steps, "step");
  if (report.has_diverged()) {
    return "DIVERGED at " + say("{where/tensor}: {text}", document["findings"].front());
  }
  if (comparators::exit_code_of(report) == core::ExitCode::kReproducible) {
    return fmt::format("AGREE: {} of {} are {}",
                       report.count(WeightState::kArrived),
                       format_count(report.weights.size(), "weight"),
                       last);
  }
  if (report.weights.empty() || report.sent == 0) {
    return fmt::format("NOT COMPARABLE: no weight was read in the {}",
                       report.sent == 0 ? "sender" : "receiver");
  }
  return fmt::format("NOT COMPARABLE: {} of {} of the receiver's weights are {}",
                     format_count(report.related),
                     format_count(report.elements, "element"),
                     last);
}

std::string body_of(Json document, const WeightsReport& report, bool all) {
  constexpr std::size_t kShown = 8;
  // Faults first. That a weight is one of its own name is no news.
  document["told"] = Json::array();
  std::size_t more = 0;
  Json weights = document["weights"];
  std::stable_partition(weights.begin(), weights.end(), [](const Json& weight) {
    return weight["state"] != "arrived";
  });
  for (const Json& weight : weights) {
    const std::string relation = weight["relation"];
    const std::string name = weight["name"];
    if (relation.empty() || (relation == name + " = " + name && !all)) continue;
    if (document["told"].size() < kShown || all) {
      document["told"].push_back(relation);
    } else {
      ++more;
    }
  }
  if (more > 0) document["more_told"] = {{"told_more", more}};
  if (!report.unsent.empty()) document["not_sent"] = Json::array({document["unsent"]});
  if (report.unread > 0) document["unread_names"] = {{"unread", report.unread}};
  // Rounded down: 100 is all of them.
  document["share"] = report.elements == 0 ? 0.0
                                           : std::floor(1000 * static_cast<double>(report.related) /
                                                        static_cast<double>(report.elements)) /
                                                 10;
  document["received"] = report.weights.size();
  document["sent"] = report.sent;
  document["below"] = document["findings"];
  if (report.has_diverged()) document["below"].erase(0);
  document["fixes"] = fixes_of(document["findings"]);
  return text_of(said_lines(view_lines("weights"), document), 2);
}

}  // namespace

bool is_one_as_it_is(const RelatedWeight& relation, const WeightSide& sender) {
  if (relation.segments.size() != 1 || relation.related_rows() < relation.rows) return false;
  const Segment& segment = relation.segments.front();
  if (segment.merged || segment.has_factors || segment.rounded != core::Dtype::kUnknown)
    return false;
  const std::vector<std::int64_t>& shape = shape_of(segment, sender);
  return shape.empty() || (is_whole(segment, shape) && !is_turned(segment, relation, shape));
}

std::string relation_text(const ArrivedWeight& weight, const WeightSide& sender) {
  const RelatedWeight& relation = weight.relation;
  if (relation.segments.empty()) return {};
  std::vector<std::string> parts;
  std::uint64_t end = 0;
  const auto skip_to = [&](std::uint64_t begin) {
    if (begin > end) parts.push_back(fmt::format("other[{}]", begin - end));
  };
  core::Dtype rounded = core::Dtype::kUnknown;
  for (const Segment& segment : relation.segments) {
    skip_to(segment.begin);
    parts.push_back(source_text(segment, relation, sender));
    end = segment.begin + segment.rows;
    if (segment.rounded != core::Dtype::kUnknown) rounded = segment.rounded;
  }
  skip_to(relation.rows);
  std::string text = parts.front();
  if (parts.size() > 1) {
    const std::string axis = relation.axis == 0 || relation.axis == kLeadingAxes
                                 ? std::string()
                                 : fmt::format(", dim={}", relation.axis);
    text = fmt::format("cat({}{})", fmt::join(parts, ", "), axis);
  }
  if (rounded != core::Dtype::kUnknown) text += fmt::format(".to({})", core::dtype_name(rounded));
  return weight.name + " = " + text;
}

void require_weight_formats(const ReportFlags& flags) {
  flags.require_formats(kWeightFormats, "what is said of weights");
}

core::ExitCode emit_weights(const WeightsReport& report,
                            const WeightSide& sender,
                            const std::string& sent_from,
                            const std::string& received_by,
                            const ReportFlags& flags,
                            const GlobalOptions& globals) {
  const Json document = document_of(report, sender, sent_from, received_by);
  const auto produce = [&](std::string_view format, const auto& options, const TextSink& sink) {
    if (format == "json") {
      sink(to_document(document, options.pretty_json));
      return;
    }
    std::string text = headline(report, document) + "\n";
    if (options.verbosity >= 0) {
      text = wrapped(text + body_of(document, report, flags.wants_all()), options.columns);
    }
    sink(text);
  };
  flags.emit(flags.style(globals, "text"), produce);
  return comparators::exit_code_of(report);
}

}  // namespace repro_check::cmd
