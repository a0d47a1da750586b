// SPDX-License-Identifier: Apache-2.0
#include "configs/spec/run_config.h"

#include <algorithm>

namespace repro_check::configs {

// Out of line: InputSpec is incomplete where these three are declared.
bool ListInput::operator==(const ListInput& other) const { return items == other.items; }
bool TupleInput::operator==(const TupleInput& other) const { return items == other.items; }
bool DictInput::operator==(const DictInput& other) const { return entries == other.entries; }

namespace {

bool uses(const CompareSpec& spec, PolicyKind kind) noexcept {
  const auto is_it = [kind](const Rule& rule) { return rule.policy.kind == kind; };
  return spec.policy.kind == kind || std::ranges::any_of(spec.rules, is_it);
}

}  // namespace

bool uses_noise(const CompareSpec& spec) noexcept { return uses(spec, PolicyKind::kNoise); }

bool uses_fp64(const CompareSpec& spec) noexcept { return uses(spec, PolicyKind::kFp64); }

void relax(CompareSpec& spec) noexcept {
  spec.promote = true;
  spec.strides = AttributeRule::kNote;
  spec.device = AttributeRule::kNote;
}

std::string_view name_of(ModelMode mode) noexcept {
  switch (mode) {
    case ModelMode::kEval:
      return "eval";
    case ModelMode::kTrain:
      return "train";
    case ModelMode::kAsSaved:
      return "as_saved";
  }
  return "eval";
}

std::string_view name_of(BrowseMode mode) noexcept {
  switch (mode) {
    case BrowseMode::kAuto:
      return "auto";
    case BrowseMode::kAlways:
      return "always";
    case BrowseMode::kNever:
      return "never";
  }
  return "auto";
}

std::string_view name_of(Distribution distribution) noexcept {
  switch (distribution) {
    case Distribution::kZeros:
      return "zeros";
    case Distribution::kOnes:
      return "ones";
    case Distribution::kArange:
      return "arange";
    case Distribution::kNormal:
      return "normal";
    case Distribution::kUniform:
      return "uniform";
    case Distribution::kRandint:
      return "randint";
  }
  return "zeros";
}

std::string_view name_of(PolicyKind kind) noexcept {
  switch (kind) {
    case PolicyKind::kBitwise:
      return "bitwise";
    case PolicyKind::kTolerance:
      return "tolerance";
    case PolicyKind::kUlp:
      return "ulp";
    case PolicyKind::kCosine:
      return "cosine";
    case PolicyKind::kNoise:
      return "noise";
    case PolicyKind::kFp64:
      return "fp64";
    case PolicyKind::kMsprobe:
      return "msprobe";
    case PolicyKind::kIgnore:
      return "ignore";
  }
  return "bitwise";
}

std::string_view name_of(Unmatched rule) noexcept {
  switch (rule) {
    case Unmatched::kError:
      return "error";
    case Unmatched::kPolicy:
      return "policy";
    case Unmatched::kIgnore:
      return "ignore";
  }
  return "error";
}

std::string_view name_of(AttributeRule rule) noexcept {
  switch (rule) {
    case AttributeRule::kNote:
      return "note";
    case AttributeRule::kStrict:
      return "strict";
    case AttributeRule::kIgnore:
      return "ignore";
  }
  return "note";
}

std::string_view name_of(AlignMode mode) noexcept {
  return mode == AlignMode::kKeyed ? "keyed" : "strict";
}

std::string_view name_of(OperatorOrder order) noexcept {
  return order == OperatorOrder::kStrict ? "strict" : "relaxed";
}

std::string_view name_of(EqualNan rule) noexcept {
  switch (rule) {
    case EqualNan::kBits:
      return "bits";
    case EqualNan::kAny:
      return "any";
    case EqualNan::kNever:
      return "never";
  }
  return "bits";
}

}  // namespace repro_check::configs
