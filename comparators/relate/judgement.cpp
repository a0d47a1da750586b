// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/judgement.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "comparators/relate/distance.h"
#include "core/tensor/masks.h"

namespace repro_check::comparators {
namespace {

/// The sums of one row of B.
struct RowSums {
  std::uint64_t row = 0;
  double exact = 0;  ///< squares
  double error_a = 0;
  double error_b = 0;
  double local_value = 0;  ///< of A's function on B's inputs
  double own = 0;          ///< of A's own error
  double other = 0;        ///< of B's
  double elements = 0;
  bool is_unlike = false;  ///< float64 has no number, and B has one
};

/// Whether B has no number either where float64 has none: it is masked, or not a number.
bool is_alike(double exact, double other) {
  if (std::isnan(exact)) return std::isnan(other);
  return std::signbit(exact) == std::signbit(other) && std::abs(other) > core::kHalfMask;
}

double size_of(double value) { return std::isfinite(value) ? value * value : 0; }

class Judge {
 public:
  Judge(core::Dtype a, core::Dtype b)
      : roundoff_b_(roundoff(b)),
        coarser_(std::max(1.0, roundoff(b) / roundoff(a))),
        roundoff_a_(roundoff(a)) {}

  void judge(const std::vector<RowSums>& rows, JudgedModule& module) const {
    RowSums all;
    for (const RowSums& row : rows) {
      all.exact += row.exact;
      all.error_a += row.error_a;
      all.error_b += row.error_b;
      all.own += row.own;
      all.local_value += row.local_value;
      all.is_unlike |= row.is_unlike;
    }
    module.rows = rows.size();
    const double size = std::sqrt(all.exact);
    if (size > 0) {
      module.error_a = std::sqrt(all.error_a) / size;
      module.error_b = std::sqrt(all.error_b) / size;
    }
    const double floor = std::max({coarser_ * module.error_a, roundoff_b_, roundoff_a_});
    module.ratio = ratio_of(module.error_b, floor);
    judge_own(rows, module);
    const bool is_beyond = module.own_ratio > kOwnBound || module.row_ratio > kRowBound;
    const double whole = std::sqrt(all.local_value);
    if (all.is_unlike || (whole > 0 && std::sqrt(all.own) > kMostOwnError * whole)) {
      module.state = ModuleState::kUndecided;
    } else if (is_beyond) {
      module.state = ModuleState::kFault;
    } else if (module.ratio > kOwnBound) {
      module.state = ModuleState::kInherited;
    }
  }

 private:
  void judge_own(const std::vector<RowSums>& rows, JudgedModule& module) const {
    const auto rms = [](double squares, double elements) {
      return elements > 0 ? std::sqrt(squares / elements) : 0;
    };
    std::vector<double> floors;
    floors.reserve(rows.size());
    for (const RowSums& row : rows) {
      floors.push_back(std::max(coarser_ * rms(row.own, row.elements),
                                roundoff_b_ * rms(row.local_value, row.elements)));
    }
    const double middle = median(floors);
    double sum = 0;
    double floor_sum = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double other = rms(rows[i].other, rows[i].elements);
      sum += other * other;
      floor_sum += floors[i] * floors[i];
      const double ratio = ratio_of(other, std::max(floors[i], middle));
      if (ratio > kRowBound) ++module.above;
      if (ratio <= module.row_ratio) continue;
      module.row_ratio = ratio;
      module.row = rows[i].row;
    }
    module.own_ratio = ratio_of(std::sqrt(sum), std::sqrt(floor_sum));
  }

  double roundoff_b_;
  double coarser_;
  double roundoff_a_;
};

/// Elements of both outputs that are the same quantity.
struct SameElements {
  std::uint64_t row = 0;  ///< of B
  std::uint64_t b = 0;    ///< flat, the first
  std::size_t call = 0;   ///< of A
  std::uint64_t a = 0;
  std::uint64_t count = 0;
};

template <typename Each>
void for_each_part(const RelatedModule& module,
                   const ForwardPass& a,
                   const PassTensor& output,
                   const RowMap& rows,
                   const Each& each) {
  for (std::uint64_t row = 0; row < rows.of_b.size(); ++row) {
    const auto& there = rows.of_b[row];
    if (!there) continue;
    for (const FeatureRange& part : module.parts) {
      const std::uint64_t width = a.calls[part.call].output->width();
      each(SameElements{row,
                        (row * output.width()) + part.begin,
                        part.call,
                        (*there * width) + part.from,
                        part.count});
    }
  }
}

bool has_own_weights(const RelatedModule& module) {
  return module.tie != ModuleTie::kParts && module.tie != ModuleTie::kName;
}

/// The rows that all parts of a module have in common with it; null where they have none.
const RowMap* common_rows(const RelatedModule& module,
                          const ForwardPass& a,
                          const PassTensor& output,
                          const RowMap* tokens,
                          RowMap& same) {
  const RowMap* rows = nullptr;
  for (const FeatureRange& part : module.parts) {
    rows = rows_of_outputs(*a.calls[part.call].output, output, tokens, same);
    if (rows == nullptr) return nullptr;
  }
  return rows;
}

/// One output of A.
struct JudgedSide {
  std::vector<double> recorded;
  ShadowValues shadow;
};

/// @param given  B's output
std::vector<RowSums> sums_of(const RelatedModule& module,
                             const ForwardPass& a,
                             const PassTensor& output,
                             const RowMap& rows,
                             std::map<std::size_t, JudgedSide>& sides,
                             const std::vector<double>& given) {
  std::vector<RowSums> sums;
  for_each_part(module, a, output, rows, [&](const SameElements& at) {
    if (sums.empty() || sums.back().row != at.row) sums.push_back({at.row});
    RowSums& sum = sums.back();
    const JudgedSide& side = sides[at.call];
    for (std::uint64_t k = 0; k < at.count; ++k) {
      const double exact = side.shadow.exact[at.a + k];
      const double one = side.recorded[at.a + k];
      const double other = given[at.b + k];
      if (!(std::abs(exact) < core::kMask)) {
        sum.is_unlike |= !is_alike(exact, other);
        continue;
      }
      sum.exact += size_of(exact);
      sum.error_a += squared_distance(one, exact);
      sum.error_b += squared_distance(other, exact);
      sum.own += squared_distance(one, side.shadow.own[at.a + k]);
      sum.other += squared_distance(other, side.shadow.other[at.a + k]);
      sum.local_value += size_of(side.shadow.other[at.a + k]);
      sum.elements += 1;
    }
  });
  return sums;
}

}  // namespace

const RowMap* rows_of_outputs(const PassTensor& a,
                              const PassTensor& b,
                              const RowMap* tokens,
                              RowMap& same) {
  if (tokens != nullptr && a.rows() == tokens->rows_a && b.rows() == tokens->of_b.size()) {
    return tokens;
  }
  const auto leading = [](const PassTensor& tensor) {
    const auto& shape = tensor.content.shape;
    return std::span(shape).first(shape.empty() ? 0 : shape.size() - 1);
  };
  const bool is_same = tokens == nullptr ? std::ranges::equal(leading(a), leading(b))
                                         : a.rows() == b.rows() && tokens->is_identity();
  if (!is_same) return nullptr;
  same = same_rows(b.rows());
  return &same;
}

std::vector<std::size_t> judged_calls(const ForwardPass& a, const RelatedModules& related) {
  std::set<std::size_t> calls;
  for (const RelatedModule& module : related.modules) {
    for (const FeatureRange& part : module.parts) calls.insert(part.call);
  }
  std::vector<std::size_t> list(calls.begin(), calls.end());
  std::ranges::stable_sort(list, {}, [&](std::size_t call) { return a.calls[call].output->op; });
  return list;
}

std::vector<std::vector<double>> brought_to_a(const ForwardPass& a,
                                              const ReadNumbers& numbers_a,
                                              const ForwardPass& b,
                                              const ReadNumbers& numbers_b,
                                              const RelatedModules& related,
                                              const RowMap* tokens) {
  const std::vector<std::size_t> asked = judged_calls(a, related);
  std::map<std::size_t, std::size_t> place;
  std::vector<std::vector<double>> values;
  for (const std::size_t call : asked) {
    place[call] = values.size();
    values.push_back(numbers_a(*a.calls[call].output));
  }
  for (const RelatedModule& module : related.modules) {
    if (module.parts.empty()) continue;
    const PassTensor& output = *b.calls[module.b].output;
    RowMap same;
    const RowMap* rows = common_rows(module, a, output, tokens, same);
    if (rows == nullptr) continue;
    const std::vector<double> given = numbers_b(output);
    for_each_part(module, a, output, *rows, [&](const SameElements& same_elements) {
      std::vector<double>& into = values[place[same_elements.call]];
      for (std::uint64_t k = 0; k < same_elements.count; ++k) {
        into[same_elements.a + k] = given[same_elements.b + k];
      }
    });
  }
  return values;
}

JudgedPass judge_modules(const ForwardPass& a,
                         const ReadNumbers& numbers_a,
                         const ForwardPass& b,
                         const ReadNumbers& numbers_b,
                         const RelatedModules& related,
                         const RowMap* tokens,
                         const std::function<ShadowValues(std::size_t)>& shadow) {
  JudgedPass pass;
  const std::vector<std::size_t> asked = judged_calls(a, related);
  const Judge judge(a.dtype(), b.dtype());
  const auto side_of = [&](std::size_t call) {
    const auto place = std::ranges::find(asked, call) - asked.begin();
    return JudgedSide{numbers_a(*a.calls[call].output), shadow(static_cast<std::size_t>(place))};
  };
  // What a module around others hands on unchanged is judged once, as the innermost's.
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::size_t> makers;
  for (std::size_t i = 0; i < related.modules.size(); ++i) {
    const auto& output = b.calls[related.modules[i].b].output;
    if (!output) continue;
    std::size_t& maker = makers.try_emplace({output->op, output->tensor}, i).first->second;
    if (!has_own_weights(related.modules[maker])) maker = i;
  }
  for (std::size_t i = 0; i < related.modules.size(); ++i) {
    const RelatedModule& module = related.modules[i];
    const auto& output = b.calls[module.b].output;
    if (output && makers.at({output->op, output->tensor}) != i) continue;
    RowMap same;
    const RowMap* rows =
        output && !module.parts.empty() ? common_rows(module, a, *output, tokens, same) : nullptr;
    if (rows == nullptr) {
      ++pass.unjudged;
      continue;
    }
    std::map<std::size_t, JudgedSide> sides;
    for (const FeatureRange& part : module.parts) {
      if (!sides.contains(part.call)) sides[part.call] = side_of(part.call);
    }
    JudgedModule judged;
    judged.module = i;
    judge.judge(sums_of(module, a, *output, *rows, sides, numbers_b(*output)), judged);
    pass.modules.push_back(judged);
  }
  std::ranges::stable_sort(pass.modules, {}, [&](const JudgedModule& each) {
    std::uint64_t last = 0;
    for (const std::size_t call : related.modules[each.module].a) {
      if (a.calls[call].output) last = std::max(last, a.calls[call].output->op);
    }
    return last;
  });
  return pass;
}

}  // namespace repro_check::comparators
