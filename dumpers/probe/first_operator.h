// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace repro_check::probe {

/// Notes that an operator ran, on any thread, from now on: where none is recorded, nothing else
/// tells a process that computes from one that only imported PyTorch. Costs nothing behind the
/// first one. A forked child calls it again.
void watch_first_operator();

[[nodiscard]] bool ran_operator() noexcept;

}  // namespace repro_check::probe
