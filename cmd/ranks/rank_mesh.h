// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cmd/options/command.h"
#include "comparators/ranks/rank_reads.h"

namespace repro_check::cmd {

/// How ranks lie along the axes of a mesh, and along which of them parameters are replicas: of a
/// program that splits its weights by hand nothing else says so.
class RankMeshFlags : public OptionGroup {
 public:
  /// Empty where no mesh was given.
  /// @param expected  ranks that there are; 0 = not known
  /// @throws core::Error{kUsage} where what was given is no mesh, or one of another number of ranks
  [[nodiscard]] comparators::DeclaredReplicas declared(std::uint32_t expected) const;

 private:
  std::vector<std::string> mesh_ =
      value(&mesh_,
            "--mesh AXIS=RANKS  How ranks are laid out, the last axis fastest: dp=4,tp=2",
            {.commas = true});
  std::vector<std::string> replicated_ =
      value(&replicated_,
            "--replicated AXIS  Axes of the mesh along which all parameters are replicas: dp",
            {.commas = true});
};

}  // namespace repro_check::cmd
