// SPDX-License-Identifier: Apache-2.0
#include "comparators/relate/two_passes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "core/tensor/element_number.h"
#include "core/trace/record_names.h"

namespace repro_check::comparators {
namespace {

/// The call behind the last module that the logits stand for.
constexpr const char* kLogits = "(logits)";

std::vector<std::int64_t> whole_numbers(const std::vector<double>& numbers) {
  std::vector<std::int64_t> whole;
  whole.reserve(numbers.size());
  for (const double each : numbers) whole.push_back(static_cast<std::int64_t>(each));
  return whole;
}

std::uint64_t count_of(const PassTensor& tensor) {
  return static_cast<std::uint64_t>(core::element_count(tensor.content.shape));
}

class Relating {
 public:
  explicit Relating(TwoPasses& passes) : passes_(passes) {}

  void relate() {
    passes_.relations = relate_weights(passes_.a.weights, passes_.b.weights, true);
    passes_.related = relate_modules(
        passes_.a.pass, passes_.a.weights, passes_.b.pass, passes_.b.weights, passes_.relations);
    relate_lookups();
    if (!passes_.tokens && passes_.are_rows_related) relate_inputs();
    relate_logits();
  }

 private:
  /// A related pair of modules that look up.
  struct Lookup {
    const ModuleCall* a = nullptr;
    const ModuleCall* b = nullptr;
    std::size_t call = 0;
  };

  void relate_lookups() {
    std::vector<Lookup> lookups;
    std::uint64_t rows_a = 0;
    std::uint64_t rows_b = 0;
    for (const RelatedModule& module : passes_.related.modules) {
      const ModuleCall& b = passes_.b.pass.calls[module.b];
      const ModuleCall& a = passes_.a.pass.calls[module.a.front()];
      if (!a.indices || !b.indices) continue;
      lookups.push_back({&a, &b, module.b});
      rows_a = std::max(rows_a, count_of(*a.indices));
      rows_b = std::max(rows_b, count_of(*b.indices));
    }
    RowContents one;
    RowContents other;
    std::uint64_t most = 0;
    for (const Lookup& lookup : lookups) {
      if (count_of(*lookup.a->indices) != rows_a || count_of(*lookup.b->indices) != rows_b)
        continue;
      one.numbers.push_back(whole_numbers(passes_.a.numbers(*lookup.a->indices)));
      other.numbers.push_back(whole_numbers(passes_.b.numbers(*lookup.b->indices)));
      one.sequences = std::max(one.sequences, lookup.a->indices->rows());
      other.sequences = std::max(other.sequences, lookup.b->indices->rows());
      const std::uint64_t table = table_of(*lookup.a);
      if (table <= most) continue;
      most = table;
      passes_.given = one.numbers.back();
    }
    if (one.numbers.empty()) return;
    vocabulary_ = most;
    passes_.tokens = relate_rows(one, other);
    passes_.are_rows_related = passes_.tokens.has_value();
    if (!passes_.are_rows_related) passes_.unlike = lookups.front().call;
  }

  /// Rows of the largest weight that a call of A reads.
  [[nodiscard]] std::uint64_t table_of(const ModuleCall& call) const {
    std::uint64_t rows = 0;
    for (const Weight& weight : passes_.a.weights.weights) {
      const auto& shape = weight.last().content.shape;
      if (shape.empty() || std::ranges::find(call.weights, weight.name) == call.weights.end()) {
        continue;
      }
      rows = std::max(rows, static_cast<std::uint64_t>(shape.front()));
    }
    return rows;
  }

  /// Without lookups: what the first related module with weights is given.
  void relate_inputs() {
    for (const RelatedModule& module : passes_.related.modules) {
      const ModuleCall& b = passes_.b.pass.calls[module.b];
      const ModuleCall& a = passes_.a.pass.calls[module.folded.value_or(module.a.front())];
      if (b.weights.empty() || !a.input || !b.input) continue;
      if (a.input->content.digest == b.input->content.digest) return;
      const std::vector<double> one = passes_.a.numbers(*a.input);
      const std::vector<double> other = passes_.b.numbers(*b.input);
      double apart = 0;
      double size = 0;
      for (std::size_t i = 0; i < std::min(one.size(), other.size()); ++i) {
        apart += (one[i] - other[i]) * (one[i] - other[i]);
        size += one[i] * one[i];
      }
      constexpr double kRounding = 1e-2;  // of bfloat16, with a margin
      passes_.are_rows_related =
          one.size() == other.size() && std::sqrt(apart) <= kRounding * std::sqrt(size);
      if (!passes_.are_rows_related) passes_.unlike = module.b;
      return;
    }
  }

  /// What is turned into probabilities is judged as a module of its own, where it is not what the
  /// last module hands out.
  void relate_logits() {
    for (std::size_t i = 0; i < passes_.related.modules.size() && vocabulary_ > 0; ++i) {
      const RelatedModule& module = passes_.related.modules[i];
      const ModuleCall& b = passes_.b.pass.calls[module.b];
      const bool is_whole = module.a.size() == 1 && !b.looks_up && !b.weights.empty() && b.output;
      if (!is_whole) continue;
      const auto& a = passes_.a.pass.calls[module.a.front()].output;
      if (a && a->width() == vocabulary_ && b.output->width() >= vocabulary_) passes_.logits = i;
    }
    if (!passes_.logits) return;
    const RelatedModule head = passes_.related.modules[*passes_.logits];
    const auto behind = [&](ForwardPass& pass, std::size_t call) -> std::optional<std::size_t> {
      const PassTensor& output = *pass.calls[call].output;
      const auto found = std::ranges::find_if(
          pass.logits.rbegin(), pass.logits.rend(), [&](const PassTensor& each) {
            return each.width() == output.width() && each.rows() == output.rows();
          });
      if (found == pass.logits.rend()) return std::nullopt;
      ModuleCall logits;
      logits.path = kLogits;
      logits.first = logits.last = found->op;
      logits.output = *found;
      pass.calls.push_back(std::move(logits));
      return pass.calls.size() - 1;
    };
    const auto in_b = behind(passes_.b.pass, head.b);
    const auto in_a = behind(passes_.a.pass, head.a.front());
    if (!in_a || !in_b) return;
    const std::uint64_t width = std::min(passes_.a.pass.calls[*in_a].output->width(),
                                         passes_.b.pass.calls[*in_b].output->width());
    passes_.logits = passes_.related.modules.size();
    passes_.related.modules.push_back(
        {*in_b, {*in_a}, ModuleTie::kName, {{0, width, *in_a, 0}}, {}});
  }

  TwoPasses& passes_;
  std::uint64_t vocabulary_ = 0;
};

/// What tells the weights of a module from A's.
Finding weights_finding(const TwoPasses& passes, const RelatedModule& module) {
  const WeightSide& a = passes.a.weights;
  const WeightSide& b = passes.b.weights;
  Finding finding{FindingId::kModuleWithOtherWeights, Finding::Weight::kProof};
  std::vector<std::string> names;
  for (const std::size_t weight : module.other_weights) names.push_back(b.weights[weight].name);
  finding.where.tensor = passes.b.pass.calls[module.b].path;
  finding.with("a", names_of(module, passes.a.pass));
  std::uint64_t rows = 0;
  std::uint64_t related = 0;
  std::optional<std::uint32_t> steps;
  for (const RelatedWeight& relation : passes.relations) {
    if (std::ranges::find(module.other_weights, relation.receiver) == module.other_weights.end()) {
      continue;
    }
    rows += relation.rows;
    for (const Segment& segment : relation.segments) {
      const auto& versions = a.weights[segment.source].versions;
      const bool is_last = segment.version + 1 == versions.size();
      if (is_last) related += segment.rows;
      if (!is_last) steps = versions[segment.version].until;
    }
  }
  finding.with("other_rows", rows - related).with("of_rows", rows);
  finding.with("names", std::move(names));
  if (steps) finding.with("steps", *steps);
  return finding;
}

/// Where it was in the order of A's operators.
std::uint64_t order_of(const RelatedModule& module, const ForwardPass& a) {
  std::uint64_t last = 0;
  for (const std::size_t call : module.a) {
    last = std::max(last, a.calls[call].output ? a.calls[call].output->op : a.calls[call].last);
  }
  return last;
}

class PassFindings {
 public:
  PassFindings(const TwoPasses& passes, RelateReport& report) : passes_(passes), report_(report) {}

  void find() {
    std::vector<std::pair<std::uint64_t, Finding>> found;
    std::set<std::size_t> told;
    for (std::size_t i = 0; i < passes_.related.modules.size(); ++i) {
      const RelatedModule& module = passes_.related.modules[i];
      if (module.other_weights.empty()) continue;
      told.insert(i);
      found.emplace_back(order_of(module, passes_.a.pass), weights_finding(passes_, module));
    }
    const JudgedModule* before = nullptr;
    bool has_fault = false;
    for (const JudgedModule& judged : report_.modules) {
      const RelatedModule& module = passes_.related.modules[judged.module];
      if (judged.state == ModuleState::kFault) {
        has_fault = true;
        if (!told.contains(judged.module)) {
          found.emplace_back(order_of(module, passes_.a.pass), beyond(judged, before));
        }
      }
      before = &judged;
    }
    if (!has_fault && found.empty()) add_inherited(found);
    std::ranges::stable_sort(found, {}, [](const auto& each) { return each.first; });
    for (auto& [place, finding] : found) report_.findings.push_back(std::move(finding));
  }

 private:
  /// The first that is beyond along the chain, where none is by itself: small errors add up.
  void add_inherited(std::vector<std::pair<std::uint64_t, Finding>>& found) const {
    const auto first =
        std::ranges::find(report_.modules, ModuleState::kInherited, &JudgedModule::state);
    if (first == report_.modules.end()) return;
    // It may have what it is given from one of which nothing is known.
    if (std::ranges::count(
            report_.modules.begin(), first, ModuleState::kUndecided, &JudgedModule::state) > 0) {
      return;
    }
    const JudgedModule* before = first == report_.modules.begin() ? nullptr : &*std::prev(first);
    found.emplace_back(0, beyond(*first, before));
  }

  Finding beyond(const JudgedModule& judged, const JudgedModule* before) const {
    const RelatedModule& module = passes_.related.modules[judged.module];
    const bool is_scaled =
        passes_.logits == judged.module && report_.tokens && report_.tokens->factor.has_value();
    Finding finding{is_scaled ? FindingId::kLogitsScaled : FindingId::kModuleBeyondFloor,
                    Finding::Weight::kProof};
    finding.where.tensor = passes_.b.pass.calls[module.b].path;
    finding.with("a", names_of(module, passes_.a.pass));
    if (is_scaled) finding.with("factor", *report_.tokens->factor);
    // What it is given explains none of a fault of its own.
    finding.with("ratio", judged.state == ModuleState::kFault ? judged.own_ratio : judged.ratio);
    finding.with("row_ratio", judged.row_ratio);
    finding.with("row", judged.row);
    finding.with("above", judged.above);
    finding.with("rows", judged.rows);
    if (before != nullptr) {
      finding.with("before", passes_.b.pass.calls[passes_.related.modules[before->module].b].path);
      finding.with("before_ratio", before->ratio);
      if (before->state == ModuleState::kWithin) finding.with("agrees_before", true);
    }
    return finding;
  }

  const TwoPasses& passes_;
  RelateReport& report_;
};

/// Of a module behind a cut nobody knows how large A's own error is.
/// @return whether one is beyond the floor there
bool leave_open_behind(const std::vector<std::uint64_t>& cuts,
                       const TwoPasses& passes,
                       RelateReport& report) {
  bool found = false;
  std::uint64_t begin = 0;
  for (JudgedModule& each : report.modules) {
    const std::uint64_t end = order_of(passes.related.modules[each.module], passes.a.pass);
    const bool is_cut =
        std::ranges::any_of(cuts, [&](std::uint64_t cut) { return cut >= begin && cut <= end; });
    if (is_cut && each.state == ModuleState::kFault) {
      each.state = ModuleState::kUndecided;
      found = true;
    }
    begin = std::max(begin, end + 1);
  }
  return found;
}

std::optional<LogProbabilities> log_probabilities(const TwoPasses& passes) {
  if (!passes.logits || !passes.tokens) return std::nullopt;
  const RelatedModule& module = passes.related.modules[*passes.logits];
  const PassTensor& a = *passes.a.pass.calls[module.a.front()].output;
  const PassTensor& b = *passes.b.pass.calls[module.b].output;
  if (a.rows() != passes.tokens->rows_a || b.rows() != passes.tokens->of_b.size()) {
    return std::nullopt;
  }
  return compare_log_probabilities(
      passes.a.numbers(a), a.width(), passes.b.numbers(b), b.width(), *passes.tokens, passes.given);
}

}  // namespace

std::vector<double> read_numbers(const core::DumpSource& dump, const core::ContentKey& content) {
  std::vector<std::byte> bytes;
  dump.read_content(content, bytes);
  return core::numbers_of(content.dtype, bytes);
}

std::vector<double> PassSide::numbers(const PassTensor& tensor) const {
  if (tensor.pieces.empty()) return read_numbers(dump(), tensor.content);
  // Each sequence goes on in the next piece.
  const std::vector<std::int64_t>& shape = tensor.content.shape;
  std::size_t axis = 0;
  while (axis + 1 < shape.size() && tensor.pieces.front().shape[axis] == shape[axis]) ++axis;
  std::size_t before = 1;
  for (std::size_t i = 0; i < axis; ++i) before *= static_cast<std::size_t>(shape[i]);
  std::vector<std::vector<double>> pieces;
  for (const core::ContentKey& piece : tensor.pieces) {
    pieces.push_back(read_numbers(dump(), piece));
  }
  std::vector<double> all;
  for (std::size_t sequence = 0; sequence < before; ++sequence) {
    for (const std::vector<double>& piece : pieces) {
      const auto length = static_cast<std::ptrdiff_t>(piece.size() / before);
      const auto begin = piece.begin() + static_cast<std::ptrdiff_t>(sequence) * length;
      all.insert(all.end(), begin, begin + length);
    }
  }
  return all;
}

PassSide read_side(std::unique_ptr<core::DumpSource> dump, std::size_t number, std::size_t count) {
  const core::TraceSummary& trace = dump->manifest().trace;
  if (trace.level != "tensor" || dump->manifest().is_of_blocks()) {
    throw core::not_comparable(dump->location() +
                                   ": does not hold the values of operators: level " + trace.level +
                                   ", depth " + trace.depth,
                               "record with --level tensor --depth all");
  }
  std::vector<ForwardPass> passes = read_passes(*dump, number, count + 1);
  const bool has_later = passes.size() > count;
  if (has_later) passes.pop_back();
  if (passes.size() < count) {
    throw core::not_comparable(dump->location() + ": no module is called in forward pass " +
                                   std::to_string(number + passes.size()),
                               "record the whole program; --pass takes another pass, from 0");
  }
  auto pass = joined(std::move(passes));
  if (!pass) {
    throw core::not_comparable(
        dump->location() + ": the passes that are to be put together do not call the same modules",
        "--pass is the first of them, from 0, and --passes how many there are");
  }
  PassSide side;
  const std::uint64_t end = pass->end;
  side.pass = std::move(*pass);
  side.has_later = has_later;
  std::vector<std::unique_ptr<core::DumpSource>> dumps;
  dumps.push_back(std::move(dump));
  side.weights = read_weights(std::move(dumps), {std::string()}, end);
  return side;
}

ReadNumbers TwoPasses::numbers_a() const {
  return [this](const PassTensor& tensor) { return a.numbers(tensor); };
}
ReadNumbers TwoPasses::numbers_b() const {
  return [this](const PassTensor& tensor) { return b.numbers(tensor); };
}

TwoPasses relate_passes(PassSide a, PassSide b) {
  TwoPasses passes;
  passes.a = std::move(a);
  passes.b = std::move(b);
  Relating(passes).relate();
  return passes;
}

std::string names_of(const RelatedModule& module, const ForwardPass& a) {
  std::string names;
  for (const std::size_t call : module.a) {
    if (!names.empty()) names += " + ";
    names += a.calls[call].path;
  }
  return names;
}

std::uint64_t RelateReport::count(ModuleState state) const {
  return static_cast<std::uint64_t>(std::ranges::count(modules, state, &JudgedModule::state));
}

bool RelateReport::has_diverged() const {
  return std::ranges::any_of(
      findings, [](const Finding& finding) { return finding.weight == Finding::Weight::kProof; });
}

NoVerdict can_be_judged(const TwoPasses& passes, double least) {
  const RelatedModules& related = passes.related;
  // Siblings and order relate modules where most others are proved to be; of another seed's model
  // only fresh norms are the same.
  constexpr double kLeastProved = 0.25;
  const auto elements = static_cast<double>(related.elements);
  const bool enough =
      related.elements > 0 && static_cast<double>(related.related) >= least * elements &&
      static_cast<double>(related.proved) >= std::min(least, kLeastProved) * elements;
  if (!enough) return NoVerdict::kNothingRelated;
  if (!passes.are_rows_related) return NoVerdict::kOtherInputs;
  return judged_calls(passes.a.pass, related).empty() ? NoVerdict::kNothingJudged
                                                      : NoVerdict::kNone;
}

RelateReport judge_passes(const TwoPasses& passes,
                          double least,
                          const std::function<ShadowValues(std::size_t)>& shadow,
                          const std::vector<std::uint64_t>& cuts) {
  RelateReport report;
  report.least = least;
  report.no_verdict = can_be_judged(passes, least);
  if (report.no_verdict != NoVerdict::kNone) return report;
  JudgedPass judged = judge_modules(passes.a.pass,
                                    passes.numbers_a(),
                                    passes.b.pass,
                                    passes.numbers_b(),
                                    passes.related,
                                    passes.rows(),
                                    shadow);
  report.modules = std::move(judged.modules);
  report.unjudged = judged.unjudged;
  const bool is_behind_cut = leave_open_behind(cuts, passes, report);
  report.tokens = log_probabilities(passes);
  for (const JudgedModule& each : report.modules) {
    if (each.state == ModuleState::kWithin) {
      report.worst_within = std::max({report.worst_within, each.ratio, each.own_ratio});
    }
  }
  PassFindings(passes, report).find();
  if (report.has_diverged()) return report;
  if (report.modules.empty()) report.no_verdict = NoVerdict::kNothingJudged;
  if (report.count(ModuleState::kUndecided) > 0) report.no_verdict = NoVerdict::kNoMeasure;
  if (is_behind_cut) report.no_verdict = NoVerdict::kBehindCut;
  return report;
}

core::ExitCode exit_code_of(const RelateReport& report) {
  if (report.has_diverged()) return core::ExitCode::kDivergence;
  return report.no_verdict == NoVerdict::kNone ? core::ExitCode::kReproducible
                                               : core::ExitCode::kNotComparable;
}

}  // namespace repro_check::comparators
