// SPDX-License-Identifier: Apache-2.0
#include "cmd/ranks/rank_mesh.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "core/error.h"
#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

struct Axis {
  std::string name;
  std::uint32_t ranks = 0;
  bool replicated = false;
};

Axis axis_of(const std::string& text) {
  const std::size_t equals = text.find('=');
  const auto ranks = equals == std::string::npos
                         ? std::nullopt
                         : core::parse_number<std::uint32_t>(text.substr(equals + 1));
  if (equals == 0 || !ranks || *ranks == 0) {
    throw core::usage_error(fmt::format("--mesh {}: is no axis with its number of ranks", text),
                            "write --mesh dp=4,tp=2 for 8 ranks of which two each work on parts");
  }
  return {text.substr(0, equals), *ranks};
}

void mark_replicated(std::vector<Axis>& axes, const std::string& name) {
  const auto axis = std::ranges::find(axes, name, &Axis::name);
  if (axis == axes.end()) {
    std::vector<std::string_view> names;
    names.reserve(axes.size());
    for (const Axis& each : axes) names.push_back(each.name);
    throw core::usage_error(
        fmt::format("--replicated {}: is no axis of the mesh", name),
        names.empty() ? std::string("say how the ranks are laid out too: --mesh dp=4,tp=2")
                      : fmt::format("its axes are {}", fmt::join(names, ", ")));
  }
  axis->replicated = true;
}

/// The ranks that differ from one in their place along replicated axes alone.
std::string replicas_of(std::uint32_t rank, const std::vector<Axis>& axes) {
  std::vector<std::uint32_t> ranks{0};
  for (std::uint64_t stride = 1; const Axis& axis : std::vector(axes.rbegin(), axes.rend())) {
    std::vector<std::uint32_t> further;
    for (std::uint32_t place = 0; place < axis.ranks; ++place) {
      // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): no axis is of 0 ranks
      if (!axis.replicated && place != rank / stride % axis.ranks) continue;
      for (const std::uint32_t each : ranks) {
        further.push_back(static_cast<std::uint32_t>(each + (place * stride)));
      }
    }
    ranks = std::move(further);
    stride *= axis.ranks;
  }
  return fmt::format("{}", fmt::join(ranks, ","));
}

}  // namespace

comparators::DeclaredReplicas RankMeshFlags::declared(std::uint32_t expected) const {
  std::vector<Axis> axes;
  std::uint64_t ranks = 1;
  for (const std::string& text : mesh_) {
    ranks *= axes.emplace_back(axis_of(text)).ranks;
    if (ranks <= std::numeric_limits<std::uint32_t>::max()) continue;
    throw core::usage_error(
        fmt::format("--mesh {}: is of more ranks than any run has", fmt::join(mesh_, ",")));
  }
  for (const std::string& name : replicated_) mark_replicated(axes, name);
  if (axes.empty()) return {};
  if (replicated_.empty()) {
    throw core::usage_error("--mesh: says nothing of replicas",
                            "name the axes along which all parameters are: --replicated dp");
  }
  const auto refuse = [text = fmt::format("{}", fmt::join(mesh_, ",")), ranks](std::uint32_t ran) {
    throw core::usage_error(
        fmt::format("--mesh {}: is of {} ranks, and the run had {}", text, ranks, ran),
        "give every axis, the one that varies fastest from rank to rank last");
  };
  if (expected > 0 && ranks != expected) refuse(expected);
  return [axes, ranks, refuse](std::uint32_t rank) {
    if (rank >= ranks) refuse(rank + 1);
    return replicas_of(rank, axes);
  };
}

}  // namespace repro_check::cmd
