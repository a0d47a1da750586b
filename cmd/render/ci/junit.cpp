// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "cmd/render/ci/alerts.h"
#include "cmd/render/render.h"
#include "cmd/render/text.h"
#include "cmd/words/finding_words.h"
#include "cmd/words/report_words.h"
#include "core/trace/op_record.h"

namespace repro_check::cmd {
namespace {

// GitLab takes 500,000 cases and 30 MB a file, Buildkite 5,000 cases.
constexpr std::size_t kMostOperators = 2000;
constexpr std::size_t kMostModules = 2000;
constexpr std::size_t kMostText = 64U << 10U;
constexpr std::size_t kMostFailure = 2048;

/// Readers take at most three decimals and no exponent.
std::string time_text(double seconds) {
  constexpr double kMost = 1e9;
  return fmt::format("{:.3f}", std::isfinite(seconds) ? std::clamp(seconds, 0.0, kMost) : 0.0);
}

std::string attribute(std::string_view name, std::string_view value) {
  return fmt::format(" {}=\"{}\"", name, xml_text(escape_name(value)));
}

struct Case {
  std::string classname;
  std::string name;
  std::string time = "0.000";
  std::string place = {};    ///< attributes `file` and `line`, as they are written
  std::string outcome = {};  ///< element of a case that did not pass, as it is written
};

/// A case of a alert's own, or one that is always there.
class Suite {
 public:
  explicit Suite(const CiReport& view)
      : view_(view), report_(view.report), gate_(view.gate), alerts_(view.alerts) {
    add_standing_cases();
    choose_operators();
    add_modules();
    for (const Alert* alert : chosen_) add_operator(*alert);
  }

  /// Cases with such an element; all of them for none.
  [[nodiscard]] std::size_t count(std::string_view element) const {
    const auto has = [&](const Case& each) { return each.outcome.starts_with(element); };
    return static_cast<std::size_t>(std::ranges::count_if(cases_, has));
  }

  [[nodiscard]] std::string str() const {
    std::string out = fmt::format(
        "<testsuite{} tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{}\">\n",
        attribute("name", view_.subject + " " + view_.platform),
        count(""),
        count("<failure"),
        count("<error"),
        count("<skipped"),
        time_text(report_.seconds));
    out += properties();
    for (const Case& each : cases_) out += case_text(each);
    return out + "</testsuite>\n";
  }

 private:
  static std::string case_text(const Case& each) {
    std::string out = "<testcase" + attribute("classname", each.classname) +
                      attribute("name", each.name) + " time=\"" + each.time + "\"" + each.place;
    return out + (each.outcome.empty() ? "/>\n" : ">" + each.outcome + "</testcase>\n");
  }

  [[nodiscard]] std::string properties() const {
    const auto& c = report_.coverage;
    std::string out = "<properties>";
    const auto add = [&](std::string_view name, const std::string& value) {
      out += "<property" + attribute("name", fmt::format("repro_check.{}", name)) +
             attribute("value", value) + "/>";
    };
    add("verdict", verdict_line(report_).raw());
    add("policy", report_.policy);
    if (report_.blocks) add("blocks", blocks_text(report_));
    add("compared", fmt::to_string(c.compared));
    add("equal", fmt::to_string(c.equal));
    add("within_policy", fmt::to_string(c.within_policy));
    add("origins", fmt::to_string(c.origins));
    add("propagated", fmt::to_string(c.propagated));
    add("missing", fmt::to_string(c.missing_in_baseline + c.missing_in_candidate));
    add("skipped", fmt::to_string(c.skipped));
    add("not_judged", fmt::to_string(c.not_judged));
    if (const auto notes = non_finite_of(report_); !notes.empty()) {
      add("non_finite", fmt::format("{}", fmt::join(notes, "; ")));
    }
    add("operators_not_fine", fmt::to_string(report_.divergences_total));
    add("operators_listed", fmt::to_string(chosen_.size()));
    if (gate_ != nullptr) {
      add("expected", fmt::to_string(std::ranges::count_if(alerts_, &Alert::is_excused)));
    }
    return out + "</properties>\n";
  }

  /// Readers drop a second case of a name they know.
  void push(Case each) {
    const std::string name = each.name;
    for (std::size_t i = 2; !names_.emplace(each.classname, each.name).second; ++i) {
      each.name = fmt::format("{} ({})", name, i);
    }
    cases_.push_back(std::move(each));
  }

  [[nodiscard]] std::string classname(std::string_view module) const {
    const std::string head = "repro_check." + view_.subject;
    return module.empty() ? head : fmt::format("{}.{}", head, module);
  }

  /// GitLab shows the text alone and Jenkins the message first, so it is in both.
  [[nodiscard]] std::string outcome_of(const Alert& alert) const {
    const std::string message = shorten_bytes(escape_name(alert.message), kMostFailure);
    if (alert.consequence) return skipped(since_text());
    if (alert.is_excused()) {
      const std::string why = alert.entry == nullptr ? "" : ": " + entry_text(*alert.entry);
      return skipped(shorten_bytes(message + why, kMostFailure));
    }
    const RuleRow& why = rule(alert.rule);
    const std::string text = message + "\n" + alert.detail + "\n" + std::string(why.help);
    return fmt::format("<{0}{1}{2}>{3}</{0}>",
                       is_trouble(alert.rule) ? "error" : "failure",
                       attribute("type", fmt::format("repro_check.{}", why.junit_type)),
                       attribute("message", message),
                       limited_text(text));
  }

  static std::string skipped(std::string_view message) {
    return fmt::format("<skipped{}/>", attribute("message", message));
  }

  // Entities make text longer: a quote becomes six bytes, an escaped control up to ten.
  static std::string limited_text(const std::string& text) {
    std::size_t room = kMostText;
    std::string out = xml_text(shorten_bytes(text, room));
    while (out.size() > kMostText) {
      room /= 2;
      out = xml_text(shorten_bytes(text, room));
    }
    return out;
  }

  [[nodiscard]] std::string since_text() const {
    for (const Alert& alert : alerts_) {
      if (alert.consequence || alert.is_excused()) continue;
      if (alert.subject != Subject::kOperator) return "not judged: " + alert.message;
      return "not judged: inputs differ since " + operator_in_module(*alert.op);
    }
    return "not judged";
  }

  void add_standing(const std::string& name, Subject subject, std::size_t run = 0) {
    Case each{.classname = classname(""), .name = name};
    for (const Alert& alert : alerts_) {
      // The first of a subject; more than one are of one kind.
      if (alert.subject != subject || alert.run != run) continue;
      each.outcome = outcome_of(alert);
      break;
    }
    push(std::move(each));
  }

  [[nodiscard]] bool has(Subject subject) const {
    return std::ranges::find(alerts_, subject, &Alert::subject) != alerts_.end();
  }

  void add_standing_cases() {
    add_standing("inputs", Subject::kInputs);
    add_standing("weights", Subject::kWeights);
    add_standing("coverage", Subject::kCoverage);
    add_standing("alignment", Subject::kAlignment);
    if (report_.repeat || has(Subject::kRepeat)) add_standing("repeat", Subject::kRepeat);
    if (has(Subject::kGrowth)) add_standing("growth", Subject::kGrowth);
    if (gate_ != nullptr || has(Subject::kBaseline)) add_baseline();
    for (const Alert& alert : alerts_) {
      if (alert.subject != Subject::kExpected) continue;
      const std::string what = alert.entry == nullptr ? "" : " " + alert.entry->match;
      push({classname(""), "expected" + what, "0.000", place_text(alert), outcome_of(alert)});
    }
    for (std::size_t i = 0; i < report_.runs.size(); ++i) {
      add_standing("run " + report_.runs[i].name, Subject::kRun, i);
      add_standing("dump " + report_.runs[i].name, Subject::kDump, i);
    }
  }

  /// Runs that disagree are not compared with what was accepted. Where nothing but operators tells
  /// that it differs, the headline does.
  void add_baseline() {
    const bool is_asked = gate_ == nullptr || gate_->baseline != BaselineState::kNotAsked;
    Case each{.classname = classname(""), .name = "baseline"};
    if (has(Subject::kBaseline)) {
      add_standing(each.name, Subject::kBaseline);
      return;
    }
    // What is expected, and did not keep to it, has a case of its own.
    const bool differs = report_.from_accepted && report_.status == Status::kDiverged &&
                         report_.kind != DivergenceKind::kExpectation;
    if (!is_asked) {
      each.outcome = skipped("not asked");
    } else if (differs) {
      const auto is_cause = [](const Alert& alert) {
        return !alert.consequence && !alert.is_excused() && !is_trouble(alert.rule);
      };
      const auto cause = std::ranges::find_if(alerts_, is_cause);
      Alert told;
      if (cause != alerts_.end()) told.rule = cause->rule;
      told.message = verdict_line(report_).raw();
      each.outcome = outcome_of(told);
    }
    push(std::move(each));
  }

  [[nodiscard]] std::string place_text(const Alert& alert) const {
    const SourcePlace place = view_.place_of(alert);
    if (!place.is_call || view_.options.strict_junit) return {};
    return attribute("file", place.file) + fmt::format(" line=\"{}\"", place.line);
  }

  void add_modules() {
    std::set<std::string> listed;
    for (const Alert* alert : chosen_) {
      if (!alert->is_excused()) listed.insert(module_of(*alert));
    }
    std::size_t left = kMostModules;
    for (const comparators::ModuleTally& module : report_.modules) {
      if (left-- == 0) break;
      Case each{.classname = classname(module.path), .name = "module"};
      if (module.not_fine > 0) {
        const bool has_cases = listed.contains(module.path);
        each.outcome = skipped(
            fmt::format("{} of {} not fine{}",
                        module.not_fine,
                        format_count(module.operators, "operator"),
                        has_cases ? ": see the cases of the operators" : "; no case names them"));
      } else if (module.operators == module.not_judged) {
        each.outcome = skipped("no operator was judged");
      }
      push(std::move(each));
    }
  }

  static std::string module_of(const Alert& alert) {
    return std::string(comparators::module_of(shown_record(*alert.op)));
  }

  /// Causes, what is excused, and what follows from causes, as far as there is room.
  void choose_operators() {
    const auto rank = [](const Alert* alert) {
      return alert->consequence ? 2 : alert->is_excused() ? 1 : 0;
    };
    for (const Alert& alert : alerts_) {
      if (alert.subject == Subject::kOperator) chosen_.push_back(&alert);
    }
    std::ranges::stable_sort(chosen_, {}, rank);
    chosen_.resize(std::min(chosen_.size(), kMostOperators));
  }

  void add_operator(const Alert& alert) {
    const OpDivergence& op = *alert.op;
    const core::OpRecord& record = shown_record(op);
    push({classname(module_of(alert)),
          case_name(op),
          time_text(static_cast<double>(record.wall_ns) * 1e-9),
          place_text(alert),
          outcome_of(alert)});
  }

  /// `aten::addmm.default#0 forward`: nothing in it moves when an operator is put in front.
  static std::string case_name(const OpDivergence& op) {
    const core::OpRecord& record = shown_record(op);
    const bool is_default = record.op == nullptr || record.op->overload.empty();
    std::string name = fmt::format("{}.{}#{} {}",
                                   operator_text(record),
                                   is_default ? "default" : record.op->overload,
                                   op.occurrence,
                                   core::name_of(record.phase));
    if (record.step > 0) name += fmt::format(" step {}", record.step);
    if (record.rank > 0) name += fmt::format(" rank {}", record.rank);
    if (record.lane > 0) name += " lane " + core::lane_text(record.lane);
    if (record.depth > 0) name += fmt::format(" depth {}", record.depth);
    return name;
  }

  const CiReport& view_;
  const Report& report_;
  const GateOutcome* gate_;
  const std::vector<Alert>& alerts_;
  std::vector<const Alert*> chosen_;  ///< operators that have a case
  std::vector<Case> cases_;
  std::set<std::pair<std::string, std::string>> names_;
};

}  // namespace

std::string render_junit(std::span<const Report> reports, const DocumentOptions& options) {
  std::size_t tests = 0;
  std::size_t failures = 0;
  std::size_t errors = 0;
  double seconds = 0;
  std::string suites;
  for (const CiReport& view : ci_reports(reports, options)) {
    const Suite suite(view);
    tests += suite.count("");
    failures += suite.count("<failure");
    errors += suite.count("<error");
    seconds += view.report.seconds;
    suites += suite.str();
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites name=\"repro-check\" tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{}\">\n"
      "{}</testsuites>\n",
      tests,
      failures,
      errors,
      time_text(seconds),
      suites);
}

}  // namespace repro_check::cmd
