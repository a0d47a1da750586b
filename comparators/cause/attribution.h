// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "comparators/cause/cause.h"

namespace repro_check::comparators {

// What attribute() is put together from.

// What the runs were told otherwise, or took from where no seed reaches: told.cpp.

inline constexpr std::string_view kSeedAlike = "do-seed-alike";

/// `random.Random.seed (1) at data.py:3 -> (2) at data.py:3`, of what the program set otherwise in
/// each run.
Phrase set_apart(const Difference& difference, const Evidence& evidence);
Phrases all_set_apart(const Evidence& evidence);
/// Variables that the configuration gave the runs otherwise.
std::vector<Suspect> given_variables(const Evidence& evidence);
/// What to do about what the runs are known to have been told otherwise.
std::optional<Phrase> told_advice(const Evidence& evidence);
std::optional<Phrase> unpinned_advice(const Evidence& evidence);
Phrase host_advice(const Evidence& evidence);
Phrases followed_by(Phrase first, Phrases others);

// What an operator did with inputs that were equal: compute_cause.cpp.

/// First row that holds is the cause, later ones hold as well.
void add_cause(Cause& cause, std::optional<Cause> found);
/// Where one of these, an input or output of an operator, was written by somebody else while it was
/// recorded. Either may be null.
std::optional<Cause> race_cause(const core::TensorRecord* baseline,
                                const core::TensorRecord* candidate);
/// Of a step of an optimizer, whose arguments are its learning rates and options.
Cause told_otherwise(const OpFindings& findings);
/// The cause when every tensor input was bit-equal.
Attribution attribute_compute(const JudgedCall& call, const Evidence& evidence);
/// Results of another dtype, shape, layout or number from equal inputs.
Cause mismatch_cause(const JudgedCall& call, const Evidence& evidence);

// What it was given: input_cause.cpp.

Attribution inherited_from(std::uint64_t op, Phrase what);
Attribution inherited_from(std::uint64_t op, std::string_view key);
/// A differing tensor input decides, whatever else differs. Rows 5 to 9.
std::optional<Attribution> from_inputs(const OpFindings& findings,
                                       const core::OpHead& reader,
                                       const Evidence& evidence);
/// A number that an earlier operator returned, differing, comes back as an argument.
std::optional<Attribution> from_scalars(const JudgedCall& call, const Evidence& evidence);

// What stands between operators, batches and steps of optimizers: step_cause.cpp.

/// What a loader does for a batch of other samples: nothing there is to blame.
std::optional<Attribution> from_data(const JudgedCall& call, const Evidence& evidence);
std::optional<Attribution> from_unrecorded_step(const JudgedCall& call, const Evidence& evidence);

}  // namespace repro_check::comparators
