// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string>

#include "dumpers/capture/settings/setting_table.h"

namespace repro_check::capture {

/// Numbers tried when an enumerator is looked for by its name; LibTorch's enums are smaller.
inline constexpr int kMaxEnumerators = 16;

/// `at::BlasBackend::Cublaslt` to `cublaslt`.
template <class Enum>
std::string enum_text(Enum value) {
  std::ostringstream stream;
  stream << value;
  std::string text = stream.str();
  const std::size_t colons = text.rfind("::");
  if (colons != std::string::npos) text.erase(0, colons + 2);
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return text;
}

/// The enumerator of that name. Their numbers shift between releases; their names do not.
template <class Enum>
Enum enum_from_text(const std::string& text) {
  for (int number = 0; number < kMaxEnumerators; ++number) {
    try {
      if (enum_text(static_cast<Enum>(number)) == text) return static_cast<Enum>(number);
    } catch (const std::exception&) {
      break;  // past the last one
    }
  }
  throw UnknownSettingValue{};
}

/// Every name, for messages.
template <class Enum>
std::string enum_texts() {
  std::string all;
  for (int number = 0; number < kMaxEnumerators; ++number) {
    try {
      const std::string text = enum_text(static_cast<Enum>(number));
      all += (all.empty() ? "" : ", ") + text;
    } catch (const std::exception&) {
      break;
    }
  }
  return all;
}

}  // namespace repro_check::capture
