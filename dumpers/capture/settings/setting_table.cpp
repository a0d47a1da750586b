// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/settings/setting_table.h"

#include <c10/util/Exception.h>

#include <exception>
#include <utility>

namespace repro_check::capture {
namespace {

/// A c10 message carries a backtrace of many lines.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::string on_off(bool on) { return on ? "on" : "off"; }

SettingRow toggle_row(std::string name, std::function<bool()> get, std::function<void(bool)> set) {
  SettingRow row;
  row.name = std::move(name);
  row.get = [get = std::move(get)] { return on_off(get()); };
  row.set = [set = std::move(set)](const std::string& text) {
    if (text != "on" && text != "off") throw UnknownSettingValue{};
    set(text == "on");
  };
  row.accepts = "on, off";
  return row;
}

const SettingRows& setting_rows() {
  static const SettingRows rows = [] {
    SettingRows all;
    add_context_rows(all);
    add_precision_rows(all);
    add_thread_rows(all);
    return all;
  }();
  return rows;
}

std::string read_setting(const SettingRow& row) {
  try {
    return row.get();
  } catch (const c10::Error& error) {
    return "unreadable: " + first_line(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return "unreadable: " + first_line(error.what());
  }
}

}  // namespace repro_check::capture
