// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace repro_check::capture {

class Capture;

// How the dispatcher calls the one capture of the process that records.

/// Registers the boxed fallback, once in the life of the process. It stays: taking it away at exit
/// while a thread still has the key set would be a crash.
void ensure_fallback();

/// Registers a kernel before each exchange, and leaves it, as the fallback. Other libraries bring
/// more operators: asked whenever a group is made.
void ensure_before_exchanges();

/// Makes it the one that records; scopes of the same one nest.
/// @throws core::Error kInternal where another one records
void activate(Capture& capture);
void deactivate(Capture& capture) noexcept;

/// It records no more, whatever scopes are open.
void forget(Capture& capture) noexcept;

/// Waits for each thread that is inside of a recorded operator.
void wait_until_left() noexcept;

}  // namespace repro_check::capture
