// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "comparators/data/data_order.h"
#include "comparators/program/still_parameters.h"
#include "comparators/ranks/collectives.h"
#include "comparators/ranks/gradient_norms.h"
#include "comparators/ranks/ranks.h"
#include "core/digest/digest.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// A tensor or a number, and what tells two of them apart.
struct ReplicaItem {
  std::string name;
  core::Digest digest;
  std::uint64_t op = 0;  ///< of its record, where a root is of several
  bool by_norm = false;  ///< it changes a gradient by a factor that is made of a norm
};
/// By name; of activations in their order.
using ReplicaItems = std::vector<ReplicaItem>;

/// Names of parameters that are no replicas.
using SetAside = std::set<std::string, std::less<>>;

/// The digest of a number, and the inverse: empty of that of a tensor.
core::Digest digest_of_number(double number) noexcept;
std::optional<double> number_of(core::Digest digest) noexcept;

/// What the record of a clipping says of each gradient before it, `local.NAME`; empty of others.
ReplicaItems local_norms_of(const core::OpRecord& record);

/// The operator whose record holds a kind.
std::string_view record_of(ReplicaKind kind) noexcept;

/// What a record holds under names with this prefix, by the rest of the name.
/// @param unread  counted up by tensors without a digest
ReplicaItems items_below(const core::OpRecord& record,
                         std::string_view prefix,
                         std::uint64_t& unread);

/// The part of a tensor that a rank holds, as its name ends: `@0:1/2`, the second half along
/// dimension 0; empty where it holds all of it.
std::string_view part_of(std::string_view name) noexcept;

/// The ranks that share a distributed tensor, by its name; of those that all ranks share none.
using Meshes = std::map<std::string, std::string, std::less<>>;

/// The name of a part by which ranks tell it from parts of other tensors of that name:
/// `weight@0:1/2|0,2` of the ranks 0 and 2.
/// @param whole  the name of the parameter, without its part
std::string name_on_mesh(std::string_view name, std::string_view whole, const Meshes& meshes);

/// What is said of the replicas that a rank is one of.
struct Replicas {
  bool declared = false;  ///< its parameters are replicas: a wrapper makes them, or a user says
  std::string ranks;      ///< on these, `0,2`; empty = on all
  std::set<std::string, std::less<>> unwrapped = {};  ///< but these, which the wrapper leaves out

  /// Whether they are on all ranks.
  [[nodiscard]] bool everywhere() const noexcept { return declared && ranks.empty(); }
};

/// What of a record must be alike on which ranks.
struct Replication {
  const SetAside& apart;  ///< what is no replica on all ranks
  const Replicas& replicas;
  const Meshes& meshes = none();

  static const Meshes& none();

  /// What a record holds of a kind and a part, by name; empty of activations.
  [[nodiscard]] ReplicaItems items_of(const core::OpRecord& record,
                                      ReplicaKind kind,
                                      std::string_view part) const;

  using Roots = std::map<std::string, MultisetDigest, std::less<>>;
  /// One digest of each part: of all names and their digests.
  /// @param unread  counted up by tensors without a digest
  [[nodiscard]] Roots roots_of(const core::OpRecord& record,
                               ReplicaKind kind,
                               std::uint64_t& unread) const;
};

/// One kind, and of what not all ranks have alike one part: of sharded tensors `@0:1/2`, else the
/// ranks that do, `|0,2`, of activations with the line where they cross. Of several optimizers in a
/// step each has a series.
struct ReplicaSeries {
  ReplicaKind kind = ReplicaKind::kParameters;
  std::uint32_t ordinal = 0;
  std::string part;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads the default
  auto operator<=>(const ReplicaSeries&) const = default;
};

/// What a rank has of it in one step.
struct ReplicaRoot {
  core::Digest digest;  ///< of all names and their digests
  std::uint64_t op = 0;
  std::uint32_t items = 0;
};

/// In all steps that have it, by step.
struct ReplicaColumn {
  std::vector<std::uint32_t> steps;
  std::vector<core::Digest> digests;
  std::vector<std::uint64_t> ops;
  std::vector<std::uint32_t> items;

  void add(std::uint32_t step, const ReplicaRoot& root);
  [[nodiscard]] ReplicaRoot root(std::size_t place) const {
    return {digests[place], ops[place], items[place]};
  }
  bool operator==(const ReplicaColumn&) const = default;
};

/// Keeps columns that are equal once, for as long as somebody has them: those of ranks that do the
/// same are.
class SharedColumns {
 public:
  using Shared = std::shared_ptr<const ReplicaColumn>;

  /// Any thread.
  Shared keep(ReplicaColumn column);

 private:
  std::mutex mutex_;
  std::map<core::Digest, std::weak_ptr<const ReplicaColumn>> columns_;
};

/// What a loader handed out in its first epoch.
struct LoaderRead {
  std::int64_t loader = 0;
  std::string name;  ///< `train.py:40`
  bool trains = false;
  std::uint64_t batches = 0;
  std::uint64_t samples = 0;
  std::uint64_t distinct = 0;
  core::Digest contents;  ///< of all samples, whatever their order
  core::Digest first_batch;
  std::vector<std::int64_t> numbers;  ///< of the samples, where a DistributedSampler chose them
  std::vector<core::Digest> digests;  ///< of the samples, each once, ascending
  bool is_whole = true;               ///< `digests` are all of them
};

struct RankData {
  std::vector<Finding> findings;
  std::vector<LoaderRead> loaders;
};

/// What a rank read in a step.
struct StepInputs {
  std::uint32_t step = 0;
  core::Digest digest;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads the default
  auto operator<=>(const StepInputs&) const = default;
};

/// What a rank drew for its model in a step.
struct StepDraws {
  std::uint32_t step = 0;
  core::Digest digest;  ///< of seed and position of each
  std::uint64_t draws = 0;
  std::uint64_t seed = 0;  ///< of the first

  bool operator==(const StepDraws&) const = default;
};

/// Backward passes of a rank in a step.
struct StepPasses {
  std::uint32_t step = 0;
  std::uint64_t passes = 0;

  bool operator==(const StepPasses&) const = default;
};

/// In the order in which a step comes by it.
enum class NanStage : std::uint8_t { kRead, kLoss, kParameters };

/// Where a rank first had a NaN, of what is recorded by name.
struct NanValue {
  std::uint32_t step = 0;
  NanStage stage = NanStage::kRead;
  std::uint64_t op = 0;
  std::string name;
};

/// What one rank says, by one digest a moment.
struct RankRoots {
  std::map<ReplicaSeries, SharedColumns::Shared> columns;
  std::vector<StepInputs> inputs;  ///< of all batches and inputs of a step, by step
  std::uint32_t steps = 0;         ///< that its optimizer made
  /// Collectives and messages that it entered behind its last step.
  std::uint64_t exchanges_behind = 0;
  bool has_gradients = false;         ///< one that was not 0
  bool finds_gradients = false;       ///< any in a step of its optimizers, read or not
  std::vector<StepDraws> draws;       ///< by step
  std::vector<StepPasses> passes;     ///< by step
  std::vector<ClippedNorm> norms;     ///< in their order
  std::vector<StillParameter> still;  ///< that never moved
  /// Parameters that work on what ranks exchanged by an all_to_all: each rank has experts of its
  /// own, whatever they begin with.
  std::set<std::string> exchanged;
  /// Ranks that its model works on parts with, `|0,1`: outside of the parts all of them have the
  /// same.
  std::set<std::string> peers;
  /// It sends and receives messages, and has no collective as large as its gradients: nothing adds
  /// these up, as where each rank has a stage of a pipeline.
  bool passes_on = false;
  std::set<std::uint32_t> past_wrapper;  ///< steps whose forward pass did not come through it
  std::uint64_t unread = 0;              ///< tensors without a digest
  /// Of a recording of blocks: no parameter that was read behind several steps moved. Empty where
  /// none was, and of other recordings.
  std::optional<bool> stays;
  std::optional<NanValue> nan;
  ExchangeRoots exchanges;
  RankData data;
  /// Parameters before the first step, those set aside as well; behind it where they were not seen
  /// before.
  ReplicaItems beginning;
  /// A digest of the first two steps, of what is not the same in both, as a gradient that is always
  /// 0: of gradients, where no wrapper makes all parameters replicas, and of activations of which
  /// each rank holds its part.
  ReplicaItems gradients;
  ReplicaItems parts;
};

/// Of all batches and inputs of a step one digest.
class InputReader {
 public:
  /// @param record  a core::kBatchRecord or core::kReplicaRecord
  void read(const core::OpRecord& record);
  /// By step.
  [[nodiscard]] std::vector<StepInputs> digests() const;

 private:
  std::map<std::uint32_t, std::string> read_;
};

/// Puts the parameters of a recording of blocks, which are rows of their own, into the last record
/// of a step of an optimizer of each step, so that they are read as those of other recordings are.
/// Their digests are those of borders: comparable among each other alone.
class ParameterRows {
 public:
  /// @param dump  borrowed
  explicit ParameterRows(const core::DumpSource& dump);

  /// @param record  any; other records stay as they are
  void put_into(core::OpRecord& record) const;

 private:
  const core::DumpSource& dump_;
  std::map<std::uint32_t, std::vector<std::uint64_t>> rows_;  ///< by step
};

/// All that crosses in the step of a record and that these ranks hold alike, in their order.
/// @param first  op index of the first of that step
ReplicaItems crossings_of(const core::DumpSource& dump,
                          std::uint64_t first,
                          const std::string& part);

/// @throws core::Error{kDumpDamaged}
RankRoots read_rank(const core::DumpSource& dump,
                    std::uint32_t rank,
                    const Replication& replication,
                    SharedColumns& shared);

}  // namespace repro_check::comparators
