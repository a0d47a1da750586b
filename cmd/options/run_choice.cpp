// SPDX-License-Identifier: Apache-2.0
#include "cmd/options/run_choice.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/text/near_miss.h"

namespace repro_check::cmd {

const configs::RunSpec& choose_run(const configs::Config& config,
                                   const std::optional<std::string>& name) {
  if (!name) return config.base ? *config.base : config.runs.front();
  std::vector<std::string_view> names;
  for (const configs::RunSpec& run : config.runs) {
    if (run.name == *name) return run;
    names.push_back(run.name);
  }
  const auto near = core::near_miss(*name, names);
  throw core::Error(core::ErrorKind::kUsage,
                    "the configuration has no run \"" + *name + "\"",
                    near ? "did you mean " + std::string(*near) + "?"
                         : fmt::format("its runs are {}", fmt::join(names, ", ")));
}

}  // namespace repro_check::cmd
