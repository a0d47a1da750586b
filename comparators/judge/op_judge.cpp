// SPDX-License-Identifier: Apache-2.0
#include "comparators/judge/op_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "comparators/measure/conversion.h"
#include "comparators/measure/policy.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

using Choice = RuleBook::Choice;
using core::ContentState;
using core::TensorRecord;
using core::TensorRole;

/// Equal without a look at anything but the records; what judge() would find out at more cost.
bool plainly_equal(const TensorRecord& b, const TensorRecord& c) {
  return b.state == ContentState::kHashed && c.state == ContentState::kHashed &&
         b.digest == c.digest && same_form(b, c);
}

/// Scalar results are judged as the widest real input is: item() of a float32 is a float32.
core::Dtype result_dtype(const core::OpRecord& record) {
  core::Dtype dtype = core::Dtype::kUnknown;
  for (const TensorRecord& tensor : record.tensors) {
    // These two hold no number that item() could return as it is.
    const bool has_numbers =
        tensor.dtype != core::Dtype::kFloat4E2M1FNX2 && tensor.dtype != core::Dtype::kFloat8E8M0FNU;
    if (has_numbers && core::is_floating(tensor.dtype) &&
        core::element_size(tensor.dtype) > core::element_size(dtype)) {
      dtype = tensor.dtype;
    }
  }
  return dtype == core::Dtype::kUnknown ? core::Dtype::kFloat64 : dtype;
}

TensorComparison one_sided(const TensorRecord& record, bool in_baseline) {
  TensorComparison comparison;
  comparison.role = record.role;
  (in_baseline ? comparison.baseline : comparison.candidate) = record;
  comparison.outcome = TensorOutcome::kMismatch;
  comparison.note = {Phrase("in-one-run", {{"run", run_field(in_baseline)}})};
  return comparison;
}

double severity_of(const TensorComparison& comparison) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (comparison.outcome == TensorOutcome::kMismatch) return infinity;
  if (comparison.outcome != TensorOutcome::kBeyond || !comparison.metrics) return 0;
  const TensorMetrics& metrics = *comparison.metrics;
  return metrics.apart() != 0 ? infinity : metrics.l2_rel.value_or(0);
}

/// What a number keeps to, and the dtype of the tensor it came from.
struct ScalarPolicy {
  ElementPolicy element;
  core::Dtype dtype = core::Dtype::kFloat64;
};

/// A number that came out of a tensor is one of the tensor's dtype.
bool within_ulps(double baseline, double candidate, const ScalarPolicy& policy) {
  if (policy.element.max_ulp == std::numeric_limits<std::uint64_t>::max()) return true;
  const auto distance = core::ulp_distance(policy.dtype,
                                           core::encode_float(policy.dtype, baseline),
                                           core::encode_float(policy.dtype, candidate));
  return distance && *distance <= policy.element.max_ulp;
}

bool passes(double baseline, double candidate, const ScalarPolicy& chosen) {
  const ElementPolicy& policy = chosen.element;
  if (std::isnan(baseline) && std::isnan(candidate)) {
    return policy.equal_nan == configs::EqualNan::kAny;
  }
  if (!std::isfinite(baseline) || !std::isfinite(candidate)) return baseline == candidate;
  if (baseline == candidate) return !policy.signed_zero_distinct;
  return std::abs(candidate - baseline) <= policy.atol + policy.rtol * std::abs(baseline) &&
         within_ulps(baseline, candidate, chosen);
}

/// Whether two values that are not the same pass the policy.
bool within(const core::Value& baseline, const core::Value& candidate, const ScalarPolicy& policy) {
  if (const auto* left = std::get_if<double>(&baseline.data)) {
    const auto* right = std::get_if<double>(&candidate.data);
    return right != nullptr && passes(*left, *right, policy);
  }
  const auto* left = std::get_if<core::ValueList>(&baseline.data);
  const auto* right = std::get_if<core::ValueList>(&candidate.data);
  if (left == nullptr || right == nullptr || left->items.size() != right->items.size()) {
    return false;
  }
  for (std::size_t i = 0; i < left->items.size(); ++i) {
    if (same_scalars(left->items[i], right->items[i])) continue;
    if (!within(left->items[i], right->items[i], policy)) return false;
  }
  return true;
}

void add_count(std::string_view of,
               std::size_t baseline,
               std::size_t candidate,
               std::vector<ScalarDifference>& differences) {
  if (baseline == candidate) return;
  differences.push_back(
      {fmt::format("number of {}", of), std::to_string(baseline), std::to_string(candidate), true});
}

/// What belongs together by its name, in the order of `left`; null where a side has nothing. What
/// is left over on both sides, and is as many, belongs together in its order: there names differ.
template <typename Item>
std::vector<std::pair<const Item*, const Item*>> pairs_by_name(
    const std::vector<const Item*>& left,
    const std::vector<const Item*>& right,
    std::string Item::*name) {
  std::multimap<std::string_view, const Item*> named;
  for (const Item* item : right) named.emplace(item->*name, item);
  std::vector<std::pair<const Item*, const Item*>> pairs;
  std::vector<std::size_t> open;  // of `pairs`
  for (const Item* item : left) {
    const auto found = named.find(item->*name);
    if (found == named.end()) {
      open.push_back(pairs.size());
      pairs.emplace_back(item, nullptr);
    } else {
      pairs.emplace_back(item, found->second);
      named.erase(found);
    }
  }
  std::set<const Item*> rest;
  for (const auto& [_, item] : named) rest.insert(item);
  const bool in_order = rest.size() == open.size();
  std::size_t next = 0;
  for (const Item* item : right) {
    if (!rest.contains(item)) continue;
    if (in_order) {
      pairs[open[next++]].second = item;
    } else {
      pairs.emplace_back(nullptr, item);
    }
  }
  return pairs;
}

std::vector<const core::Argument*> arguments_of(const core::OpRecord& record) {
  std::vector<const core::Argument*> arguments;
  for (const core::Argument& argument : record.arguments) arguments.push_back(&argument);
  return arguments;
}

/// Calls `visit` with the arguments that belong together: by their names where the record is one of
/// named values, a pointer being null where a side has none, else by their positions, as far as
/// both have any.
template <typename Visit>
void for_each_argument(const core::OpRecord& baseline,
                       const core::OpRecord& candidate,
                       Visit visit) {
  if (core::is_named_values(baseline)) {
    for (const auto& [left, right] :
         pairs_by_name(arguments_of(baseline), arguments_of(candidate), &core::Argument::name)) {
      visit(left, right);
    }
    return;
  }
  const std::size_t common = std::min(baseline.arguments.size(), candidate.arguments.size());
  for (std::size_t i = 0; i < common; ++i) visit(&baseline.arguments[i], &candidate.arguments[i]);
}

/// @param ignore_symbols  leave out devices, layouts and the like, which say where and not what
std::vector<ScalarDifference> differing_arguments(const core::OpRecord& baseline,
                                                  const core::OpRecord& candidate,
                                                  bool ignore_symbols) {
  std::vector<ScalarDifference> differences;
  const auto text = [](const core::Argument* argument) {
    return argument == nullptr ? std::string("nothing") : short_text(argument->value);
  };
  const auto is_symbol = [](const core::Argument& argument) {
    return std::holds_alternative<core::Symbol>(argument.value.data);
  };
  for_each_argument(
      baseline, candidate, [&](const core::Argument* left, const core::Argument* right) {
        const core::Argument& named = left == nullptr ? *right : *left;
        // What follows from tensors of the record, which are compared themselves.
        if (named.name == core::kParameterSketch || named.name == core::kSampleDigests) return;
        // Where generators of the host stood is a cause at most: HostGenerators holds it together.
        if (named.name.starts_with(core::kGeneratorPrefix) ||
            named.name.starts_with(core::kMovedPrefix)) {
          return;
        }
        if (left != nullptr && right != nullptr) {
          const bool is_passed_over = ignore_symbols && is_symbol(*left) && is_symbol(*right);
          if (is_passed_over || same_scalars(left->value, right->value)) return;
        }
        differences.push_back({named.name, text(left), text(right), true});
      });
  if (!core::is_named_values(baseline)) {
    add_count("arguments", baseline.arguments.size(), candidate.arguments.size(), differences);
  }
  return differences;
}

/// Whether an operator gives its argument, whose content is compared, as a tensor of another class:
/// what a collective is still filling, of FSDP and tensor parallelism.
bool only_wraps(const core::OpRecord& record) {
  return record.op != nullptr && record.op->name == "_c10d_functional::_wrap_tensor_autograd";
}

/// Whether an operator only copies the state of PyTorch's generator on the host, as a program does
/// that looks after it (`fork_rng`, LocalTensorMode). It is no number of the computation: whatever
/// is drawn from it is compared where it is drawn.
bool copies_generator_state(const core::OpRecord& record) {
  constexpr std::array kCopies = {
      "aten::clone", "aten::detach", "aten::_to_copy", "aten::copy_", "aten::contiguous"};
  constexpr std::int64_t kStateBytes = 5056;  // of at::CPUGeneratorImpl::get_state()
  return record.op != nullptr && std::ranges::find(kCopies, record.op->name) != kCopies.end() &&
         std::ranges::all_of(record.tensors, [](const TensorRecord& tensor) {
           return tensor.dtype == core::Dtype::kUInt8 &&
                  std::ranges::equal(tensor.shape, std::array{kStateBytes});
         });
}

/// Which tensors of a record lie in the same memory: a step of an optimizer has one record of tens
/// of thousands of tensors, so that no tensor is held against every other.
class SharedMemory {
 public:
  explicit SharedMemory(const core::OpRecord& record)
      : tensors_(record.tensors), by_storage_(tensors_.size()), marks_(tensors_.size()) {
    std::iota(by_storage_.begin(), by_storage_.end(), std::size_t{0});
    std::ranges::stable_sort(by_storage_, {}, [&](std::size_t at) { return tensors_[at].storage; });
    std::size_t mark = 0;
    for (std::size_t i = 0; i < by_storage_.size(); ++i) {
      const TensorRecord& tensor = tensors_[by_storage_[i]];
      if (i == 0 || tensors_[by_storage_[i - 1]].storage != tensor.storage) mark = 0;
      marks_[by_storage_[i]] = mark;
      mark = mark * 31 + std::hash<std::string>{}(tensor.slot) * 2 +
             (core::is_input(tensor) ? 1 : 0) + 1;
    }
  }

  /// Alike for two tensors that share their memory with the same earlier tensors of their records.
  /// @param output  one of the record's own
  [[nodiscard]] std::size_t mark(const TensorRecord& output) const {
    return marks_[static_cast<std::size_t>(&output - tensors_.data())];
  }

  /// Earlier tensors of the record in the same memory: `input self, output 0`.
  [[nodiscard]] std::string names(const TensorRecord& output) const {
    constexpr std::size_t kMost = 8;
    const auto place = [&](std::size_t at) { return tensors_[at].storage; };
    std::string names;
    std::size_t count = 0;
    for (const std::size_t at : std::ranges::equal_range(by_storage_, output.storage, {}, place)) {
      // Each pair is told of once, at the later one.
      if (&tensors_[at] == &output) break;
      if (++count > kMost) continue;
      names += fmt::format("{}{} {}",
                           names.empty() ? "" : ", ",
                           core::is_input(tensors_[at]) ? "input" : "output",
                           tensors_[at].slot);
    }
    if (count > kMost) names += fmt::format(" and {} more", count - kMost);
    return names.empty() ? "nothing" : names;
  }

 private:
  const std::vector<TensorRecord>& tensors_;
  std::vector<std::size_t> by_storage_;  ///< places in tensors_, in their order within a storage
  std::vector<std::size_t> marks_;
};

class OpComparison {
 public:
  OpComparison(JudgedCall& call, const CompareOptions& options, TensorJudge& judge)
      : baseline_(call.baseline),
        candidate_(call.candidate),
        found_(call.findings),
        judge_(judge),
        options_(options.spec),
        has_inside_(call.has_inside) {}

  void run() {
    compare_inputs();
    found_.arguments = differing_arguments(baseline_, candidate_, !judge_.same_device());
    compare_outputs();
    add_shown_inputs();
    compare_results();
    conclude();
  }

 private:
  [[nodiscard]] std::string where(std::string_view role, const TensorRecord& record) const {
    return fmt::format("op {} {} {}", baseline_.index, role, record.slot);
  }

  /// Calls `visit` with the tensors of one role that belong together, as for_each_argument() does.
  template <typename Visit>
  void for_each_tensor(TensorRole role, Visit visit) const {
    const auto left = tensors_of(baseline_, role);
    const auto right = tensors_of(candidate_, role);
    if (core::is_named_values(baseline_)) {
      for (const auto& [one, other] : pairs_by_name(left, right, &TensorRecord::slot)) {
        visit(one, other);
      }
      return;
    }
    for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
      visit(i < left.size() ? left[i] : nullptr, i < right.size() ? right[i] : nullptr);
    }
  }

  void compare_inputs() {
    for_each_tensor(TensorRole::kInput, [&](const TensorRecord* left, const TensorRecord* right) {
      if (left == nullptr) {
        found_.inputs.push_back(one_sided(*right, false));
      } else if (right == nullptr) {
        found_.inputs.push_back(one_sided(*left, true));
      } else {
        compare_input(*left, *right);
      }
    });
  }

  void compare_input(const TensorRecord& b, const TensorRecord& c) {
    if (b.strides != c.strides) found_.input_strides_differ = true;
    if (!core::reads_values(*baseline_.op, b.slot) && same_form(b, c)) return;
    if (judge_.same_algorithm() && plainly_equal(b, c)) return;
    const Choice choice = judge_.rules().choose_for_input(baseline_, b);
    TensorComparison comparison =
        judge_.judge({b, c, baseline_, candidate_}, Depth::kRemember, where("input", b), choice);
    // What nobody recorded cannot be said to differ, nor to be equal.
    const bool is_skipped = comparison.outcome == TensorOutcome::kSkipped;
    if (is_skipped || comparison.outcome == TensorOutcome::kUncomparable) {
      if (!is_skipped || b.state != ContentState::kUninitialised) found_.inputs_unknown = true;
    } else if (comparison.outcome != TensorOutcome::kEqual) {
      found_.inputs.push_back(std::move(comparison));
    }
  }

  /// A view of memory that is written in part has no digest as an input, for it reads nothing. It
  /// hands out what the same writer left there: that is where its output differs from.
  void add_shown_inputs() {
    for_each_tensor(TensorRole::kInput, [&](const TensorRecord* left, const TensorRecord* right) {
      if (left == nullptr || right == nullptr || !is_unread(*left) || !is_unread(*right)) return;
      const bool differs = std::ranges::any_of(found_.outputs, [&](const TensorComparison& output) {
        return output.outcome == TensorOutcome::kBeyond && shows(output.baseline, *left);
      });
      if (!differs) return;
      TensorComparison& shown = found_.inputs.emplace_back();
      shown.baseline = *left;
      shown.candidate = *right;
      shown.outcome = TensorOutcome::kBeyond;
      shown.note = {Phrase("shown-part-differs")};
    });
  }

  static bool is_unread(const TensorRecord& input) {
    return input.state == ContentState::kUninitialised && input.digest == core::Digest{};
  }

  /// Whether an output is the memory of an input that nobody has written since.
  [[nodiscard]] bool shows(const TensorRecord& output, const TensorRecord& input) const {
    return output.storage >= 0 && output.storage == input.storage &&
           output.producer == input.producer && output.producer >= 0 &&
           !std::cmp_equal(output.producer, baseline_.index);
  }

  void compare_outputs() {
    for_each_tensor(TensorRole::kOutput, [&](const TensorRecord* left, const TensorRecord* right) {
      ++found_.tally.outputs;
      if (left == nullptr) {
        found_.outputs.push_back(one_sided(*right, false));
      } else if (right == nullptr) {
        found_.outputs.push_back(one_sided(*left, true));
      } else {
        return compare_output(*left, *right);
      }
      ++found_.tally.metadata_only;
      mismatched_ = true;
      found_.severity = std::numeric_limits<double>::infinity();
    });
  }

  /// Empty where both share the same memory with the same tensors, or a side does not say.
  [[nodiscard]] Phrases alias_difference(const TensorRecord& b, const TensorRecord& c) {
    if (options_.alias == configs::AttributeRule::kIgnore || b.storage < 0 || c.storage < 0)
      return {};
    if (!shared_) shared_.emplace(baseline_, candidate_);
    const auto& [left, right] = *shared_;
    if (left.mark(b) == right.mark(c)) return {};
    return {Phrase("shares-memory", {{"baseline", left.names(b)}, {"candidate", right.names(c)}})};
  }

  void compare_output(const TensorRecord& b, const TensorRecord& c) {
    if (options_.strides != configs::AttributeRule::kIgnore && b.strides != c.strides) {
      found_.output_strides_differ = true;
    }
    Phrases alias = alias_difference(b, c);
    if (!alias.empty() && found_.alias_differs.empty()) {
      found_.alias_differs = {
          Phrase("shares-memory-at", {{"where", where("output", b)}, {"how", alias}})};
    }
    const Choice choice = judge_.rules().choose_for_output(baseline_, b);
    judge_.rules().count(choice);
    if (!choice.judges()) return pass_over(b, c, choice);
    if (!alias.empty() && options_.alias == configs::AttributeRule::kStrict) {
      return tally(add_output(
          b, c, choice, TensorOutcome::kMismatch, Phrase("shares-other-memory", {{"how", alias}})));
    }
    if (choice.policy->equal_nan != configs::EqualNan::kNever && judge_.same_algorithm() &&
        plainly_equal(b, c) && same_channels({b, c, baseline_, candidate_}) &&
        judge_.attributes().accept(b, c)) {
      count(b, true);
      count_equal(b);
      return;
    }
    TensorComparison comparison =
        judge_.judge({b, c, baseline_, candidate_}, Depth::kValues, where("output", b), choice);
    if (comparison.outcome == TensorOutcome::kUncomparable) note_yardstick(choice);
    if (comparison.outcome == TensorOutcome::kSkipped) refuse_unread(comparison);
    if (comparison.outcome == TensorOutcome::kBeyond && counts_in_whole(b, c, *choice.policy)) {
      comparison.outcome = TensorOutcome::kWithin;
      comparison.metrics.reset();
      comparison.samples.clear();
      comparison.note = {Phrase("judged-in-whole")};
    }
    if (comparison.outcome == TensorOutcome::kBeyond && copies_generator_state(baseline_)) {
      comparison.outcome = TensorOutcome::kSkipped;
      comparison.note = {Phrase("generator-state")};
      left_out_ = true;
    }
    tally(comparison);
    screen(*choice.policy, comparison);
    if (comparison.outcome == TensorOutcome::kEqual) return;
    note_choice(choice, comparison);
    found_.outputs.push_back(std::move(comparison));
  }

  /// What an operator inside of this one made has been compared with that.
  void refuse_unread(TensorComparison& comparison) {
    const TensorRecord& tensor = comparison.baseline;
    if (has_inside_ || only_wraps(baseline_) ||
        !(was_never_read(tensor) || was_never_read(comparison.candidate))) {
      return;
    }
    comparison.outcome = TensorOutcome::kUncomparable;
    Phrase& note = comparison.note.emplace_back("never-read");
    if (tensor.attributes.starts_with(core::kOpaqueOf)) {
      note.with("class", tensor.attributes.substr(core::kOpaqueOf.size()));
    }
    found_.never_read = true;
  }

  /// Whether a tensor is the scales or zero points of one that is judged by its values.
  bool counts_in_whole(const TensorRecord& b,
                       const TensorRecord& c,
                       const configs::PolicySpec& policy) {
    const bool is_part = b.slot.ends_with(".scales") || b.slot.ends_with(".zero_points");
    if (!is_part || !judges_dequantised(policy.kind)) return false;
    const TensorRecord* from = whole_of(baseline_, b);
    const TensorRecord* to = whole_of(candidate_, c);
    if (from == nullptr || to == nullptr || from->state != ContentState::kHashed) return false;
    const Choice choice = judge_.rules().choose_for_output(baseline_, *from);
    return choice.policy != nullptr && quantisers_of(*from, *to, choice.policy->kind).has_value();
  }

  /// An output that is not judged by its values.
  TensorComparison& add_output(const TensorRecord& b,
                               const TensorRecord& c,
                               const Choice& choice,
                               TensorOutcome outcome,
                               Phrase why) {
    TensorComparison& comparison = found_.outputs.emplace_back();
    comparison.role = b.role;
    comparison.baseline = b;
    comparison.candidate = c;
    comparison.outcome = outcome;
    comparison.note = {std::move(why)};
    note_choice(choice, comparison);
    return comparison;
  }

  static void note_choice(const Choice& choice, TensorComparison& comparison) {
    comparison.rule = choice.rule;
    if (choice.policy == nullptr) return;
    comparison.policy = describe_policy(*choice.policy);
    comparison.policy_kind = choice.policy->kind;
  }

  void note_yardstick(const Choice& choice) {
    if (choice.policy->kind == configs::PolicyKind::kNoise && choice.floor == nullptr) {
      found_.lacks_floor = true;
    }
    if (choice.policy->kind == configs::PolicyKind::kFp64) found_.lacks_fp64 = true;
  }

  /// What a rule leaves out, or no rule speaks of.
  void pass_over(const TensorRecord& b, const TensorRecord& c, const Choice& choice) {
    if (choice.policy == nullptr) {
      if (found_.unruled.empty()) found_.unruled = where("output", b);
      add_output(b, c, choice, TensorOutcome::kUncomparable, Phrase("no-rule"));
      uncomparable_ = true;
      ++found_.tally.not_judged;
    } else {
      add_output(b, c, choice, TensorOutcome::kSkipped, Phrase("left-out-by-rule"));
      skipped_ = left_out_ = true;
      ++found_.tally.ignored;
    }
  }

  /// Under a policy that looks at no single element, how many of those would not pass one that
  /// does.
  void screen(const configs::PolicySpec& policy, const TensorComparison& comparison) {
    if (comparison.outcome != TensorOutcome::kWithin || !is_screening(policy) ||
        !comparison.metrics) {
      return;
    }
    ++found_.screened.tensors;
    found_.screened.elements += comparison.metrics->elements;
    found_.screened.beyond += comparison.metrics->n_beyond;
  }

  /// Results other than tensors. Real numbers are judged by their policy, all else is exact.
  void compare_results() {
    const std::vector<core::Value>& left = baseline_.results;
    const std::vector<core::Value>& right = candidate_.results;
    if (has_named_results(baseline_) && has_named_results(candidate_)) {
      return for_each_argument(
          baseline_, candidate_, [&](const core::Argument* one, const core::Argument* other) {
            compare_named(one, other);
          });
    }
    for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      compare_result(
          left[i], right[i], [i] { return std::to_string(i); }, "result ");
    }
    add_count("results", left.size(), right.size(), found_.results);
  }

  /// The first arguments name the results, one each; what stands behind them is told beside them.
  static bool has_named_results(const core::OpRecord& record) {
    return core::is_named_values(record) && record.results.size() <= record.arguments.size();
  }

  static const core::Value* result_of(const core::OpRecord& record,
                                      const core::Argument* argument) {
    if (argument == nullptr) return nullptr;
    const auto place = static_cast<std::size_t>(argument - record.arguments.data());
    return place < record.results.size() ? &record.results[place] : nullptr;
  }

  void compare_named(const core::Argument* one, const core::Argument* other) {
    const std::string& name = one == nullptr ? other->name : one->name;
    const core::Value* left = result_of(baseline_, one);
    const core::Value* right = result_of(candidate_, other);
    if (left != nullptr && right != nullptr) {
      compare_result(
          *left, *right, [&] { return name; }, "");
    } else if (left != nullptr || right != nullptr) {
      found_.results.push_back({name,
                                left == nullptr ? "nothing" : short_text(*left),
                                right == nullptr ? "nothing" : short_text(*right),
                                true});
    }
  }

  template <typename Slot>
  void compare_result(const core::Value& left,
                      const core::Value& right,
                      Slot slot_of,
                      std::string_view prefix) {
    const auto* number = std::get_if<double>(&left.data);
    const bool is_nan = number != nullptr && std::isnan(*number);
    const bool same = same_scalars(left, right);
    if (same && !is_nan) return;
    const std::string slot = slot_of();
    const auto policy = result_policy(slot, result_dtype(baseline_));
    if (!policy) return;
    const bool refused = is_nan && policy->element.equal_nan == configs::EqualNan::kNever;
    if (same && !refused) return;
    found_.results.push_back({std::string(prefix) + slot,
                              short_text(left),
                              short_text(right),
                              refused || !within(left, right, *policy)});
  }

  /// Empty where a rule leaves the result out or none speaks of it.
  std::optional<ScalarPolicy> result_policy(std::string_view slot, core::Dtype dtype) {
    const Choice choice = judge_.rules().choose(
        baseline_, {.role = "result", .slot = slot, .dtype = dtype, .device = {}});
    if (choice.policy == nullptr) {
      if (found_.unruled.empty()) {
        found_.unruled = fmt::format("op {} result {}", baseline_.index, slot);
      }
      uncomparable_ = true;
      return std::nullopt;
    }
    if (choice.policy->kind == configs::PolicyKind::kIgnore) return std::nullopt;
    if (choice.policy->kind == configs::PolicyKind::kNoise) return noise_policy(choice, dtype);
    return ScalarPolicy{element_policy(*choice.policy, dtype), dtype};
  }

  /// A number has no norm but itself: its distance is held against the floor of its distances.
  std::optional<ScalarPolicy> noise_policy(const Choice& choice, core::Dtype dtype) {
    if (choice.floor == nullptr) {
      note_yardstick(choice);
      uncomparable_ = true;
      return std::nullopt;
    }
    ScalarPolicy policy{element_policy(*choice.policy, dtype), dtype};
    policy.element.rtol = 0;
    policy.element.atol = noise_factor(*choice.policy) * choice.floor->max_abs;
    return policy;
  }

  /// @param by_value  elements were compared, not only dtype and shape
  void count(const TensorRecord& record, bool by_value) {
    ++found_.tally.tensors;
    if (record.state != ContentState::kHashed) return;
    const auto elements = static_cast<std::uint64_t>(core::element_count(record.shape));
    found_.elements += elements;
    found_.bytes += elements * core::element_size(record.dtype);
    if (by_value) found_.values += elements;
  }

  void count_equal(const TensorRecord& record) {
    if (!record.stats) return;
    found_.zeros += record.stats->zeros;
    found_.counted += static_cast<std::uint64_t>(core::element_count(record.shape));
  }

  void tally(const TensorComparison& comparison) {
    found_.severity = std::max(found_.severity, severity_of(comparison));
    switch (comparison.outcome) {
      case TensorOutcome::kEqual:
        count(comparison.baseline, true);
        count_equal(comparison.baseline);
        return;
      case TensorOutcome::kWithin:
      case TensorOutcome::kBeyond:
        count(comparison.baseline, true);
        found_.bits_differ = true;
        (comparison.outcome == TensorOutcome::kWithin ? within_ : beyond_) = true;
        if (comparison.metrics) {
          found_.zeros += comparison.metrics->zeros_both;
          found_.counted += comparison.metrics->elements;
        }
        return;
      case TensorOutcome::kMismatch:
        count(comparison.baseline, false);
        found_.bits_differ = true;
        mismatched_ = true;
        return;
      case TensorOutcome::kUncomparable:
        uncomparable_ = true;
        ++found_.tally.not_judged;
        return;
      case TensorOutcome::kSkipped:
        skipped_ = true;
        left_out_ = left_out_ || comparison.baseline.state == ContentState::kExcluded;
        unread_ = unread_ || has_unread_values(comparison.baseline);
        ++found_.tally.metadata_only;
        return;
    }
  }

  void conclude() {
    for (const ScalarDifference& result : found_.results) {
      found_.bits_differ = true;
      (result.beyond ? beyond_ : within_) = true;
    }
    // Nothing but memory nobody wrote, or values nobody recorded, and no number returned either.
    // Scales of a quantised tensor say nothing of numbers that could not be read.
    const bool nothing =
        unread_ || (skipped_ && found_.tally.tensors == 0 && !has_scalar_results(baseline_));
    if (mismatched_) {
      found_.outcome = OpOutcome::kMismatched;
    } else if (beyond_) {
      found_.outcome = OpOutcome::kDiverged;
    } else if (uncomparable_) {
      found_.outcome = OpOutcome::kNotJudged;
    } else if (within_) {
      found_.outcome = OpOutcome::kWithin;
    } else {
      found_.outcome = nothing ? OpOutcome::kSkipped : OpOutcome::kEqual;
      found_.without_content = nothing && !left_out_;
    }
  }

  const core::OpRecord& baseline_;
  const core::OpRecord& candidate_;
  OpFindings& found_;
  TensorJudge& judge_;
  const configs::CompareSpec& options_;
  const bool has_inside_;
  std::optional<std::pair<SharedMemory, SharedMemory>> shared_;  ///< of both sides, once asked for
  bool mismatched_ = false;  ///< in the number of outputs, or in dtype, shape, layout or state
  bool beyond_ = false;
  bool within_ = false;
  bool uncomparable_ = false;
  bool skipped_ = false;
  bool left_out_ = false;  ///< of what was skipped some, by a filter or a rule
  bool unread_ = false;    ///< an output has values that neither recording could read
};

}  // namespace

void judge_op(JudgedCall& call, const CompareOptions& options, TensorJudge& judge) {
  OpComparison(call, options, judge).run();
}

}  // namespace repro_check::comparators
