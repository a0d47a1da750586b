// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comparators/align/pairing.h"
#include "comparators/cause/differences.h"
#include "comparators/cause/host_generators.h"
#include "comparators/judge/op_judge.h"
#include "comparators/report/report.h"
#include "core/system/memory.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {

/// What gives PyTorch's generators a seed.
inline constexpr std::array<std::string_view, 3> kTorchSeeders{
    "torch.manual_seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all"};

/// Something a storage of one run. An operator may have a storage of its own, so that a trace of a
/// million operators has a million of these.
template <typename Value>
class StorageMap {
 public:
  /// Made where there is none yet.
  Value& operator[](std::int64_t storage) {
    const std::uint32_t number = numbers_.number_of(storage);
    if (number == values_.size()) values_.emplace_back();
    return values_[number];
  }

  /// Null where there is none.
  [[nodiscard]] const Value* find(std::int64_t storage) const {
    const auto number = numbers_.find(storage);
    return number ? &values_[*number] : nullptr;
  }

  /// In the order in which they were made.
  [[nodiscard]] const core::LargeVector<Value>& values() const { return values_; }

 private:
  /// Storages are mostly numbered as they come, and then each has a slot of its own beside its
  /// neighbour's. Numbers far apart are mixed, so that few fall together.
  struct Hash {
    std::size_t operator()(std::int64_t storage) const noexcept {
      const auto number = static_cast<std::uint64_t>(storage);
      const std::uint64_t mixed = (number >> 24U) * 0x9E37'79B9'7F4A'7C15U;
      return number + (mixed ^ (mixed >> 32U));
    }
  };

  core::Numbering<std::int64_t, Hash> numbers_;
  core::LargeVector<Value> values_;
};

/// What was last written to each storage of one run, to notice a value that changed although no
/// operator wrote it, and who allocated memory that nobody had written yet, and how much of it was
/// written since. 40 bytes a storage, twice that of those that came to differ.
class WriteHistory {
 public:
  /// @param dump  of the run; borrowed
  explicit WriteHistory(const core::DumpSource& dump) : dump_(dump) {}

  /// To be told every record, in the order in which calls ended.
  /// @param differs  whether some output is not that of the other run
  void see(const core::OpRecord& record, bool differs);

  /// Whether `input` is seen through the view that its producer returned, and holds something else
  /// than it returned. False where that cannot be told.
  [[nodiscard]] bool contradicts(const core::TensorRecord& input) const;
  /// The last operator that wrote something else into the storage than its counterpart, and whose
  /// view of it no other has written since; kNoProducer where there is none.
  [[nodiscard]] std::int64_t differing_writer(const core::TensorRecord& tensor) const;

  /// Whether all that operators wrote, of what one of them allocated, is fewer elements than these.
  [[nodiscard]] bool is_written_in_part(const core::TensorRecord& tensor) const;

  /// Whether `tensor` is a parameter or buffer in memory that an operator allocated, that none has
  /// written since, and that none has shown in another way: NumPy could fill it through a view.
  [[nodiscard]] bool is_unwritten_state(const core::TensorRecord& tensor) const;

  /// Who allocated the memory of a tensor, and who wrote a part of it; null where a call inside an
  /// operator allocated it, or nobody did.
  [[nodiscard]] std::optional<Phrase> describe_unwritten(const core::TensorRecord& tensor) const;
  /// The same, as evidence.
  [[nodiscard]] Phrases unwritten(const core::TensorRecord& tensor) const;

 private:
  void see_allocations(const core::OpRecord& record);

  struct Write {
    std::int64_t producer = core::kNoProducer;
    std::uint64_t view = 0;  ///< dtype, shape, strides and offset
    core::Digest content;
  };
  struct Allocation {
    std::int64_t op = core::kNoProducer;
    std::int64_t writer = core::kNoProducer;  ///< the last of those that told what they wrote
    std::int64_t written = 0;                 ///< elements, of several writers each
    bool is_shown = false;                    ///< through a view
  };
  const core::DumpSource& dump_;
  StorageMap<Write> writes_;
  StorageMap<Write> differing_;
  StorageMap<Allocation> allocations_;
};

/// The first argument that is memory of which not all has been written, and that the operator
/// reads; null where there is none. What only takes its shape, shows it otherwise or writes it does
/// not read it, and neither is it known of what picks elements (`index_select`).
const core::TensorRecord* unwritten_argument(const core::OpRecord& record);

/// Whether an argument is such memory, and the operator reads it or picks elements of it.
bool may_read_unwritten(const core::OpRecord& record);

/// Whether an operator was given a generator, and so does not draw from that of the process.
bool has_own_generator(const core::OpRecord& record);

/// Follows the generators of both runs through the trace and remembers where they first parted.
class RngLedger {
 public:
  RngLedger(const core::RunManifest& baseline, const core::RunManifest& candidate);

  /// To be told every matched pair, in the order in which the calls ended, before its cause is
  /// asked for.
  void see(const JudgedCall& call);
  /// And every operator that is on one side only.
  void see_unmatched(const core::OpRecord& record, bool in_baseline);

  /// Whether a generator stood elsewhere, or had another seed, when this pair drew. Empty when it
  /// was not recorded for either side.
  [[nodiscard]] std::optional<bool> stood_elsewhere(const JudgedCall& call) const;

  /// How they parted, and which draw was the last alike; empty while they are together.
  [[nodiscard]] const Phrases& parting() const noexcept { return parting_; }
  /// They parted before the first draw, by their seeds.
  [[nodiscard]] bool started_apart() const noexcept { return started_apart_; }
  /// The generator of the process did, by seed or place.
  [[nodiscard]] bool process_started_apart() const noexcept {
    return process_started_apart_.value_or(false);
  }
  /// Of the generator of the process, from which threads draw.
  [[nodiscard]] bool parted_in_threads() const noexcept { return parted_in_threads_; }
  /// Of all that it was told.
  [[nodiscard]] RandomDraws draws() const;

 private:
  void part(Phrase how);
  /// Whether a thread beside the main one has drawn from the generator that this draws from.
  bool is_drawn_by_threads(const core::OpRecord& record);
  /// Of calls in calls the outermost that drew counts. To be told every call, in the order in which
  /// they ended: those that draw nothing stand between those that do.
  void count_calls(const core::OpRecord& record);
  void count(const core::OpRecord& record);

  std::optional<std::uint64_t> baseline_seed_;
  std::optional<std::uint64_t> candidate_seed_;
  /// Of the first draw from a generator of the process; empty before it.
  std::optional<bool> process_started_apart_;
  std::optional<Phrase> drawn_apart_;  ///< where one run draws on the host and the other does not
  bool started_apart_ = false;
  bool parted_in_threads_ = false;
  bool in_threads_ = false;  ///< a thread beside the main one drew
  Phrases parting_;
  std::string last_draw_;  ///< the last operator that drew alike on both sides
  RandomDraws draws_;
  std::map<std::uint64_t, std::uint64_t> below_;  ///< counted under a call that has not ended
};

/// Something an op index, of those that have it; the array is made with the first.
template <typename Value>
class OpTable {
 public:
  /// @param ops      as many as there are
  /// @param nothing  what stands for there being none
  OpTable(std::size_t ops, Value nothing) : ops_(ops), nothing_(nothing) {}

  [[nodiscard]] Value at(std::uint64_t op) const {
    return op < values_.size() ? values_[op] : nothing_;
  }
  [[nodiscard]] std::size_t size() const { return ops_; }
  void set(std::uint64_t op, Value value) {
    if (values_.empty()) values_.assign(ops_, nothing_);
    if (op < ops_) values_[op] = value;
  }

 private:
  std::size_t ops_;
  Value nothing_;
  core::LargeVector<Value> values_;
};

/// What the program put into memory without an operator, otherwise in each run.
struct Unmade {
  std::int64_t storage = 0;  ///< of the baseline
  core::Digest baseline;
  core::Digest candidate;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads the default
  auto operator<=>(const Unmade&) const = default;
};

/// What is known of the whole comparison when one operator's cause is sought. It grows while
/// operators are judged in the order in which they ended.
struct Evidence {
  const core::DumpSource& baseline;
  const core::DumpSource& candidate;
  const Pairing& pairing;
  const Report& report;  ///< its `differences` and `named_tensors`

  [[nodiscard]] const core::DumpSource& dump(bool of_baseline) const {
    return of_baseline ? baseline : candidate;
  }
  /// Path of the module that made a call, as the baseline names it.
  [[nodiscard]] std::string module_path(const core::OpRecord& head, bool of_baseline) const {
    return (of_baseline ? pairing.own_names : pairing.names).module_of(head);
  }

  std::vector<Suspect> suspects =
      suspects_of(baseline.manifest(), candidate.manifest(), report.differences);
  /// What the runs were told otherwise, of where a model may have taken another way for it.
  std::vector<Suspect> told =
      told_apart(baseline.manifest(), candidate.manifest(), report.differences, suspects);
  /// `dtype null -> bfloat16`; empty where both were cast alike.
  std::string cast_apart = dtype_change(report.differences);
  RngLedger rng{baseline.manifest(), candidate.manifest()};
  HostGenerators host_generators{baseline, candidate};
  WriteHistory baseline_writes{baseline};
  WriteHistory candidate_writes{candidate};
  std::size_t ops = pairing.candidate_of.size();  ///< of the baseline
  OpTable<OpOutcome> outcomes{ops, OpOutcome::kUnseen};
  /// Per baseline op the first of its chain of divergent producers; itself when it has none.
  OpTable<std::uint32_t> root_of{ops, kUnmatched};
  /// Per baseline op its first divergent nested call.
  OpTable<std::uint32_t> divergent_child{ops, kUnmatched};
  /// Greatest l2_rel of an operator's outputs that passed although they differ.
  OpTable<double> passed_error{ops, 0};
  /// Differing scalar results, and the first baseline op that returned such a pair.
  std::map<std::pair<std::string, std::string>, std::uint64_t> scalar_results = {};
  /// Baseline ops that tell what a step of an optimizer left, ascending.
  std::vector<std::uint64_t> optimizer_steps = {};
  /// Baseline ops that tell which samples a batch is made of, ascending.
  std::vector<std::uint64_t> orders = {};
  /// Operators of workers of data loaders that diverged, ascending.
  std::vector<std::uint64_t> of_workers = {};
  /// Differing contents that no operator made, and the first baseline op that read them.
  std::map<Unmade, std::uint64_t> unmade = {};
  /// Of the first operator of which one run alone asks gradients; null where there is none.
  std::optional<Phrase> gradients_apart = {};

  /// To be told every pair, in the order in which the calls ended.
  void see_gradients(const JudgedCall& call);
};

/// Finds relation and cause of an operator that fails: the first row of the decision table
/// (docs/DECISIONS.md, causes) that holds, and the later ones beside it.
Attribution attribute(const JudgedCall& call, const Evidence& evidence);

/// A parameter or buffer that a program reads and nobody has written.
struct UnwrittenRead {
  std::string name;
  std::uint64_t reader = 0;     ///< op index of the first operator that reads it
  std::uint64_t allocated = 0;  ///< and of the one that made room for it
};

/// Finds all of one recording, each storage once. It is a suspicion: the program may have filled
/// the memory with no operator.
class UnwrittenReader {
 public:
  /// @param dump  of the recording; borrowed
  explicit UnwrittenReader(const core::DumpSource& dump) : history_(dump) {}

  /// To be told every record, in the order in which calls ended.
  void see(const core::OpRecord& record);
  /// In the order of the readers.
  [[nodiscard]] const std::vector<UnwrittenRead>& reads() const noexcept { return reads_; }

 private:
  WriteHistory history_;
  std::set<std::int64_t> known_;
  std::vector<UnwrittenRead> reads_;
};

/// What either run reads of memory that nobody has written; null where neither is known to.
std::optional<Phrase> describe_unwritten(const JudgedCall& call, const Evidence& evidence);

/// What a program may have computed differing values of, or branched on, where no operator did:
/// what it set otherwise in each run, and what no seed pins, each with its line.
Phrases of_host(const Evidence& evidence);

/// That the generators of two runs were seeded otherwise.
Phrase seeds_apart(std::string baseline, std::string candidate);

/// Where one model was in training mode and the other was not, or other modules of it were: that
/// comes before `cause`, which follows from it. Nothing where a manifest does not say.
void lead_with_mode(const Evidence& evidence, Cause& cause);

/// Names what the runs were told otherwise as suspect of a cause that settings can have.
void name_told(const Evidence& evidence, Cause& cause);

/// Puts a cause before `cause`, which follows from it.
void lead_with(Cause before, Cause& cause);

/// Where a generator that no operator draws from stood elsewhere, before a cause that can follow
/// from a number of the program.
/// @param op  of the dump that has it
void lead_with_host_generator(const Evidence& evidence,
                              std::uint64_t op,
                              bool in_baseline,
                              Cause& cause);

/// Of a program no manifest says in which mode its modules are, but what their operators were
/// called with does: `aten::batch_norm was called with training: False against True`.
/// @param baseline, candidate  a pair
std::optional<Cause> mode_of_module(const core::OpRecord& baseline,
                                    const core::OpRecord& candidate,
                                    const Evidence& evidence);

}  // namespace repro_check::comparators
