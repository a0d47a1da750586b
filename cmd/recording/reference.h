// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/recording/recording.h"

namespace CLI {
class App;
}

namespace repro_check::cmd {

/// Checks dump.reference before anything is recorded.
/// @param jobs  in the order in which they are recorded; those that keep no bytes refer to nothing
/// @throws core::Error{kUsage} when there is no dump, or none that can be referred to, or when a
/// run
///         would refer to a dump that a later run replaces; otherwise as store::open_dump()
void require_references(std::span<const RecordingJob> jobs);

/// `--reference DIR`, repeatable: where a dump is that another one refers to.
void define_references(CLI::App& app, std::vector<std::string>& into);

/// What holds of a dump that core::verify_contents() has let pass.
/// @param whole  nothing of it is in a dump that was not there
std::string_view verified_text(bool whole) noexcept;

}  // namespace repro_check::cmd
