// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "configs/parser/parse_context.h"
#include "configs/spec/run_config.h"

namespace repro_check::configs::detail {

/// One call's inputs: a list, or an object of name and input.
CallSpec read_inputs(const Node& node, const ParseContext& context);

/// The list of calls.
std::vector<CallSpec> read_calls(const Node& node, const ParseContext& context);

/// The members of an input that holds `generate`.
/// @param object        the input, its keys checked
/// @param default_seed  for a random one that names none
std::optional<GeneratedInput> read_generated(const ObjectReader& object,
                                             std::uint64_t default_seed,
                                             Problems& problems);

/// The keys that may stand beside `generate` when it holds this value; all when it holds none.
std::span<const std::string_view> generate_keys(const Json& distribution) noexcept;

/// A seed of any generator: 0 to 2^32-1.
std::optional<std::uint64_t> read_seed(const Node& node, Problems& problems);

}  // namespace repro_check::configs::detail
