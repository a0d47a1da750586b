// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"

namespace repro_check::test_support {

/// The parts of a described recording that hold no tensor; dump_fixture.h says what they take.
core::RunManifest parse_manifest(const nlohmann::ordered_json& json);
core::Value parse_value(const nlohmann::ordered_json& json);
std::optional<core::GeneratorUse> parse_generator(const nlohmann::ordered_json& op);
std::vector<core::Substitution> parse_substitutions(const nlohmann::ordered_json& op);

}  // namespace repro_check::test_support
