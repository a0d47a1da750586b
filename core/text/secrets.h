// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace repro_check::core {

/// Stands in the place of a value that may be a secret.
inline constexpr std::string_view kHidden = "<set>";

/// True for names of variables, options and keys that may hold secrets: `MY_TOKEN`, `--api-key`.
bool is_secret_name(std::string_view name);

/// A text in which kHidden stands for the values of such names: `--api-key K`, `MY_TOKEN=K`,
/// `"password": "K"`, `Authorization: Bearer K`.
std::string without_secrets(std::string_view text);

/// The same of the words of a command line.
std::vector<std::string> without_secrets(const std::vector<std::string>& words);

/// The names alone of a command line: options, variables and the file name of the program; kHidden
/// for all else.
std::vector<std::string> names_alone(const std::vector<std::string>& words);

/// A resolved configuration in which kHidden stands for variables and arguments that may be
/// secrets; the same text where there is none, or where keeps_values().
/// @param configuration  JSON text
std::string configuration_without_secrets(const std::string& configuration);

/// True if a configuration asks for all values, with /dump/keep_values.
bool keeps_values(const std::string& configuration);

/// /program/command of a configuration; empty where it has none.
std::vector<std::string> command_in(const std::string& configuration);

}  // namespace repro_check::core
