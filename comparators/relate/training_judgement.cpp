// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/training_judgement.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "comparators/ranks/reductions.h"
#include "comparators/relate/distance.h"
#include "core/error.h"
#include "core/tensor/dtype.h"
#include "core/trace/program_records.h"
#include "core/trace/record_names.h"

namespace repro_check::comparators {
namespace {

/// The one number that B's values are A's times; empty where there is none.
std::optional<double> factor_of(const Distances& of, double floor) {
  if (!(of.exact > 0) || !std::isfinite(of.along) || !std::isfinite(of.other)) return std::nullopt;
  const double factor = of.along / of.exact;
  const double rest = std::sqrt(std::max(0.0, of.other - (factor * of.along)));
  const double bound = kOwnBound * std::max(1.0, std::abs(factor)) * floor;
  // A number that is 1 to within this explains nothing.
  constexpr double kSame = 1e-3;
  if (!(rest <= bound) || std::abs(factor - 1) < kSame || factor == 0) return std::nullopt;
  return factor;
}

/// A tensor of A, and what B has of it.
struct Held {
  const Trained* a = nullptr;
  struct Part {
    const TrainedPiece* piece = nullptr;
    const Trained* b = nullptr;
    std::size_t process = 0;  ///< of B
    Distances distances = {};
  };
  std::vector<Part> parts;
  std::uint64_t covered = 0;  ///< elements of A's in some part
  Distances all;              ///< over all parts
  bool is_scalar = false;     ///< a number that is no part of anything
};

/// A tensor that is beyond the floor.
struct Beyond {
  const Held* held = nullptr;
  double ratio = 0;
  std::optional<double> factor;
  /// Of a gradient that ranks have each a part of: what the sum over them is A's times.
  std::optional<double> summed;
  std::vector<std::uint32_t> ranks;
};

class TrainingJudge {
 public:
  TrainingJudge(const TwoTrainings& both, const TrainingShadow& shadow)
      : both_(both), shadow_(shadow) {
    for (const TrainedPiece& piece : both.pieces) pieces_of_[piece.a].push_back(&piece);
    const std::vector<const Trained*> wanted = judged_tensors(both);
    for (std::size_t i = 0; i < wanted.size(); ++i) place_.emplace(wanted[i], i);
  }

  void judge(TrainingsReport& report) {
    report_ = &report;
    report.are_samples_known = true;
    for (std::size_t step = 0; step < both_.steps && report.findings.empty(); ++step) {
      step_ = step;
      ++report.steps;
      judge_step();
    }
  }

  /// The last operator of A that what parts depends on.
  [[nodiscard]] std::uint64_t last_op() const noexcept { return last_op_; }

 private:
  [[nodiscard]] const TrainedStep& step_a() const { return both_.single().steps[step_]; }
  [[nodiscard]] bool is_done() const { return !report_->findings.empty(); }

  void judge_step() {
    if (step_ == 0 && !both_.other.empty()) add_other_weights();
    if (!is_done()) judge_samples();
    if (is_done()) return;
    // A wrong factor of all gradients is not seen behind clipping.
    find_clipping();
    const std::vector<Held> gradients = held(TrainedKind::kGradient);
    count(TrainedKind::kGradient, gradients);
    const Usual usual = usual_of(gradients);
    judge_loss();
    if (!is_done()) judge_tensors(TrainedKind::kGradient, gradients, usual);
    find_undecided(gradients, usual);
    if (!is_done()) judge_norm(usual);
    if (!is_done() && !clipping_.empty()) {
      clipping_.clear();
      const std::vector<Held> clipped = held(TrainedKind::kGradient);
      judge_tensors(TrainedKind::kGradient, clipped, usual_of(clipped));
    }
    clipping_.clear();
    for (const TrainedKind kind : {TrainedKind::kState, TrainedKind::kParameter}) {
      if (is_done()) return;
      const std::vector<Held> tensors = held(kind);
      count(kind, tensors);
      judge_tensors(kind, tensors, usual_of(tensors));
      if (kind == TrainedKind::kParameter) see_parameters(tensors);
    }
  }

  Finding& add(FindingId id, std::uint64_t op) {
    last_op_ = std::max(last_op_, op);
    Finding& finding = report_->findings.emplace_back(Finding{id, Finding::Weight::kProof});
    finding.where.step = static_cast<std::uint32_t>(step_);
    return finding;
  }

  void see_within(TrainedKind kind, double ratio, std::string tensor) {
    if (ratio <= report_->worst.ratio) return;
    report_->worst = {ratio, kind, static_cast<std::uint32_t>(step_), std::move(tensor)};
  }

  void add_other_weights() {
    Finding& finding = add(FindingId::kTrainingStartsElsewhere, 0);
    std::set<std::string> names;
    std::set<std::uint32_t> ranks;
    for (const std::size_t weight : both_.other) {
      names.insert(std::string(core::placed_name(both_.b.weights.weights[weight].name).whole));
      ranks.insert(rank_of(both_.b.weights.weights[weight].dump));
    }
    finding.where.tensor = *names.begin();
    finding.with("count", names.size()).with("names", std::vector(names.begin(), names.end()));
    if (both_.b.processes.size() > 1) finding.with("ranks", ranks);
  }

  [[nodiscard]] std::uint32_t rank_of(std::size_t process) const {
    return both_.b.processes[process].rank;
  }

  void judge_samples() {
    std::set<core::Digest> one(step_a().samples.begin(), step_a().samples.end());
    std::set<core::Digest> other;
    bool is_known = step_a().knows_samples;
    for (const TrainedProcess& process : both_.b.processes) {
      const TrainedStep& step = process.steps[step_];
      // A later stage of a pipeline reads no batch.
      if (step.samples.empty() && !step.knows_samples && other_reads(process)) continue;
      is_known = is_known && step.knows_samples;
      other.insert(step.samples.begin(), step.samples.end());
    }
    if (!is_known || other.empty()) {
      report_->are_samples_known = false;
      return;
    }
    if (one == other) return;
    const auto missing = [](const auto& from, const auto& in) {
      return std::ranges::count_if(from, [&](const auto& each) { return !in.contains(each); });
    };
    add(FindingId::kTrainingReadsOther, 0)
        .with("samples", one.size())
        .with("missing", missing(one, other))
        .with("more", missing(other, one));
  }

  [[nodiscard]] bool other_reads(const TrainedProcess& process) const {
    return std::ranges::any_of(both_.b.processes, [&](const TrainedProcess& each) {
      return &each != &process && each.steps[step_].knows_samples;
    });
  }

  static constexpr std::string_view kBySamples = "samples";
  /// Of what reduces to a number: those of its own last operators.
  static constexpr double kLastRoundings = 4;

  struct Number {
    double recorded = 0;
    double own = 0;    ///< float64 on what A begins the step with
    double exact = 0;  ///< on what B begins it with
  };
  /// Where A itself overflowed, nothing can be held against it.
  static bool is_measure(const Number& of) {
    return std::isfinite(squared_distance(of.recorded, of.own));
  }
  Number number_of(const Trained& tensor) {
    const std::size_t place = place_.at(&tensor);
    return {read_numbers(both_.a.dump_of(both_.single()), tensor.content).at(0),
            shadow_(place, kOwnOutput).at(0),
            shadow_(place, kOtherOutput).at(0)};
  }

  /// The loss of a step of B, in one of the ways in which programs put those of parts together.
  struct PutTogether {
    std::string_view how;
    double value;
  };
  struct OtherLosses {
    std::vector<PutTogether> ways;  ///< the mean first; nothing where no loss was recorded
    double least = std::numeric_limits<double>::infinity();
    double most = -least;
  };
  [[nodiscard]] OtherLosses losses_of_b() const {
    OtherLosses losses;
    double count = 0;
    double sum = 0;
    double weighted = 0;
    double samples = 0;
    bool is_weighted = true;
    for (const TrainedProcess& process : both_.b.processes) {
      for (const Trained& tensor : process.steps[step_].tensors) {
        if (tensor.kind != TrainedKind::kLoss || !tensor.stored) continue;
        const double value = read_numbers(both_.b.dump_of(process), tensor.content).at(0);
        losses.least = std::min(losses.least, value);
        losses.most = std::max(losses.most, value);
        ++count;
        sum += value;
        weighted += value * static_cast<double>(tensor.samples);
        samples += static_cast<double>(tensor.samples);
        is_weighted = is_weighted && tensor.samples > 0;
      }
    }
    if (count == 0) return losses;
    losses.ways.push_back({"mean", sum / count});
    if (is_weighted) losses.ways.push_back({kBySamples, weighted / samples});
    if (count > 1) losses.ways.push_back({"sum", sum});
    return losses;
  }

  void judge_loss() {
    Number whole;
    double count = 0;
    std::uint64_t op = 0;
    for (const Trained& tensor : step_a().tensors) {
      if (tensor.kind != TrainedKind::kLoss || !tensor.stored) continue;
      const Number loss = number_of(tensor);
      ++count;
      whole.recorded += loss.recorded;
      whole.own += loss.own;
      whole.exact += loss.exact;
      op = std::max(op, tensor.op);
    }
    const OtherLosses other = losses_of_b();
    if (count == 0 || other.ways.empty() || !is_measure(whole)) {
      report_->unjudged += static_cast<std::uint64_t>(count);
      return;
    }
    report_->judged[static_cast<std::size_t>(TrainedKind::kLoss)] +=
        static_cast<std::uint64_t>(count);
    const double mean = whole.exact / count;
    const double size = std::abs(mean);
    const double own = std::abs(whole.recorded - whole.own) / count;
    const double rounding = kLastRoundings * roundoff(core::Dtype::kFloat32);
    loss_error_ = std::max({loss_error_, size > 0 ? own / size : 0, rounding});
    const double floor = loss_error_ * size;
    double nearest = std::numeric_limits<double>::infinity();
    for (const PutTogether& way : other.ways) {
      const double apart = std::sqrt(
          std::min(squared_distance(way.value, mean), squared_distance(way.value, whole.exact)));
      if (apart >= nearest) continue;
      nearest = apart;
      loss_by_ = way.how;
    }
    const double ratio = ratio_of(nearest, floor);
    if (ratio <= kOwnBound) {
      see_within(TrainedKind::kLoss, ratio, "");
      return;
    }
    Finding& finding = add(FindingId::kTrainingLossBeyond, op);
    finding.with("ratio", ratio)
        .with("a", mean)
        .with("b", other.ways.front().value)
        .with("is_between", other.least < mean && mean < other.most)
        .with("are_samples_known", report_->are_samples_known);
  }

  /// What clipping by the norm of all gradients multiplied them with, where that is what each
  /// process did, once.
  void find_clipping() {
    clipping_.clear();
    std::vector<double> factors;
    const auto see = [&](const Training& training, const TrainedProcess& process) {
      const Trained* norm = nullptr;
      for (const Trained& tensor : process.steps[step_].tensors) {
        if (tensor.kind != TrainedKind::kNorm) continue;
        if (norm != nullptr || !tensor.stored) return false;
        norm = &tensor;
      }
      if (norm == nullptr) return false;
      const core::DumpSource& dump = training.dump_of(process);
      const core::OpRecord record = dump.op(norm->op);
      const auto most = core::argument_or<double>(record, core::kClippedMaxNorm, -1);
      if (!(most > 0)) return false;
      // As torch.nn.utils.clip_grad_norm_() has it.
      const auto factor = [&](double of) { return std::min(1.0, most / (of + 1e-6)); };
      factors.push_back(factor(read_numbers(dump, norm->content).at(0)));
      if (&training == &both_.a) {
        const Number number = number_of(*norm);
        factors.push_back(factor(number.own));
        factors.push_back(factor(number.exact));
      }
      return true;
    };
    if (!see(both_.a, both_.single())) return;
    for (const TrainedProcess& process : both_.b.processes) {
      if (!see(both_.b, process)) return;
    }
    const bool can_be_undone =
        std::ranges::all_of(factors, [](double each) { return each > 0 && std::isfinite(each); });
    if (can_be_undone) clipping_ = std::move(factors);
  }

  static bool is_norm(const Trained& tensor) {
    return tensor.kind == TrainedKind::kNorm && tensor.stored;
  }

  /// The norm of B that is farthest from one, and the ranks that are beyond the floor.
  struct OtherNorm {
    double ratio = 0;
    double value = 0;
    std::set<std::uint32_t> ranks;
  };
  [[nodiscard]] OtherNorm worst_norm_of_b(std::size_t number, double exact, double floor) const {
    OtherNorm worst;
    for (const TrainedProcess& process : both_.b.processes) {
      std::size_t seen = 0;
      for (const Trained& tensor : process.steps[step_].tensors) {
        if (!is_norm(tensor) || seen++ != number) continue;
        const double value = read_numbers(both_.b.dump_of(process), tensor.content).at(0);
        const double ratio = ratio_of(std::sqrt(squared_distance(value, exact)), floor);
        if (!(ratio <= kOwnBound)) worst.ranks.insert(process.rank);
        if (ratio <= worst.ratio) continue;
        worst.ratio = ratio;
        worst.value = value;
      }
    }
    return worst;
  }

  void judge_norm(const Usual& usual) {
    std::vector<const Trained*> norms;
    for (const Trained& tensor : step_a().tensors) {
      if (is_norm(tensor)) norms.push_back(&tensor);
    }
    for (std::size_t i = 0; i < norms.size() && !is_done(); ++i) {
      const Number own = number_of(*norms[i]);
      if (!is_measure(own)) {
        ++report_->unjudged;
        continue;
      }
      ++report_->judged[static_cast<std::size_t>(TrainedKind::kNorm)];
      const double size = std::abs(own.exact);
      const double floor = std::max({std::abs(own.recorded - own.own),
                                     usual.error * size,
                                     kLastRoundings * roundoff(core::Dtype::kFloat32) * size});
      const OtherNorm other = worst_norm_of_b(i, own.exact, floor);
      if (other.ranks.empty()) {
        see_within(TrainedKind::kNorm, other.ratio, "");
        continue;
      }
      Finding& finding = add(FindingId::kTrainingNormBeyond, norms[i]->op);
      finding.with("ratio", other.ratio)
          .with("a", own.exact)
          .with("b", other.value)
          .with("factor", other.value / own.exact);
      if (both_.b.processes.size() > 1) finding.with("ranks", other.ranks);
    }
  }

  /// Tensors of a step of A of which B has all.
  std::vector<Held> held(TrainedKind kind) {
    std::map<std::tuple<std::size_t, std::string>, std::pair<const Trained*, std::size_t>> of_b;
    for (std::size_t i = 0; i < both_.b.processes.size(); ++i) {
      for (const Trained& tensor : both_.b.processes[i].steps[step_].tensors) {
        if (tensor.kind == kind) {
          of_b.emplace(std::tuple(tensor.weight, tensor.state), std::pair(&tensor, i));
        }
      }
    }
    std::vector<Held> list;
    for (const Trained& tensor : step_a().tensors) {
      if (tensor.kind != kind) continue;
      Held held;
      held.a = &tensor;
      const auto pieces = pieces_of_.find(tensor.weight);
      if (pieces != pieces_of_.end() && tensor.stored) {
        for (const TrainedPiece* piece : pieces->second) {
          const auto other = of_b.find(std::tuple(piece->b, tensor.state));
          if (other == of_b.end() || !other->second.first->stored) continue;
          held.parts.push_back({piece, other->second.first, other->second.second});
        }
      }
      if (measure(held)) list.push_back(std::move(held));
    }
    return list;
  }

  void count(TrainedKind kind, const std::vector<Held>& judged) {
    const auto all = std::ranges::count(step_a().tensors, kind, &Trained::kind);
    report_->judged[static_cast<std::size_t>(kind)] += judged.size();
    report_->unjudged += static_cast<std::uint64_t>(all) - judged.size();
  }

  /// Elements of parameters whose gradient is rounding alone: an optimizer that divides by its size
  /// moves them by a whole step, this way or that.
  void find_undecided(const std::vector<Held>& gradients, const Usual& usual) {
    constexpr double kRoundings = 4096;  // still few in ten thousand elements
    undecided_.clear();
    for (const Held& held : gradients) {
      if (held.is_scalar) continue;
      const double least =
          kRoundings * usual.floor(held.all) / std::sqrt(std::max(1.0, held.all.elements));
      const std::vector<double> exact = exact_of(*held.a);
      std::vector<bool>& undecided = undecided_[held.a->weight];
      for (const double each : exact) undecided.push_back(std::abs(each) < least);
    }
  }

  /// Null where all elements are judged.
  [[nodiscard]] const std::vector<bool>* undecided_of(const Trained& tensor) const {
    const auto found = undecided_.find(tensor.weight);
    return tensor.kind != TrainedKind::kParameter || found == undecided_.end() ? nullptr
                                                                               : &found->second;
  }

  /// False where B does not have all of it, or A itself overflowed.
  bool measure(Held& held) {
    if (held.parts.empty()) return false;
    const Numbers numbers = numbers_of(*held.a);
    const Weight& weight = both_.a.weights.weights[held.a->weight];
    const auto& shape = held.a->content.shape;
    held.is_scalar = shape != weight.last().content.shape;
    if (numbers.exact.size() != numbers.recorded.size() ||
        numbers.own.size() != numbers.recorded.size())
      return false;
    const std::vector<bool>* const undecided = undecided_of(*held.a);
    std::vector<bool> covered(numbers.recorded.size());
    for (Held::Part& part : held.parts) {
      const std::vector<double> other = read_numbers(b_dump(part), part.b->content);
      if (held.is_scalar) {
        if (part.b->content.shape != shape) return false;
        for (std::size_t i = 0; i < other.size(); ++i) {
          part.distances.add(numbers.recorded[i], numbers.own[i], other[i], numbers.exact[i]);
          covered[i] = true;
        }
      } else {
        const bool fits =
            part.b->content.shape == both_.b.weights.weights[part.piece->b].last().content.shape;
        if (!fits) return false;
        const double whole = unclipped(kOfProcesses + part.process);
        part.piece->pairs.for_each([&](std::uint64_t one, std::uint64_t place) {
          covered[one] = true;
          if (undecided != nullptr && (*undecided)[one]) return true;
          part.distances.add(
              numbers.recorded[one], numbers.own[one], other[place] * whole, numbers.exact[one]);
          return true;
        });
      }
      held.all.add(part.distances);
    }
    held.covered = static_cast<std::uint64_t>(std::ranges::count(covered, true));
    return held.covered == covered.size() && std::isfinite(held.all.error_a);
  }

  /// What undoes the clipping of A, of its float64 on what A and on what B begins with, or of a
  /// process of B behind these.
  static constexpr std::size_t kOfProcesses = 3;
  [[nodiscard]] double unclipped(std::size_t whose) const {
    return clipping_.empty() ? 1 : 1 / clipping_[whose];
  }
  [[nodiscard]] std::vector<double> scaled(std::vector<double> numbers, std::size_t whose) const {
    for (double& each : numbers) each *= unclipped(whose);
    return numbers;
  }

  /// Float64 on what B begins the step with.
  [[nodiscard]] std::vector<double> exact_of(const Trained& of_a) const {
    return scaled(shadow_(place_.at(&of_a), kOtherOutput), 2);
  }
  struct Numbers {
    std::vector<double> recorded;
    std::vector<double> own;    ///< float64 on what A begins the step with
    std::vector<double> exact;  ///< on what B begins it with
  };
  [[nodiscard]] Numbers numbers_of(const Trained& of_a) const {
    return {scaled(read_numbers(both_.a.dump_of(both_.single()), of_a.content), 0),
            scaled(shadow_(place_.at(&of_a), kOwnOutput), 1),
            exact_of(of_a)};
  }

  [[nodiscard]] const core::DumpSource& b_dump(const Held::Part& part) const {
    return both_.b.weights.dump_of(both_.b.weights.weights[part.piece->b]);
  }

  static Usual usual_of(const std::vector<Held>& tensors) {
    std::vector<double> errors;
    std::vector<double> sizes;
    Usual usual;
    for (const Held& held : tensors) {
      const Distances& all = held.all;
      for (const Held::Part& part : held.parts) {
        if (core::is_floating(part.b->content.dtype)) {
          usual.rounding = std::max(usual.rounding, roundoff(part.b->content.dtype));
        }
      }
      if (held.is_scalar || !(all.exact > 0)) continue;
      errors.push_back(std::sqrt(all.error_a / all.exact));
      sizes.push_back(std::sqrt(all.exact / all.elements));
    }
    usual.error = median(std::move(errors));
    usual.element = median(std::move(sizes));
    return usual;
  }

  void see_parameters(const std::vector<Held>& tensors) {
    std::uint64_t elements = 0;
    for (const Held& held : tensors) elements += held.covered;
    std::uint64_t& least = report_->least_elements;
    least = step_ == 0 ? elements : std::min(least, elements);
  }

  void judge_tensors(TrainedKind kind, const std::vector<Held>& tensors, const Usual& usual) {
    std::vector<Beyond> beyond;
    for (const Held& held : tensors) {
      Beyond one{&held, 0, std::nullopt, std::nullopt, {}};
      for (const Held::Part& part : held.parts) {
        const double ratio =
            ratio_of(std::sqrt(part.distances.error_b), usual.floor(part.distances));
        one.ratio = std::max(one.ratio, ratio);
        if (!(ratio <= kOwnBound)) one.ranks.push_back(rank_of(part.process));
      }
      if (one.ranks.empty()) {
        see_within(kind, one.ratio, name_of(*held.a, both_.a));
        continue;
      }
      std::ranges::sort(one.ranks);
      if (kind == TrainedKind::kGradient) explain(held, usual, one);
      beyond.push_back(std::move(one));
    }
    if (!beyond.empty()) add_beyond(kind, beyond, tensors.size());
  }

  void explain(const Held& held, const Usual& usual, Beyond& one) {
    const double floor = usual.floor(held.all);
    one.factor = factor_of(held.all, floor);
    if (one.factor || held.parts.size() < 2) return;
    // Ranks that hold the same elements may each have a part of the gradient.
    const Numbers numbers = numbers_of(*held.a);
    std::vector<double> summed(numbers.recorded.size());
    std::vector<std::uint32_t> times(numbers.recorded.size());
    for (const Held::Part& part : held.parts) {
      const std::vector<double> other = read_numbers(b_dump(part), part.b->content);
      part.piece->pairs.for_each([&](std::uint64_t at, std::uint64_t place) {
        summed[at] += other[place] * unclipped(kOfProcesses + part.process);
        ++times[at];
        return true;
      });
    }
    if (std::ranges::max(times) < 2) return;
    Distances all;
    for (std::size_t i = 0; i < numbers.recorded.size(); ++i) {
      all.add(numbers.recorded[i], numbers.own[i], summed[i], numbers.exact[i]);
    }
    const double of_sum = usual.floor(all);
    one.summed = factor_of(all, of_sum);
    if (std::sqrt(all.error_b) <= kOwnBound * of_sum) one.summed = 1;
  }

  /// One finding for all that part alike, those of most tensors first.
  void add_beyond(TrainedKind kind, const std::vector<Beyond>& beyond, std::size_t of) {
    struct Alike {
      std::vector<const Beyond*> all;
      [[nodiscard]] const Beyond& first() const { return *all.front(); }
    };
    const auto same = [](const std::optional<double>& one, const std::optional<double>& other) {
      constexpr double kSame = 1e-2;
      if (!one || !other) return one.has_value() == other.has_value();
      return std::abs(*one - *other) <= kSame * std::abs(*one);
    };
    std::vector<Alike> groups;
    for (const Beyond& each : beyond) {
      const auto group = std::ranges::find_if(groups, [&](const Alike& alike) {
        return same(alike.first().factor, each.factor) && same(alike.first().summed, each.summed) &&
               alike.first().held->a->state == each.held->a->state;
      });
      if (group == groups.end()) {
        groups.push_back({{&each}});
      } else {
        group->all.push_back(&each);
      }
    }
    std::ranges::stable_sort(groups, std::greater(), [](const Alike& alike) {
      const bool is_explained = alike.first().factor || alike.first().summed;
      return std::pair(is_explained, alike.all.size());
    });
    for (Alike& group : groups) {
      std::ranges::stable_sort(
          group.all, std::greater(), [](const Beyond* each) { return each->ratio; });
      add_finding(kind, group.all, of);
    }
  }

  static FindingId id_of(TrainedKind kind, const Beyond& of) {
    if (kind == TrainedKind::kState) return FindingId::kTrainingStateBeyond;
    if (kind == TrainedKind::kParameter) return FindingId::kTrainingStepBeyond;
    if (of.summed) return FindingId::kTrainingGradientPartial;
    return of.factor ? FindingId::kTrainingGradientScaled : FindingId::kTrainingGradientBeyond;
  }

  void add_finding(TrainedKind kind, const std::vector<const Beyond*>& alike, std::size_t of) {
    const Beyond& worst = *alike.front();
    Finding& finding = add(id_of(kind, worst), worst.held->a->op);
    finding.where.tensor = name_of(*worst.held->a, both_.a);
    std::vector<std::string> names;
    std::set<std::uint32_t> ranks;
    for (const Beyond* each : alike) {
      names.push_back(name_of(*each->held->a, both_.a));
      ranks.insert(each->ranks.begin(), each->ranks.end());
    }
    finding.with("count", names.size()).with("of", of).with("ratio", worst.ratio);
    finding.with("names", std::move(names));
    if (!worst.held->a->state.empty()) finding.with("state", worst.held->a->state);
    if (kind != TrainedKind::kGradient) add_options(finding);
    if (worst.factor) finding.with("factor", *worst.factor);
    if (worst.summed) {
      finding.with("summed", *worst.summed)
          .with("is_summed_alone", std::abs(*worst.summed - 1) < 1e-3);
    }
    if (loss_by_ == kBySamples) finding.with("is_loss_by_samples", true);
    if (both_.b.processes.size() < 2) return;
    finding.with("ranks", ranks);
    if (kind == TrainedKind::kGradient) add_reduction(worst, finding);
  }

  /// What the optimizers were told otherwise: `lr[0] 0.01 in A, 0.02 in B`.
  void add_options(Finding& finding) const {
    std::map<std::string, std::string> told;
    const auto see = [&](const core::DumpSource& dump, const TrainedStep& step, const auto& take) {
      for (const std::uint64_t op : step.records) {
        for (const core::Argument& argument : dump.op(op).arguments) {
          if (argument.name.starts_with(core::kLearningRatePrefix) ||
              argument.name.starts_with(core::kOptionPrefix)) {
            take(argument.name, core::to_text(argument.value));
          }
        }
      }
    };
    see(both_.a.dump_of(both_.single()), step_a(), [&](const std::string& name, std::string value) {
      told.emplace(name, std::move(value));
    });
    std::vector<std::string> options;
    const TrainedProcess& first = both_.b.processes.front();
    see(both_.b.dump_of(first),
        first.steps[step_],
        [&](const std::string& name, const std::string& value) {
          const auto found = told.find(name);
          if (found == told.end() || found->second == value) return;
          options.push_back(name + " " + found->second + " in A, " + value + " in B");
          told.erase(found);
        });
    if (!options.empty()) finding.with("options", std::move(options));
  }

  /// The collective that the gradient came through, on the lowest rank that has it.
  void add_reduction(const Beyond& worst, Finding& finding) const {
    const Held::Part& part = worst.held->parts.front();
    const core::DumpSource& dump = b_dump(part);
    const std::set<std::string_view> names{both_.b.weights.weights[part.piece->b].name};
    const ReplicaItems items = reduction_of(dump, dump.op(part.b->op), names);
    if (items.empty()) return;
    finding.where.rank = rank_of(part.process);
    finding.where.op = items.front().op;
    finding.with("through", items.front().name);
  }

  const TwoTrainings& both_;
  const TrainingShadow& shadow_;
  std::map<std::size_t, std::vector<const TrainedPiece*>> pieces_of_;
  std::map<const Trained*, std::size_t> place_;
  TrainingsReport* report_ = nullptr;
  std::size_t step_ = 0;
  double loss_error_ = 0;  ///< of A's losses up to here, relative
  std::string_view loss_by_;
  std::vector<double> clipping_;                        ///< as unclipped() has them; empty = none
  std::map<std::size_t, std::vector<bool>> undecided_;  ///< elements, by A's weight
  std::uint64_t last_op_ = 0;
};

bool is_share(std::uint64_t part, std::uint64_t of, double least) {
  return of > 0 && static_cast<double>(part) >= least * static_cast<double>(of);
}

/// Whether rounding, of A or of B, cannot make it.
bool is_plain(const Finding& finding) {
  return finding.id == FindingId::kTrainingStartsElsewhere ||
         finding.id == FindingId::kTrainingReadsOther ||
         finding.id == FindingId::kTrainingGradientScaled ||
         finding.id == FindingId::kTrainingGradientPartial;
}

}  // namespace

bool TrainingsReport::has_diverged() const {
  return no_verdict == NoVerdict::kNone && !findings.empty();
}

NoVerdict can_be_judged(const TwoTrainings& trainings, double least) {
  // Ranks of which one begins as A does may begin otherwise.
  const bool is_enough =
      is_share(trainings.related + trainings.elsewhere, trainings.elements, least) &&
      is_share(trainings.related_a, trainings.elements_a, least) &&
      trainings.a.unknown + trainings.b.unknown == 0;
  return is_enough ? NoVerdict::kNone : NoVerdict::kNothingRelated;
}

TrainingsReport judge_trainings(const TwoTrainings& trainings,
                                double least,
                                const TrainingShadow& shadow,
                                const std::vector<std::uint64_t>& cuts) {
  TrainingsReport report;
  report.least = least;
  report.no_verdict = can_be_judged(trainings, least);
  if (report.no_verdict != NoVerdict::kNone) return report;
  TrainingJudge judge(trainings, shadow);
  judge.judge(report);
  if (report.findings.empty()) {
    const bool is_judged =
        trainings.steps > 0 && is_share(report.least_elements, trainings.elements_a, least);
    if (!is_judged) report.no_verdict = NoVerdict::kNothingJudged;
    return report;
  }
  const Finding& first = report.findings.front();
  const bool is_behind_cut =
      std::ranges::any_of(cuts, [&](std::uint64_t op) { return op < judge.last_op(); });
  if (first.id == FindingId::kTrainingLossBeyond && first.where.step == 0U &&
      !report.are_samples_known) {
    report.no_verdict = NoVerdict::kOtherInputs;
  } else if (is_behind_cut && !is_plain(first)) {
    report.no_verdict = NoVerdict::kBehindCut;
  }
  return report;
}

core::ExitCode exit_code_of(const TrainingsReport& report) {
  if (report.no_verdict != NoVerdict::kNone) return core::ExitCode::kNotComparable;
  return report.has_diverged() ? core::ExitCode::kDivergence : core::ExitCode::kReproducible;
}

}  // namespace repro_check::comparators
