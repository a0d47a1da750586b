// SPDX-License-Identifier: Apache-2.0
#include "cmd/options/policy_flags.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <string_view>

#include "cmd/options/choice.h"
#include "configs/parser/config_parser.h"
#include "configs/parser/rules_file.h"
#include "core/error.h"

namespace repro_check::cmd {
namespace {

using configs::AlignMode;
using configs::AttributeRule;
using configs::CompareSpec;
using configs::EqualNan;
using configs::OperatorOrder;
using configs::PolicyKind;
using configs::PolicySpec;
using configs::Unmatched;

[[noreturn]] void refuse(const std::string& message, const std::string& hint = {}) {
  throw core::Error(core::ErrorKind::kUsage, message, hint);
}

void require(const char* flag, const std::optional<double>& value, double least, double most) {
  if (!value || (std::isfinite(*value) && *value >= least && *value <= most)) return;
  if (most == std::numeric_limits<double>::max()) {
    refuse(fmt::format("{} must be a finite number, {} or more", flag, least));
  }
  refuse(fmt::format("{} must be a number from {} to {}", flag, least, most));
}

/// One of `values`, which name_of() spells as the flag takes them.
template <typename Enum, std::size_t N>
void choose(const std::optional<std::string>& word,
            const std::array<Enum, N>& values,
            const auto& take) {
  if (!word) return;
  const auto* found =
      std::ranges::find_if(values, [&](Enum value) { return configs::name_of(value) == *word; });
  if (found != values.end()) take(*found);
}

constexpr std::array kKinds{PolicyKind::kBitwise,
                            PolicyKind::kTolerance,
                            PolicyKind::kUlp,
                            PolicyKind::kCosine,
                            PolicyKind::kNoise,
                            PolicyKind::kFp64,
                            PolicyKind::kMsprobe};
constexpr std::array kNans{EqualNan::kBits, EqualNan::kAny, EqualNan::kNever};
constexpr std::array kUnmatched{Unmatched::kError, Unmatched::kPolicy, Unmatched::kIgnore};
constexpr std::array kAligns{AlignMode::kKeyed, AlignMode::kStrict};
constexpr std::array kOrders{OperatorOrder::kStrict, OperatorOrder::kRelaxed};
constexpr std::array kAttributes{
    AttributeRule::kNote, AttributeRule::kStrict, AttributeRule::kIgnore};

}  // namespace

void PolicyFlags::define(CLI::App& app) {
  restrict_to(app.add_option("--policy", policy_, "What counts as equal (bitwise)"),
              {"bitwise", "tolerance", "ulp", "cosine", "noise", "fp64", "msprobe"});
  define_numbers(app);
  restrict_to(app.add_option("--equal-nan", equal_nan_, "When NaN equals NaN"),
              {"bits", "any", "never"});
  restrict_to(app.add_option_function<std::string>(
                  "--signed-zero",
                  [this](const std::string& mode) { signed_zero_ = mode == "distinct"; },
                  "Whether +0 and -0 are the same"),
              {"distinct", "same"});
  restrict_to(
      app.add_option(
          "--subnormals", subnormals_, "flush: below the least normal number all is zero (exact)"),
      {"exact", "flush"});
  app.add_option("--rules", rules_, "A policy for each kind of operator: JSON, first match wins")
      ->type_name("FILE");
  restrict_to(app.add_option("--unmatched", unmatched_, "What no rule matches (error)"),
              {"error", "policy", "ignore"});
  app.add_flag("--strict-rules", strict_rules_, "A rule that matches nothing is an error");
  define_strictness(app);
  restrict_to(app.add_option("--align",
                             align_,
                             "What pairs two operators: their names in order, or the place alone "
                             "(keyed)"),
              {"keyed", "strict"});
  restrict_to(
      app.add_option(
          "--order", order_, "relaxed: another order passes where all is bit-equal (strict)"),
      {"strict", "relaxed"});
  app.add_option("--map", map_, "Operators and modules that have other names in the candidate")
      ->type_name("FILE");
  app.add_option("--max-growth",
                 max_growth_,
                 "Fail when the relative L2 error grows more than so many times")
      ->type_name("X");
  app.add_option("--threads", threads_, "Threads that compare (one a processor)")
      ->type_name("N")
      ->check(CLI::Range(1U, 4096U).description(""));
}

void PolicyFlags::define_numbers(CLI::App& app) {
  app.add_option("--rtol", rtol_, "Relative tolerance; together with --atol")->type_name("X");
  app.add_option("--atol", atol_, "Absolute tolerance; together with --rtol")->type_name("X");
  app.add_option("--ulp", ulp_, "Greatest distance in ULP of the tensor's dtype")->type_name("N");
  app.add_option("--share", share_, "Share of elements that may be beyond --ulp (0)")
      ->type_name("X");
  app.add_option("--cosine", cosine_, "Least cosine similarity (0.999)")->type_name("X");
  app.add_option("--drift", drift_, "Beside --cosine, how far norms may part (0.01)")
      ->type_name("X");
  app.add_option("--noise", noise_, "Floors of `calibrate`, for --policy noise")->type_name("FILE");
  app.add_option("--fp64", fp64_, "Dump of the baseline's run in float64, for --policy fp64")
      ->type_name("DIR");
  app.add_option("--factor",
                 factor_,
                 "Beside --noise or --fp64, how many times the floor or the baseline's error pass "
                 "(2)")
      ->type_name("X");
  app.add_option("--slack", slack_, "Beside --fp64, rms error that passes on top (0)")
      ->type_name("X");
}

void PolicyFlags::define_strictness(CLI::App& app) {
  app.add_flag("--lenient", lenient_, "Other dtypes are compared, other devices and strides noted");
  restrict_to(app.add_option("--dtype", dtype_, "Whether other dtypes are compared (strict)"),
              {"strict", "promote"});
  restrict_to(app.add_option("--strides", strides_, "Other strides of a result (note)"),
              {"note", "strict", "ignore"});
  restrict_to(app.add_option("--device", device_, "Other devices of a result (strict on one)"),
              {"note", "strict", "ignore"});
  restrict_to(app.add_option("--alias", alias_, "Results that share other memory (note)"),
              {"note", "strict", "ignore"});
}

/// Given, or what the numbers belong to.
PolicyKind PolicyFlags::kind() const {
  struct Number {
    const char* flag;
    bool given;
    PolicyKind owner;
    std::optional<PolicyKind> other_owner = {};

    [[nodiscard]] bool belongs_to(PolicyKind kind) const {
      return kind == owner || kind == other_owner;
    }
  };
  const std::array numbers{Number{"--rtol", rtol_.has_value(), PolicyKind::kTolerance},
                           Number{"--atol", atol_.has_value(), PolicyKind::kTolerance},
                           Number{"--ulp", ulp_.has_value(), PolicyKind::kUlp},
                           Number{"--share", share_.has_value(), PolicyKind::kUlp},
                           Number{"--cosine", cosine_.has_value(), PolicyKind::kCosine},
                           Number{"--drift", drift_.has_value(), PolicyKind::kCosine},
                           Number{"--slack", slack_.has_value(), PolicyKind::kFp64},
                           Number{"--factor",
                                  factor_.has_value(),
                                  fp64_ && !noise_ ? PolicyKind::kFp64 : PolicyKind::kNoise,
                                  PolicyKind::kFp64}};
  std::optional<PolicyKind> kind;
  choose(policy_, kKinds, [&](PolicyKind given) { kind = given; });
  const char* first = nullptr;
  for (const Number& number : numbers) {
    if (!number.given) continue;
    if (!kind) {
      kind = number.owner;
      first = number.flag;
    }
    if (number.belongs_to(*kind)) continue;
    if (first != nullptr) {
      refuse(fmt::format("{} and {} belong to different policies", first, number.flag));
    }
    refuse(fmt::format("{} means nothing under --policy {}", number.flag, *policy_),
           fmt::format("leave it out, or use --policy {}", configs::name_of(number.owner)));
  }
  return kind.value_or(PolicyKind::kBitwise);
}

PolicySpec PolicyFlags::policy() const {
  PolicySpec policy;
  policy.kind = kind();
  if (rtol_.has_value() != atol_.has_value()) {
    refuse(fmt::format(
               "{} needs {} beside it", rtol_ ? "--rtol" : "--atol", rtol_ ? "--atol" : "--rtol"),
           "give both, or neither for the defaults of each dtype");
  }
  if (policy.kind == PolicyKind::kUlp && !ulp_) {
    refuse("--policy ulp needs --ulp beside it", "give the greatest distance, such as --ulp 4");
  }
  constexpr double kAnything = std::numeric_limits<double>::max();
  require("--rtol", rtol_, 0, kAnything);
  require("--atol", atol_, 0, kAnything);
  require("--share", share_, 0, 1);
  require("--cosine", cosine_, -1, 1);
  require("--drift", drift_, 0, kAnything);
  require("--factor", factor_, 0, kAnything);
  require("--slack", slack_, 0, kAnything);
  policy.rtol = rtol_;
  policy.atol = atol_;
  policy.ulp = ulp_.value_or(policy.ulp);
  policy.share = share_.value_or(policy.share);
  policy.cosine = cosine_.value_or(policy.cosine);
  policy.drift = drift_.value_or(policy.drift);
  policy.factor = factor_;
  policy.slack = slack_.value_or(policy.slack);
  choose(equal_nan_, kNans, [&](EqualNan rule) { policy.equal_nan = rule; });
  policy.signed_zero_distinct = signed_zero_;
  policy.flush_subnormals = subnormals_ == "flush";
  return policy;
}

void PolicyFlags::check_yardsticks(const CompareSpec& spec) const {
  if (configs::uses_noise(spec) && !spec.noise) {
    refuse("the policy noise needs --noise beside it",
           "make the file with `repro-check calibrate -c config.json -n 10 -o noise.jsonl`");
  }
  if (noise_ && !configs::uses_noise(spec)) {
    refuse("--noise means nothing without the policy noise",
           "add --policy noise, or a rule with it");
  }
  if (configs::uses_fp64(spec) && !spec.fp64) {
    refuse("the policy fp64 needs --fp64 beside it",
           "make the dump with `repro-check record -c config.json --set /dtype=float64 --set "
           "/dump/level=tensor -o fp64`");
  }
  if (fp64_ && !configs::uses_fp64(spec)) {
    refuse("--fp64 means nothing without the policy fp64", "add --policy fp64, or a rule with it");
  }
}

CompareSpec PolicyFlags::spec() const {
  CompareSpec spec;
  spec.policy = policy();
  const bool by_yardstick =
      spec.policy.kind == PolicyKind::kNoise || spec.policy.kind == PolicyKind::kFp64;
  if (rules_) {
    configs::load_rules(*rules_, spec);
  } else if (strict_rules_ || (unmatched_ && !by_yardstick)) {
    refuse(fmt::format("{} means nothing without --rules",
                       strict_rules_ ? "--strict-rules" : "--unmatched"));
  }
  choose(unmatched_, kUnmatched, [&](Unmatched rule) { spec.unmatched = rule; });
  spec.strict_rules = spec.strict_rules || strict_rules_;
  if (noise_) spec.noise = std::filesystem::absolute(*noise_);
  if (fp64_) spec.fp64 = std::filesystem::absolute(*fp64_);
  check_yardsticks(spec);
  if (lenient_) configs::relax(spec);
  if (dtype_) spec.promote = dtype_ == "promote";
  choose(strides_, kAttributes, [&](AttributeRule rule) { spec.strides = rule; });
  choose(device_, kAttributes, [&](AttributeRule rule) { spec.device = rule; });
  choose(alias_, kAttributes, [&](AttributeRule rule) { spec.alias = rule; });
  if (max_growth_ && !(std::isfinite(*max_growth_) && *max_growth_ > 0)) {
    refuse("--max-growth must be a finite number above 0");
  }
  choose(align_, kAligns, [&](AlignMode mode) { spec.align = mode; });
  choose(order_, kOrders, [&](OperatorOrder order) { spec.order = order; });
  if (map_) spec.map = configs::load_name_map(*map_);
  spec.max_growth = max_growth_;
  spec.threads = threads_;
  return spec;
}

}  // namespace repro_check::cmd
