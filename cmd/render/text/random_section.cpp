// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <string_view>

#include "cmd/render/text.h"
#include "cmd/render/text/report_sections.h"

namespace repro_check::cmd {
namespace {

using comparators::RandomDraws;
using comparators::Status;

std::string seeds_text(const RandomDraws& draws) {
  if (draws.seeds.size() == 1) return fmt::format("seed {}", draws.seeds.front());
  const bool is_all = draws.seeds.size() < RandomDraws::kMostSeeds;
  return fmt::format("seeds {}{}", fmt::join(draws.seeds, ", "), is_all ? "" : " and others");
}

}  // namespace

std::string random_text(const comparators::Report& report) {
  const RandomDraws& draws = report.draws;
  const bool agrees = report.status == Status::kReproducible || report.status == Status::kPartial;
  if (!agrees || draws.operators == 0) return {};
  std::string text = fmt::format("{} drew from {}",
                                 format_count(draws.operators, "operator"),
                                 escape_name(fmt::format("{}", fmt::join(draws.devices, ", "))));
  if (!draws.parting.empty()) return text + "; " + escape_name(draws.parting);
  const std::string_view runs = report.repeat ? "all" : "both";
  return fmt::format("{} ({}): {} because {} runs had the same seed",
                     text,
                     seeds_text(draws),
                     draws.operators == 1 ? "it agrees" : "they agree",
                     runs);
}

}  // namespace repro_check::cmd
