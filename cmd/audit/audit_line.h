// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace repro_check::cmd {

/// Whose findings a command has told already.
enum class AlreadyTold { kNothing, kRanks };

/// Tells on stderr, in one line, that an audit of what was just recorded holds a proof:
/// `audit: 1 proof, 2 suspicions: repro-check audit DUMP`; or that it was not made, since there are
/// too many operators for a second or two. Of blocks and of what cannot be read it says nothing.
/// Changes nothing else.
/// @param dump  a recording, or the directory of those of all ranks
void tell_of_proofs(const std::filesystem::path& dump,
                    AlreadyTold told = AlreadyTold::kNothing) noexcept;

}  // namespace repro_check::cmd
