// SPDX-License-Identifier: Apache-2.0
#include "cmd/precision/precision.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "cmd/precision/precision_message.h"
#include "cmd/recording/output_lock.h"
#include "cmd/render/say.h"
#include "cmd/render/text.h"
#include "cmd/replay/replay.h"
#include "cmd/words/catalogue.h"
#include "cmd/words/finding_words.h"
#include "comparators/report/finding.h"
#include "core/error.h"
#include "core/tensor/npy.h"
#include "core/text/text.h"
#include "core/trace/program_records.h"
#include "core/trace/record_names.h"
#include "core/trace/run_manifest.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

using comparators::Finding;
using comparators::FindingId;
using replay::CallPrecision;
using replay::RecordedTensor;

/// A float32 program keeps 6 to 7; below this something lost them.
constexpr double kHealthyDigits = 5.5;
/// Digits that an operator takes from what it is given before it is said to amplify.
constexpr double kAmplifies = 1.0;
/// Of the result's error, that must pass through such an operator.
constexpr double kPasses = 0.2;
constexpr std::size_t kShownAmplifiers = 5;

constexpr const char* kRecordIt =
    "record it with: repro-check exec --level tensor --depth all --steps 0 -- python PROGRAM";

/// Whether a recorded operator made it, and its values are there.
bool is_result(const core::DumpSource& dump, const core::TensorRecord& tensor) {
  return core::is_output(tensor) && tensor.producer != core::kNoProducer &&
         core::is_floating(tensor.dtype) && tensor.state == core::ContentState::kHashed &&
         dump.has_content(tensor.content_key());
}

/// The first output with numbers.
std::optional<RecordedTensor> output_of(const core::DumpSource& dump, std::uint64_t op) {
  const core::OpRecord record = dump.op(op);
  for (std::uint32_t i = 0; i < record.tensors.size(); ++i) {
    if (is_result(dump, record.tensors[i])) return RecordedTensor{op, i};
  }
  return std::nullopt;
}

bool prints(const core::OpRecord& head) {
  return head.site && std::ranges::any_of(head.site->frames, [](const core::SourceFrame& frame) {
           return frame.file.ends_with("_tensor_str.py");
         });
}

/// The last operator for which `wanted` holds and that has an output with numbers.
template <typename Wanted>
std::optional<RecordedTensor> last_output(const core::DumpSource& dump, const Wanted& wanted) {
  for (std::uint64_t op = dump.op_count(); op-- > 0;) {
    const core::OpRecord head = dump.op_head(op);
    if (!head.op || !wanted(head)) continue;
    if (const auto found = output_of(dump, op)) return found;
  }
  return std::nullopt;
}

struct Result {
  RecordedTensor tensor;
  std::string name;  ///< `the loss`
};

Result named_result(const core::DumpSource& dump, const std::string& of) {
  if (const auto op = core::parse_number<std::uint64_t>(of)) {
    if (*op >= dump.op_count()) {
      throw core::usage_error(
          fmt::format("--of {}: the dump has {} operators", *op, dump.op_count()));
    }
    if (const auto found = output_of(dump, *op)) return {*found, fmt::format("op {}", *op)};
    throw core::usage_error(fmt::format("--of {}: it has no floating result with values", *op),
                            "`repro-check inspect DUMP --list` shows the operators");
  }
  const auto found = last_output(dump, [&](const core::OpRecord& head) {
    const std::string_view path = head.site ? std::string_view(head.site->module_path) : "";
    return head.parent < 0 && head.phase != core::Phase::kBackward &&
           (path == of || path.starts_with(of + '.'));
  });
  if (found) return {*found, of};
  throw core::usage_error(
      fmt::format("--of {}: no operator of such a module has a result with values", of),
      "give an op index or a module path; `repro-check inspect DUMP --modules` lists the modules");
}

/// What the program is about: the loss of its last step, else what the model returned, else what
/// its last operator made.
Result chosen_result(const core::DumpSource& dump, const std::string& of) {
  if (!of.empty()) return named_result(dump, of);
  const auto is = [](std::string_view name) {
    return [name](const core::OpRecord& head) { return head.op->name == name; };
  };
  if (const auto loss = last_output(dump, is(core::kLossRecord))) return {*loss, "the loss"};
  if (const auto out = last_output(dump, is(core::kReturnedOperator))) return {*out, "the result"};
  const auto last = last_output(dump, [&](const core::OpRecord& head) {
    return head.parent < 0 && !core::is_named_values(head) &&
           (head.phase == core::Phase::kForward || head.phase == core::Phase::kLoss ||
            head.phase == core::Phase::kEval || head.phase == core::Phase::kSetup) &&
           !prints(head);
  });
  if (last) return {*last, "the result"};
  throw core::not_comparable(dump.location() + ": no operator has a floating result with values",
                             kRecordIt);
}

/// One line of the user's inside one module.
struct Place {
  std::string module;
  std::string module_type;
  std::string line;
  double moved = 0;
  struct Operator {
    double moved = 0;      ///< by all its calls
    double most = -1;      ///< by one of them
    std::uint64_t op = 0;  ///< that one
  };
  std::map<std::string, Operator> operators = {};

  void add(const CallPrecision& call, const std::string& name) {
    moved += call.moved;
    Operator& by_name = operators[name];
    by_name.moved += call.moved;
    if (std::abs(call.moved) <= by_name.most) return;
    by_name.most = std::abs(call.moved);
    by_name.op = call.op;
  }

  /// The call to name: of the operator that moves most.
  [[nodiscard]] std::uint64_t op() const {
    return std::ranges::max_element(
               operators, {}, [](const auto& each) { return std::abs(each.second.moved); })
        ->second.op;
  }
};

std::string power_of_ten(double digits) {
  if (digits < 1.95) return fmt::format("{:.0f} times", std::pow(10, digits));
  return fmt::format("10^{:.1f} times", digits);
}

std::string share_text(double share) {
  const double percent = std::abs(share) * 100;
  if (percent < 0.5) return "<1 %";
  if (percent >= 99.5 && percent < 100) return ">99 %";
  return fmt::format("{:.0f} %", percent);
}

/// Turns the outcome into a document.
class Document {
 public:
  Document(const core::DumpSource& dump, const PrecisionAnswer& answer)
      : dump_(dump), outcome_(answer.outcome) {}

  Json make(const Result& result, const PrecisionPlan& plan, const std::string& libtorch) {
    group();
    const bool passes = !plan.at_least || outcome_.digits >= *plan.at_least;
    Json document;
    document["format"] = "repro-check-precision";
    document["version"] = "1.0";
    document["headline"] = nullptr;
    document["exit_code"] =
        static_cast<int>(passes ? core::ExitCode::kReproducible : core::ExitCode::kDivergence);
    document["dump"] = json_text(plan.dump.string());
    document["libtorch"] = json_text(libtorch);
    document["digits"] = rounded(outcome_.digits);
    document["at_least"] = json_of(plan.at_least);
    document["result"] = result_json(result);
    document["findings"] = json_of(findings());
    document["places"] = places_json();
    document["amplifiers"] = amplifiers_json();
    document["modules"] = modules_json();
    document["explained"] = rounded(outcome_.explained * 100);
    document["not_carried"] = json_of(outcome_.underived);
    document["cuts"] = cuts_json();
    document["counts"] = counts_json();
    document["calls"] = calls_json();
    Json model{{"digits", document["digits"]}, {"result", document["result"]}};
    if (!passes) model["below"] = *plan.at_least;
    if (!document["findings"].empty()) model["found"] = document["findings"][0]["title"];
    document["headline"] = say_unescaped(view_lines("precision-headline").front().text, model);
    return document;
  }

 private:
  static double rounded(double digits) { return std::round(digits * 10) / 10; }

  [[nodiscard]] std::string dtype_of(std::uint64_t op) const {
    const core::OpRecord record = dump_.op(op);
    const core::TensorRecord* chosen = nullptr;
    for (const core::TensorRecord& tensor : record.tensors) {
      if (!core::is_output(tensor)) continue;
      if (!core::is_floating(tensor.dtype) && !core::is_complex(tensor.dtype)) continue;
      if (chosen == nullptr ||
          core::element_size(tensor.dtype) < core::element_size(chosen->dtype)) {
        chosen = &tensor;
      }
    }
    return chosen == nullptr ? "" : std::string(core::dtype_name(chosen->dtype));
  }

  void group() {
    std::map<std::pair<std::string, std::string>, std::size_t> known;
    for (const CallPrecision& call : outcome_.calls) {
      const core::OpRecord head = dump_.op_head(call.op);
      const std::string module = head.site ? head.site->module_path : "";
      const std::string line = core::line_text(head.site.get());
      const auto [found, fresh] = known.try_emplace({module, line}, places_.size());
      if (fresh) places_.push_back({module, head.site ? head.site->module_type : "", line});
      places_[found->second].add(call, head.op->full_name());
    }
    std::ranges::stable_sort(
        places_, std::greater<>(), [](const Place& place) { return std::abs(place.moved); });
    for (const Place& place : places_) all_ += std::abs(place.moved);
  }

  [[nodiscard]] const CallPrecision& call(std::uint64_t op) const {
    return *std::ranges::find(outcome_.calls, op, &CallPrecision::op);
  }

  [[nodiscard]] double share(const Place& place) const {
    return all_ > 0 ? std::abs(place.moved) / all_ : 0;
  }

  /// Where a person looks: the module and behind it the line, or the line alone.
  void put_place(const core::CallSite* site, Json& into) const {
    const std::string line = core::line_text(site);
    const std::string module = site == nullptr ? "" : site->module_path;
    into["module"] = json_of(OrNull{module});
    into["line"] = json_of(OrNull{line});
    into["at"] = json_text(!module.empty() ? module : line);
    if (!module.empty() && !line.empty()) into["source"] = json_text(line);
  }

  /// What one call is and does.
  [[nodiscard]] Json call_json(std::uint64_t op) const {
    const core::OpRecord record = dump_.op(op);
    const CallPrecision& measured = call(op);
    Json json;
    json["op"] = json_integer(op);
    json["operator"] = json_text(record.op->full_name());
    json["dtype"] = dtype_of(op);
    json["step"] = record.step;
    put_place(record.site.get(), json);
    if (measured.terms > 1) json["terms"] = json_integer(measured.terms);
    json["digits_in"] = digits_json(measured.digits_in);
    json["digits_out"] = digits_json(measured.digits_out);
    json["own_digits"] = digits_json(measured.own_digits);
    if (measured.farthest) {
      const auto output = output_of(dump_, op);
      const std::vector<std::int64_t> none;
      const auto& shape = output ? record.tensors[output->tensor].shape : none;
      json["farthest"] = farthest_json(*measured.farthest, shape);
    }
    return json;
  }

  static Json digits_json(const std::optional<double>& digits) {
    return digits ? Json(rounded(*digits)) : Json(nullptr);
  }

  static Json farthest_json(const replay::FarthestElement& farthest,
                            const std::vector<std::int64_t>& shape) {
    Json json;
    json["element"] = core::unravel(farthest.element, shape);
    if (!shape.empty()) {
      json["row"] = core::unravel(farthest.row, std::span(shape).first(shape.size() - 1));
    }
    json["recorded"] = json_number(farthest.recorded);
    json["float64"] = json_number(farthest.float64);
    return json;
  }

  [[nodiscard]] Json result_json(const Result& result) const {
    const core::OpRecord record = dump_.op(result.tensor.op);
    const core::TensorRecord& tensor = record.tensors.at(result.tensor.tensor);
    Json json;
    json["name"] = json_text(result.name);
    json["op"] = json_integer(result.tensor.op);
    json["operator"] = json_text(record.op->full_name());
    put_place(record.site.get(), json);
    json["dtype"] = core::dtype_name(tensor.dtype);
    json["shape"] = tensor.shape;
    json["step"] = record.step;
    json["relative_error"] = json_number(outcome_.relative_error);
    json["farthest"] = outcome_.farthest ? farthest_json(*outcome_.farthest, tensor.shape) : Json();
    return json;
  }

  /// Calls that lose digits of what they are given, though they round well, by what they lose.
  [[nodiscard]] std::vector<const CallPrecision*> amplifiers() const {
    std::vector<const CallPrecision*> found;
    if (outcome_.digits >= kHealthyDigits || places_.empty()) return found;
    // A sum with a large number has more digits, and what takes it away again loses but those.
    const double entered = call(places_.front().op()).own_digits.value_or(0);
    for (const CallPrecision& each : outcome_.calls) {
      const bool measured = each.digits_in && each.digits_out && each.own_digits;
      if (!measured || std::abs(each.passes) < kPasses) continue;
      if (*each.digits_in - *each.digits_out < kAmplifies) continue;
      if (entered - *each.digits_out < kAmplifies) continue;
      if (*each.own_digits - *each.digits_out >= kAmplifies) found.push_back(&each);
    }
    std::ranges::stable_sort(found, std::greater<>(), [](const CallPrecision* each) {
      return *each->digits_in - *each->digits_out;
    });
    return found;
  }

  [[nodiscard]] std::string operator_at(std::uint64_t op) const {
    const core::OpRecord head = dump_.op_head(op);
    const std::string line = core::line_text(head.site.get());
    return head.op->full_name() + (line.empty() ? "" : " (" + line + ")");
  }

  void put_call(std::uint64_t op, Finding& finding) const {
    const Json json = call_json(op);
    finding.where.op = op;
    finding.where.step = json["step"].get<std::uint32_t>();
    if (json["line"].is_string()) finding.where.line = json["line"].get<std::string>();
    finding.with("at", json["at"].get<std::string>());
    finding.with("operator", json["operator"].get<std::string>());
    finding.with("dtype", json["dtype"].get<std::string>());
    if (json.contains("terms")) finding.with("terms", format_count(call(op).terms));
    if (json.contains("source")) finding.with("source", json["source"].get<std::string>());
  }

  [[nodiscard]] std::vector<Finding> findings() const {
    std::vector<Finding> found;
    if (outcome_.overflow) {
      put_call(*outcome_.overflow,
               found.emplace_back(Finding{FindingId::kOverflows, Finding::Weight::kProof}));
    }
    if (outcome_.digits >= kHealthyDigits) return found;
    const auto amplifying = amplifiers();
    if (!places_.empty() && share(places_.front()) > 0) {
      const Place& place = places_.front();
      Finding& enters =
          found.emplace_back(Finding{FindingId::kErrorEnters, Finding::Weight::kProof});
      put_call(place.op(), enters);
      enters.with("share", share_text(share(place)));
      enters.with("digits", fmt::format("{:.1f}", call(place.op()).own_digits.value_or(0)));
      const auto behind = std::ranges::find_if(
          amplifying, [&](const CallPrecision* each) { return each->op > place.op(); });
      if (behind != amplifying.end()) {
        enters.with("amplifier", operator_at((*behind)->op));
        enters.with("factor", power_of_ten(*(*behind)->digits_in - *(*behind)->digits_out));
      }
    }
    for (const CallPrecision* each : amplifying) {
      Finding& amplified =
          found.emplace_back(Finding{FindingId::kErrorAmplified, Finding::Weight::kProof});
      put_call(each->op, amplified);
      amplified.with("digits_in", fmt::format("{:.1f}", *each->digits_in));
      amplified.with("digits_out", fmt::format("{:.1f}", *each->digits_out));
      amplified.with("factor", power_of_ten(*each->digits_in - *each->digits_out));
      if (found.size() > kShownAmplifiers) break;
    }
    return found;
  }

  [[nodiscard]] Json places_json() const {
    Json list = Json::array();
    for (const Place& place : places_) {
      if (place.moved == 0) continue;
      Json json = call_json(place.op());
      json["share"] = share(place);
      json["share_text"] = share_text(share(place));
      json["moved"] = json_number(place.moved);
      Json operators = Json::array();
      for (const auto& [name, each] : place.operators) {
        if (each.moved == 0) continue;
        operators.push_back({{"operator", json_text(name)}, {"moved", json_number(each.moved)}});
      }
      json["operators"] = std::move(operators);
      list.push_back(std::move(json));
    }
    return list;
  }

  [[nodiscard]] Json amplifiers_json() const {
    Json list = Json::array();
    for (const CallPrecision* each : amplifiers()) {
      Json json = call_json(each->op);
      json["factor"] = power_of_ten(*each->digits_in - *each->digits_out);
      list.push_back(std::move(json));
    }
    return list;
  }

  [[nodiscard]] Json modules_json() const {
    Json list = Json::array();
    std::map<std::string, std::size_t> known;
    for (const replay::ModuleOutput& output : outcome_.modules) {
      const core::OpRecord head = dump_.op_head(output.op);
      const auto [found, fresh] = known.try_emplace(head.site->module_path, list.size());
      if (fresh) {
        list.push_back({{"module", json_text(head.site->module_path)},
                        {"type", json_text(head.site->module_type)},
                        {"moved", 0.0},
                        {"steps", Json::array()}});
      }
      Json& module = list[found->second];
      const double digits = rounded(output.digits);
      module["digits"] = digits;
      module["steps"].push_back({{"step", head.step}, {"digits", digits}});
      module["rows"] = json_integer(output.rows);
      module["row_digits"] = Json::array();
      for (const double each : output.row_digits) module["row_digits"].push_back(rounded(each));
    }
    for (const CallPrecision& each : outcome_.calls) {
      const core::OpRecord head = dump_.op_head(each.op);
      const auto found = known.find(head.site ? head.site->module_path : "");
      if (found == known.end()) continue;
      Json& moved = list[found->second]["moved"];
      moved = moved.get<double>() + each.moved;
    }
    return list;
  }

  [[nodiscard]] Json cuts_json() const {
    Json list = Json::array();
    for (const replay::ShadowCut& cut : outcome_.cuts) {
      const core::OpRecord head = dump_.op_head(cut.op);
      Json json{{"op", json_integer(cut.op)},
                {"operator", json_text(head.op ? head.op->full_name() : "")},
                {"why", json_text(cut.why)}};
      put_place(head.site.get(), json);
      list.push_back(std::move(json));
    }
    return list;
  }

  [[nodiscard]] Json counts_json() const {
    return {{"executed", json_integer(outcome_.counts.executed)},
            {"draws", json_integer(outcome_.counts.draws)},
            {"outside", json_integer(outcome_.counts.outside)},
            {"decisions", json_integer(outcome_.counts.decisions)},
            {"numbers_read", json_integer(outcome_.counts.numbers_read)}};
  }

  [[nodiscard]] Json calls_json() const {
    Json list = Json::array();
    for (const CallPrecision& each : outcome_.calls) {
      list.push_back({{"op", json_integer(each.op)},
                      {"digits_in", digits_json(each.digits_in)},
                      {"digits_out", digits_json(each.digits_out)},
                      {"own_digits", digits_json(each.own_digits)},
                      {"moved", json_number(each.moved)},
                      {"passes", json_number(each.passes)}});
    }
    return list;
  }

  const core::DumpSource& dump_;
  const replay::PrecisionOutcome& outcome_;
  std::vector<Place> places_;
  double all_ = 0;
};

}  // namespace

Json measure_precision(const PrecisionPlan& plan) {
  const auto dump = store::open_dump(plan.dump, plan.references);
  expect_own(*dump, plan.dump);
  const core::TraceSummary& trace = dump->manifest().trace;
  if (trace.level != "tensor" || dump->manifest().is_of_blocks()) {
    throw core::not_comparable(
        fmt::format("{}: does not hold the values of operators: level {}, depth {}",
                    plan.dump.string(),
                    trace.level,
                    trace.depth),
        kRecordIt);
  }
  const Result result = chosen_result(*dump, plan.of);
  PrecisionQuestion question;
  question.recorded = {plan.dump, plan.references, result.tensor.op};
  question.result = result.tensor;
  question.result.values = plan.values.has_value();
  const DumpQuestion asked{"precision", message_text(question), plan.recorder, plan.timeout};
  const auto answer = read_answer<PrecisionAnswer>(ask_about_dump(asked, dump->manifest()));
  if (plan.values) {
    const core::OpRecord record = dump->op(result.tensor.op);
    core::write_npy(*plan.values,
                    {core::Dtype::kFloat64,
                     record.tensors.at(result.tensor.tensor).shape,
                     std::as_bytes(std::span(answer.outcome.values))});
  }
  return Document(*dump, answer).make(result, plan, answer.libtorch);
}

}  // namespace repro_check::cmd
