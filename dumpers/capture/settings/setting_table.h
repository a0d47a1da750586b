// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace repro_check::capture {

/// One setting of LibTorch's, by name and as text.
struct SettingRow {
  std::string name;
  std::function<std::string()> get;             ///< may throw
  std::function<void(const std::string&)> set;  ///< empty = can only be read
  std::string accepts;                          ///< `on, off`; for messages
};

/// Thrown by a setter for a text it does not take.
struct UnknownSettingValue {};

using SettingRows = std::vector<SettingRow>;

/// The settings that this LibTorch has, in a fixed order (determinism.md 1.2 and 1.3).
const SettingRows& setting_rows();

/// What the getter says, or `unreadable: <why>`.
std::string read_setting(const SettingRow& row);

}  // namespace repro_check::capture
