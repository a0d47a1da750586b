// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "core/run_manifest.h"

namespace repro_check::core {

/// The value a setting had in the run; null where it was not recorded. Borrowed from the manifest.
inline const std::string* used_setting(const RunManifest& manifest, std::string_view name) {
  const auto found = std::ranges::find(manifest.settings, name, &Setting::name);
  return found == manifest.settings.end() ? nullptr : &found->used;
}

/// A fact of the environment; null where it was not recorded. Borrowed from the manifest.
inline const std::string* environment_fact(const RunManifest& manifest, std::string_view name) {
  const auto found = std::ranges::find(manifest.environment, name, &EnvironmentFact::name);
  return found == manifest.environment.end() ? nullptr : &found->value;
}

inline std::string text_or_empty(const std::string* text) {
  return text == nullptr ? std::string() : *text;
}

}  // namespace repro_check::core
