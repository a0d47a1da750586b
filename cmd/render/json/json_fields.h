// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/render/json/json_text.h"
#include "comparators/report/report.h"

namespace repro_check::cmd {

// The inverses of json_text.h and of the name functions. They throw Json::exception, or
// std::invalid_argument on text that nothing of ours writes.

std::uint64_t read_whole(const Json& json);
std::int64_t read_integer(const Json& json);
std::optional<std::uint64_t> read_optional_whole(const Json& json);
double read_number(const Json& json);
comparators::Metric read_metric(const Json& json);
/// Empty for null.
std::string read_text(const Json& json);
std::vector<std::string> read_texts(const Json& json);
std::vector<std::int64_t> read_shape(const Json& json);

/// Of enumerators 0 to `last` the one that is called so.
template <typename Enum, typename Name>
Enum read_enum(const Json& json, Enum last, Name name) {
  const std::string text = read_text(json);
  for (int value = 0; value <= static_cast<int>(last); ++value) {
    if (std::string(name(static_cast<Enum>(value))) == text) return static_cast<Enum>(value);
  }
  throw std::invalid_argument("nothing is called \"" + text + "\"");
}

/// What names an operator: `op` and `site` of a record.
/// @param source  {file, line, column}, or null
void read_names(const Json& op, const Json& module, const Json& source, core::OpRecord& into);

/// The schema's `op`, without its generators.
comparators::OpDivergence read_op(const Json& json);
/// An operator that an expected divergence found: its `differs` is its only note.
comparators::OpDivergence read_found_op(const Json& json);
/// @param json  an entry of `rng`
void read_generators(const Json& json, comparators::OpDivergence& into);
std::optional<comparators::TensorMetrics> read_metrics(const Json& json);
std::vector<comparators::Sample> read_samples(const Json& json);
comparators::Coverage read_coverage(const Json& json);

}  // namespace repro_check::cmd
