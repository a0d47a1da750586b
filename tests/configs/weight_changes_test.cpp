// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "configs/setting_changes.h"
#include "core/error.h"
#include "tests/configs/pointers.h"

namespace repro_check::configs {
namespace {

const std::vector<DifferingWeight> kDiffering{
    {{"a.weight"}, "1 of 4 elements"}, {{"b.weight", "head.weight"}, "all"}, {{"c"}, "2 of 2"}};

RunSpec run_of(const std::string& path,
               const std::string& from = {},
               std::vector<std::string> names = {}) {
  RunSpec run;
  run.model.path = path;
  if (!from.empty()) run.model.weights_from = from;
  run.model.weights = std::move(names);
  return run;
}

std::vector<SettingChange> changes_of(const RunSpec& baseline, const RunSpec& candidate) {
  const auto files = weight_files(baseline, candidate);
  REQUIRE(files);
  return weight_changes(baseline, candidate, *files, kDiffering);
}

/// The file that a tensor comes from, by any of its names.
std::string source(const RunSpec& run, const std::vector<std::string>& names) {
  const ModelSpec& model = run.model;
  if (!model.weights_from) return model.path.string();
  const bool is_taken = model.weights.empty() || std::ranges::any_of(names, [&](const auto& name) {
                          return std::ranges::count(model.weights, name) != 0;
                        });
  return is_taken ? model.weights_from->string() : model.path.string();
}

/// All that a recorder can tell apart.
std::vector<std::string> sources(const RunSpec& run) {
  std::vector<std::string> list{run.model.path.string()};
  for (const DifferingWeight& weight : kDiffering) list.push_back(source(run, weight.names));
  return list;
}

TEST_CASE("two model files come apart into tensors and the rest") {
  const RunSpec old = run_of("/v1.pt");
  const RunSpec now = run_of("/v2.pt");
  const auto changes = changes_of(old, now);
  CHECK(pointers(changes) == std::vector<std::string>{"/model/weights/a.weight",
                                                      "/model/weights/b.weight",
                                                      "/model/weights/c",
                                                      "/model/path"});
  CHECK(changes[0].baseline == "v1.pt");
  CHECK(changes[0].candidate == "v2.pt (1 of 4 elements)");
  CHECK(changes[1].candidate == "v2.pt (all, with head.weight)");
  RunSpec run = old;
  changes[1].apply(run);
  CHECK(run.model.path == "/v1.pt");
  CHECK(run.model.weights_from == "/v2.pt");
  CHECK(run.model.weights == std::vector<std::string>{"b.weight"});
  changes[3].apply(run);
  CHECK(run.model.path == "/v2.pt");
  CHECK(run.model.weights_from == "/v1.pt");
  CHECK(run.model.weights == std::vector<std::string>{"a.weight", "c"});
}

TEST_CASE("whatever the order, each change moves one tensor and all of them make the candidate") {
  const std::vector<std::pair<RunSpec, RunSpec>> pairs{
      {run_of("/v1.pt"), run_of("/v2.pt")},
      {run_of("/v1.pt"), run_of("/v1.pt", "/v2.pt")},
      {run_of("/v1.pt", "/v2.pt"), run_of("/v1.pt")},
      {run_of("/v1.pt", "/v2.pt", {"c"}), run_of("/v1.pt", "/v2.pt", {"head.weight"})},
      {run_of("/v1.pt", "/v2.pt", {"a.weight"}), run_of("/v2.pt", "/v1.pt", {"c"})},
  };
  std::mt19937 random(11);
  for (const auto& [old, now] : pairs) {
    for (int round = 0; round < 20; ++round) {
      auto changes = changes_of(old, now);
      std::ranges::shuffle(changes, random);
      RunSpec run = old;
      for (const SettingChange& change : changes) {
        const auto before = sources(run);
        change.apply(run);
        const auto after = sources(run);
        std::size_t moved = 0;
        for (std::size_t i = 0; i < after.size(); ++i) {
          if (after[i] != before[i]) ++moved;
        }
        CHECK(moved == 1);
      }
      CHECK(sources(run) == sources(now));
    }
  }
}

TEST_CASE("only tensors that the runs take from two files are changes") {
  const auto changes =
      changes_of(run_of("/v1.pt"), run_of("/v1.pt", "/v2.pt", {"head.weight", "same"}));
  CHECK(pointers(changes) == std::vector<std::string>{"/model/weights/b.weight"});
  CHECK_FALSE(weight_files(run_of("/v1.pt", "/v2.pt"), run_of("/v1.pt", "/v2.pt")));
  CHECK_FALSE(weight_files(run_of("/v1.pt"), run_of("/v1.pt")));
  CHECK_FALSE(weight_files(run_of("/v1.pt"), run_of("/v1.pt", "/v1.pt")));
  CHECK_THROWS_WITH_AS(weight_files(run_of("/v1.pt"), run_of("/v2.pt", "/v3.pt")),
                       "/runs: the weights come from 3 files; tensors are exchanged between two",
                       core::Error);
}

}  // namespace
}  // namespace repro_check::configs
