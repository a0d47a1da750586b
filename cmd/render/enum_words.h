// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "cmd/render/render.h"
#include "comparators/judge/expectations.h"
#include "comparators/report/report.h"
#include "core/text/text.h"

namespace repro_check::cmd {

/// What each enumerator is called in reports of every format, in the order of their declaration;
/// an empty word is null in JSON.
template <typename Enum>
inline constexpr std::string_view kWords{};
template <>
inline constexpr std::string_view kWords<Status> =
    "reproducible|partial|diverged|damaged|incomplete|not_comparable|nothing_compared|run_failed|"
    "observer_effect|stale_baseline|no_baseline";
template <>
inline constexpr std::string_view kWords<DivergenceKind> =
    "|origin|inputs|weights|control_flow|missing|mismatch|uninitialised|rng|growth|unrepeated|"
    "expectation|restore";
template <>
inline constexpr std::string_view kWords<Relation> = "origin|propagated|mismatch|missing";
template <>
inline constexpr std::string_view kWords<comparators::OpState> =
    "equal|within_policy|origin|propagated|mismatch|missing|missing|skipped|not_judged";
template <>
inline constexpr std::string_view kWords<comparators::MatchedBy> =
    "|position|lcs|anchor|partial|map|order";
template <>
inline constexpr std::string_view kWords<comparators::TensorOutcome> =
    "equal|within_policy|beyond_policy|mismatch|not_comparable|skipped";
template <>
inline constexpr std::string_view kWords<comparators::StepSeries::Kind> =
    "loss|gradient_norm|learning_rate|drift";
template <>
inline constexpr std::string_view kWords<comparators::BlockDivergence::Kind> = "missing|output";
template <>
inline constexpr std::string_view kWords<comparators::BlockDivergence::Input> =
    "unknown|equal|differs";
template <>
inline constexpr std::string_view kWords<comparators::ObserverFinding::Outcome> =
    "unchanged|changed|not_judged|unrepeated";
template <>
inline constexpr std::string_view kWords<comparators::ExpectedOutcome::What> =
    "excused|agreed|unexpected_pass|beyond_limit|not_judged|expired|elsewhere";
template <>
inline constexpr std::string_view kWords<configs::NumberKind> =
    "losses|parameters|gradients|state|results";
template <>
inline constexpr std::string_view kWords<BaselineState> =
    "not_asked|same|refresh|stale|missing|differs|damaged|no_key";

using core::word_at;

template <typename Enum>
constexpr std::string_view word_of(Enum value) noexcept {
  return word_at(kWords<Enum>, static_cast<std::size_t>(value));
}

/// How many words there are.
constexpr std::size_t word_count(std::string_view words) noexcept {
  return static_cast<std::size_t>(std::ranges::count(words, '|')) + 1;
}

}  // namespace repro_check::cmd
