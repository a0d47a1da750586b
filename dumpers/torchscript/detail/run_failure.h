// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <optional>

#include "core/error.h"
#include "core/tensor/dtype.h"
#include "dumpers/capture/engine/capture.h"
#include "dumpers/torchscript/detail/method_runner.h"

namespace repro_check::torchscript {

/// What went wrong in the model, where in it, and how to mend it. To be called on the thread that
/// ran the model, right where the exception was caught.
/// @param cast  the dtype that weights and inputs were cast to
core::Error run_failure(const std::exception& error,
                        const capture::Capture& capture,
                        MethodRunner& runner,
                        const std::optional<core::Dtype>& cast);

}  // namespace repro_check::torchscript
