// SPDX-License-Identifier: Apache-2.0
#include "baselines/platform.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "baselines/detail/tokens.h"
#include "core/trace/manifest_lookup.h"

namespace repro_check::baselines {
namespace {

constexpr std::size_t kShortKey = 12;
constexpr std::string_view kUnknown = "unknown";

// Not the name of the CPU: machines of one name compute differently, and of two names alike.
constexpr auto kFacts = std::to_array<const char*>({"os.machine",
                                                    "cpu.capability",
                                                    "libtorch.version",
                                                    "compiler",
                                                    "blas",
                                                    "mkl",
                                                    "onednn",
                                                    "cuda",
                                                    "cudnn"});
constexpr auto kProbes = std::to_array<const char*>(
    {"probe.convolution", "probe.matmul", "probe.softmax", "probe.exp", "probe.sum"});

std::string threads_of(const core::RunManifest& manifest) {
  const std::string* found = core::used_setting(manifest, "threads.intra_op");
  return found == nullptr ? std::string(kUnknown) : *found;
}

std::string value_of(const Platform& platform, std::string_view name) {
  const auto found = std::ranges::find(platform.fields, name, &Fact::name);
  return found == platform.fields.end() ? std::string(kUnknown) : found->value;
}

}  // namespace

core::Digest Platform::key() const {
  std::string text;
  for (const Fact& field : fields) {
    text += detail::escape_token(field.name) + ' ' + detail::escape_rest(field.value) + '\n';
  }
  return detail::digest_text(text);
}

std::string short_key(const core::Digest& key) { return core::to_hex(key).substr(0, kShortKey); }

std::optional<Platform> platform_of(const core::RunManifest& manifest) {
  Platform platform;
  for (const char* name : kFacts) {
    const std::string* value = core::environment_fact(manifest, name);
    platform.fields.push_back({name, value != nullptr ? *value : std::string(kUnknown)});
  }
  platform.fields.push_back({"device", manifest.device});
  platform.fields.push_back({"threads", threads_of(manifest)});
  for (const char* name : kProbes) {
    const std::string* value = core::environment_fact(manifest, name);
    if (value == nullptr) return std::nullopt;
    platform.fields.push_back({name, *value});
  }
  return platform;
}

std::string describe(const Platform& platform) {
  return fmt::format("{} {} libtorch-{} {} threads-{}",
                     value_of(platform, "os.machine"),
                     value_of(platform, "cpu.capability"),
                     value_of(platform, "libtorch.version"),
                     value_of(platform, "device"),
                     value_of(platform, "threads"));
}

}  // namespace repro_check::baselines
