// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace repro_check::capture {

class Engine;

/// Registers the boxed fallback, once in the life of the process. It stays: taking it away at exit
/// while a thread still has the key set would be a crash.
void ensure_fallback();

/// Makes `engine` the one that records; scopes of the same engine nest.
/// @throws core::Error{kInternal} when another one is recording
void activate(Engine& engine);
void deactivate(Engine& engine) noexcept;

/// Waits until no thread is inside `engine` any more. To be called before it is destroyed.
void drain(Engine& engine) noexcept;

/// Switches interception on the calling thread. @return how it was
bool set_intercepting(bool on) noexcept;

}  // namespace repro_check::capture
