// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>

#include "core/error.h"
#include "dumpers/capture/capture.h"
#include "dumpers/torchscript/detail/method_runner.h"

namespace repro_check::torchscript {

/// What went wrong in the model, where in it, and how to mend it. To be called on the thread that
/// ran the model, right where the exception was caught.
core::Error run_failure(const std::exception& error,
                        const capture::Capture& capture,
                        MethodRunner& runner);

}  // namespace repro_check::torchscript
