// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>

#include "configs/parser/parse_context.h"
#include "configs/spec/run_config.h"

namespace repro_check::configs::detail {

/// What an object said, whether or not it was right: what is missing is not reported twice.
struct Given {
  bool model_path = false;
  bool calls = false;
};

/// The members that the top level, an entry of `runs` and a resolved run have in common, over what
/// `run` already holds: env, settings and model merge key by key, all else is replaced.
Given read_run_members(const ObjectReader& object, const ParseContext& context, RunSpec& run);

/// Variables of the environment, null for one to be taken away; merges into what is there. A number
/// is refused although its text is plain: `1.0` and `1e3` would reach the library as JSON spells
/// them, not as they were written.
void read_variables(const Node& node,
                    Problems& problems,
                    std::map<std::string, std::optional<std::string>>& variables);

/// The name of a run: safe as the name of a directory.
void read_run_name(const Node& node, Problems& problems, RunSpec& run);

/// What is wrong with a run only once all its members are known.
/// @param pointer  of the run; "" for the top level
/// @return whether nothing is
bool check_resolved(const RunSpec& run, const std::string& pointer, Problems& problems);

/// The other sections of a configuration.
void read_dump(const Node& node, const ParseContext& context, DumpSpec& dump, RecordingPlan& plan);
/// The same of a request for a recorder.
void read_resolved_dump(const Node& node, const ParseContext& context, DumpSpec& dump);
void read_report(const Node& node, const ParseContext& context, ReportSpec& report);

}  // namespace repro_check::configs::detail
