// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "configs/parser/json_reader.h"
#include "configs/parser/parse_context.h"
#include "configs/spec/compare_spec.h"

namespace repro_check::configs::detail {

void read_compare(const Node& node, const ParseContext& context, CompareSpec& compare);

/// The document of a rules file.
void read_rules_document(const Node& node, const ParseContext& context, CompareSpec& compare);

}  // namespace repro_check::configs::detail
