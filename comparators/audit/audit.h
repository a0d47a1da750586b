// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "comparators/audit/rules.h"
#include "comparators/judge/expectations.h"
#include "comparators/report/finding.h"
#include "configs/spec/gate_spec.h"
#include "core/error.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"

namespace repro_check::comparators {

/// What a recording has to hold for a rule.
enum class AuditNeed : std::uint8_t {
  kOperators,      ///< the calls of operators: no recording of blocks has them
  kProgram,        ///< and losses and steps of optimizers
  kWhole,          ///< and all of them, since a program's first one: none was left out
  kSamples,        ///< which samples loaders hand out, and digests of these
  kAttributes,     ///< and what was set of a dataset behind the back of its workers
  kRanks,          ///< the program ran on several ranks
  kLoaderOfRanks,  ///< and has kSamples
  kValues,         ///< the bytes of tensors
  kCalls,          ///< a model was called three times or more
  kRepeats,        ///< the same, or it is of a program
  kKeys,           ///< calls of a framework whose generators are values: JAX
};

/// One rule, by the finding that it is about.
struct AuditRule {
  FindingId id{};
  AuditNeed need = AuditNeed::kOperators;
  std::vector<Finding> (*of_trace)(const AuditTrace& trace) = nullptr;
  std::vector<Finding> (*of_ranks)(std::span<const AuditShare> shares) = nullptr;

  [[nodiscard]] std::string_view name() const noexcept { return finding_id(id); }
};

/// All of them, the one that does most damage first.
std::span<const AuditRule> audit_rules() noexcept;
/// Null for a name that no rule has.
const AuditRule* find_audit_rule(std::string_view name) noexcept;
/// The rule that makes a finding; null where none does.
/// @param id  of the finding
const AuditRule* rule_of_finding(std::string_view id) noexcept;

/// What a rule found at one line of the program, by one operator.
struct AuditFinding {
  const AuditRule* rule = nullptr;
  Finding finding;                             ///< where it was seen first
  std::uint64_t times = 1;                     ///< on all ranks
  RankList ranks;                              ///< empty where the program did not run on several
  std::shared_ptr<const core::CallSite> site;  ///< null where the finding is of no single call
  std::size_t recording = 0;                   ///< which of those that were read
  std::optional<std::size_t> expected;  ///< the entry of AuditReport::expected that excuses it
};

struct NotAudited {
  const AuditRule* rule = nullptr;
  Phrase why;
};

/// What of a batch was executed again for single items.
struct BatchCoverage {
  std::uint64_t items = 0;       ///< of the batch; 0 where no call has any
  std::uint64_t told_apart = 0;  ///< judged calls that give the items that were tried other results
  std::uint64_t without_items = 0;  ///< calls that no item goes into
  std::vector<std::string> mixing;  ///< calls whose result for one item depends on the others
};

/// What was executed again of the calls that were recorded.
struct SweepCoverage {
  std::uint64_t judged = 0;             ///< under every setting
  std::vector<std::string> settings;    ///< `threads=1`, each once
  std::vector<std::string> unrepeated;  ///< calls that give another result as recorded, too
  std::vector<std::string> unswept;     ///< calls that could not be made, and why
  std::optional<BatchCoverage> batch;

  void add(const SweepCoverage& more);
  [[nodiscard]] std::uint64_t calls() const noexcept {
    return judged + unrepeated.size() + unswept.size();
  }
};

struct AuditReport {
  std::vector<AuditFinding> findings;  ///< excused ones last, proofs first, then by AuditRule
  std::vector<const AuditRule*> audited;
  std::vector<NotAudited> not_audited;
  /// kExcused, kAgreed where nothing is found, kNotJudged where its rule was not audited, kExpired.
  std::vector<ExpectedOutcome> expected;
  std::size_t recordings = 0;
  std::vector<std::uint64_t> rows;  ///< of each recording: its operators and other records
  std::uint64_t operators = 0;
  std::size_t constants = 0;           ///< of an exported model
  std::optional<SweepCoverage> sweep;  ///< where calls were executed again
  std::optional<Liveness> liveness;    ///< of a model that was called several times

  /// Those that are not excused: they come first.
  [[nodiscard]] std::span<const AuditFinding> open() const noexcept;
  /// Of those that are not excused.
  [[nodiscard]] std::size_t count(Finding::Weight weight) const noexcept;
};

/// @param all_asked  each rule was asked for by name: one that was not audited is no pass
core::ExitCode exit_code_of(const AuditReport& report,
                            configs::AuditFailure fail_on,
                            bool all_asked) noexcept;

/// What an audit is to do.
struct AuditPlan {
  std::vector<const AuditRule*> rules = {};          ///< to be asked; all where it is empty
  std::vector<configs::ExpectedSpec> expected = {};  ///< findings that are known
  std::chrono::sys_days today = {};
  /// Asked now and then: whether to stop without a report; may be empty.
  std::function<bool()> is_late = {};
};

/// Audits one recording, or those of all ranks of one run.
class Audit {
 public:
  explicit Audit(AuditPlan plan = {});

  /// @param rank  of a program that ran on several
  /// @return false where it was stopped: then there is no report
  /// @throws core::Error{kDumpDamaged}, kNotComparable
  bool see(const core::DumpSource& dump, const std::optional<std::uint32_t>& rank = {});
  /// Of what is no recording. @param rule  one of the plan
  void add(const AuditRule& rule, std::vector<Finding> findings) {
    put(rule, std::move(findings), nullptr);
  }
  /// Of calls of one recording that rules of the plan are about, each a finding of its own.
  void add_of_calls(const core::DumpSource& dump, std::vector<Finding> findings);
  /// To be called once, behind one see() or add() at least.
  AuditReport finish();

 private:
  void put(const AuditRule& rule, std::vector<Finding> findings, const AuditTrace* trace);
  /// @return with the entry that expects it, which is told
  AuditFinding made(const AuditRule& rule,
                    Finding finding,
                    std::shared_ptr<const core::CallSite> site);
  void count(const core::DumpSource& dump);
  void keep(const AuditTrace& trace, const std::optional<std::uint32_t>& rank);
  [[nodiscard]] std::optional<std::size_t> expected(const AuditFinding& finding) const;
  void settle();

  AuditPlan plan_;
  std::vector<AuditShare> shares_;
  AuditReport report_;
};

}  // namespace repro_check::comparators
