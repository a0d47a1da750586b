// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "configs/parser/reader.h"
#include "configs/spec/run_config.h"

namespace repro_check::configs::detail {

inline constexpr const char* kWhyNoLargerSeed =
    "LibTorch's CPU generator uses the low 32 bits only, so a larger seed would repeat the numbers "
    "of a smaller one";

/// What an object said, whether or not it was right: what is missing is not reported twice.
struct Given {
  bool model = false;
  bool inputs = false;
};

/// The members that the top level, an entry of `runs` and a resolved run have in common, over what
/// `run` already holds: env, settings and model merge key by key, all else is replaced.
Given read_run_members(const ObjectReader& object, const ParseContext& context, RunSpec& run);

/// An entry of `runs`, over the base configuration that `run` holds.
Given read_run_entry(const Node& node, const ParseContext& context, RunSpec& run);

/// What is wrong with a run only once all its members are known.
/// @param pointer  of the run; "" for the top level
/// @return whether nothing is
bool check_run(const RunSpec& run, const std::string& pointer, Problems& problems);

bool read(const Node& node, const ParseContext& context, core::SliceRule& slice);
void read_dump(const Node& node, const ParseContext& context, DumpSpec& dump, RecordingPlan& plan);

/// One call's inputs: a list, or an object of name and input.
CallSpec read_inputs(const Node& node, const ParseContext& context);
/// @param with_pointers  with where each input stood in the configuration
Json inputs_json(const CallSpec& call, bool with_pointers);

/// In the order of the documentation.
Json to_json(const RunSpec& run, bool with_pointers);
/// What to_json() has made.
void read_resolved_run(const Node& node, const ParseContext& context, RunSpec& run);

void read_compare(const Node& node, const ParseContext& context, CompareSpec& compare);

/// What a configuration says of a gate.
/// @param object  the whole configuration
void read_gate_members(const ObjectReader& object, const ParseContext& context, GateSpec& gate);

}  // namespace repro_check::configs::detail
