// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "comparators/report/report.h"
#include "core/digest/digest.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {

/// What is in a collection, in whatever order: the sum of the digests of its items, mod 2^128. Two
/// that hold the same have the same.
struct MultisetDigest {
  core::Digest sum;
  std::uint64_t items = 0;

  void add(const core::Digest& item) noexcept;
  bool operator==(const MultisetDigest&) const = default;
};

/// Of the samples of a batch, as core::kSampleDigests has them.
std::vector<core::Digest> digests_in(std::span<const std::int64_t> halves);

/// A batch as the program got it.
struct DataBatch {
  std::uint32_t step = 0;
  core::Digest order;         ///< of the numbers of its samples in the dataset; 0 where not told
  core::Digest contents;      ///< of its samples, in order; 0 where not told
  std::uint64_t samples = 0;  ///< of the dataset; 0 where not told
};

/// One pass over a dataset.
struct DataEpoch {
  std::vector<DataBatch> batches;
  MultisetDigest samples;           ///< numbers in the dataset; empty where the dataset has none
  MultisetDigest contents;          ///< what they are, as batches hold them
  std::uint64_t distinct = 0;       ///< of the contents
  std::uint64_t most_often = 0;     ///< how often the content came that came most
  std::uint64_t at_most_often = 0;  ///< how many contents came as often
  std::uint64_t descents = 0;       ///< numbers that are lower than the one before
  bool trains = false;              ///< a backward pass or a step of an optimizer followed a batch
};

/// A loader, or those that were made at one line one after the other.
struct DataLoaderTrace {
  std::string place;  ///< ` (train.py:40)`, where it was made
  std::string sampler;
  std::int64_t workers = 0;
  std::vector<DataEpoch> epochs;
  /// Numbers of the samples of the first epoch, where a DistributedSampler chose them.
  std::vector<std::int64_t> first_epoch;
  /// Digests of samples that the first epoch holds once, ascending: of very many the lowest.
  std::vector<core::Digest> first_contents;
  bool has_all_contents = true;
};

/// By number.
using DataOrder = std::map<std::int64_t, DataLoaderTrace>;

/// Reads what the loaders of a program hand out, of its records in their order.
class DataOrderReader {
 public:
  /// Whether it takes more of a record than its head.
  static bool is_read(const core::OpHead& head) {
    return head.op->name == core::kOrderRecord || head.op->name == core::kBatchRecord;
  }
  void see(const core::OpRecord& record);
  DataOrder finish();

 private:
  /// Of the epoch under way of a loader: how often each content came.
  struct Open {
    std::size_t epoch = 0;
    std::map<core::Digest, std::uint64_t> counts;
    std::int64_t last_sample = -1;
  };
  /// Of the batch that is about to come.
  struct Ordered {
    std::int64_t loader = 0;
    std::size_t epoch = 0;
    core::Digest order;
    std::uint64_t samples = 0;
  };

  void add_order(const core::OpRecord& record);
  void add_batch(const core::OpRecord& record);
  DataEpoch& epoch_of(std::int64_t loader, std::size_t epoch);
  void close(std::int64_t loader);

  DataOrder loaders_;
  std::map<std::int64_t, Open> open_;
  std::map<std::uint32_t, Ordered> ordered_;  ///< by lane
  std::optional<Ordered> latest_;             ///< of the last batch
};

/// @throws core::Error{kDumpDamaged}
DataOrder read_data_order(const core::DumpSource& dump);

/// Whether a loader of both has other numbers of workers.
bool have_other_workers(const DataOrder& baseline, const DataOrder& candidate);

/// Op indices, ascending, of what loaders do before they hand out a batch: how much of it is done
/// in the program's process, and when, depends on the number of their workers.
/// @throws core::Error{kDumpDamaged}
std::vector<std::uint64_t> operators_of_loaders(const core::DumpSource& dump);

/// Loaders that train and shuffle in the same way in every epoch, and datasets that each worker
/// reads as a whole.
std::vector<Finding> data_findings(const DataOrder& order);

/// `train.py:40`, or the loader's number.
std::string loader_text(std::int64_t number, const DataLoaderTrace& loader);

/// Loaders of two runs by their number; those that one of them lacks are left out.
std::vector<DataComparison> compare_data(const DataOrder& baseline, const DataOrder& candidate);

}  // namespace repro_check::comparators
