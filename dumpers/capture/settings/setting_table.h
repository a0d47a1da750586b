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

std::string on_off(bool on);

/// A setting that is `on` or `off`.
SettingRow toggle_row(std::string name, std::function<bool()> get, std::function<void(bool)> set);

/// The settings of at::globalContext() that this LibTorch has (determinism.md 1.2).
void add_context_rows(SettingRows& rows);
void add_precision_rows(SettingRows& rows);

/// Threads, autocast, grad mode, default dtype, flush-denormal (determinism.md 1.3).
void add_thread_rows(SettingRows& rows);

/// All of them, in a fixed order.
const SettingRows& setting_rows();

/// What the getter says, or `unreadable: <why>`.
std::string read_setting(const SettingRow& row);

}  // namespace repro_check::capture
