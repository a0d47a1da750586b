// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/rung_judgement.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "comparators/relate/distance.h"
#include "core/tensor/dtype.h"

namespace repro_check::comparators {
namespace {

bool is_border(const RegionTensor& tensor) { return tensor.role != RegionRole::kNode; }

auto key_of(const RegionTensor& tensor) {
  return std::tie(tensor.role, tensor.region, tensor.name, tensor.time);
}

/// `gradient of output[0]`
std::string described(const RegionTensor& tensor) {
  return (tensor.role == RegionRole::kGradient ? "gradient of " : "") + tensor.name;
}

/// `model.py:40` of `/home/a/model.py:40`
std::string shown_line(const std::string& place) { return place.substr(place.rfind('/') + 1); }

/// Tensors that have a floor in common.
using Kind = std::pair<core::Dtype, bool>;
Kind kind_of(const RegionTensor& tensor) {
  return {tensor.content.dtype, tensor.role == RegionRole::kGradient};
}

/// @param otherwise  what is named where nobody knows the operator
void put_place(const Region& region,
               const std::string& node,
               const std::string& otherwise,
               Finding& finding) {
  std::string line = region.line;
  if (const auto place = region.nodes.find(node); place != region.nodes.end()) {
    if (!place->second.line.empty()) line = place->second.line;
    finding.with("operator", place->second.function);
    if (!place->second.module.empty()) finding.with("module", place->second.module);
  } else {
    finding.with("operator", otherwise);
  }
  finding.where.line = shown_line(line);
  finding.with("place", line);
}

class RungJudge {
 public:
  RungJudge(const TwoRungs& rungs,
            core::CompileRung rung,
            const std::function<std::vector<double>(std::size_t, std::size_t)>& shadow)
      : rungs_(rungs), rung_(rung), shadow_(shadow) {}

  void judge(RungReport& report) {
    measure();
    report.judged = report.equal = rungs_.integers;
    for (std::size_t i = 0; i < rungs_.same.size(); ++i) {
      const RegionTensor& a = tensor_a(i);
      if (stops_before(a, report)) return;
      last_op_ = a.op;
      if (is_border(a)) ++report.judged;
      if (is_equal(i)) {
        if (is_border(a)) ++report.equal;
        continue;
      }
      const Distances& distances = distances_.at(i);
      if (!std::isfinite(distances.error_a)) {
        report.no_verdict = NoVerdict::kNoMeasure;
        report.undecided = described(a);
        return;
      }
      const double ratio = ratio_of(std::sqrt(distances.error_b), floor_of(a, distances));
      if (ratio <= kRungBound) {
        report.worst = std::max(report.worst, ratio);
        continue;
      }
      report.findings.push_back(finding_of(a, ratio));
      return;
    }
    last_op_ = rungs_.a->dump->op_count();
    RegionTensor end;
    end.op = last_op_ + 1;
    stops_before(end, report);
  }

  /// The last operator of A that what was said depends on.
  [[nodiscard]] std::uint64_t last_op() const noexcept { return last_op_; }

 private:
  /// Whether a tensor before it says nothing, so that what follows may be of something else.
  bool stops_before(const RegionTensor& tensor, RungReport& report) const {
    for (const auto& [of, why] : {std::pair(&rungs_.unlike, NoVerdict::kOtherInputs),
                                  std::pair(&rungs_.integer, NoVerdict::kNoMeasure)}) {
      if (of->name.empty() || of->op >= tensor.op) continue;
      report.no_verdict = why;
      report.undecided = of->name;
      return true;
    }
    return false;
  }

  [[nodiscard]] const RegionTensor& tensor_a(std::size_t i) const {
    return rungs_.a->tensors[rungs_.same[i].a];
  }
  [[nodiscard]] const RegionTensor& tensor_b(std::size_t i) const {
    return rungs_.b->tensors[rungs_.same[i].b];
  }
  [[nodiscard]] bool is_equal(std::size_t i) const {
    return tensor_a(i).content == tensor_b(i).content;
  }

  /// How far each tensor is from float64 that is not bit-equal, and what is usual there.
  void measure() {
    std::map<Kind, std::vector<double>> errors;
    std::map<Kind, std::vector<double>> sizes;
    for (std::size_t i = 0; i < rungs_.same.size(); ++i) {
      if (is_equal(i)) continue;
      const std::vector<double> one = read_numbers(*rungs_.a->dump, tensor_a(i).content);
      const std::vector<double> other = read_numbers(*rungs_.b->dump, tensor_b(i).content);
      const std::vector<double> own = shadow_(i, kOwnOutput);
      const std::vector<double> exact = shadow_(i, kOtherOutput);
      Distances& distances = distances_[i];
      for (std::size_t k = 0; k < one.size(); ++k) {
        distances.add(one[k], own[k], other[k], exact[k]);
      }
      if (distances.exact > 0 && distances.error_a > 0 && std::isfinite(distances.error_a)) {
        const Kind kind = kind_of(tensor_a(i));
        errors[kind].push_back(std::sqrt(distances.error_a / distances.exact));
        // What a backward pass adds up cancels more in one parameter than in another.
        if (kind.second) sizes[kind].push_back(std::sqrt(distances.exact / distances.elements));
      }
    }
    // Of what reduces to a number: those of its own last operators.
    constexpr double kLastRoundings = 4;
    for (auto& [kind, of_kind] : errors) {
      usual_[kind] = {median(std::move(of_kind)),
                      median(std::move(sizes[kind])),
                      kLastRoundings * roundoff(kind.first)};
    }
  }

  [[nodiscard]] double floor_of(const RegionTensor& a, const Distances& distances) const {
    const auto usual = usual_.find(kind_of(a));
    const Usual none{0, 0, roundoff(a.content.dtype)};
    return (usual == usual_.end() ? none : usual->second).floor(distances);
  }

  [[nodiscard]] FindingId id_of(const Region& region) const {
    if (rung_ == core::CompileRung::kAotEager) return FindingId::kCompiledAutogradBeyond;
    if (rung_ == core::CompileRung::kAotEagerDecomposed) {
      return FindingId::kCompiledDecompositionBeyond;
    }
    const bool draws = rung_ == core::CompileRung::kAsWritten && !region.draws.empty();
    return draws ? FindingId::kCompiledDrawsItsOwn : FindingId::kCompiledKernelBeyond;
  }

  [[nodiscard]] Finding finding_of(const RegionTensor& a, double ratio) const {
    const Region& region = rungs_.a->regions.at(a.region);
    const FindingId id = id_of(region);
    const bool draws = id == FindingId::kCompiledDrawsItsOwn;
    Finding finding{id, draws ? Finding::Weight::kNote : Finding::Weight::kProof};
    finding.where.step = a.step;
    finding.where.op = a.op;
    finding.where.tensor = described(a);
    // `split` of `split[0]`
    std::string node = a.role == RegionRole::kNode ? a.name.substr(0, a.name.find('[')) : "";
    if (const auto maker = region.makers.find(a.name); maker != region.makers.end()) {
      node = maker->second;
    }
    if (draws) node = region.draws;
    finding.with("ratio", ratio)
        .with("region", shown_line(region.line))
        .with("function", region.function);
    finding.with("is_given", a.role == RegionRole::kInput);
    put_place(region, node, described(a), finding);
    return finding;
  }

  const TwoRungs& rungs_;
  core::CompileRung rung_;
  const std::function<std::vector<double>(std::size_t, std::size_t)>& shadow_;
  std::map<std::size_t, Distances> distances_;  ///< by place in TwoRungs::same
  std::map<Kind, Usual> usual_;
  std::uint64_t last_op_ = 0;
};

}  // namespace

TwoRungs pair_rungs(const RegionSide& a, const RegionSide& b) {
  TwoRungs rungs;
  rungs.a = &a;
  rungs.b = &b;
  std::map<decltype(key_of(a.tensors.front())), std::size_t> of_b;
  for (std::size_t i = 0; i < b.tensors.size(); ++i) of_b.emplace(key_of(b.tensors[i]), i);
  const auto see = [](TwoRungs::Unjudged& first, const RegionTensor& tensor, std::uint64_t op) {
    if (is_border(tensor) && first.name.empty()) first = {described(tensor), op};
  };
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    const RegionTensor& tensor = a.tensors[i];
    const auto found = of_b.find(key_of(tensor));
    if (found == of_b.end()) {
      see(rungs.unlike, tensor, tensor.op);
      continue;
    }
    const std::size_t place = found->second;
    const RegionTensor& other = b.tensors[place];
    of_b.erase(found);
    if (!a.steps.contains(tensor.step)) continue;
    const bool is_alike = tensor.stored && other.stored &&
                          tensor.content.dtype == other.content.dtype &&
                          tensor.content.shape == other.content.shape;
    if (!is_alike) {
      see(rungs.unlike, tensor, tensor.op);
    } else if (core::is_floating(tensor.content.dtype)) {
      rungs.same.push_back({i, place});
    } else if (tensor.content != other.content) {
      see(rungs.integer, tensor, tensor.op);
    } else if (is_border(tensor)) {
      ++rungs.integers;
    }
  }
  for (const auto& [key, place] : of_b) {
    see(rungs.unlike, b.tensors[place], a.dump->op_count());
  }
  return rungs;
}

std::vector<const RegionTensor*> judged_tensors(const TwoRungs& rungs) {
  std::vector<const RegionTensor*> list;
  list.reserve(rungs.same.size());
  for (const TwoRungs::Same& same : rungs.same) list.push_back(&rungs.a->tensors[same.a]);
  return list;
}

std::optional<std::vector<double>> brought_to_a(const TwoRungs& rungs, std::size_t i) {
  const RegionTensor& there = rungs.b->tensors[rungs.same[i].b];
  if (!is_border(there)) return std::nullopt;
  return read_numbers(*rungs.b->dump, there.content);
}

RungReport judge_rung(const TwoRungs& rungs,
                      core::CompileRung rung,
                      const std::function<std::vector<double>(std::size_t, std::size_t)>& shadow,
                      const std::vector<std::uint64_t>& cuts) {
  RungReport report;
  RungJudge judge(rungs, rung, shadow);
  judge.judge(report);
  if (report.no_verdict != NoVerdict::kNone) return report;
  if (report.findings.empty()) {
    if (report.judged == 0) report.no_verdict = NoVerdict::kNothingJudged;
    return report;
  }
  const bool is_behind_cut =
      std::ranges::any_of(cuts, [&](std::uint64_t op) { return op < judge.last_op(); });
  if (is_behind_cut) {
    report.no_verdict = NoVerdict::kBehindCut;
    report.findings.clear();
  }
  return report;
}

Finding captured_otherwise(const LeftNumbers& left) {
  Finding finding{FindingId::kCompiledCaptureDiffers, Finding::Weight::kProof};
  finding.with("is_loss", left.kind == LeftKind::kLoss)
      .with("is_parameters", left.kind == LeftKind::kParameters)
      .with("is_number", left.kind == LeftKind::kNumber)
      .with("at", left.at);
  return finding;
}

void blame_operator(const Region& region,
                    const std::string& node,
                    const std::string& name,
                    Finding& finding) {
  std::erase_if(finding.fields, [](const Field& field) {
    return field.name == "operator" || field.name == "module" || field.name == "place";
  });
  put_place(region, node, name, finding);
  std::ranges::find(finding.fields, "operator", &Field::name)->value = name;
  finding.with("blamed", name);
}

}  // namespace repro_check::comparators
