// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/two_trainings.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "comparators/relate/held_tensors.h"
#include "comparators/relate/row_keys.h"
#include "comparators/relate/two_passes.h"
#include "core/tensor/dtype.h"
#include "core/tensor/element_number.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

std::string_view whole_name(const Weight& weight) { return core::placed_name(weight.name).whole; }

std::uint64_t elements_of(const Weight& weight) {
  return static_cast<std::uint64_t>(core::element_count(weight.last().content.shape));
}

std::uint64_t rows_along(const std::vector<std::int64_t>& shape, std::size_t axis) {
  return shape.empty() ? 1 : row_count(shape, axis);
}

/// Rows of one of A's weights that are rows of one of B's.
struct Proposal {
  std::size_t a = 0;
  RowsFrom from_a;
  RowsFrom from_b;
  std::uint64_t rows = 0;
};

class TrainingRelator {
 public:
  explicit TrainingRelator(TwoTrainings& both)
      : both_(both), a_(both.a.weights), b_(both.b.weights), held_a_(a_), held_b_(b_) {
    for (std::size_t i = 0; i < a_.weights.size(); ++i) {
      by_name_.emplace(whole_name(a_.weights[i]), i);
      ++alike_[a_.weights[i].last().content];
    }
  }

  void relate() {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < b_.weights.size(); ++i) {
      const Weight& weight = b_.weights[i];
      both_.elements += elements_of(weight);
      if (elements_of(weight) == 0) continue;
      const auto named = at_name(i, whole_name(weight));
      if (!(named && take(i, *named))) open.push_back(i);
    }
    if (!open.empty()) relate_by_content(open);
    std::erase_if(open, [&](std::size_t i) { return place_by_neighbours(i); });
    for (const std::size_t i : open) {
      if (place_in_what_is_left(i)) continue;
      const bool has_place = at_name(i, whole_name(b_.weights[i])).has_value();
      (has_place ? both_.other : both_.unrelated).push_back(i);
      if (has_place) both_.elsewhere += elements_of(b_.weights[i]);
    }
    std::ranges::stable_sort(both_.pieces, {}, &TrainedPiece::a);
    for (std::size_t i = 0; i < a_.weights.size(); ++i) {
      both_.elements_a += elements_of(a_.weights[i]);
      const auto pieces = std::ranges::equal_range(both_.pieces, i, {}, &TrainedPiece::a);
      if (!pieces.empty()) both_.related_a += elements_of(a_.weights[i]);
    }
  }

 private:
  /// What modules of B are called in A.
  using Renamed = std::map<std::string, std::string, std::less<>>;

  /// Where a weight of B is in A's of that name, as its shape and its place say.
  [[nodiscard]] std::optional<Proposal> at_name(std::size_t b, std::string_view name) const {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return std::nullopt;
    const std::vector<std::int64_t>& whole = a_.weights[found->second].last().content.shape;
    const std::vector<std::int64_t>& shape = b_.weights[b].last().content.shape;
    Proposal proposal{found->second, {}, {}, rows_along(shape, 0)};
    if (shape == whole) return proposal;
    std::optional<std::size_t> axis;
    for (std::size_t i = 0; i < whole.size() && shape.size() == whole.size(); ++i) {
      if (shape[i] == whole[i]) continue;
      if (axis) return std::nullopt;
      axis = i;
    }
    const core::PlacedName placed = core::placed_name(b_.weights[b].name);
    if (!axis || placed.parts.size() != 1 ||
        placed.parts.front().dimension != std::to_string(*axis)) {
      return std::nullopt;
    }
    // As PyTorch cuts: equal chunks, of which the last ones may be shorter, or empty.
    const core::NamedPart& part = placed.parts.front();
    const std::uint64_t rows = rows_along(whole, *axis);
    if (part.parts == 0) return std::nullopt;
    const std::uint64_t chunk = (rows + part.parts - 1) / part.parts;
    proposal = {found->second, {*axis, part.place * chunk}, {*axis, 0}, rows_along(shape, *axis)};
    if (proposal.from_a.first + proposal.rows > rows) return std::nullopt;
    return proposal;
  }

  /// Makes it a piece, if the values are equal.
  bool take(std::size_t b, const Proposal& proposal) {
    const Weight& one = a_.weights[proposal.a];
    const Weight& other = b_.weights[b];
    if (!one.last().stored || !other.last().stored) return false;
    const HeldTensor& held = held_a_.of(proposal.a, 0);
    const HeldTensor& own = held_b_.of(b, 0);
    const bool is_cast = held.dtype != own.dtype;
    if (is_cast && !(core::is_floating(held.dtype) && core::is_conversion_target(own.dtype))) {
      return false;
    }
    const HeldTensor rounded = is_cast ? held.as(own.dtype) : HeldTensor();
    auto pairs = RowPairs::of_equal((is_cast ? rounded : held).view(),
                                    proposal.from_a,
                                    own.view(),
                                    proposal.from_b,
                                    proposal.rows);
    if (!pairs) return false;
    const std::uint64_t rows = rows_along(own.shape, proposal.from_b.axis);
    const std::uint64_t elements = elements_of(other) / rows * proposal.rows;
    both_.related += elements;
    both_.pieces.push_back({b, proposal.a, elements, *std::move(pairs)});
    learn(whole_name(other), whole_name(one), renamed_[other.dump]);
    return true;
  }

  /// What is nowhere at its own name.
  void relate_by_content(std::vector<std::size_t>& open) {
    const std::vector<RelatedWeight> relations = relate_weights(a_, b_);
    std::erase_if(open, [&](std::size_t b) {
      const RelatedWeight& relation = relations[b];
      // Other values in a part of it, at its own place.
      if (relation.related_rows() < relation.rows && at_name(b, whole_name(b_.weights[b]))) {
        return false;
      }
      const std::size_t before = both_.pieces.size();
      for (const Segment& segment : relation.segments) {
        const Weight& source = a_.weights[segment.source];
        // Fresh norms are each other's.
        const bool is_whole = segment.rows == relation.rows;
        const bool is_equal = b_.weights[b].last().content == source.last().content;
        if (segment.merged || segment.has_factors || (is_equal && is_ambiguous(b, segment.source)))
          continue;
        if (is_whole && elements_of(b_.weights[b]) < kTellingElements) continue;
        take(b,
             {segment.source,
              {segment.axis, segment.from},
              {relation.axis, segment.begin},
              segment.rows});
      }
      return both_.pieces.size() > before;
    });
  }

  [[nodiscard]] bool is_ambiguous(std::size_t b, std::size_t source) {
    return alike_.at(a_.weights[source].last().content) > 1 || held_b_.of(b, 0).is_constant();
  }

  /// A weight that values do not place goes where the modules around it went by theirs: `1.norm` to
  /// `blocks.3.norm`, as `1.up` to `blocks.3.up`.
  bool place_by_neighbours(std::size_t b) {
    const std::string_view name = whole_name(b_.weights[b]);
    const Renamed& renamed = renamed_[b_.weights[b].dump];
    for (std::string_view prefix = name_above(name); !prefix.empty(); prefix = name_above(prefix)) {
      const auto known = renamed.find(prefix);
      if (known == renamed.end()) continue;
      const auto there = at_name(b, known->second + std::string(name.substr(prefix.size())));
      if (there && take(b, *there)) return true;
    }
    return false;
  }

  /// Where one weight of A alone has its values, and is nobody's.
  bool place_in_what_is_left(std::size_t b) {
    const core::ContentKey& content = b_.weights[b].last().content;
    std::optional<std::size_t> left;
    for (std::size_t i = 0; i < a_.weights.size(); ++i) {
      if (a_.weights[i].last().content != content) continue;
      if (std::ranges::find(both_.pieces, i, &TrainedPiece::a) != both_.pieces.end()) continue;
      if (left) return false;
      left = i;
    }
    return left && take(b, {*left, {}, {}, rows_along(content.shape, 0)});
  }

  /// What stands before the names that both end in.
  static void learn(std::string_view of_b, std::string_view of_a, Renamed& renamed) {
    while (last_name(of_b) == last_name(of_a)) {
      of_b = name_above(of_b);
      of_a = name_above(of_a);
      if (of_b.empty() || of_a.empty()) return;
      renamed.try_emplace(std::string(of_b), of_a);
    }
  }

  TwoTrainings& both_;
  const WeightSide& a_;
  const WeightSide& b_;
  std::map<std::string_view, std::size_t> by_name_;
  std::map<core::ContentKey, std::size_t> alike_;
  std::map<std::size_t, Renamed> renamed_;  ///< by dump: each rank may have a stage of its own
  HeldTensors held_a_;
  HeldTensors held_b_;
};

}  // namespace

TwoTrainings relate_trainings(Training a, Training b) {
  TwoTrainings both;
  both.a = std::move(a);
  both.b = std::move(b);
  both.steps = both.single().steps.size();
  for (const TrainedProcess& process : both.b.processes) {
    both.steps = std::min(both.steps, process.steps.size());
  }
  TrainingRelator(both).relate();
  return both;
}

std::optional<std::vector<double>> brought_to_a(const TwoTrainings& trainings,
                                                const Trained& of_a) {
  if (of_a.kind != TrainedKind::kState && of_a.kind != TrainedKind::kParameter) {
    return std::nullopt;
  }
  const core::DumpSource& dump = trainings.a.dump_of(trainings.single());
  std::vector<double> numbers = read_numbers(dump, of_a.content);
  const bool is_scalar =
      of_a.content.shape != trainings.a.weights.weights[of_a.weight].last().content.shape;
  for (const TrainedPiece& piece : trainings.pieces) {
    if (piece.a != of_a.weight) continue;
    const Weight& weight = trainings.b.weights.weights[piece.b];
    const TrainedProcess& process = trainings.b.processes[weight.dump];
    for (const Trained& tensor : process.steps[of_a.step].tensors) {
      const bool is_same = tensor.kind == of_a.kind && tensor.weight == piece.b &&
                           tensor.state == of_a.state && tensor.stored;
      if (!is_same) continue;
      const std::vector<double> other = read_numbers(trainings.b.dump_of(process), tensor.content);
      if (is_scalar && tensor.content.shape == of_a.content.shape) numbers = other;
      if (is_scalar || tensor.content.shape != weight.last().content.shape) continue;
      piece.pairs.for_each([&](std::uint64_t one, std::uint64_t place) {
        numbers[one] = other[place];
        return true;
      });
    }
  }
  return numbers;
}

std::vector<const Trained*> judged_tensors(const TwoTrainings& trainings) {
  std::vector<const Trained*> list;
  for (std::size_t step = 0; step < trainings.steps; ++step) {
    for (const Trained& tensor : trainings.single().steps[step].tensors) {
      if (tensor.stored) list.push_back(&tensor);
    }
  }
  return list;
}

}  // namespace repro_check::comparators
