// SPDX-License-Identifier: Apache-2.0
#include "comparators/data/data_compare.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

/// Where two runs of a loader part first.
struct FirstOther {
  bool parts = false;
  std::size_t epoch = 0;
  std::size_t batch = 0;
  bool operator==(const FirstOther&) const = default;
};

template <typename Same>
FirstOther first_other(const DataLoaderTrace& one, const DataLoaderTrace& other, Same same) {
  for (std::size_t e = 0; e < std::min(one.epochs.size(), other.epochs.size()); ++e) {
    const auto& here = one.epochs[e].batches;
    const auto& there = other.epochs[e].batches;
    for (std::size_t b = 0; b < std::min(here.size(), there.size()); ++b) {
      if (!same(here[b], there[b])) return {true, e, b};
    }
  }
  return {};
}

std::uint64_t batches_of(const DataLoaderTrace& loader) {
  std::uint64_t batches = 0;
  for (const DataEpoch& epoch : loader.epochs) batches += epoch.batches.size();
  return batches;
}

std::uint64_t common_batches(const DataLoaderTrace& one, const DataLoaderTrace& other) {
  std::uint64_t batches = 0;
  for (std::size_t e = 0; e < std::min(one.epochs.size(), other.epochs.size()); ++e) {
    batches += std::min(one.epochs[e].batches.size(), other.epochs[e].batches.size());
  }
  return batches;
}

/// By numbers where the dataset has them, else by contents.
bool has_same_samples(const DataEpoch& one, const DataEpoch& other) {
  return one.samples.items > 0 || other.samples.items > 0 ? one.samples == other.samples
                                                          : one.contents == other.contents;
}

std::string workers_text(const DataLoaderTrace& one, const DataLoaderTrace& other) {
  return one.workers == other.workers
             ? std::string()
             : fmt::format(" ({} workers against {})", one.workers, other.workers);
}

void say_contents(const DataLoaderTrace& one, const DataLoaderTrace& other, DataComparison& into) {
  into.verdict = DataVerdict::kContents;
  const bool other_workers = one.workers != other.workers;
  into.what = fmt::format(
      "the same samples in the same order, whose contents differ from step {} on (epoch {}, batch "
      "{}): {}",
      into.step,
      into.epoch,
      into.batch,
      other_workers ? fmt::format("augmentation depends on the number of workers ({} against {})",
                                  one.workers,
                                  other.workers)
                    : "what reads or augments them gives something else");
  into.mend = other_workers
                  ? "draw what augments a sample from a generator that is seeded with the sample's "
                    "number and the epoch, or record with the same num_workers"
                  : "seed what augments them, in each worker (worker_init_fn), and look for files "
                    "that changed";
}

void say_order(const DataLoaderTrace& one, const DataLoaderTrace& other, DataComparison& into) {
  const bool reordered = has_same_samples(one.epochs[into.epoch], other.epochs[into.epoch]);
  into.verdict = reordered ? DataVerdict::kReordered : DataVerdict::kOther;
  into.what = fmt::format("{} from step {} on (epoch {}, batch {}){}",
                          reordered ? "the same samples in another order" : "other samples",
                          into.step,
                          into.epoch,
                          into.batch,
                          workers_text(one, other));
  if (one.sampler == core::kIterableDataset) {
    into.mend = "let what the dataset yields not depend on how it is split among workers";
  } else {
    into.mend = fmt::format(
        "seed the generator of the sampler ({}) alike: DataLoader(generator=...), or "
        "torch.manual_seed before the epoch",
        one.sampler);
  }
}

DataComparison compare_loader(std::int64_t number,
                              const DataLoaderTrace& one,
                              const DataLoaderTrace& other) {
  DataComparison result;
  result.loader = loader_text(number, one);
  result.batches = common_batches(one, other);
  const FirstOther order = first_other(
      one, other, [](const DataBatch& a, const DataBatch& b) { return a.order == b.order; });
  const FirstOther contents = first_other(one, other, [](const DataBatch& a, const DataBatch& b) {
    return a.order == b.order && a.contents == b.contents;
  });
  if (contents.parts) {
    result.epoch = contents.epoch;
    result.batch = contents.batch;
    result.step = one.epochs[contents.epoch].batches[contents.batch].step;
    const bool has_numbers = one.epochs[contents.epoch].samples.items > 0;
    if (has_numbers && order != contents) {
      say_contents(one, other, result);
      // The order of a later epoch is drawn behind what augments this one.
      if (order.parts) result.what += fmt::format("; the order parts in epoch {}", order.epoch);
    } else {
      say_order(one, other, result);
    }
    return result;
  }
  const std::uint64_t here = batches_of(one);
  const std::uint64_t there = batches_of(other);
  const std::string equal = fmt::format("the same samples in the same order in {} batches{}",
                                        result.batches,
                                        workers_text(one, other));
  result.what = equal;
  if (here != there) {
    result.verdict = DataVerdict::kLength;
    result.what = fmt::format("{}; one run has {} of them, the other {}", equal, here, there);
  }
  return result;
}

}  // namespace

std::vector<DataComparison> compare_data(const DataOrder& baseline, const DataOrder& candidate) {
  std::vector<DataComparison> comparisons;
  for (const auto& [number, loader] : baseline) {
    const auto other = candidate.find(number);
    if (other == candidate.end()) continue;
    DataComparison comparison = compare_loader(number, loader, other->second);
    if (comparison.batches > 0) comparisons.push_back(std::move(comparison));
  }
  return comparisons;
}

}  // namespace repro_check::comparators
