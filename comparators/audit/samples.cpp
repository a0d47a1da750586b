// SPDX-License-Identifier: Apache-2.0
// trained-and-validated, twice-in-a-batch: samples that come where, or as often as, they must not.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comparators/audit/rules.h"

namespace repro_check::comparators {
namespace {

/// A sample by what it holds and by its number in the dataset, -1 where that is not told: equal
/// rows of a dataset are other samples.
using HandedSample = std::pair<core::Digest, std::int64_t>;

std::vector<HandedSample> samples_of(const AuditBatch& batch) {
  std::vector<HandedSample> samples;
  const bool has_numbers = batch.samples.size() == batch.contents.size();
  for (std::size_t i = 0; i < batch.contents.size(); ++i) {
    samples.emplace_back(batch.contents[i], has_numbers ? batch.samples[i] : -1);
  }
  return samples;
}

bool is_of_training(const AuditShare& share, std::int64_t loader) {
  const auto found = share.data.find(loader);
  return found != share.data.end() && std::ranges::any_of(found->second.epochs, &DataEpoch::trains);
}

std::set<HandedSample> trained_samples(std::span<const AuditShare> shares) {
  std::set<HandedSample> trained;
  for (const AuditShare& share : shares) {
    for (const AuditBatch& batch : share.batches) {
      if (!is_of_training(share, batch.loader)) continue;
      for (const HandedSample& sample : samples_of(batch)) trained.insert(sample);
    }
  }
  return trained;
}

/// Of loaders that no training reads, by their number.
std::map<std::int64_t, std::set<HandedSample>> validated_samples(const AuditShare& share) {
  std::map<std::int64_t, std::set<HandedSample>> loaders;
  for (const AuditBatch& batch : share.batches) {
    if (batch.loader < 0 || !batch.evaluated || is_of_training(share, batch.loader)) continue;
    for (const HandedSample& sample : samples_of(batch)) loaders[batch.loader].insert(sample);
  }
  return loaders;
}

}  // namespace

std::vector<Finding> find_trained_and_validated(std::span<const AuditShare> shares) {
  const std::set<HandedSample> trained = trained_samples(shares);
  std::set<HandedSample> shared;
  std::size_t validated = 0;
  RankList ranks;
  std::string line;
  for (const AuditShare& share : shares) {
    for (const auto& [loader, samples] : validated_samples(share)) {
      std::set<HandedSample> both;
      std::ranges::set_intersection(samples, trained, std::inserter(both, both.end()));
      // Whoever looks at nothing but what is trained on means to.
      if (both.empty() || both.size() == samples.size()) continue;
      shared.insert(both.begin(), both.end());
      validated += samples.size();
      if (share.rank) ranks.push_back(*share.rank);
      if (line.empty()) line = loader_text(loader, share.data.at(loader));
    }
  }
  // One of very many may be equal to another by chance.
  if (shared.size() < 2 && validated > 2) return {};
  if (shared.empty()) return {};
  Finding finding{FindingId::kTrainedAndValidated, Finding::Weight::kProof};
  finding.where.line = line;
  return {finding.with("shared", shared.size())
              .with("validated", validated)
              .with("ranks", std::move(ranks))};
}

namespace {

/// A batch of all ranks: of a loader, the batch of this number.
using BatchPlace = std::pair<std::int64_t, std::size_t>;
struct GlobalBatch {
  std::uint32_t step = 0;
  std::map<HandedSample, RankList> holders;
  std::map<std::uint32_t, std::vector<HandedSample>> by_rank;

  /// Ranks that have a sample that another rank has too, and are not given the same batch: those of
  /// one group of tensor parallelism are. Empty where there are none.
  [[nodiscard]] RankList sharing(const RankList& ranks) const {
    for (const std::uint32_t rank : ranks) {
      if (by_rank.at(rank) != by_rank.at(ranks.front())) return {ranks.front(), rank};
    }
    return {};
  }
};

/// Which batches of a loader are the last ones of its epochs: a sampler that cuts its samples among
/// ranks fills them up.
std::set<std::size_t> last_of_epochs(const DataLoaderTrace& loader) {
  std::set<std::size_t> last;
  std::size_t end = 0;
  for (const DataEpoch& epoch : loader.epochs) last.insert((end += epoch.batches.size()) - 1);
  return last;
}

bool draws_with_replacement(const AuditBatch& batch, const DataLoaderTrace& loader) {
  const std::set<std::int64_t> distinct(batch.samples.begin(), batch.samples.end());
  return distinct.size() != batch.samples.size() || loader.sampler == "WeightedRandomSampler";
}

/// Batches of training but the last ones of an epoch, of loaders that give no sample twice.
std::map<BatchPlace, GlobalBatch> global_batches(std::span<const AuditShare> shares) {
  std::map<BatchPlace, GlobalBatch> batches;
  std::set<std::int64_t> replaced;
  for (const AuditShare& share : shares) {
    std::map<std::int64_t, std::size_t> counts;
    for (const AuditBatch& batch : share.batches) {
      const std::size_t at = counts[batch.loader]++;
      if (!share.rank || batch.loader < 0 || !is_of_training(share, batch.loader)) continue;
      const DataLoaderTrace& loader = share.data.at(batch.loader);
      if (draws_with_replacement(batch, loader)) replaced.insert(batch.loader);
      if (last_of_epochs(loader).contains(at)) continue;
      GlobalBatch& global = batches[{batch.loader, at}];
      global.step = batch.step;
      auto samples = samples_of(batch);
      for (const HandedSample& sample : samples) {
        if (sample.second >= 0) global.holders[sample].push_back(*share.rank);
      }
      global.by_rank[*share.rank] = std::move(samples);
    }
  }
  std::erase_if(batches, [&](const auto& batch) { return replaced.contains(batch.first.first); });
  return batches;
}

}  // namespace

std::vector<Finding> find_twice_in_a_batch(std::span<const AuditShare> shares) {
  std::map<std::int64_t, Finding> by_loader;
  std::map<std::int64_t, std::size_t> counts;
  for (const auto& [place, global] : global_batches(shares)) {
    for (const auto& [sample, holders] : global.holders) {
      RankList ranks = global.sharing(holders);
      if (ranks.empty() || ++counts[place.first] > 1) continue;
      Finding finding{FindingId::kTwiceInABatch, Finding::Weight::kProof};
      finding.where.step = global.step;
      finding.where.line = loader_text(place.first, shares.front().data.at(place.first));
      by_loader[place.first] = std::move(finding).with("ranks", std::move(ranks));
    }
  }
  std::vector<Finding> findings;
  findings.reserve(by_loader.size());
  for (auto& [loader, finding] : by_loader) {
    findings.push_back(std::move(finding).with("samples", counts[loader]));
  }
  return findings;
}

}  // namespace repro_check::comparators
