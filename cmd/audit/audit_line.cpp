// SPDX-License-Identifier: Apache-2.0
#include "cmd/audit/audit_line.h"

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cmd/render/text.h"
#include "cmd/terminal/logging.h"
#include "comparators/audit/audit.h"
#include "core/trace/run_manifest.h"
#include "dumpers/store/directory/rank_dumps.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;
using Weight = comparators::Finding::Weight;

/// What an audit takes a second or two for.
constexpr std::uint64_t kMostOperators = 50'000;

std::vector<std::pair<fs::path, std::optional<std::uint32_t>>> recordings_of(const fs::path& dump) {
  std::vector<std::pair<fs::path, std::optional<std::uint32_t>>> recordings;
  for (const store::RankDump& rank : store::rank_dumps(dump)) {
    recordings.emplace_back(rank.path, rank.rank);
  }
  if (recordings.empty()) recordings.emplace_back(dump, std::nullopt);
  return recordings;
}

std::string line_of(const fs::path& dump, AlreadyTold told) {
  std::vector<const comparators::AuditRule*> rules;
  for (const auto& rule : comparators::audit_rules()) {
    if (told == AlreadyTold::kNothing || rule.of_trace != nullptr) rules.push_back(&rule);
  }
  const std::string command = "repro-check audit " + shell_quote(dump.string());
  comparators::Audit audit(std::move(rules));
  std::uint64_t operators = 0;
  for (const auto& [place, rank] : recordings_of(dump)) {
    const auto opened = store::open_dump(place);
    if (opened->manifest().is_of_blocks()) return {};
    operators += opened->op_count();
    if (operators > kMostOperators) {
      return fmt::format(
          "audit: not made of more than {}: {}", format_count(kMostOperators, "operator"), command);
    }
    audit.see(*opened, rank);
  }
  const comparators::AuditReport report = audit.finish();
  const std::size_t proofs = report.count(Weight::kProof);
  const std::size_t suspicions = report.count(Weight::kSuspicion);
  if (proofs == 0) return {};
  return fmt::format("audit: {}{}: {}",
                     format_count(proofs, "proof"),
                     suspicions == 0 ? "" : ", " + format_count(suspicions, "suspicion"),
                     command);
}

}  // namespace

void tell_of_proofs(const fs::path& dump, AlreadyTold told) noexcept {
  try {
    const std::string line = line_of(dump, told);
    if (!line.empty()) log_info(line);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the command has told its own
  }
}

}  // namespace repro_check::cmd
