// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/gradient_norms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "comparators/data/data_order.h"
#include "comparators/ranks/rank_reads.h"
#include "core/text/text.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

core::Digest digest_of_name(std::string_view name) {
  return core::digest_leaf(std::as_bytes(std::span(name)));
}

NormPart& part_at(std::vector<NormPart>& parts, std::string_view place) {
  const auto found = std::ranges::find(parts, place, &NormPart::place);
  if (found != parts.end()) return *found;
  return parts.emplace_back(NormPart{std::string(place), {}, 0});
}

void add(const NormPart& from, std::vector<NormPart>& parts) {
  NormPart& part = part_at(parts, from.place);
  MultisetDigest names{part.names, 0};
  names.add(from.names);
  part.names = names.sum;
  part.squares += from.squares;
}

/// `local.weight@0:1/2|dp`
NormPart part_of_norm(std::string_view name, double norm) {
  name.remove_prefix(core::kLocalNormPrefix.size());
  const std::string_view whole = core::placed_name(name).whole;
  return {std::string(name.substr(whole.size())), digest_of_name(whole), norm * norm};
}

/// A place without which part it is, and which of how many.
struct Coordinates {
  std::string axes;
  std::string part;
  std::uint64_t parts = 1;
};

/// Of `@0:1/2,1:0/4|dp,tp`. Empty of what is no part, as a sum that is still to be made.
std::optional<Coordinates> coordinates_of(std::string_view place) {
  Coordinates found;
  const core::PlacedName placed = core::placed_name(place);
  found.axes = placed.ranks;
  for (const auto& [dimension, number, count] : placed.parts) {
    if (!core::parse_number<std::uint64_t>(dimension)) return std::nullopt;
    found.axes += fmt::format(";{}/{}", dimension, count);
    found.part += fmt::format("{},", number);
    found.parts *= count;
  }
  return found;
}

/// A clipping, as a rank tells of it. Borrowed.
struct OfRank {
  std::uint32_t rank = 0;
  const ClippedNorm* clipped = nullptr;
};
using OfRanks = std::vector<OfRank>;

double squares_of(const ClippedNorm& clipped) {
  double squares = 0;
  for (const NormPart& part : clipped.parts) squares += part.squares;
  return squares;
}

/// The gradients of one clipping, put together.
class Whole {
 public:
  explicit Whole(const OfRanks& ranks) : ranks_(ranks) {
    double elements = 0;
    double epsilon = 0;
    for (const OfRank& each : ranks) {
      elements += each.clipped->elements;
      epsilon = std::max(epsilon, each.clipped->epsilon);
    }
    tolerance_ = norm_tolerance(elements, epsilon);
  }

  /// Empty where it could be done; replicas that differ are `parted`, which is said elsewhere.
  Phrases put_together() {
    std::map<std::string, Axes> by_axes;
    for (const auto& [rank, clipped] : ranks_) {
      if (!clipped->why_open.empty()) return clipped->why_open;
      for (const NormPart& part : clipped->parts) {
        const auto at = coordinates_of(part.place);
        if (!at) return {Phrase("gradients-not-summed")};
        Axes& axes = by_axes[at->axes];
        axes.parts = at->parts;
        axes.names.insert(part.names);
        const auto [known, is_new] = axes.squares.try_emplace(at->part, part.squares);
        if (is_new) {
          squares_ += part.squares;
        } else if (!is_near(std::sqrt(known->second), std::sqrt(part.squares))) {
          parted_ = true;
        }
      }
    }
    for (const auto& [axes, found] : by_axes) {
      if (found.names.size() > 1) return {Phrase("other-parameters-clipped")};
      if (found.squares.size() != found.parts) return {Phrase("parts-not-read")};
    }
    return {};
  }

  [[nodiscard]] bool parted() const noexcept { return parted_; }
  [[nodiscard]] double norm() const { return std::sqrt(squares_); }
  [[nodiscard]] bool is_near(double one, double other) const {
    return one == other || std::abs(one - other) <= tolerance_ * std::max(one, other);
  }

  /// Whether it is what comes of counting on each rank what several have alike.
  [[nodiscard]] bool counts_replicas(double norm) const {
    double squares = 0;
    for (const auto& [rank, clipped] : ranks_) squares += squares_of(*clipped);
    return is_near(norm, std::sqrt(squares));
  }

  /// Says whose norm it is, or without which part, where that is known.
  void explain(double norm, Finding& finding) const {
    for (const auto& [rank, clipped] : ranks_) {
      if (is_near(norm, std::sqrt(squares_of(*clipped)))) {
        finding.with("own_of", std::int64_t{rank});
        return;
      }
    }
    for (const auto& [rank, clipped] : ranks_) {
      for (const NormPart& part : clipped->parts) {
        const double rest = squares_ - part.squares;
        if (rest > 0 && is_near(norm, std::sqrt(rest))) {
          if (!part.place.empty()) finding.with("without", part.place);
          finding.with("without_of", std::int64_t{rank});
          return;
        }
      }
    }
  }

 private:
  /// What is split along the same axes.
  struct Axes {
    std::uint64_t parts = 1;
    std::set<core::Digest> names;
    std::map<std::string, double> squares;
  };

  const OfRanks& ranks_;
  double tolerance_ = 0;
  double squares_ = 0;
  bool parted_ = false;
};

std::optional<Finding> judge_norm(const Whole& whole, const ClippedNorm& clipped) {
  const double right = whole.norm();
  if (whole.is_near(clipped.norm, right)) return std::nullopt;
  const bool less = clipped.norm < right;
  const bool often = whole.counts_replicas(clipped.norm);
  // Of more than what is clipped a norm can be on purpose.
  const bool proven = clipped.is_l2 && (less || often);
  const FindingId id = less    ? FindingId::kNormLacksShard
                       : often ? FindingId::kNormCountsReplicas
                               : FindingId::kNormOfMore;
  Finding finding{id, proven ? Finding::Weight::kProof : Finding::Weight::kSuspicion};
  finding.at_step(clipped.step).with("norm", clipped.norm).with("right", right);
  whole.explain(clipped.norm, finding);
  return finding;
}

}  // namespace

ClippedNorm clipped_norm_of(const core::OpRecord& record) {
  ClippedNorm clipped;
  clipped.step = record.step;
  bool unread = false;
  for (const core::Argument& argument : record.arguments) {
    const auto* norm = std::get_if<double>(&argument.value.data);
    if (norm == nullptr || !argument.name.starts_with(core::kLocalNormPrefix)) continue;
    unread = unread || std::isnan(*norm);
    add(part_of_norm(argument.name, *norm), clipped.parts);
  }
  const auto number = [&](std::string_view name) {
    const core::Value* value = core::find_argument(record, name);
    return value == nullptr ? std::nullopt : core::number_in(record, *value);
  };
  clipped.elements = number(core::kLocalElements).value_or(0);
  clipped.epsilon = number(core::kLocalEpsilon).value_or(0);
  const auto type = number(core::kClippedNormType);
  clipped.is_l2 = type.has_value();
  const auto norm = number(core::kClippedNorm);
  clipped.norm = norm.value_or(0);
  if (!norm) {
    clipped.why_open = {Phrase("put-together-by-dtensor")};
  } else if (type && *type != 2) {
    clipped.why_open = {Phrase("norm-of-other-type", {{"type", *type}})};
  } else if (!std::isfinite(clipped.norm)) {
    clipped.why_open = {Phrase("norm-not-finite")};
  } else if (unread) {
    clipped.why_open = {Phrase("gradient-not-readable")};
  }
  return clipped;
}

bool continues(ClippedNorm& clipped, const ClippedNorm& next) {
  if (clipped.step != next.step || clipped.norm != next.norm) return false;
  for (const NormPart& part : next.parts) add(part, clipped.parts);
  clipped.elements += next.elements;
  clipped.epsilon = std::max(clipped.epsilon, next.epsilon);
  if (clipped.why_open.empty()) clipped.why_open = next.why_open;
  return true;
}

void match_norms(const RankReads& reads, RanksReport& report) {
  std::map<std::pair<std::uint32_t, std::size_t>, OfRanks> moments;  // by step, and which of it
  for (const RankRead& rank : reads.ranks) {
    std::size_t ordinal = 0;
    const ClippedNorm* last = nullptr;
    for (const ClippedNorm& clipped : rank.roots.norms) {
      ordinal = last != nullptr && last->step == clipped.step ? ordinal + 1 : 0;
      moments[{clipped.step, ordinal}].push_back({rank.number(), &clipped});
      last = &clipped;
    }
  }
  std::optional<Finding> finding;
  for (const auto& [moment, ranks] : moments) {
    const ClippedNorm& first = *ranks.front().clipped;
    const bool agreed = std::ranges::all_of(
        ranks, [&](const OfRank& each) { return each.clipped->norm == first.norm; });
    Whole whole(ranks);
    const Phrases why = whole.put_together();
    if (!why.empty()) {
      if (report.open_norms++ == 0) report.why_open = why;
    } else if (agreed && !whole.parted()) {
      ++report.norms;
      if (!finding) finding = judge_norm(whole, first);
    }
  }
  if (finding) report.findings.push_back(*std::move(finding));
}

double norm_tolerance(double elements, double epsilon) noexcept {
  constexpr double kLambda = 8;
  constexpr double kSingle = 0x1p-24;
  const double unit = epsilon / 2;
  return kLambda / 2 * std::sqrt(elements) * std::min(unit, kSingle) + 4 * unit;
}

}  // namespace repro_check::comparators
