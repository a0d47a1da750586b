// SPDX-License-Identifier: Apache-2.0
#include "comparators/resume/resume.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "comparators/ranks/other_world.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/op_record.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

/// A tensor, or a number, as a program keeps it.
struct Leaf {
  std::string name;
  std::optional<core::ContentKey> tensor;
  double number = 0;
  std::int64_t storage = -1;  ///< of the tensor

  [[nodiscard]] bool is_equal(const Leaf& other) const {
    // By their bits: a NaN that was restored is right.
    return tensor == other.tensor && core::Value{number} == core::Value{other.number};
  }
};
using Leaves = std::vector<Leaf>;

/// `step` of `count.fc.weight.step` and of `saved['state'][0]['step']`.
std::string_view last_key(std::string_view name) {
  if (!name.ends_with(']')) return name.substr(name.rfind('.') + 1);
  std::string_view key = name.substr(name.rfind('[') + 1);
  key.remove_suffix(1);
  if (key.size() >= 2 && key.front() == '\'' && key.back() == '\'') {
    key = key.substr(1, key.size() - 2);
  }
  return key;
}

/// Optimizers keep their counts by parameter: a `step` of the program's own is another.
bool is_count(std::string_view name) {
  return name.starts_with(core::kSavedCount) ||
         (last_key(name) == "step" && std::ranges::count(name, '[') >= 3);
}

/// What has to be equal for two leaves to hold the same thing, wherever they stand. Numbers are
/// equal by chance too often: they have to be called the same as well.
std::string print_of(const Leaf& leaf) {
  if (leaf.tensor) return core::content_name(*leaf.tensor);
  return fmt::format(
      "{}{}={:a}", is_count(leaf.name) ? "count " : "", last_key(leaf.name), leaf.number);
}

using Prints = std::set<std::string, std::less<>>;

void add_prints(const Leaves& leaves, Prints& prints) {
  for (const Leaf& leaf : leaves) prints.insert(print_of(leaf));
}

/// A record without an operator: what Python said at one moment.
struct Moment {
  std::uint64_t op = 0;
  std::uint32_t step = 0;
  std::string place;
  Leaves leaves;
};

Moment read_moment(const core::OpRecord& record) {
  Moment moment{record.index, record.step, core::line_text(record.site.get()), {}};
  for (const core::Argument& argument : record.arguments) {
    if (const auto* number = std::get_if<double>(&argument.value.data)) {
      moment.leaves.push_back({argument.name, std::nullopt, *number, -1});
    }
  }
  for (const core::TensorRecord& tensor : record.tensors) {
    if (!core::is_output(tensor) || tensor.state != core::ContentState::kHashed) continue;
    moment.leaves.push_back({tensor.slot, tensor.content_key(), 0, tensor.storage});
  }
  return moment;
}

/// What one run said of its checkpoints, by the last word of the record's name, in order.
class Story {
 public:
  explicit Story(const core::DumpSource& dump) : dump_(dump) {
    for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
      const core::OpRecord head = dump.op_head(i);
      if (core::is_of_checkpoint(*head.op)) {
        moments_[head.op->name.substr(core::kCheckpointRecords.size())].push_back(
            read_moment(dump.op(i)));
      } else if (head.op->name == core::kBatchRecord) {
        batches_.push_back(i);
      } else if (head.op->name == core::kOrderRecord) {
        orders_.push_back(i);
      }
      has_steps_ = has_steps_ || head.step != 0;
    }
  }

  [[nodiscard]] const std::vector<Moment>& all(std::string_view what) const {
    static const std::vector<Moment> none;
    const auto found = moments_.find(what);
    return found == moments_.end() ? none : found->second;
  }

  /// Whether an operator behind an op index may have drawn random numbers of the CPU's default
  /// generator that somebody asks for.
  [[nodiscard]] bool draws_after(std::uint64_t op) const {
    const core::TraceSummary& trace = dump_.manifest().trace;
    if (!trace.only.empty() || !trace.include.empty() || !trace.exclude.empty()) return true;
    while (++op < dump_.op_count()) {
      if (!dump_.op_head(op).op->seeded) continue;
      const core::OpRecord record = dump_.op(op);
      const bool is_asked = std::ranges::any_of(record.tensors, [](const auto& tensor) {
        return core::is_output(tensor) && tensor.state != core::ContentState::kExcluded;
      });
      const bool is_given_another =
          std::ranges::any_of(record.arguments, [](const core::Argument& argument) {
            const auto* given = std::get_if<core::Opaque>(&argument.value.data);
            return given != nullptr && given->type == "Generator";
          });
      // Draws on the host are of the place of a generator, most often the CPU's.
      if (!is_asked || !record.generator || is_given_another) continue;
      const std::string& device = record.generator->device;
      if (device == "cpu" || device == "host") return true;
    }
    return false;
  }

  /// Whether an operator behind an op index reads what a leaf holds, before it is written anew.
  [[nodiscard]] bool reads_after(std::uint64_t op, const Leaf& leaf) const {
    const auto [of_op, is_new] = uses_.try_emplace(op);
    if (is_new) find_uses(op, of_op->second);
    const auto found = of_op->second.find(leaf.storage);
    if (found == of_op->second.end() || !found->second.is_read || !leaf.tensor) return false;
    return found->second.copied < core::element_count(leaf.tensor->shape);
  }

  /// The first behind an op index; null where there is none.
  [[nodiscard]] const Moment* first_after(std::string_view what, std::uint64_t op) const {
    const std::vector<Moment>& moments = all(what);
    const auto found =
        std::ranges::find_if(moments, [&](const Moment& moment) { return moment.op > op; });
    return found == moments.end() ? nullptr : &*found;
  }

  /// Those of several kinds behind an op index and before `end`, in order.
  [[nodiscard]] std::vector<const Moment*> between(std::initializer_list<std::string_view> kinds,
                                                   std::uint64_t op,
                                                   std::uint64_t end) const {
    std::vector<const Moment*> moments;
    for (const std::string_view what : kinds) {
      for (const Moment& moment : all(what)) {
        if (moment.op > op && moment.op < end) moments.push_back(&moment);
      }
    }
    std::ranges::sort(moments, {}, &Moment::op);
    return moments;
  }

  [[nodiscard]] std::optional<Moment> batch_before(std::uint64_t op) const {
    const auto after = std::ranges::lower_bound(batches_, op);
    if (after == batches_.begin()) return std::nullopt;
    return read_moment(dump_.op(*std::prev(after)));
  }

  /// The numbers in the dataset of the samples of the last batch before an op index; empty where
  /// they are not known.
  [[nodiscard]] std::vector<std::int64_t> samples_before(std::uint64_t op) const {
    const auto after = std::ranges::lower_bound(orders_, op);
    if (after == orders_.begin()) return {};
    return core::list_argument<std::int64_t>(dump_.op(*std::prev(after)), core::kOrderSamples);
  }

  [[nodiscard]] const core::DumpSource& dump() const { return dump_; }
  [[nodiscard]] bool has_steps() const { return has_steps_; }

 private:
  struct Use {
    bool is_read = false;
    std::int64_t copied = 0;  ///< elements from its begin on that were written anew before
  };
  using Uses = std::map<std::int64_t, Use>;  ///< by storage

  void find_uses(std::uint64_t op, Uses& uses) const {
    while (++op < dump_.op_count()) {
      if (core::is_named_values(dump_.op_head(op))) continue;
      const core::OpRecord record = dump_.op(op);
      const bool copies = record.op->name == "aten::copy_";
      for (const core::TensorRecord& tensor : record.tensors) {
        const bool is_target = copies && (core::is_output(tensor) || tensor.slot == "self");
        if (core::is_input(tensor) && !is_target) uses[tensor.storage].is_read = true;
      }
      for (const core::TensorRecord& tensor : record.tensors) {
        if (!copies || !core::is_output(tensor) || tensor.storage_offset != 0) continue;
        Use& use = uses[tensor.storage];
        if (!use.is_read) use.copied = std::max(use.copied, core::element_count(tensor.shape));
      }
    }
  }

  const core::DumpSource& dump_;
  mutable std::map<std::uint64_t, Uses> uses_;  ///< behind an op index
  std::map<std::string, std::vector<Moment>, std::less<>> moments_;
  std::vector<std::uint64_t> batches_;
  std::vector<std::uint64_t> orders_;
  bool has_steps_ = false;  ///< of an optimizer
};

/// Whether both hold the same under the same paths.
bool same_object(const Moment& saved, const Moment& loaded) {
  return std::ranges::equal(saved.leaves, loaded.leaves, [](const Leaf& here, const Leaf& there) {
    const auto path = [](const Leaf& leaf) {
      return std::string_view(leaf.name).substr(std::min(leaf.name.size(), leaf.name.find('[')));
    };
    return path(here) == path(there) && here.is_equal(there);
  });
}

const Leaf* find_leaf(const Moment* moment, std::string_view name) {
  if (moment == nullptr) return nullptr;
  const auto found = std::ranges::find(moment->leaves, name, &Leaf::name);
  return found == moment->leaves.end() ? nullptr : &*found;
}

double number_in(const Moment& moment, std::string_view name) {
  const Leaf* leaf = find_leaf(&moment, name);
  return leaf == nullptr ? 0 : leaf->number;
}

/// Of the name of a leaf; empty for what is no state.
std::optional<StateKind> kind_of(std::string_view name) {
  using enum StateKind;
  constexpr std::array<std::pair<std::string_view, StateKind>, 13> kKinds{{
      {core::kSavedParameter, kParameters},
      {core::kBufferPrefix, kBuffers},
      {"generator.torch.cpu", kTorchGenerator},
      {"generator.torch.", kDeviceGenerator},
      {"generator.numpy", kNumpyGenerator},
      {"generator.random", kPythonGenerator},
      {"generator.loader", kLoaderGenerator},
      {"generator.dataset", kDatasetGenerator},
      {core::kSavedModule, kOtherModule},
      {core::kSavedScaler, kLossScale},
      {core::kSavedOptimizer, kOptimizer},
      {core::kSavedCount, kStepCount},
      {core::kSavedSchedule, kSchedule},
  }};
  const auto* found =
      std::ranges::find_if(kKinds, [&](const auto& kind) { return name.starts_with(kind.first); });
  return found == kKinds.end() ? std::nullopt : std::optional(found->second);
}

bool is_generator(StateKind kind) {
  return kind >= StateKind::kTorchGenerator && kind <= StateKind::kDatasetGenerator;
}

Phrases detail_of(const Leaf& here, const Leaf* there) {
  if (there == nullptr) return {Phrase("not-in-resumed")};
  if (here.tensor || there->tensor) return {Phrase("other-bits")};
  return {Phrase("against", {{"baseline", here.number}, {"candidate", there->number}})};
}

/// Judges the state of two runs that have met.
class StateJudge {
 public:
  struct Side {
    const Story& story;
    std::uint64_t file = 0;  ///< op index where the checkpoint was saved, or first loaded
    const Moment* forward = nullptr;
    const Moment* step = nullptr;  ///< may be null
    /// The first after `forward`, and before `step`; may be null.
    const Moment* backward = nullptr;
  };

  StateJudge(Side baseline, Side candidate) : here_(baseline), there_(candidate) {
    const std::uint64_t first_use = here_.forward->op;
    const auto& files = here_.story.all(core::kSavedMoment);
    const std::uint64_t step = std::ranges::find(files, here_.file, &Moment::op)->step;
    for (const Moment& saved : files) {
      if (saved.step == step && saved.op < first_use) {
        add_prints(saved.leaves, saved_);
        for (const Leaf& leaf : saved.leaves) {
          if (!leaf.tensor) numbers_.push_back(leaf);
        }
      }
    }
    at_save_ = here_.story.first_after(core::kSaveMoment, here_.file);
    const std::uint64_t end = there_.step == nullptr ? there_.forward->op : there_.step->op;
    for (const Moment* moment :
         there_.story.between({core::kRestoredMoment, core::kIteratorMoment, core::kBatchMoment},
                              there_.file,
                              end)) {
      add_prints(moment->leaves, restored_);
    }
  }

  std::vector<RestoredState> run() {
    std::vector<RestoredState> states;
    judge_uses(here_.forward, there_.forward, states);
    judge_batch(states);
    std::vector<RestoredState> at_step;
    judge_uses(here_.step, there_.step, at_step);
    // Gradients are known by names, which are those of other parameters where these are exchanged.
    const bool are_known =
        std::ranges::find(at_step, Restored::kMisplaced, &RestoredState::outcome) == at_step.end();
    if (are_known) judge_gradients(states);
    std::ranges::move(at_step, std::back_inserter(states));
    return states;
  }

 private:
  /// How a value that the baseline had, and the candidate has not, was lost.
  /// @param value  as it was when it was saved
  [[nodiscard]] Restored lost(const Leaf& value) const {
    const std::string print = print_of(value);
    // A distributed checkpoint saves each number by itself, and keeps its name in its metadata.
    const bool by_itself =
        !value.tensor && saved_.contains(fmt::format("saved={:a}", value.number));
    if (!saved_.contains(print) && !by_itself) return Restored::kNotSaved;
    return restored_.contains(print) ? Restored::kUsedUp : Restored::kNotLoaded;
  }

  void judge_uses(const Moment* here, const Moment* there, std::vector<RestoredState>& states) {
    if (here == nullptr || there == nullptr) return;
    std::map<StateKind, RestoredState> kinds;
    std::map<StateKind, bool> used;
    for (const Leaf& leaf : here->leaves) {
      const auto kind = kind_of(leaf.name);
      if (!kind) continue;
      const Leaf* other = find_leaf(there, leaf.name);
      // A generator that nothing has imported yet has no state.
      if (other == nullptr && is_generator(*kind)) continue;
      RestoredState& state = kinds[*kind];
      state.kind = *kind;
      ++state.items;
      if (other != nullptr && leaf.is_equal(*other)) continue;
      used[*kind] = used[*kind] || is_used(*kind, leaf, other);
      if (++state.differing > 1) continue;
      state.name = leaf.name;
      state.detail = detail_of(leaf, other);
      state.outcome = lost(when_saved(leaf));
      if (state.outcome == Restored::kUsedUp) find_use(leaf, state);
      if (state.outcome == Restored::kUsedUp) find_place(leaf, *there, state);
    }
    for (auto& [kind, state] : kinds) {
      if (state.differing > 0 && !used[kind]) state.outcome = Restored::kNotProven;
      states.push_back(std::move(state));
    }
  }

  /// Whether what was restored stands under another name: of a parameter in another order, or of
  /// one that no module has.
  static void find_place(const Leaf& value, const Moment& there, RestoredState& state) {
    const bool is_number = !value.tensor;  // of which many are equal by chance
    if (is_generator(state.kind) || (is_number && find_leaf(&there, value.name) != nullptr)) return;
    const auto place = std::ranges::find_if(there.leaves, [&](const Leaf& leaf) {
      return leaf.name != value.name && leaf.is_equal(value) && kind_of(leaf.name) == state.kind &&
             last_key(leaf.name) == last_key(value.name);
    });
    if (place == there.leaves.end()) return;
    state.outcome = Restored::kMisplaced;
    state.detail = {Phrase("stands-for-in-resumed", {{"other", place->name}})};
  }

  /// What had been added up before the checkpoint. It counts where the step is made of more than
  /// was added afterwards.
  void judge_gradients(std::vector<RestoredState>& states) const {
    if (here_.backward == nullptr || here_.step == nullptr || there_.step == nullptr) return;
    RestoredState state;
    state.kind = StateKind::kGradients;
    for (const Leaf& leaf : here_.backward->leaves) {
      const Leaf* stepped = find_leaf(here_.step, leaf.name);
      if (stepped == nullptr) continue;
      ++state.items;
      const Leaf* other = find_leaf(there_.backward, leaf.name);
      const Leaf* other_stepped = find_leaf(there_.step, leaf.name);
      const bool same_step = other_stepped != nullptr && stepped->is_equal(*other_stepped);
      if (same_step || (other != nullptr && leaf.is_equal(*other))) continue;
      if (++state.differing > 1) continue;
      state.name = leaf.name;
      state.detail = detail_of(leaf, other);
      state.outcome = lost(leaf);
    }
    if (state.items > 0) states.push_back(std::move(state));
  }

  /// Whether anything was done with it in either run. What is read in place is: weights and what an
  /// optimizer keeps.
  [[nodiscard]] bool is_used(StateKind kind, const Leaf& here, const Leaf* there) const {
    if (kind == StateKind::kOtherModule) {
      return here_.story.reads_after(here_.forward->op, here) ||
             (there != nullptr && there_.story.reads_after(there_.forward->op, *there));
    }
    const bool moves =
        is_generator(kind) || (kind == StateKind::kSchedule && here.name.starts_with("schedule["));
    if (!moves) return true;
    if (kind == StateKind::kTorchGenerator && !here_.story.draws_after(here_.forward->op) &&
        !there_.story.draws_after(there_.forward->op)) {
      return false;  // what moved it was of no consequence, as the seed for workers that a loader
                     // has none of
    }
    const auto moved = [&](const Story& story, const Leaf* before) {
      const std::vector<Moment>& ends = story.all(core::kEndMoment);
      if (ends.empty() || before == nullptr) return true;
      const Leaf* after = find_leaf(&ends.back(), before->name);
      return after == nullptr || !after->is_equal(*before);
    };
    return moved(here_.story, &here) || moved(there_.story, there);
  }

  /// What it was when it was saved: generators go on before they are used.
  [[nodiscard]] const Leaf& when_saved(const Leaf& value) const {
    const Leaf* then = find_leaf(at_save_, value.name);
    return then == nullptr ? value : *then;
  }

  /// Whether a generator that was restored stands, when the iterator over the batches is made,
  /// where it stood when the first run made its own.
  [[nodiscard]] bool is_seeded_again(const Leaf& value) const {
    const auto& begun = here_.story.all(core::kIteratorMoment);
    const Moment* iterator = iterator_of(there_);
    if (begun.empty() || iterator == nullptr) return false;
    const Leaf* first = find_leaf(&begun.front(), value.name);
    const Leaf* now = find_leaf(iterator, value.name);
    return first != nullptr && now != nullptr && first->is_equal(*now) &&
           !now->is_equal(when_saved(value));
  }

  /// At which lines the resumed run seeds such a generator; empty where that is not known.
  [[nodiscard]] std::string seeded_at(StateKind kind) const {
    using enum StateKind;
    constexpr std::array kSeeds{std::pair{kTorchGenerator, "torch.manual_seed"},
                                std::pair{kNumpyGenerator, "numpy.random.seed"},
                                std::pair{kPythonGenerator, "random.seed"}};
    const auto* seed = std::ranges::find(kSeeds, kind, [](const auto& each) { return each.first; });
    if (seed == kSeeds.end()) return {};
    return core::text_or_empty(core::environment_fact(there_.story.dump().manifest(),
                                                      std::string(core::kSetAt) + seed->second));
  }

  /// Where a generator that was restored went on, and how far.
  void find_use(const Leaf& value, RestoredState& state) const {
    if (!is_generator(state.kind)) return;
    if (is_seeded_again(value)) {
      state.detail = {Phrase("seeded-again")};
      state.place = seeded_at(state.kind);
      if (state.place.empty()) state.place = iterator_of(there_)->place;
      return;
    }
    std::uint64_t before = there_.file;
    const Moment* after = there_.forward;
    for (const Moment* moment : there_.story.between({core::kRestoredMoment,
                                                      core::kIteratorMoment,
                                                      core::kBatchMoment,
                                                      core::kForwardMoment},
                                                     there_.file,
                                                     there_.forward->op + 1)) {
      const Leaf* leaf = find_leaf(moment, value.name);
      if (leaf == nullptr) continue;
      if (leaf->is_equal(when_saved(value))) {
        before = moment->op;
        after = there_.forward;
      } else if (moment->op < after->op) {
        after = moment;
      }
    }
    state.place = after->place;
    const std::string moved =
        std::string(core::kMovedPrefix) + value.name.substr(value.name.find('.') + 1);
    const double drawn = number_in(*there_.forward, moved) - number_in(*here_.forward, moved);
    if (drawn > 0) state.moved = static_cast<std::uint64_t>(drawn);
    const bool has_operators = state.kind != StateKind::kNumpyGenerator &&
                               state.kind != StateKind::kPythonGenerator &&
                               state.kind != StateKind::kDatasetGenerator;
    if (has_operators) find_draw(before, state);
  }

  /// An operator that drew says better where.
  void find_draw(std::uint64_t before, RestoredState& state) const {
    for (std::uint64_t op = before + 1; op < there_.forward->op; ++op) {
      const core::OpRecord record = there_.story.dump().op(op);
      if (!record.generator) continue;
      const std::string place = core::line_text(record.site.get());
      state.place = fmt::format("{}{}{}", record.op->full_name(), place.empty() ? "" : ", ", place);
      return;
    }
  }

  /// Puts the batch before all else, but for a generator that it was drawn from.
  void judge_batch(std::vector<RestoredState>& states) const {
    const auto here = here_.story.batch_before(here_.forward->op);
    const auto there = there_.story.batch_before(there_.forward->op);
    if (!here || !there) return;
    RestoredState state;
    state.kind = StateKind::kBatch;
    state.items = here->leaves.size();
    for (const Leaf& leaf : here->leaves) {
      const Leaf* other = find_leaf(&*there, leaf.name);
      if (other != nullptr && leaf.is_equal(*other)) continue;
      if (++state.differing == 1) state.name = leaf.name;
    }
    auto place = states.begin();
    if (state.differing > 0) {
      const double position = number_in(*here_.forward, core::kSavedPosition);
      const double other = number_in(*there_.forward, core::kSavedPosition);
      const std::vector<std::int64_t> samples = here_.story.samples_before(here_.forward->op);
      const bool same_samples =
          !samples.empty() && samples == there_.story.samples_before(there_.forward->op);
      if (position != other && !same_samples) {
        state.detail = {Phrase("other-position", {{"baseline", position}, {"candidate", other}})};
        state.outcome = lost_position(position);
      } else {
        place = judge_order(position, state, states);
      }
    }
    states.insert(place, std::move(state));
  }

  /// A position stands in a checkpoint as some number that says how much was done.
  [[nodiscard]] Restored lost_position(double position) const {
    const double done = position - 1;
    const double steps = here_.forward->step;
    Prints live;
    if (at_save_ != nullptr) add_prints(at_save_->leaves, live);
    const bool saved = std::ranges::any_of(numbers_, [&](const Leaf& leaf) {
      const double value = leaf.number;
      const bool says_so = value == done || value == done - 1 || value == position ||
                           value == steps || value == steps - 1;
      return says_so && value > 0 && !live.contains(print_of(leaf));
    });
    return saved ? Restored::kNotLoaded : Restored::kNotSaved;
  }

  /// The right place in other data: what drew them is to blame.
  /// @return where the batch goes among the states
  std::vector<RestoredState>::iterator judge_order(double position,
                                                   RestoredState& state,
                                                   std::vector<RestoredState>& states) const {
    const bool same_samples = !here_.story.samples_before(here_.forward->op).empty() &&
                              here_.story.samples_before(here_.forward->op) ==
                                  there_.story.samples_before(there_.forward->op);
    state.detail = {same_samples ? Phrase("samples-hold-other")
                                 : Phrase("other-samples-at", {{"position", position}})};
    for (auto known = states.begin(); known != states.end(); ++known) {
      if (!is_generator(known->kind) || !known->parts()) continue;
      state.outcome = known->outcome;
      state.detail.back().with("parted", state_name(known->kind));
      std::rotate(states.begin(), known, known + 1);
      return states.begin() + 1;
    }
    state.outcome = Restored::kNotSaved;
    const Leaf* blamed = parted_at_iterator();
    if (blamed == nullptr) return states.begin();
    const StateKind kind = *kind_of(blamed->name);
    state.detail.back().with("elsewhere", state_name(kind));
    state.place = iterator_of(there_)->place;
    state.outcome = lost(*blamed);
    for (RestoredState& known : states) {
      if (known.kind == kind && known.differing > 0) known.outcome = state.outcome;
    }
    return states.begin();
  }

  /// A generator that was not the same when the iterator over the batches was made, the loader's
  /// own before all others; null where there is none.
  [[nodiscard]] const Leaf* parted_at_iterator() const {
    const Moment* here = iterator_of(here_);
    const Moment* there = iterator_of(there_);
    const Leaf* found = nullptr;
    if (here == nullptr || there == nullptr) return found;
    for (const Leaf& leaf : here->leaves) {
      const auto kind = kind_of(leaf.name);
      const Leaf* other = find_leaf(there, leaf.name);
      if (!kind || !is_generator(*kind) || other == nullptr || leaf.is_equal(*other)) continue;
      if (*kind == StateKind::kLoaderGenerator) return &leaf;
      if (found == nullptr) found = &leaf;
    }
    return found;
  }

  static const Moment* iterator_of(const Side& side) {
    const Leaf* number = find_leaf(side.forward, core::kSavedIterator);
    for (const Moment& moment : side.story.all(core::kIteratorMoment)) {
      const Leaf* own = find_leaf(&moment, core::kSavedIterator);
      if (number != nullptr && own != nullptr && own->number == number->number) return &moment;
    }
    return nullptr;
  }

  Side here_;
  Side there_;
  Prints saved_;
  Prints restored_;
  std::vector<Leaf> numbers_;  ///< saved ones
  const Moment* at_save_ = nullptr;
};

StateJudge::Side side_of(const Story& story, const Moment& file, const Moment& forward) {
  const Moment* step = story.first_after(core::kStepMoment, forward.op);
  const Moment* backward = story.first_after(core::kBackwardMoment, forward.op);
  const bool is_before = backward != nullptr && step != nullptr && backward->op < step->op;
  return {story, file.op, &forward, step, is_before ? backward : nullptr};
}

/// Where a run saved, where another loaded that, and the first step after it; null where not found.
struct Restore {
  const Moment* saved = nullptr;   ///< the latest of those that were loaded
  const Moment* loaded = nullptr;  ///< the first
  const Moment* use = nullptr;
  std::uint64_t files = 0;
};

Restore find_restore(const Story& here, const Story& there) {
  Restore found;
  for (const Moment& file : there.all(core::kLoadedMoment)) {
    if (found.use != nullptr && file.op > found.use->op) break;
    const auto& made = here.all(core::kSavedMoment);
    const auto same =
        std::ranges::find_if(made, [&](const Moment& one) { return same_object(one, file); });
    if (same == made.end()) continue;
    ++found.files;
    if (found.saved == nullptr || same->op > found.saved->op) found.saved = &*same;
    if (found.loaded != nullptr) continue;
    found.loaded = &file;
    found.use = there.first_after(core::kForwardMoment, file.op);
  }
  return found;
}

ResumePoint refused(Phrase obstacle) {
  ResumePoint point;
  point.obstacle = std::move(obstacle);
  return point;
}

/// Steps of optimizers that a run has made; 0 where nobody counted.
std::uint32_t steps_of(const core::DumpSource& dump) {
  std::uint32_t steps = 0;
  for (std::uint64_t op = 0; op < dump.op_count(); ++op) {
    const core::OpRecord head = dump.op_head(op);
    if (head.op->name == core::kStepRecord) steps = std::max(steps, head.step + 1);
  }
  return steps;
}

/// `CrossEntropyLoss` of `CrossEntropyLoss#5.weight`, and where the number stands; empty of a
/// module that is no root with one.
struct RootName {
  std::string_view whole;  ///< with its number
  std::string_view kind;
};

RootName root_in(std::string_view path) {
  const std::string_view whole = path.substr(0, path.find('.'));
  return {whole, whole.substr(0, whole.find('#'))};
}

/// The roots of one run from an op index on.
struct RootModules {
  std::map<std::string, std::vector<std::string>, std::less<>> by_kind;  ///< as they came
  std::set<std::string, std::less<>> paths;  ///< of them and of what is below them

  RootModules(const core::DumpSource& dump, std::uint64_t from) {
    std::set<std::string, std::less<>> known;
    for (std::uint64_t op = from; op < dump.op_count(); ++op) {
      const core::OpRecord head = dump.op_head(op);
      const std::string_view path = module_of(head);
      if (path.empty() || paths.contains(path)) continue;
      paths.emplace(path);
      const RootName root = root_in(path);
      if (!known.emplace(root.whole).second) continue;
      by_kind[std::string(root.kind)].emplace_back(root.whole);
    }
  }
};

}  // namespace

ResumePoint find_resume(const core::DumpSource& baseline, const core::DumpSource& candidate) {
  const Story here(baseline);
  const Story there(candidate);
  if (here.all(core::kSavedMoment).empty()) {
    return refused(Phrase("no-checkpoint-saved", {{"dump", baseline.location()}}));
  }
  if (there.all(core::kLoadedMoment).empty()) {
    return refused(Phrase("nothing-loaded", {{"dump", candidate.location()}}));
  }
  if (!ran_on_as_many_ranks(baseline, candidate)) {
    return refused(Phrase("resumed-on-other-ranks",
                          {{"baseline", ranks_of(baseline)}, {"candidate", ranks_of(candidate)}}));
  }
  const auto [saved, loaded, use, files] = find_restore(here, there);
  // Of a program that makes its steps without an optimizer of PyTorch nobody counts them.
  if (saved != nullptr && saved->step == 0 && here.has_steps()) {
    return refused(Phrase("loaded-before-first-step"));
  }
  if (saved == nullptr) return refused(Phrase("loaded-nothing-saved"));
  const Moment* first = here.first_after(core::kForwardMoment, saved->op);
  if (first == nullptr) return refused(Phrase("first-run-ends-at-checkpoint"));
  if (use == nullptr) return refused(Phrase("resumed-run-makes-no-step"));
  ResumePoint point;
  ResumeSummary& summary = point.summary;
  summary.step = first->step;
  summary.saved = saved->place;
  if (first->step != saved->step) summary.before_update = saved->step;
  summary.loaded = loaded->place;
  summary.files = files;
  summary.baseline_op = first->op;
  summary.candidate_op = use->op;
  point.steps_before = first->step - use->step;
  const std::uint32_t here_made = steps_of(baseline);
  const std::uint32_t there_made = steps_of(candidate);
  if (here_made != 0 && there_made != 0) {
    const std::uint32_t there_counted = there_made + point.steps_before;
    point.steps = std::min(here_made, there_counted);
    point.goes_on = here_made != there_counted;
  }
  summary.states = StateJudge(side_of(here, *saved, *first), side_of(there, *loaded, *use)).run();
  return point;
}

ModuleRenames rename_roots(const core::DumpSource& baseline,
                           const core::DumpSource& candidate,
                           const ResumePoint& point) {
  const RootModules here(baseline, point.summary.baseline_op);
  const RootModules there(candidate, point.summary.candidate_op);
  std::map<std::string, std::string, std::less<>> names;
  for (const auto& [kind, roots] : there.by_kind) {
    const auto others = here.by_kind.find(kind);
    if (others == here.by_kind.end()) continue;
    const std::size_t both = std::min(roots.size(), others->second.size());
    for (std::size_t i = 0; i < both; ++i) names[roots[i]] = others->second[i];
  }
  ModuleRenames renames;
  for (const std::string& path : there.paths) {
    const std::string_view root = root_in(path).whole;
    const auto name = names.find(root);
    if (name == names.end() || name->second == root) continue;
    renames.emplace(path, name->second + path.substr(root.size()));
  }
  return renames;
}

}  // namespace repro_check::comparators
