// SPDX-License-Identifier: Apache-2.0
// constant-looks-drawn: what was drawn while a model was exported, and is the same in every call.
#include "comparators/audit/constants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <numbers>
#include <string_view>
#include <utility>

namespace repro_check::comparators {
namespace {

/// Below so many numbers, chance and design look alike.
constexpr std::size_t kFewest = 64;
constexpr std::size_t kMost = 200'000;

// The bounds below were set on 25 legitimate tables and 200 draws of each kind at 64 to 65,536
// numbers: no table is beyond them, and no draw from 256 numbers on is missed but clipped and
// exponential ones.
constexpr double kShareOfSteps = 0.40;
constexpr double kLikeNeighbours = 6.0;
constexpr double kDistanceToNormal = 1.6;
constexpr double kDistanceToUniform = 1.95;
constexpr double kLeastShare = 0.02;
constexpr std::size_t kFewestOfTwo = 20;
constexpr double kShareOfDistinct = 0.9;

std::size_t distinct_of(std::vector<double> sorted) {
  std::ranges::sort(sorted);
  return static_cast<std::size_t>(
      std::distance(sorted.begin(), std::ranges::unique(sorted).begin()));
}

/// Whether they are 0 to n-1 in some order.
bool is_permutation_of_all(std::span<const double> numbers) {
  std::vector<bool> seen(numbers.size());
  for (const double number : numbers) {
    if (!(number >= 0) || number >= static_cast<double>(numbers.size())) return false;
    const auto place = static_cast<std::size_t>(number);
    if (static_cast<double>(place) != number || seen[place]) return false;
    seen[place] = true;
  }
  return true;
}

/// Random orders step by nearly as many lengths as there are numbers, made ones by few.
bool steps_at_random(std::span<const double> order) {
  const auto size = static_cast<std::int64_t>(order.size());
  std::vector<double> steps;
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    const auto step = static_cast<std::int64_t>(order[i + 1]) - static_cast<std::int64_t>(order[i]);
    steps.push_back(static_cast<double>((step + size) % size));
  }
  return static_cast<double>(distinct_of(steps)) >= kShareOfSteps * static_cast<double>(size);
}

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments moments_of(std::span<const double> numbers) {
  Moments moments;
  for (const double number : numbers) moments.mean += number;
  moments.mean /= static_cast<double>(numbers.size());
  double squares = 0;
  for (const double number : numbers) {
    squares += (number - moments.mean) * (number - moments.mean);
  }
  moments.deviation = std::sqrt(squares / static_cast<double>(numbers.size()));
  return moments;
}

/// The greatest autocorrelation over short lags, in its standard deviations for draws.
double likeness_of_neighbours(std::span<const double> numbers, const Moments& moments) {
  constexpr std::size_t kLongestLag = 256;
  const double variance = moments.deviation * moments.deviation;
  double greatest = 0;
  for (std::size_t lag = 1; lag <= std::min(kLongestLag, numbers.size() / 2); ++lag) {
    const std::size_t pairs = numbers.size() - lag;
    double sum = 0;
    for (std::size_t i = 0; i < pairs; ++i) {
      sum += (numbers[i] - moments.mean) * (numbers[i + lag] - moments.mean);
    }
    const double correlation = sum / (static_cast<double>(pairs) * variance);
    greatest = std::max(greatest, std::abs(correlation) * std::sqrt(static_cast<double>(pairs)));
  }
  return greatest;
}

std::vector<double> transposed(std::span<const double> numbers, std::size_t row) {
  const std::size_t rows = numbers.size() / row;
  std::vector<double> turned;
  turned.reserve(rows * row);
  for (std::size_t column = 0; column < row; ++column) {
    for (std::size_t i = 0; i < rows; ++i) turned.push_back(numbers[i * row + column]);
  }
  return turned;
}

/// One number a row where each row holds only one: a mask of channels.
std::vector<double> collapsed(std::span<const double> numbers, std::size_t row) {
  std::vector<double> left;
  for (std::size_t i = 0; i + row <= numbers.size(); i += row) {
    const auto part = numbers.subspan(i, row);
    if (std::ranges::any_of(part, [&](double each) { return each != part.front(); })) return {};
    left.push_back(part.front());
  }
  return left;
}

/// sqrt(n) times the distance of Kolmogorov and Smirnov to a distribution. @param sorted  ascending
template <typename Distribution>
double distance_to(const Distribution& share_below, std::span<const double> sorted) {
  const auto size = static_cast<double>(sorted.size());
  double greatest = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double share = share_below(sorted[i]);
    greatest = std::max({greatest,
                         share - static_cast<double>(i) / size,
                         static_cast<double>(i + 1) / size - share});
  }
  return greatest * std::sqrt(size);
}

bool is_structured(std::span<const double> numbers, std::size_t row, const Moments& moments) {
  if (likeness_of_neighbours(numbers, moments) >= kLikeNeighbours) return true;
  if (row < 2 || row >= numbers.size()) return false;
  const std::vector<double> turned = transposed(numbers, row);
  return likeness_of_neighbours(turned, moments_of(turned)) >= kLikeNeighbours;
}

/// @param found  to be filled
void judge_two_values(std::span<const double> numbers, LookOfNumbers& found) {
  const auto larger = static_cast<std::size_t>(std::ranges::count(numbers, found.greatest));
  const std::size_t rarer = std::min(larger, numbers.size() - larger);
  found.share = static_cast<double>(larger) / static_cast<double>(numbers.size());
  const bool is_mask =
      found.share > kLeastShare && found.share < 1 - kLeastShare && rarer >= kFewestOfTwo;
  if (is_mask) found.look = NumbersLook::kMask;
}

}  // namespace

LookOfNumbers look_at(std::span<const double> numbers, std::size_t row, bool is_coarse) {
  LookOfNumbers found;
  if (numbers.size() < kFewest) return found;
  if (std::ranges::any_of(numbers, [](double each) { return !std::isfinite(each); })) return found;
  if (is_permutation_of_all(numbers)) {
    if (steps_at_random(numbers)) found.look = NumbersLook::kPermutation;
    return found;
  }
  if (row > 1 && row < numbers.size()) {
    const std::vector<double> channels = collapsed(numbers, row);
    if (!channels.empty()) return look_at(channels, 1, is_coarse);
  }
  std::vector<double> sorted(numbers.begin(), numbers.end());
  std::ranges::sort(sorted);
  found.least = sorted.front();
  found.greatest = sorted.back();
  if (found.least == found.greatest) return found;
  const Moments moments = moments_of(numbers);
  found.mean = moments.mean;
  found.deviation = moments.deviation;
  if (is_structured(numbers, row, moments)) return found;
  const std::size_t distinct = distinct_of(sorted);
  if (distinct == 2) {
    judge_two_values(numbers, found);
    return found;
  }
  const auto size = static_cast<double>(numbers.size());
  if (!is_coarse && static_cast<double>(distinct) < kShareOfDistinct * size) return found;
  const auto normal = [&](double number) {
    return 0.5 * std::erfc((moments.mean - number) / (moments.deviation * std::numbers::sqrt2));
  };
  const auto uniform = [&](double number) {
    return (number - found.least) / (found.greatest - found.least);
  };
  // Few numbers may be near to both.
  const double to_normal = distance_to(normal, sorted) / kDistanceToNormal;
  const double to_uniform = distance_to(uniform, sorted) / kDistanceToUniform;
  if (std::min(to_normal, to_uniform) < 1) {
    found.look = to_normal < to_uniform ? NumbersLook::kNormal : NumbersLook::kUniform;
  }
  return found;
}

namespace {

/// An argument that is a weight, a bias or a statistic.
struct WeightPlace {
  std::string_view op;
  std::uint32_t first;
  std::uint32_t last;
};

// Weights that were never trained are draws: a frozen model holds them as constants.
constexpr std::array kWeightPlaces{WeightPlace{"linear", 1, 2},
                                   WeightPlace{"_convolution", 1, 2},
                                   WeightPlace{"convolution", 1, 2},
                                   WeightPlace{"conv1d", 1, 2},
                                   WeightPlace{"conv2d", 1, 2},
                                   WeightPlace{"conv3d", 1, 2},
                                   WeightPlace{"conv_transpose1d", 1, 2},
                                   WeightPlace{"conv_transpose2d", 1, 2},
                                   WeightPlace{"conv_transpose3d", 1, 2},
                                   WeightPlace{"addmm", 0, 2},
                                   WeightPlace{"mm", 0, 1},
                                   WeightPlace{"bilinear", 2, 3},
                                   WeightPlace{"embedding", 0, 0},
                                   WeightPlace{"embedding_bag", 0, 0},
                                   WeightPlace{"layer_norm", 2, 3},
                                   WeightPlace{"native_layer_norm", 2, 3},
                                   WeightPlace{"rms_norm", 2, 2},
                                   WeightPlace{"group_norm", 2, 3},
                                   WeightPlace{"native_group_norm", 1, 2},
                                   WeightPlace{"instance_norm", 1, 4},
                                   WeightPlace{"batch_norm", 1, 4},
                                   WeightPlace{"native_batch_norm", 1, 4},
                                   WeightPlace{"lstm", 2, 99},
                                   WeightPlace{"gru", 2, 99},
                                   WeightPlace{"rnn_tanh", 2, 99},
                                   WeightPlace{"rnn_relu", 2, 99},
                                   WeightPlace{"prelu", 1, 1}};

bool is_weight(const ArtefactConstant& constant, const ConstantUse& use) {
  if (use.op == "matmul") return constant.shape.size() == 2;
  return std::ranges::any_of(kWeightPlaces, [&](const WeightPlace& place) {
    return use.op == place.op && use.argument >= place.first && use.argument <= place.last;
  });
}

constexpr AuditRule kConstants{FindingId::kConstantLooksDrawn, AuditNeed::kOperators};

std::string_view word_of(NumbersLook look) {
  switch (look) {
    case NumbersLook::kMask:
      return "mask";
    case NumbersLook::kNormal:
      return "normal";
    case NumbersLook::kUniform:
      return "uniform";
    case NumbersLook::kPermutation:
      return "permutation";
    case NumbersLook::kOfNothing:
      break;
  }
  return "";
}

}  // namespace

const AuditRule& constants_rule() noexcept { return kConstants; }

AuditReport audit_constants(std::span<const ArtefactConstant> constants, AuditPlan plan) {
  std::vector<Finding> findings;
  for (const ArtefactConstant& constant : constants) {
    const auto other = std::ranges::find_if_not(
        constant.uses, [&](const ConstantUse& use) { return is_weight(constant, use); });
    if (other == constant.uses.end() && !constant.uses.empty()) continue;
    const auto row =
        constant.shape.empty() ? std::int64_t{1} : std::max<std::int64_t>(1, constant.shape.back());
    const std::span<const double> numbers(constant.numbers);
    const LookOfNumbers found = look_at(numbers.first(std::min(numbers.size(), kMost)),
                                        static_cast<std::size_t>(row),
                                        core::element_size(constant.dtype) <= 2);
    if (found.look == NumbersLook::kOfNothing) continue;
    Finding finding{FindingId::kConstantLooksDrawn, Finding::Weight::kSuspicion};
    finding.where.tensor = constant.name;
    if (other != constant.uses.end()) {
      finding.where.line = other->line;
      finding.with("user", other->op);
    }
    finding.with("name", constant.name)
        .with("dtype", core::dtype_name(constant.dtype))
        .with("shape", fmt::format("[{}]", fmt::join(constant.shape, ", ")))
        .with("look", word_of(found.look));
    constexpr double kPercent = 100;
    if (found.look == NumbersLook::kMask) finding.with("percent", kPercent * found.share);
    if (found.look == NumbersLook::kNormal) {
      finding.with("mean", found.mean).with("deviation", found.deviation);
    }
    if (found.look == NumbersLook::kUniform) {
      finding.with("least", found.least).with("greatest", found.greatest);
    }
    findings.push_back(std::move(finding));
  }
  plan.rules = {&kConstants};
  Audit audit(std::move(plan));
  audit.add(kConstants, std::move(findings));
  AuditReport report = audit.finish();
  report.constants = constants.size();
  // What lies in the file in another way than is understood was not looked at.
  const bool is_open = std::ranges::any_of(constants, [](const ArtefactConstant& constant) {
    return constant.numbers.empty() && core::element_size(constant.dtype) != 0;
  });
  if (is_open) {
    report.audited.clear();
    report.not_audited.push_back({&kConstants, Phrase("audit-of-unread-constant")});
  }
  return report;
}

}  // namespace repro_check::comparators
