// SPDX-License-Identifier: Apache-2.0
#include "comparators/data/data_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

namespace repro_check::comparators {
namespace {

/// With fewer two orders are equal by chance, or because there is but one.
constexpr std::size_t kTellingBatches = 3;
constexpr std::uint64_t kTellingSamples = 4;

constexpr std::string_view kDistributedSampler = "DistributedSampler";

core::Digest digest_of(std::span<const std::int64_t> numbers) {
  return core::digest_leaf(std::as_bytes(numbers));
}

/// Where each epoch has the same samples in the same order as the first, as far as both go.
bool is_frozen(const DataLoaderTrace& loader) {
  if (loader.epochs.size() < 2) return false;
  const DataEpoch& first = loader.epochs.front();
  return std::ranges::all_of(std::span(loader.epochs).subspan(1), [&](const DataEpoch& epoch) {
    const std::size_t both = std::min(first.batches.size(), epoch.batches.size());
    return both >= kTellingBatches &&
           std::equal(first.batches.begin(),
                      first.batches.begin() + static_cast<std::ptrdiff_t>(both),
                      epoch.batches.begin(),
                      [](const DataBatch& one, const DataBatch& other) {
                        return one.order == other.order;
                      });
  });
}

/// Whether what comes in that order is shuffled: neither ascending nor ascending twice, as what is
/// padded at its end.
bool is_shuffled(const DataLoaderTrace& loader) {
  const DataEpoch& first = loader.epochs.front();
  return first.samples.items > 0 && first.descents > 1;
}

bool trains(const DataLoaderTrace& loader) {
  return std::ranges::any_of(loader.epochs, [](const DataEpoch& epoch) { return epoch.trains; });
}

Finding frozen(const std::string& name, const DataLoaderTrace& loader) {
  const bool alive = std::ranges::any_of(loader.epochs, [&](const DataEpoch& epoch) {
    return epoch.contents.items == loader.epochs.front().contents.items &&
           epoch.contents != loader.epochs.front().contents;
  });
  Finding finding{FindingId::kSameOrder, Finding::Weight::kProof};
  finding.where.line = name;
  return finding.with("sampler", loader.sampler)
      .with("epochs", loader.epochs.size())
      .with("contents_differ", alive)
      .with("is_distributed", loader.sampler == kDistributedSampler);
}

/// What comes twice in the data says nothing of where it was read.
void keep_contents(const std::map<core::Digest, std::uint64_t>& counts, DataLoaderTrace& loader) {
  constexpr std::size_t kMost = std::size_t{1} << 16U;
  for (const auto& [digest, count] : counts) {
    loader.has_all_contents = loader.first_contents.size() < kMost;
    if (!loader.has_all_contents) return;
    if (count == 1) loader.first_contents.push_back(digest);
  }
}

}  // namespace

void MultisetDigest::add(const core::Digest& item) noexcept {
  sum.low += item.low;
  sum.high += item.high + (sum.low < item.low ? 1U : 0U);
  ++items;
}

void DataOrderReader::see(const core::OpRecord& record) {
  const std::string_view name = record.op->name;
  if (name == core::kOrderRecord) add_order(record);
  if (name == core::kBatchRecord) add_batch(record);
  if (latest_ && (name == core::kLossRecord || name == core::kStepRecord)) {
    epoch_of(latest_->loader, latest_->epoch).trains = true;
    latest_.reset();
  }
}

DataEpoch& DataOrderReader::epoch_of(std::int64_t loader, std::size_t epoch) {
  std::vector<DataEpoch>& epochs = loaders_[loader].epochs;
  if (epochs.size() <= epoch) epochs.resize(epoch + 1);
  return epochs[epoch];
}

void DataOrderReader::add_order(const core::OpRecord& record) {
  const auto epoch = core::argument_or<std::int64_t>(record, core::kOrderEpoch, -1);
  // Of a recorder that did not tell it.
  if (epoch < 0) return;
  Ordered& ordered = ordered_[record.lane];
  ordered = {core::argument_or<std::int64_t>(record, core::kOrderLoader),
             static_cast<std::size_t>(epoch),
             {}};
  DataLoaderTrace& loader = loaders_[ordered.loader];
  if (loader.place.empty()) {
    loader.place = core::line_text(record.site.get());
    loader.sampler = core::argument_or<std::string>(record, core::kSampler);
    loader.workers = core::argument_or<std::int64_t>(record, core::kOrderWorkers);
  }
  Open& open = open_[ordered.loader];
  if (open.epoch != ordered.epoch) {
    close(ordered.loader);
    open = {ordered.epoch, {}, -1};
  }
  const std::vector<std::int64_t> samples =
      core::list_argument<std::int64_t>(record, core::kOrderSamples);
  if (samples.empty()) return;
  ordered.order = digest_of(samples);
  ordered.samples = samples.size();
  DataEpoch& into = epoch_of(ordered.loader, ordered.epoch);
  for (const std::int64_t sample : samples) {
    into.samples.add(digest_of(std::span(&sample, 1)));
    if (sample < open.last_sample) ++into.descents;
    open.last_sample = sample;
  }
  if (ordered.epoch == 0 && loader.sampler == kDistributedSampler) {
    loader.first_epoch.insert(loader.first_epoch.end(), samples.begin(), samples.end());
  }
}

std::vector<core::Digest> digests_in(std::span<const std::int64_t> halves) {
  std::vector<core::Digest> digests;
  for (std::size_t i = 0; i + 1 < halves.size(); i += 2) {
    digests.push_back(
        {static_cast<std::uint64_t>(halves[i]), static_cast<std::uint64_t>(halves[i + 1])});
  }
  return digests;
}

void DataOrderReader::add_batch(const core::OpRecord& record) {
  const auto ordered = ordered_.find(record.lane);
  if (ordered == ordered_.end()) return;
  DataEpoch& epoch = epoch_of(ordered->second.loader, ordered->second.epoch);
  const std::vector<std::int64_t> digests =
      core::list_argument<std::int64_t>(record, core::kSampleDigests);
  DataBatch& batch = epoch.batches.emplace_back();
  batch.step = record.step;
  batch.order = ordered->second.order;
  batch.samples = ordered->second.samples;
  if (!digests.empty()) batch.contents = digest_of(digests);
  Open& open = open_[ordered->second.loader];
  for (const core::Digest& sample : digests_in(digests)) {
    epoch.contents.add(sample);
    ++open.counts[sample];
  }
  latest_ = ordered->second;
  ordered_.erase(ordered);
}

void DataOrderReader::close(std::int64_t loader) {
  Open& open = open_[loader];
  if (open.counts.empty()) return;
  if (open.epoch == 0) keep_contents(open.counts, loaders_[loader]);
  DataEpoch& epoch = epoch_of(loader, open.epoch);
  epoch.distinct = open.counts.size();
  for (const auto& [digest, count] : open.counts) {
    if (count > epoch.most_often) {
      epoch.most_often = count;
      epoch.at_most_often = 0;
    }
    if (count == epoch.most_often) ++epoch.at_most_often;
  }
  open.counts.clear();
}

DataOrder DataOrderReader::finish() {
  for (const auto& [number, open] : open_) close(number);
  return std::move(loaders_);
}

DataOrder read_data_order(const core::DumpSource& dump) {
  DataOrderReader reader;
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    const core::OpRecord head = dump.op_head(i);
    reader.see(DataOrderReader::is_read(head) ? dump.op(i) : head);
  }
  return reader.finish();
}

bool have_other_workers(const DataOrder& baseline, const DataOrder& candidate) {
  return std::ranges::any_of(baseline, [&](const auto& entry) {
    const auto other = candidate.find(entry.first);
    return other != candidate.end() && other->second.workers != entry.second.workers;
  });
}

std::vector<std::uint64_t> operators_of_loaders(const core::DumpSource& dump) {
  std::vector<std::uint64_t> operators;
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    const core::OpRecord head = dump.op_head(i);
    if (head.phase == core::Phase::kData && head.op && !core::is_named_values(head)) {
      operators.push_back(i);
    }
  }
  return operators;
}

std::string loader_text(std::int64_t number, const DataLoaderTrace& loader) {
  return loader.place.empty() ? fmt::format("loader {}", number) : loader.place;
}

std::vector<Finding> data_findings(const DataOrder& order) {
  std::vector<Finding> findings;
  for (const auto& [number, loader] : order) {
    if (loader.epochs.empty()) continue;
    const std::string name = loader_text(number, loader);
    if (trains(loader) && is_shuffled(loader) && is_frozen(loader)) {
      findings.push_back(frozen(name, loader));
    }
    const DataEpoch& first = loader.epochs.front();
    // Of an epoch that was left early the last ones did not come from every worker.
    const bool by_each_worker = loader.sampler == core::kIterableDataset && loader.workers > 1 &&
                                first.most_often == static_cast<std::uint64_t>(loader.workers) &&
                                first.distinct >= kTellingSamples &&
                                10 * first.at_most_often >= 9 * first.distinct;
    if (!by_each_worker) continue;
    Finding& finding =
        findings.emplace_back(Finding{FindingId::kEveryWorkerReadsAll, Finding::Weight::kProof});
    finding.where.line = name;
    finding.with("workers", loader.workers)
        .with("samples", first.distinct)
        .with("items", first.contents.items);
  }
  return findings;
}

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

/// As far as both go.
bool are_equal(const DataEpoch& one, const DataEpoch& other) {
  const std::size_t both = std::min(one.batches.size(), other.batches.size());
  return both >= kTellingBatches &&
         std::equal(one.batches.begin(),
                    one.batches.begin() + static_cast<std::ptrdiff_t>(both),
                    other.batches.begin(),
                    [](const DataBatch& here, const DataBatch& there) {
                      return here.order == there.order && here.contents == there.contents;
                    });
}

/// Which run's epoch alone is the one before it once more: the baseline's, or the candidate's.
std::optional<bool> repeated_in(const DataLoaderTrace& one,
                                const DataLoaderTrace& other,
                                std::size_t epoch) {
  if (epoch == 0) return std::nullopt;
  const auto repeats = [&](const DataLoaderTrace& loader) {
    return are_equal(loader.epochs[epoch - 1], loader.epochs[epoch]);
  };
  const bool here = repeats(one);
  return here == repeats(other) ? std::nullopt : std::optional(here);
}

/// What differs from the batch on where two runs of a loader part.
Finding parting(const DataLoaderTrace& one,
                const DataLoaderTrace& other,
                const FirstOther& order,
                const FirstOther& contents) {
  Finding finding{FindingId::kOtherSamples, Finding::Weight::kProof};
  const DataEpoch& epoch = one.epochs[contents.epoch];
  const DataEpoch& other_epoch = other.epochs[contents.epoch];
  const std::uint64_t here = epoch.batches[contents.batch].samples;
  const std::uint64_t there = other_epoch.batches[contents.batch].samples;
  if (const auto repeated = repeated_in(one, other, contents.epoch)) {
    const DataLoaderTrace& loader = *repeated ? one : other;
    finding.id = FindingId::kEpochRepeated;
    finding.with("run", run_field(*repeated))
        .with("earlier", contents.epoch - 1)
        .with("has_workers", loader.workers > 0);
  } else if (epoch.samples.items > 0 && order != contents) {
    finding.id = FindingId::kSampleContentsDiffer;
    // The order of a later epoch is drawn behind what augments this one.
    if (order.parts) finding.with("order_parts_in", order.epoch);
  } else if (here != there) {
    finding.id = FindingId::kBatchSizesDiffer;
    finding.with("baseline", here).with("candidate", there);
  } else if (has_same_samples(epoch, other_epoch)) {
    finding.id = FindingId::kSamplesReordered;
  }
  const bool is_iterable = one.sampler == core::kIterableDataset;
  if (!is_iterable) finding.with("sampler", one.sampler);
  return finding.with("epoch", contents.epoch)
      .with("batch", contents.batch)
      .with("is_iterable", is_iterable);
}

DataVerdict verdict_of(const Finding& finding, bool same_order) {
  switch (finding.id) {
    case FindingId::kSampleContentsDiffer:
      return DataVerdict::kContents;
    case FindingId::kEpochRepeated:
      return same_order ? DataVerdict::kContents : DataVerdict::kReordered;
    case FindingId::kSamplesReordered:
      return DataVerdict::kReordered;
    default:
      return DataVerdict::kOther;
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
  Finding& finding = result.finding;
  if (contents.parts) {
    result.epoch = contents.epoch;
    result.batch = contents.batch;
    result.step = one.epochs[contents.epoch].batches[contents.batch].step;
    finding = parting(one, other, order, contents).at_step(result.step);
    const DataEpoch& epoch = one.epochs[contents.epoch];
    const bool same_samples = has_same_samples(epoch, other.epochs[contents.epoch]);
    result.verdict = finding.id == FindingId::kBatchSizesDiffer && same_samples
                         ? DataVerdict::kReordered
                         : verdict_of(finding, order != contents);
  } else {
    const std::uint64_t here = batches_of(one);
    const std::uint64_t there = batches_of(other);
    const bool is_equal = here == there;
    result.verdict = is_equal ? DataVerdict::kEqual : DataVerdict::kLength;
    finding = {is_equal ? FindingId::kSamplesEqual : FindingId::kLoaderLengthsDiffer,
               Finding::Weight::kNote};
    finding.with("batches", result.batches).with("is_one", result.batches == 1);
    if (!is_equal) finding.with("baseline", here).with("candidate", there);
  }
  finding.where.line = result.loader;
  const bool other_workers = one.workers != other.workers;
  finding.with("other_workers", other_workers);
  if (other_workers) finding.with("workers", one.workers).with("candidate_workers", other.workers);
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
