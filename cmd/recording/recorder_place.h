// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

namespace repro_check::cmd {

/// A recorder that is there: the first that can be run of what REPRO_CHECK_RECORDER names, or else
/// of those beside this program and where an installation puts it; then what require_recorder() has
/// built at an earlier use.
std::optional<std::filesystem::path> find_recorder();

/// The same, or one that is built now, against the PyTorch of the first that has one: the virtual
/// environment that this program is installed in, the active one ($VIRTUAL_ENV), `python3` of PATH.
/// @param named  a recorder named in the configuration, which then is the only candidate
/// @throws core::Error{kUsage} saying where it was looked for, or why it cannot be built, and how
/// to
///         get one; core::Error{kInterrupted}
std::filesystem::path require_recorder(const std::optional<std::filesystem::path>& named);

}  // namespace repro_check::cmd
