// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comparators/relate/judgement.h"
#include "comparators/relate/two_passes.h"
#include "core/system/ownership.h"
#include "core/system/pinned.h"
#include "core/trace/dump.h"
#include "dumpers/replay/shadow_counts.h"

namespace repro_check::cmd {

struct ShadowPlan {
  std::filesystem::path dump;  ///< of A
  std::vector<std::filesystem::path> references;
  std::optional<std::filesystem::path> recorder;
  std::optional<std::chrono::seconds> timeout;
};

/// What float64 gives at the outputs of A that are judged, written by a recorder into a dump that
/// is removed with the object.
class ShadowDump : core::Pinned {
 public:
  /// @throws core::Error{kUsage} if its folder cannot be made; as ask_about_dump()
  ShadowDump(const ShadowPlan& plan, const comparators::TwoPasses& passes);

  /// @param i  as comparators::judged_calls() has them
  /// @throws core::Error{kDumpDamaged}
  [[nodiscard]] comparators::ShadowValues values(std::size_t i) const;

  [[nodiscard]] const replay::ShadowCounts& counts() const noexcept { return counts_; }
  [[nodiscard]] const std::vector<replay::ShadowCut>& cuts() const noexcept { return cuts_; }
  [[nodiscard]] const std::string& libtorch() const noexcept { return libtorch_; }

 private:
  void write_given(const comparators::TwoPasses& passes) const;

  core::PrivateFolder folder_;
  std::unique_ptr<core::DumpSource> dump_;
  replay::ShadowCounts counts_;
  std::vector<replay::ShadowCut> cuts_;
  std::string libtorch_;
};

}  // namespace repro_check::cmd
