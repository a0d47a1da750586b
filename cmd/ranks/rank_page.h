// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cmd/render/json/json_form.h"
#include "comparators/ranks/rank_reads.h"

namespace repro_check::cmd {

/// The page about ranks that were held against each other: what the text report says, and a map of
/// ranks by steps, in the colour of the kind that parts first.
/// @param text      of the text report, the verdict as its first line
/// @param document  its JSON
std::string ranks_page(const comparators::RankReads& reads,
                       const std::string& text,
                       const Json& document);

}  // namespace repro_check::cmd
