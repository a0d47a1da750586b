// SPDX-License-Identifier: Apache-2.0
#include "comparators/judge/rule_book.h"

#include <fmt/format.h>

#include "comparators/measure/policy.h"
#include "comparators/measure/records.h"
#include "comparators/report/compare_options.h"
#include "core/error.h"

namespace repro_check::comparators {

Fp64Reference::Fp64Reference(const core::DumpSource& baseline,
                             const core::DumpSource& float64,
                             const PairingOptions& options)
    : float64_(float64), last_index_(kUnmatched) {
  Pairing pairing = pair_records(baseline, float64, options);
  counterpart_ = std::move(pairing.candidate_of);
  matched_ = pairing.matched;
}

const core::TensorRecord* Fp64Reference::find(const core::OpRecord& baseline,
                                              std::string_view slot) {
  if (baseline.index >= counterpart_.size()) return nullptr;
  const std::uint32_t index = counterpart_[baseline.index];
  if (index == kUnmatched) return nullptr;
  if (index != last_index_) {
    if (const auto damage = damage_in([&] { last_ = float64_.op(index); })) {
      damage_ = *damage;
      return nullptr;
    }
    last_index_ = index;
  }
  return find_tensor(last_, core::TensorRole::kOutput, slot);
}

namespace {

using configs::Unmatched;

constexpr std::size_t kMostRemembered = 16'384;

constexpr configs::PolicySpec kIgnoring{.kind = configs::PolicyKind::kIgnore};
constexpr configs::PolicySpec kBitForBit{.kind = configs::PolicyKind::kBitwise};

bool takes_tensor(const MaybePattern& pattern, const RuleBook::Subject& subject) {
  return !pattern || pattern->matches(subject.slot) ||
         pattern->matches(fmt::format("{} {}", subject.role, subject.slot));
}

}  // namespace

RuleBook::RuleBook(const configs::CompareSpec& spec, const configs::NoiseFloors* noise)
    : spec_(spec), noise_(noise), counts_(spec.rules.size()) {}

RuleBook::Choice RuleBook::choose_for_output(const core::OpRecord& record,
                                             const core::TensorRecord& output) {
  const Choice choice = choose(
      record,
      {.role = "output", .slot = output.slot, .dtype = output.dtype, .device = output.device});
  return choice.judges() && is_packed_values(record, output) ? exactly(choice) : choice;
}

RuleBook::Choice RuleBook::choose_for_input(const core::OpRecord& record,
                                            const core::TensorRecord& input) const {
  return is_packed_values(record, input) ? exactly(fallback()) : fallback();
}

RuleBook::Choice RuleBook::fallback() const noexcept { return {&spec_.policy, std::nullopt}; }

RuleBook::Choice RuleBook::exactly(const Choice& choice) const noexcept {
  return {.policy = &kBitForBit, .rule = choice.rule, .exact = true};
}

RuleBook::Choice RuleBook::choice_of(std::optional<std::size_t> rule) const noexcept {
  if (rule) return {&spec_.rules[*rule].policy, rule};
  if (spec_.unmatched == Unmatched::kPolicy) return fallback();
  return {spec_.unmatched == Unmatched::kIgnore ? &kIgnoring : nullptr, std::nullopt};
}

std::optional<std::size_t> RuleBook::first_match(const core::OpRecord& record,
                                                 const Subject& subject) const {
  for (std::size_t i = 0; i < spec_.rules.size(); ++i) {
    const configs::MatchSpec& match = spec_.rules[i].match;
    if (takes_operator(match.op, record) && takes(match.module, module_of(record)) &&
        takes(match.phase, core::name_of(record.phase)) && takes_tensor(match.tensor, subject) &&
        takes(match.dtype, core::dtype_name(subject.dtype)) &&
        takes(match.device, subject.device)) {
      return i;
    }
  }
  return std::nullopt;
}

RuleBook::Choice RuleBook::with_yardstick(Choice choice,
                                          const core::OpRecord& record,
                                          const Subject& subject) const {
  const configs::PolicyKind kind = choice.policy->kind;
  if (kind == configs::PolicyKind::kNoise) {
    if (noise_ != nullptr) choice.floor = noise_->find(record, subject.role, subject.slot);
  } else if (fp64_ != nullptr) {
    choice.fp64 = fp64_->find(record, subject.slot);
  }
  const bool known = choice.floor != nullptr || choice.fp64 != nullptr;
  if (known || spec_.unmatched == Unmatched::kError) return choice;
  const bool by_itself = spec_.unmatched == Unmatched::kPolicy && spec_.policy.kind == kind;
  return by_itself ? choice : choice_of(std::nullopt);
}

const RuleBook::Maker* RuleBook::maker_of(const core::OpRecord& record,
                                          const Subject& subject) const {
  const auto found = makers_.find(subject.slot);
  if (found == makers_.end() || !core::is_returned(record)) return nullptr;
  const std::optional<std::size_t> own = first_match(record, subject);
  const std::optional<std::size_t> there = first_match(found->second.op, found->second.subject());
  return !own || (there && *there <= *own) ? &found->second : nullptr;
}

RuleBook::Choice RuleBook::choose(const core::OpRecord& record, const Subject& subject) {
  if (const Maker* maker = maker_of(record, subject)) return choose(maker->op, maker->subject());
  const Choice choice = spec_.rules.empty() ? fallback() : by_rule(record, subject);
  if (choice.policy == nullptr) return choice;
  const bool by_noise = choice.policy->kind == configs::PolicyKind::kNoise;
  // A number that an operator returned is judged by the tolerance of its dtype.
  const bool by_fp64 =
      choice.policy->kind == configs::PolicyKind::kFp64 && subject.role == "output";
  return by_noise || by_fp64 ? with_yardstick(choice, record, subject) : choice;
}

RuleBook::Choice RuleBook::by_rule(const core::OpRecord& record, const Subject& subject) {
  key_.clear();
  // Names are of any content: their lengths keep two keys apart.
  const auto add = [this](std::string_view part) {
    key_ += std::to_string(part.size());
    key_ += ':';
    key_ += part;
  };
  add(record.op ? std::string_view(record.op->name) : std::string_view());
  add(record.op ? std::string_view(record.op->overload) : std::string_view());
  add(module_of(record));
  add(core::name_of(record.phase));
  add(subject.role);
  add(subject.slot);
  add(core::dtype_name(subject.dtype));
  add(subject.device);
  if (const auto found = known_.find(key_); found != known_.end()) return choice_of(found->second);
  const auto rule = first_match(record, subject);
  if (!rule && core::is_returned(record)) return fallback();
  if (known_.size() >= kMostRemembered) known_.clear();
  known_.emplace(key_, rule);
  return choice_of(rule);
}

void RuleBook::count(const Choice& choice) noexcept {
  if (choice.rule) ++counts_[*choice.rule];
}

std::vector<RuleUse> RuleBook::uses() const {
  std::vector<RuleUse> uses;
  for (std::size_t i = 0; i < spec_.rules.size(); ++i) {
    const configs::MatchSpec& match = spec_.rules[i].match;
    const std::string patterns = describe_patterns({{"operator", match.op},
                                                    {"module", match.module},
                                                    {"phase", match.phase},
                                                    {"tensor", match.tensor},
                                                    {"dtype", match.dtype},
                                                    {"device", match.device}});
    uses.push_back({patterns.empty() ? "everything" : patterns,
                    describe_policy(spec_.rules[i].policy),
                    counts_[i]});
  }
  return uses;
}

void report_unused_rules(const configs::CompareSpec& spec, Report& report) {
  for (std::size_t i = 0; i < report.rules.size(); ++i) {
    const RuleUse& rule = report.rules[i];
    if (rule.tensors != 0) continue;
    if (spec.strict_rules) {
      throw core::usage_error(
          fmt::format("rule {} ({}: {}) matched no output", i, rule.match, rule.policy),
          "correct its patterns, or the order: the first rule that matches applies");
    }
    report.warnings.push_back(
        Phrase("rule-unused", {{"index", i}, {"match", rule.match}, {"policy", rule.policy}}));
  }
}

bool takes(const MaybePattern& pattern, std::string_view name) {
  return !pattern || pattern->matches(name);
}

bool takes_operator(const MaybePattern& pattern, const core::OpRecord& record) {
  if (!pattern) return true;
  if (!record.op) return false;
  return pattern->matches(record.op->name) || pattern->matches(record.op->full_name());
}

std::string describe_patterns(
    std::initializer_list<std::pair<std::string_view, const MaybePattern&>> patterns) {
  std::string text;
  for (const auto& [name, pattern] : patterns) {
    if (!pattern) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, pattern->text());
  }
  return text;
}

}  // namespace repro_check::comparators
