// SPDX-License-Identifier: Apache-2.0
#include "configs/weight_changes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace repro_check::configs {
namespace {

using std::filesystem::path;

/// Where a run takes a tensor from.
const path& source_of(const ModelSpec& model, const DifferingWeight& weight) {
  if (!model.weights_from) return model.path;
  const bool is_taken =
      model.weights.empty() || std::ranges::any_of(weight.names, [&](const std::string& name) {
        return std::ranges::find(model.weights, name) != model.weights.end();
      });
  return is_taken ? *model.weights_from : model.path;
}

/// A model of which it is said tensor by tensor where it comes from.
class Exchange {
 public:
  Exchange(WeightFiles files, std::vector<DifferingWeight> weights)
      : files_(std::move(files)), weights_(std::move(weights)) {}

  void set_source(ModelSpec& model, std::size_t number, const path& file) const {
    std::vector<path> sources = sources_of(model);
    sources[number] = file;
    write(model, sources);
  }

  void set_rest(ModelSpec& model, const path& file) const {
    const std::vector<path> sources = sources_of(model);
    model.path = file;
    write(model, sources);
  }

 private:
  [[nodiscard]] std::vector<path> sources_of(const ModelSpec& model) const {
    std::vector<path> sources;
    for (const DifferingWeight& weight : weights_) sources.push_back(source_of(model, weight));
    return sources;
  }

  void write(ModelSpec& model, const std::vector<path>& sources) const {
    model.weights_from.reset();
    model.weights.clear();
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (sources[i] != model.path) model.weights.push_back(weights_[i].names.front());
    }
    if (model.weights.empty()) return;
    model.weights_from = model.path == files_.first ? files_.second : files_.first;
  }

  WeightFiles files_;
  std::vector<DifferingWeight> weights_;
};

std::string text_of(const DifferingWeight& weight) {
  if (weight.names.size() == 1) return weight.what;
  return fmt::format(
      "{}, with {}", weight.what, fmt::join(std::span(weight.names).subspan(1), ", "));
}

}  // namespace

std::optional<WeightFiles> weight_files(const RunSpec& baseline, const RunSpec& candidate) {
  const bool is_alike = baseline.model.path == candidate.model.path &&
                        baseline.model.weights_from == candidate.model.weights_from &&
                        baseline.model.weights == candidate.model.weights;
  if (is_alike) return std::nullopt;
  std::set<path> others;
  for (const RunSpec* run : {&baseline, &candidate}) {
    others.insert(run->model.path);
    if (run->model.weights_from) others.insert(*run->model.weights_from);
  }
  others.erase(baseline.model.path);
  if (others.empty()) return std::nullopt;
  if (others.size() > 1) {
    throw core::Error(core::ErrorKind::kUsage,
                      fmt::format("/runs: the weights come from {} files; tensors are exchanged "
                                  "between two",
                                  others.size() + 1),
                      "let both runs take \"path\" and \"weights_from\" from the same two files");
  }
  return WeightFiles{baseline.model.path, *others.begin()};
}

std::vector<SettingChange> weight_changes(const RunSpec& baseline,
                                          const RunSpec& candidate,
                                          const WeightFiles& files,
                                          const std::vector<DifferingWeight>& differing) {
  const Exchange exchange(files, differing);
  const auto name_of = [](const path& file) { return file.filename().string(); };
  std::vector<SettingChange> changes;
  for (std::size_t i = 0; i < differing.size(); ++i) {
    const path& from = source_of(baseline.model, differing[i]);
    const path to = source_of(candidate.model, differing[i]);
    if (from == to) continue;
    changes.push_back({"/model/weights/" + differing[i].names.front(),
                       name_of(from),
                       fmt::format("{} ({})", name_of(to), text_of(differing[i])),
                       [exchange, i, to](RunSpec& run) { exchange.set_source(run.model, i, to); }});
  }
  if (baseline.model.path != candidate.model.path) {
    const path to = candidate.model.path;
    changes.push_back({"/model/path",
                       name_of(baseline.model.path),
                       name_of(to) + " (all but these tensors)",
                       [exchange, to](RunSpec& run) { exchange.set_rest(run.model, to); }});
  }
  return changes;
}

bool is_of_weights(const SettingChange& change) {
  constexpr std::array<std::string_view, 3> kPointers{
      "/model/path", "/model/weights_from", "/model/weights"};
  return std::ranges::find(kPointers, change.pointer) != kPointers.end();
}

}  // namespace repro_check::configs
