// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "tests/comparators/cause/cause_traces.h"

namespace repro_check::comparators {
namespace {

Report in_modes(const ordered_json& baseline_facts, const ordered_json& candidate_facts) {
  return compute("aten::mul",
                 kNone,
                 kNone,
                 {{"environment", baseline_facts}},
                 {{"environment", candidate_facts}});
}

TEST_CASE("another mode of the model leads, and what older dumps do not say is no difference") {
  const ordered_json eval = {{"model.mode", "eval"}, {"model.training", "off"}};
  const ordered_json mixed = {{"model.mode", "as_saved"},
                              {"model.training", "on in 1 of 3 modules: drop"}};
  const Report other = in_modes(eval, mixed);
  CHECK(cause_of(other).name() == "eval against train");
  CHECK(cause_of(other).evidence ==
        "the model ran in another mode: model.mode eval -> as_saved, model.training off -> on in 1 "
        "of 3 modules: drop");
  CHECK(other.differences.size() == 2);
  CHECK(cause_of(in_modes(eval, eval)).name() == "unexplained");
  const Report older = in_modes(eval, ordered_json::object());
  CHECK(cause_of(older).name() == "unexplained");
  CHECK(older.differences.empty());
}

TEST_CASE("the mode of a frozen model is not known, so that it explains nothing") {
  const ordered_json eval = {{"model.mode", "eval"}, {"model.training", "off"}};
  const ordered_json frozen = {{"model.mode", "as_saved"}, {"model.training", "no flags"}};
  const Report report = in_modes(eval, frozen);
  CHECK(cause_of(report).name() == "unexplained");
  CHECK(cause_of(report).also.empty());
  CHECK(report.differences.size() == 2);
  CHECK(cause_of(in_modes(frozen, eval)).name() == "unexplained");
}

}  // namespace
}  // namespace repro_check::comparators
