// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comparators/relate/judgement.h"
#include "comparators/relate/rung_judgement.h"
#include "comparators/relate/two_passes.h"
#include "comparators/relate/two_trainings.h"
#include "core/system/ownership.h"
#include "core/system/pinned.h"
#include "core/trace/dump.h"
#include "core/trace/run_manifest.h"
#include "dumpers/replay/precision.h"
#include "dumpers/replay/shadow_counts.h"

namespace repro_check::cmd {

struct ShadowPlan {
  std::filesystem::path dump;  ///< of A
  std::vector<std::filesystem::path> references;
  std::optional<std::filesystem::path> recorder;
  std::optional<std::chrono::seconds> timeout;
};

/// What stands in the place of a tensor of A.
struct GivenValues {
  std::vector<std::int64_t> shape;
  std::vector<double> numbers;
};

using Given = std::function<std::optional<GivenValues>(std::size_t)>;

/// What float64 gives at tensors of A, written by a recorder into a dump that is removed with the
/// object.
class ShadowDump : core::Pinned {
 public:
  /// @param of_a    the manifest of A
  /// @param wanted  of A, by their op
  /// @param given   what stands in the place of the i-th; nothing does where it is empty
  /// @throws core::Error{kUsage} if its folder cannot be made; as ask_about_dump()
  ShadowDump(const ShadowPlan& plan,
             const core::RunManifest& of_a,
             std::vector<replay::RecordedTensor> wanted,
             const Given& given);

  /// All numbers of one output at the i-th tensor, by comparators::kExactOutput and those behind
  /// it.
  /// @throws core::Error{kDumpDamaged}
  [[nodiscard]] std::vector<double> numbers(std::size_t i, std::size_t output) const;
  /// Those of all outputs.
  [[nodiscard]] comparators::ShadowValues values(std::size_t i) const;

  [[nodiscard]] const replay::ShadowCounts& counts() const noexcept { return counts_; }
  [[nodiscard]] const std::vector<replay::ShadowCut>& cuts() const noexcept { return cuts_; }
  /// The operators that they are at, by op index.
  [[nodiscard]] std::vector<std::uint64_t> cut_operators() const;
  [[nodiscard]] const std::string& libtorch() const noexcept { return libtorch_; }

 private:
  void write_given(std::size_t count, const Given& given) const;

  core::PrivateFolder folder_;
  std::unique_ptr<core::DumpSource> dump_;
  replay::ShadowCounts counts_;
  std::vector<replay::ShadowCut> cuts_;
  std::string libtorch_;
};

/// Of the outputs of A that are judged; by comparators::judged_calls().
std::unique_ptr<ShadowDump> shadow_of(const ShadowPlan& plan, const comparators::TwoPasses& passes);
/// By comparators::judged_tensors().
std::unique_ptr<ShadowDump> shadow_of(const ShadowPlan& plan,
                                      const comparators::TwoTrainings& trainings);
/// By comparators::judged_tensors().
std::unique_ptr<ShadowDump> shadow_of(const ShadowPlan& plan, const comparators::TwoRungs& rungs);

}  // namespace repro_check::cmd
