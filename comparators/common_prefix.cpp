// SPDX-License-Identifier: Apache-2.0
#include "comparators/common_prefix.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace repro_check::comparators {
namespace {

/// What a partial dump and its counterpart have in common.
struct Scope {
  std::uint64_t end = std::numeric_limits<std::uint64_t>::max();  ///< no op from here on
  std::set<std::uint64_t> unfinished;
};

/// The first operators of a dump. Those that one side never left have no values on either: they
/// are skipped, whatever the other side holds.
class PrefixSource final : public core::DumpSource {
 public:
  PrefixSource(const core::DumpSource& dump, const Scope& scope) : dump_(dump), scope_(scope) {}

  [[nodiscard]] const std::string& location() const override { return dump_.location(); }
  [[nodiscard]] const core::RunManifest& manifest() const override { return dump_.manifest(); }
  [[nodiscard]] std::uint64_t op_count() const override {
    return std::min(dump_.op_count(), scope_.end);
  }
  [[nodiscard]] core::OpRecord op_head(std::uint64_t index) const override {
    return dump_.op_head(index);
  }
  [[nodiscard]] core::OpRecord op(std::uint64_t index) const override {
    if (!scope_.unfinished.contains(index)) return dump_.op(index);
    core::OpRecord record = dump_.op_head(index);
    core::TensorRecord& output = record.tensors.emplace_back();
    output.role = core::TensorRole::kOutput;
    output.state = core::ContentState::kExcluded;
    return record;
  }
  [[nodiscard]] bool has_content(const core::ContentKey& key) const override {
    return dump_.has_content(key);
  }
  [[nodiscard]] std::optional<core::ContentSlice> find_slice(
      const core::ContentKey& key) const override {
    return dump_.find_slice(key);
  }
  void read_content(const core::ContentKey& key, std::vector<std::byte>& into) const override {
    dump_.read_content(key, into);
  }
  [[nodiscard]] std::string missing_reference() const override { return dump_.missing_reference(); }
  [[nodiscard]] std::unique_ptr<core::ContentParts> open_content(
      const core::ContentKey& key) const override {
    return dump_.open_content(key);
  }
  [[nodiscard]] std::uint64_t content_count() const override { return dump_.content_count(); }
  [[nodiscard]] std::optional<core::ContentKey> content(std::uint64_t position) const override {
    return dump_.content(position);
  }

 private:
  const core::DumpSource& dump_;
  const Scope& scope_;
};

Scope common_scope(const core::DumpSource& baseline, const core::DumpSource& candidate) {
  Scope scope;
  for (const core::DumpSource* dump : {&baseline, &candidate}) {
    if (!is_partial(*dump)) continue;
    scope.end = std::min(scope.end, dump->op_count());
    const std::vector<std::uint64_t>& unfinished = dump->manifest().trace.partial->unfinished;
    scope.unfinished.insert(unfinished.begin(), unfinished.end());
  }
  return scope;
}

/// `reproducible up to op 41: 42 of 42 operators bit-identical; nothing beyond was compared`.
std::string how_far(const Coverage& coverage) {
  const std::uint64_t end = std::max(coverage.baseline_ops, coverage.candidate_ops);
  return fmt::format("reproducible up to op {}: {} of {} operators {}; nothing beyond was compared",
                     end - 1,
                     coverage.equal + coverage.within_policy,
                     end,
                     coverage.within_policy == 0 ? "bit-identical" : "within policy");
}

void mark(RunSummary& run, const core::DumpSource& dump, std::vector<std::string>& warnings) {
  if (!is_partial(dump)) return;
  const core::PartialTrace& partial = *dump.manifest().trace.partial;
  if (run.status == "complete") run.status = "partial";
  run.last_op = partial.last;
  run.message = partial.reason;
  warnings.insert(warnings.begin(),
                  fmt::format("{} is a partial recording: {}", dump.location(), partial.reason));
}

}  // namespace

bool is_partial(const core::DumpSource& dump) { return dump.manifest().trace.partial.has_value(); }

Report compare_common_prefix(const core::DumpSource& baseline,
                             const core::DumpSource& candidate,
                             const CompareOptions& options) {
  const Scope scope = common_scope(baseline, candidate);
  Report report = compare(PrefixSource(baseline, scope), PrefixSource(candidate, scope), options);
  mark(report.runs[0], baseline, report.warnings);
  mark(report.runs[1], candidate, report.warnings);
  if (report.status == Status::kReproducible) {
    report.status = Status::kPartial;
    report.reasons.insert(report.reasons.begin(), how_far(report.coverage));
    report.mend = "record the run again to its end: this is no pass";
  }
  return report;
}

}  // namespace repro_check::comparators
