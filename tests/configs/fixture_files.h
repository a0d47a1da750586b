// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "configs/config_parser.h"

namespace repro_check::configs::test {

inline std::filesystem::path source_directory() { return REPRO_CHECK_SOURCE_DIR; }
inline std::filesystem::path fixture_directory() {
  return source_directory() / "tests" / "fixtures" / "configs";
}

inline std::string read_file(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
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
