// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/mode_cause.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/trace/manifest_lookup.h"

namespace repro_check::comparators::detail {

void lead_with_mode(const core::RunManifest& baseline,
                    const core::RunManifest& candidate,
                    Cause& cause) {
  std::vector<std::string> texts;
  for (const std::string_view name : {core::kModelMode, core::kModelTraining}) {
    const std::string* from = core::environment_fact(baseline, name);
    const std::string* to = core::environment_fact(candidate, name);
    if (from == nullptr || to == nullptr || *from == *to) continue;
    texts.push_back(fmt::format("{} {} -> {}", name, *from, *to));
  }
  if (texts.empty()) return;
  Cause mode{"eval against train",
             fmt::format("the model ran in another mode: {}", fmt::join(texts, ", ")),
             "give both runs one \"mode\", \"eval\" or \"train\"; a traced or frozen model keeps "
             "the mode that it was made in"};
  mode.also = std::exchange(cause.also, {});
  mode.not_recorded = std::exchange(cause.not_recorded, {});
  if (cause.name != "unexplained") mode.also.insert(mode.also.begin(), std::move(cause));
  cause = std::move(mode);
}

}  // namespace repro_check::comparators::detail
