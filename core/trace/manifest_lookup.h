// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "core/trace/run_manifest.h"

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

/// Facts of the environment: the mode that was asked for, and the one the modules say they are in.
inline constexpr std::string_view kModelMode = "model.mode";
inline constexpr std::string_view kModelTraining = "model.training";

inline std::string text_or_empty(const std::string* text) {
  return text == nullptr ? std::string() : *text;
}

}  // namespace repro_check::core
