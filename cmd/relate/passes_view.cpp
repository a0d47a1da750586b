// SPDX-License-Identifier: Apache-2.0
#include "cmd/relate/passes_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cmd/relate/relation_view.h"
#include "cmd/relate/weights_view.h"
#include "cmd/render/json_form.h"
#include "cmd/render/say.h"
#include "cmd/render/text.h"
#include "cmd/words/catalogue.h"
#include "cmd/words/finding_words.h"

namespace repro_check::cmd {

template <>
inline constexpr std::string_view kWords<comparators::ModuleState> =
    "within|fault|inherited|undecided";
template <>
inline constexpr std::string_view kWords<comparators::ModuleTie> =
    "weights|pattern|order|parts|name";
namespace {

using comparators::ForwardPass;
using comparators::JudgedModule;
using comparators::ModuleState;
using comparators::NoVerdict;
using comparators::RelatedModule;
using comparators::RelateReport;
using comparators::TwoPasses;

class PassesDocument {
 public:
  PassesDocument(const TwoPasses& passes, const RelateReport& report, const ShadowDump* shadow)
      : passes_(passes), report_(report), shadow_(shadow) {}

  [[nodiscard]] Json make() const {
    const core::ExitCode exit = comparators::exit_code_of(report_);
    Json document{{"format", "repro-check-relate"},
                  {"version", "1.0"},
                  {"headline", nullptr},
                  {"a", json_text(passes_.a.dump().location())},
                  {"b", json_text(passes_.b.dump().location())},
                  {"verdict",
                   {{"status", relation_status(exit, report_.no_verdict)},
                    {"exit_code", static_cast<int>(exit)}}}};
    document["verdict"]["reason"] = nullptr;
    if (report_.no_verdict != NoVerdict::kNone) {
      document["verdict"]["reason"] = json_of(report_.no_verdict);
    }
    document["findings"] = json_of(report_.findings);
    document["related"] = related_json();
    document["rows"] = rows_json();
    document["shadow"] = shadow_json(shadow_);
    document["tokens"] = tokens_json();
    document["modules"] = modules_json();
    document["unrelated"] = Json::array();
    for (const std::size_t call : passes_.related.unrelated) {
      document["unrelated"].push_back(json_text(path_of(passes_.b.pass, call)));
    }
    document["later_passes"] = {{"a", passes_.a.has_later}, {"b", passes_.b.has_later}};
    document["next"] = next_json();
    Json model = document;
    model["share"] = percent(passes_.related.proved, passes_.related.elements);
    document["headline"] =
        json_text(relation_headline("relate", std::move(model), report_.no_verdict));
    return cleaned(std::move(document));
  }

 private:
  static std::string path_of(const ForwardPass& pass, std::size_t call) {
    const comparators::ModuleCall& called = pass.calls[call];
    if (!called.path.empty()) return called.path;
    return called.type.empty() ? "(root)" : called.type;
  }

  [[nodiscard]] Json related_json() const {
    const comparators::RelatedModules& related = passes_.related;
    return {{"modules", report_.modules.size()},
            {"within", json_integer(report_.count(ModuleState::kWithin))},
            {"fault", json_integer(report_.count(ModuleState::kFault))},
            {"inherited", json_integer(report_.count(ModuleState::kInherited))},
            {"undecided", json_integer(report_.count(ModuleState::kUndecided))},
            {"not_judged", json_integer(report_.unjudged)},
            {"unrelated", related.unrelated.size()},
            {"worst_within", json_number(report_.worst_within)},
            {"elements", json_integer(related.elements)},
            {"related_elements", json_integer(related.related)},
            {"proved_elements", json_integer(related.proved)},
            {"least_share", json_number(report_.least)}};
  }

  [[nodiscard]] Json rows_json() const {
    Json rows{{"related", passes_.are_rows_related},
              {"unlike", nullptr},
              {"a", nullptr},
              {"b", nullptr},
              {"same", nullptr},
              {"pieces", nullptr},
              {"moved", false}};
    if (passes_.unlike) rows["unlike"] = json_text(path_of(passes_.b.pass, *passes_.unlike));
    if (const comparators::RowMap* map = passes_.rows()) {
      rows["a"] = json_integer(map->rows_a);
      rows["b"] = map->of_b.size();
      rows["same"] = json_integer(map->related);
      rows["pieces"] = json_integer(map->runs);
      rows["moved"] = !map->is_identity();
    }
    return rows;
  }

  [[nodiscard]] Json tokens_json() const {
    if (!report_.tokens) return nullptr;
    const comparators::LogProbabilities& tokens = *report_.tokens;
    Json json{{"rows", json_integer(tokens.rows)},
              {"tokens", json_integer(tokens.tokens)},
              {"mean", json_number(tokens.mean)},
              {"max", json_number(tokens.max)},
              {"divergence", json_number(tokens.divergence)},
              {"max_divergence", json_number(tokens.max_divergence)},
              {"same_best", json_integer(tokens.same_best)},
              {"factor", nullptr},
              {"worst", Json::array()}};
    if (tokens.factor) json["factor"] = json_number(*tokens.factor);
    for (const comparators::TokenProbability& each : tokens.worst) {
      json["worst"].push_back({{"row", json_integer(each.row)},
                               {"token", json_integer(each.token)},
                               {"a", json_number(each.a)},
                               {"b", json_number(each.b)}});
    }
    return json;
  }

  [[nodiscard]] Json modules_json() const {
    Json list = Json::array();
    for (const JudgedModule& judged : report_.modules) {
      const RelatedModule& module = passes_.related.modules[judged.module];
      Json sources = Json::array();
      for (const std::size_t call : module.a) {
        sources.push_back(json_text(path_of(passes_.a.pass, call)));
      }
      list.push_back({{"b", json_text(path_of(passes_.b.pass, module.b))},
                      {"a", std::move(sources)},
                      {"tie", json_of(module.tie)},
                      {"state", json_of(judged.state)},
                      {"error_a", json_number(judged.error_a)},
                      {"error_b", json_number(judged.error_b)},
                      {"ratio", json_number(judged.ratio)},
                      {"own_ratio", json_number(judged.own_ratio)},
                      {"row_ratio", json_number(judged.row_ratio)},
                      {"row", json_integer(judged.row)},
                      {"rows", json_integer(judged.rows)},
                      {"rows_beyond", json_integer(judged.above)}});
    }
    return list;
  }

  /// What lists the operators of both sides inside of the module at fault.
  [[nodiscard]] Json next_json() const {
    Json list = Json::array();
    if (report_.findings.empty()) return list;
    const std::string& at = report_.findings.front().where.tensor;
    const auto module = std::ranges::find_if(
        passes_.related.modules,
        [&](const RelatedModule& one) { return passes_.b.pass.calls[one.b].path == at; });
    if (module == passes_.related.modules.end()) return list;
    const auto add = [&](const core::DumpSource& dump, const ForwardPass& pass, std::size_t call) {
      const comparators::ModuleCall& called = pass.calls[call];
      // From behind what was related before it: what lies between is judged with it.
      list.push_back(json_text(fmt::format("repro-check inspect {} --list --range {}:{}",
                                           shell_quote(dump.location()),
                                           begin_of(pass, call),
                                           called.last + 1)));
    };
    add(passes_.a.dump(), passes_.a.pass, module->a.front());
    add(passes_.b.dump(), passes_.b.pass, module->b);
    return list;
  }

  /// Behind the last related output before a call.
  [[nodiscard]] std::uint64_t begin_of(const ForwardPass& pass, std::size_t call) const {
    const bool of_a = &pass == &passes_.a.pass;
    std::uint64_t begin = pass.begin;
    const auto see = [&](std::size_t other) {
      const auto& output = pass.calls[other].output;
      if (output && output->op < pass.calls[call].first) begin = std::max(begin, output->op + 1);
    };
    for (const JudgedModule& judged : report_.modules) {
      const RelatedModule& module = passes_.related.modules[judged.module];
      if (!of_a) see(module.b);
      for (std::size_t i = 0; of_a && i < module.a.size(); ++i) see(module.a[i]);
    }
    // What runs inside of the operator that made it stands behind it.
    const core::DumpSource& dump = (of_a ? passes_.a : passes_.b).dump();
    while (begin < pass.calls[call].first && dump.op_head(begin).parent >= 0) ++begin;
    return std::min(begin, pass.calls[call].first);
  }

  const TwoPasses& passes_;
  const RelateReport& report_;
  const ShadowDump* shadow_;
};

/// Weights that are not one weight of A as it is: how they are made of A's.
Json relations_json(const TwoPasses& passes) {
  Json told = Json::array();
  for (const comparators::RelatedWeight& relation : passes.relations) {
    if (relation.segments.empty() || is_one_as_it_is(relation, passes.a.weights)) continue;
    comparators::ArrivedWeight arrived;
    arrived.name = passes.b.weights.weights[relation.receiver].name;
    arrived.relation = relation;
    told.push_back(json_text(relation_text(arrived, passes.a.weights)));
  }
  return told;
}

std::string body_of(Json document, const TwoPasses& passes, bool all) {
  constexpr std::size_t kShown = 8;
  const auto cut = [&](Json& list, std::string_view more) {
    if (all || list.size() <= kShown) return;
    document[std::string(more)] = list.size() - kShown;
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(kShown), list.end());
  };
  document["below"] = document["findings"];
  if (!document["below"].empty() && document["verdict"]["status"] == "diverged") {
    document["first"] = document["below"].front();
    document["below"].erase(0);
  }
  cut(document["below"], "more_below");
  document["told"] = relations_json(passes);
  cut(document["told"], "more_told");
  Json& modules = document["modules"];
  if (!all) {
    std::erase_if(modules.get_ref<Json::array_t&>(), [](const Json& module) {
      return module["state"] == "within" || module["state"] == "inherited";
    });
  }
  cut(modules, "more_modules");
  if (!document["tokens"].is_null() && !all) {
    Json& worst = document["tokens"]["worst"];
    const std::size_t shown = document["verdict"]["status"] == "diverged" ? 3 : 0;
    while (worst.size() > shown) worst.erase(worst.size() - 1);
  }
  if (document["rows"].value("moved", false)) document["moved_rows"] = document["rows"];
  if (!document["unrelated"].empty()) document["apart"] = Json::array({document["unrelated"]});
  if (document["later_passes"]["b"].get<bool>()) {
    document["later"] = document["later_passes"]["a"].get<bool>() ? "A and B" : "B";
  }
  document["fixes"] = fixes_of(document["findings"]);
  return text_of(said_lines(view_lines("relate"), document), 2);
}

}  // namespace

core::ExitCode emit_passes(const TwoPasses& passes,
                           const RelateReport& report,
                           const ShadowDump* shadow,
                           const ReportFlags& flags,
                           const GlobalOptions& globals) {
  const Json document = PassesDocument(passes, report, shadow).make();
  emit_relation(document, flags, globals, [&](bool all) { return body_of(document, passes, all); });
  return comparators::exit_code_of(report);
}

}  // namespace repro_check::cmd
