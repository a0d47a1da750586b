// SPDX-License-Identifier: Apache-2.0
// What a comparison says while it goes on: how far it is, and what became of each operator.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/comparators/cause/cause_traces.h"

namespace repro_check::comparators::told_test {
namespace {

std::pair<Trace, Trace> pair_with(const std::vector<double>& errors) {
  const std::vector<std::string> names(errors.size(), "aten::mul");
  std::pair<Trace, Trace> traces{chain("baseline", names), chain("candidate", names)};
  for (std::size_t i = 0; i < errors.size(); ++i) {
    const std::string name = numbered("t", i);
    traces.first.json()["tensors"][name] = tensor_of("float64", {1.0, 1.0});
    traces.second.json()["tensors"][name] = tensor_of("float64", {1.0, 1.0 + errors[i]});
  }
  return traces;
}

/// Everything an observer was told.
struct Told {
  std::vector<OpDivergence> bad;
  std::vector<std::pair<std::uint64_t, OpState>> fine;
  std::vector<std::uint64_t> order;  ///< baseline indices of both

  CompareOptions options(CompareOptions given) {
    given.observer.see = [this](const OpDivergence& op) {
      bad.push_back(op);
      if (op.baseline_index) order.push_back(*op.baseline_index);
    };
    given.observer.see_fine = [this](const OpDivergence& op, OpState state) {
      fine.emplace_back(op.baseline_index.value(), state);
      order.push_back(*op.baseline_index);
    };
    return given;
  }
};

TEST_CASE("every phase is told from its begin to its end, and never backwards") {
  for (const std::size_t operators : std::vector<std::size_t>{1, 7, 3000}) {
    auto [baseline, candidate] = pair_with(std::vector<double>(operators, 0));
    std::vector<CompareProgress> told;
    CompareOptions options;
    options.verify_all = true;
    options.progress = [&](const CompareProgress& state) { told.push_back(state); };
    CHECK(compare_traces(baseline, candidate, options).status == Status::kReproducible);
    std::vector<ComparePhase> phases;
    for (std::size_t i = 0; i < told.size(); ++i) {
      const CompareProgress& state = told[i];
      CHECK(state.done <= state.total);
      const bool is_first = phases.empty() || phases.back() != state.phase;
      if (is_first) {
        phases.push_back(state.phase);
        CHECK(state.done == 0);
      } else {
        CHECK(state.total == told[i - 1].total);
        CHECK(state.done >= told[i - 1].done);
      }
      const bool is_last = i + 1 == told.size() || told[i + 1].phase != state.phase;
      if (is_last) CHECK(state.done == state.total);
    }
    CHECK(phases ==
          std::vector{ComparePhase::kAligning, ComparePhase::kComparing, ComparePhase::kVerifying});
    const auto compared =
        std::ranges::find(told, ComparePhase::kComparing, &CompareProgress::phase);
    REQUIRE(compared != told.end());
    CHECK(compared->total == operators);
    CHECK(told.size() < 2 * 1002 + 3);
  }
}

TEST_CASE("an observer is told of every operator, in order, whatever the report has room for") {
  std::mt19937 generator(20241122);
  for (int round = 0; round < 30; ++round) {
    std::vector<double> errors(40);
    for (double& error : errors) error = std::array{0.0, 1e-5, 0.5, 2.0}.at(generator() % 4);
    auto [baseline, candidate] = pair_with(errors);
    Told told;
    CompareOptions options = told.options(tolerance(1e-2, 1e-5));
    options.max_items = 1;
    const Report report = compare_traces(baseline, candidate, options);
    CHECK(told.bad.size() == report.divergences_total);
    CHECK(told.order.size() == errors.size());
    CHECK(std::ranges::is_sorted(told.order));
    const auto count = [&](OpState state) {
      return static_cast<std::uint64_t>(
          std::ranges::count(told.fine, state, &std::pair<std::uint64_t, OpState>::second));
    };
    CHECK(count(OpState::kEqual) == report.coverage.equal);
    CHECK(count(OpState::kWithin) == report.coverage.within_policy);

    // With room for all, the report lists what the observer was told, and it changes nothing.
    const Report whole = compare_traces(baseline, candidate, tolerance(1e-2, 1e-5));
    CHECK(whole.divergences_total == report.divergences_total);
    REQUIRE(told.bad.size() == whole.divergences.size() + (whole.first_divergence ? 1 : 0));
    for (std::size_t i = 0; i < told.bad.size(); ++i) {
      const OpDivergence& listed = i == 0 ? *whole.first_divergence : whole.divergences[i - 1];
      CHECK(told.bad[i].baseline_index == listed.baseline_index);
      CHECK(told.bad[i].occurrence == listed.occurrence);
      CHECK(told.bad[i].relation == listed.relation);
      CHECK(said(told.bad[i].cause).evidence == said(listed.cause).evidence);
      CHECK(told.bad[i].producers == listed.producers);
    }
  }
}

TEST_CASE("operators of one side are told too, each once") {
  std::vector<std::string> names(20, "aten::mul");
  Trace baseline = chain("baseline", names);
  std::ranges::fill_n(names.begin() + 3, 9, "aten::tanh");
  names.erase(names.begin() + 15, names.begin() + 17);
  Trace candidate = chain("candidate", names);
  Told told;
  CompareOptions options = told.options({});
  options.max_items = 2;
  const Report report = compare_traces(baseline, candidate, options);
  CHECK(report.divergences.size() == 2);
  CHECK(told.bad.size() == report.divergences_total);
  std::set<std::uint64_t> left;
  std::set<std::uint64_t> right;
  for (const OpDivergence& op : told.bad) {
    if (op.baseline_index) CHECK(left.insert(*op.baseline_index).second);
    if (op.candidate_index) CHECK(right.insert(*op.candidate_index).second);
  }
  for (const auto& [index, state] : told.fine) CHECK(left.insert(index).second);
  CHECK(left.size() == baseline.json()["ops"].size());
  CHECK(right.size() + told.fine.size() == candidate.json()["ops"].size());
}

TEST_CASE("without an observer for what is fine, nothing is told of it") {
  auto [baseline, candidate] = pair_with({0, 0.5, 0});
  Told told;
  CompareOptions options = told.options({});
  options.observer.see_fine = nullptr;
  compare_traces(baseline, candidate, options);
  CHECK(told.fine.empty());
  CHECK(told.bad.size() == 1);
}

}  // namespace
}  // namespace repro_check::comparators::told_test
