// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cmd/bisect/bisect.h"
#include "cmd/render/render.h"

namespace repro_check::cmd {

/// What a bisect found, as text: the verdict first.
/// @param result  judged: for the others there is a report
std::string bisect_text(const BisectPlan& plan,
                        const BisectResult& result,
                        const RenderOptions& options);

/// The same as one JSON object, `repro-check-bisect`, version 1.0.
std::string bisect_json(const BisectPlan& plan,
                        const BisectResult& result,
                        const RenderOptions& options);

}  // namespace repro_check::cmd
