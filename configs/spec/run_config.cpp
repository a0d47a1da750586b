// SPDX-License-Identifier: Apache-2.0
#include "configs/spec/run_config.h"

#include <algorithm>
#include <cstddef>
#include <initializer_list>

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

namespace {

/// Values count from 0, and the schema of configurations has their names in the same order.
template <typename Enum>
std::string_view pick(std::initializer_list<std::string_view> names, Enum value) noexcept {
  return names.begin()[static_cast<std::size_t>(value)];
}

}  // namespace

std::string_view name_of(ModelMode mode) noexcept {
  return pick({"eval", "train", "as_saved"}, mode);
}
std::string_view name_of(BrowseMode mode) noexcept {
  return pick({"auto", "always", "never"}, mode);
}
std::string_view name_of(Distribution distribution) noexcept {
  return pick({"zeros", "ones", "arange", "normal", "uniform", "randint"}, distribution);
}
std::string_view name_of(PolicyKind kind) noexcept {
  return pick({"bitwise", "tolerance", "ulp", "cosine", "noise", "fp64", "msprobe", "ignore"},
              kind);
}
std::string_view name_of(EqualNan rule) noexcept { return pick({"bits", "any", "never"}, rule); }
std::string_view name_of(Unmatched rule) noexcept {
  return pick({"error", "policy", "ignore"}, rule);
}
std::string_view name_of(AttributeRule rule) noexcept {
  return pick({"note", "strict", "ignore"}, rule);
}
std::string_view name_of(AlignMode mode) noexcept { return pick({"keyed", "strict"}, mode); }
std::string_view name_of(OperatorOrder order) noexcept {
  return pick({"strict", "relaxed"}, order);
}

}  // namespace repro_check::configs
