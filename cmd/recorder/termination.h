// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace repro_check::recorder {

/// SIGINT and SIGTERM end the process at once with exit code 130, after a line on the status
/// channel. What the journal holds by then stays, so the dump is left incomplete and readers refuse
/// it, naming the last operator. A status channel that nobody reads any more is no reason to die.
/// @param descriptor  of the status channel; -1 = none
void install_termination(int descriptor);

}  // namespace repro_check::recorder
