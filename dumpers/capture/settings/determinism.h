// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/system/pinned.h"
#include "core/trace/run_manifest.h"

namespace repro_check::capture {

/// What a run asks of LibTorch's global state.
struct PinRequest {
  core::DeterminismMode determinism = core::DeterminismMode::kOff;
  core::GradMode grad = core::GradMode::kDisabled;
  std::optional<int> threads;
  std::optional<int> interop_threads;
  std::map<std::string, std::string> settings;  ///< by the names that read_settings() gives
};

/// Every setting of the determinism reference that this LibTorch has, as it stands: name and value
/// as text. A getter that throws gives `unreadable: <why>`.
std::vector<core::EnvironmentFact> read_settings();

/// Applies a PinRequest on the calling thread, which must be the one that runs the model, and puts
/// everything back when destroyed (threads between operators apart: LibTorch takes that once).
/// Pinned always: thread counts when asked, autocast off, flush-denormal off, grad mode. Under
/// determinism warn and error also: deterministic algorithms and their filling of fresh memory,
/// cuDNN deterministic without autotuning, TF32 off, reduced-precision reductions off, NNPACK off,
/// ahead-of-time kernels off. `settings` comes last and may name any of them.
class DeterminismPin : core::Pinned {
 public:
  /// @throws core::Error{kUsage} on a setting this LibTorch does not have or a value it does not
  ///         take, with the near miss; core::Error{kRunFailed} when LibTorch does not report what
  ///         was set
  explicit DeterminismPin(const PinRequest& request);
  ~DeterminismPin();

  /// All settings, as found before and as they are now.
  [[nodiscard]] std::vector<core::Setting> settings() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Seeds the default generator of the CPU and of every device present. To be called last, after the
/// model is loaded. Appends one Setting a generator: `generator.cpu`, the seed found and the seed
/// used.
/// @param seed  0 to 2^32-1
void seed_generators(std::uint64_t seed, std::vector<core::Setting>& settings);

/// Puts what the user's shell had in place of what this process was started with.
/// @param variables  of those that were set for it; empty = not set in the shell
void put_found(const std::map<std::string, std::optional<std::string>>& variables,
               std::vector<core::Setting>& settings);

/// The machine and the libraries: `libtorch.version`, `cpu.capability`, `cpu.model`, `mkl`,
/// `onednn`, `openmp.team`, `cuda.devices`, ... Names are listed in docs/CONFIGURATION.md.
std::vector<core::EnvironmentFact> read_environment();

/// Compares what the variables of this process ask for with what LibTorch reports (thread counts,
/// the true OpenMP team, ATEN_CPU_CAPABILITY, where the release can tell).
/// @throws core::Error{kRunFailed} naming the variable, the value asked and the value reported
void check_variables();

/// Collects LibTorch's warnings instead of printing them, while alive. Each text is kept once, for
/// each place of the model that it came from: `aten::put_ (m, model.py:3): put_ does not ...`.
class WarningCollector : core::Pinned {
 public:
  WarningCollector();
  ~WarningCollector();

  [[nodiscard]] std::vector<std::string> warnings() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace repro_check::capture
