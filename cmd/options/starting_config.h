// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace repro_check::cmd {

/// What a person has to look at.
struct StartingEdit {
  std::string pointer;  ///< of the value that is a guess; empty where nothing was guessed
  std::string text;     ///< one sentence
};

/// The pointer of an input that no configuration can express.
inline constexpr const char* kNoPlace = "/inputs/-";

struct StartingConfig {
  std::string text;  ///< JSON, two-space indent, trailing newline
  std::vector<StartingEdit> edits;
};

/// A configuration that runs as soon as shapes and values fit the model.
/// @param description  what a recorder says of the method: see cmd/recorder/verbs.h
/// @throws core::Error{kInternal} where that makes no sense
StartingConfig starting_config(const std::string& model_path,
                               const std::string& method,
                               const nlohmann::ordered_json& description);

/// The same, of what a recorder says of the model.
/// @param model_path  as the configuration is to name it
/// @throws as ask_recorder()
StartingConfig ask_starting_config(const std::filesystem::path& model,
                                   const std::string& model_path,
                                   const std::string& method);

}  // namespace repro_check::cmd
