// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cmd/render/json/json_text.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

/// How operators of the two dumps were paired.
Json json_alignment(const comparators::Report& report);

/// Where the streams part; null where they do not.
Json json_control_flow(const comparators::Report& report);

/// Every rank with its first divergence; empty where there is one rank.
Json json_ranks(const comparators::Report& report);

/// `position`, `lcs`, ...; null for a record that has no counterpart.
Json json_matched_by(comparators::MatchedBy how);

}  // namespace repro_check::cmd
