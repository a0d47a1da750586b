// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "core/digest/digest.h"
#include "core/trace/dump_source.h"

namespace repro_check::cmd {

/// What this process has had recorded: each place, and the digest of the manifest that its recorder
/// wrote there. Another command may record in the same place meanwhile, and its dump is whole as
/// well, so that nothing but this tells the two apart.

/// Notes the dump that a recorder of this process has made in `place`.
void note_own(const std::filesystem::path& place, const core::Digest& manifest);

/// The dump has been moved, and is expected in its new place from now on.
void note_own_moved(const std::filesystem::path& from, const std::filesystem::path& to);

/// Passes where nothing was recorded by this process.
/// @param opened  what was found in `place`
/// @throws core::Error{kRunFailed} where it is another dump than the one that was noted
void expect_own(const core::DumpSource& opened, const std::filesystem::path& place);

}  // namespace repro_check::cmd
