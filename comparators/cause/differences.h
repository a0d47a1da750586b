// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "comparators/align/names.h"
#include "comparators/judge/tensor_judge.h"
#include "comparators/report/report.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {

/// Pointer of the difference between two runs that had their tensors cast to other dtypes.
inline constexpr std::string_view kDtype = "dtype";

/// Prefix of the pointer of a file of source that was changed between two runs of a program.
inline constexpr std::string_view kSource = "source.";

/// What differs in the surroundings of two runs: how each was asked to run, settings as used,
/// variables, machine and libraries. In the order of the baseline's manifest.
std::vector<Difference> manifest_differences(const core::RunManifest& baseline,
                                             const core::RunManifest& candidate);

/// Which part of the surroundings a difference belongs to, as far as a cause can be seen in it.
enum class DifferenceGroup {
  kOther,     ///< cannot explain an operator that gets equal inputs: names, seeds, the model file
  kSettings,  ///< determinism, precision, reductions, kernels switched on or off
  kEnvironment,  ///< device, instruction set, libraries, variables
  kThreads,
};
DifferenceGroup group_of(const Difference& difference);

/// What differs in the surroundings and may be why an operator gives other numbers for equal
/// inputs.
struct Suspect {
  DifferenceGroup group = DifferenceGroup::kSettings;
  std::string name;     ///< `mkldnn.enabled`
  std::string text;     ///< `mkldnn.enabled on -> off`
  std::string pointer;  ///< in a run of a configuration: `/settings/mkldnn.enabled`; or empty
  std::string value;    ///< of the other run there, as JSON text: `"on"`
  int run = 1;          ///< that can be given it: the candidate, but where the baseline has it from
                        ///< the shell
};

/// The suspects alone, in the order threads, settings, environment: of a setting and what follows
/// from it (a probe with other numbers, a variable that `determinism` pins) the setting.
std::vector<Suspect> suspects_of(const core::RunManifest& baseline,
                                 const core::RunManifest& candidate,
                                 const std::vector<Difference>& differences);

/// `model.mode eval -> train`, where the model is known to have run in another mode.
std::vector<std::string> mode_changes(const core::RunManifest& baseline,
                                      const core::RunManifest& candidate);

/// What two runs of one model were told otherwise, and may be why it called other operators, or
/// gave them other arguments: values of its calls, its method, then `suspects`. Empty where the
/// model or its mode is another one, which then is why.
std::vector<Suspect> told_apart(const core::RunManifest& baseline,
                                const core::RunManifest& candidate,
                                const std::vector<Difference>& differences,
                                const std::vector<Suspect>& suspects);

/// `threads.intra_op 2 -> 1`
std::string to_text(const Difference& difference);

/// `dtype null -> bfloat16`; empty where the runs have one.
std::string dtype_change(const std::vector<Difference>& differences);

/// Which settings may be why; of one that it is the only one that differs.
/// @param suspects     one at least
/// @param beside_data  inputs or weights differ as well
Phrase suspects_phrase(const std::vector<Suspect>& suspects, bool beside_data);

/// What to write into a configuration, or into a program, so that both runs have the same.
/// @param suspects  one at least
Phrase settings_advice(const std::vector<Suspect>& suspects);

/// Forward arguments, parameters and buffers that were not the same before the first operator, with
/// metrics where both dumps hold their bytes. Parameters and buffers of the candidate go by the
/// names that `names` gives their modules.
/// @param matched  gets, per line of its map, how many names it matched
std::vector<NamedTensorDifference> differing_named_tensors(const core::RunManifest& baseline,
                                                           const core::RunManifest& candidate,
                                                           const NameRewriter& names,
                                                           TensorJudge& judge,
                                                           std::vector<std::uint64_t>& matched);

/// `1 of 4096 elements, max 1 ULP`, `3 of 8 elements, abs max 0.5`; the note where there are no
/// metrics.
Phrase extent_of(const TensorMetrics& metrics);

}  // namespace repro_check::comparators
