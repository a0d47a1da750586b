// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "configs/parser/config_parser.h"
#include "tests/support/files.h"

namespace repro_check::configs::test {

using test_support::read_file;

inline std::filesystem::path source_directory() { return REPRO_CHECK_SOURCE_DIR; }
inline std::filesystem::path fixture_directory() {
  return source_directory() / "tests" / "fixtures" / "configs";
}

inline nlohmann::ordered_json read_json(const std::filesystem::path& file) {
  return nlohmann::ordered_json::parse(read_file(file));
}

/// A configuration over files of the fixture directory.
inline Config parse(const std::string& text, const std::vector<ConfigOverride>& overrides = {}) {
  return parse_config(text, "config.json", fixture_directory(), overrides);
}

/// `members` beside a model and no inputs.
inline Config parse_with(const std::string& members) {
  return parse(R"({"model": {"path": "files/model.pt"}, "inputs": [])" +
               (members.empty() ? "" : ", " + members) + "}");
}

}  // namespace repro_check::configs::test
