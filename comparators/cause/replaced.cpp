// SPDX-License-Identifier: Apache-2.0
#include "comparators/cause/replaced.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "comparators/measure/records.h"
#include "comparators/report/report.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/op_record.h"
#include "core/trace/program_records.h"

namespace repro_check::comparators {
namespace {

constexpr std::size_t kNamed = 4;

using ContentNames = std::set<std::string, std::less<>>;

/// What a group of calls reads of others, and what it leaves that it did not read.
struct GroupContents {
  ContentNames read;
  ContentNames left;
};

/// Those that no other one of them encloses, as they began.
Ops outermost_of(const core::DumpSource& dump, const Ops& places) {
  Ops sorted = places;
  std::ranges::sort(sorted);
  Ops outermost;
  for (const std::uint32_t place : sorted) {
    const std::int64_t parent = dump.op_head(place).parent;
    const bool is_inside =
        parent >= 0 && std::ranges::binary_search(sorted, static_cast<std::uint32_t>(parent));
    if (!is_inside) outermost.push_back(place);
  }
  return outermost;
}

/// False where not all of it is known.
bool add_call(const core::OpRecord& record,
              ContentNames& made,
              ContentNames& used,
              GroupContents& group) {
  if (core::is_named_values(record) || core::is_returned(record) || record.generator ||
      has_scalar_results(record)) {
    return false;
  }
  using core::ContentState;
  const bool hands_out = core::hands_out_memory(core::base_name(record.op->name));
  for (const core::TensorRecord& tensor : record.tensors) {
    const bool is_input = core::is_input(tensor);
    if (tensor.state == ContentState::kUndefined) continue;
    if (is_input && !core::reads_values(*record.op, tensor.slot)) continue;
    if (tensor.state == ContentState::kUninitialised && (is_input || hands_out)) continue;
    if (tensor.state != ContentState::kHashed) return false;
    const std::string content = core::content_name(tensor.content_key());
    if (!is_input) {
      made.insert(content);
      used.erase(content);
    } else if (made.contains(content)) {
      used.insert(content);
    } else {
      group.read.insert(content);
    }
  }
  return true;
}

std::optional<GroupContents> contents_of_group(const core::DumpSource& dump, const Ops& places) {
  GroupContents group;
  ContentNames made;
  ContentNames used;
  for (const std::uint32_t place : outermost_of(dump, places)) {
    if (!add_call(dump.op(place), made, used, group)) return std::nullopt;
  }
  for (const std::string& content : made) {
    if (!used.contains(content) && !group.read.contains(content)) group.left.insert(content);
  }
  return group;
}

std::string names_of(const core::DumpSource& dump, const Ops& places) {
  std::string names;
  const Ops outermost = outermost_of(dump, places);
  for (std::size_t i = 0; i < std::min(outermost.size(), kNamed); ++i) {
    names += (i == 0 ? "" : ", ") + operator_text(dump.op_head(outermost[i]));
  }
  return outermost.size() > kNamed ? names + ", ..." : names;
}

}  // namespace

bool are_of_two_releases(const core::RunManifest& baseline, const core::RunManifest& candidate) {
  const std::string* here = core::environment_fact(baseline, "libtorch.version");
  const std::string* there = core::environment_fact(candidate, "libtorch.version");
  return here != nullptr && there != nullptr && *here != *there &&
         baseline.trace.digest_algorithm == candidate.trace.digest_algorithm;
}

bool gave_equal_results(const core::DumpSource& baseline,
                        const core::DumpSource& candidate,
                        const Hunk& hunk) {
  const auto here = contents_of_group(baseline, hunk.missing);
  const auto there = contents_of_group(candidate, hunk.extra);
  if (!here || !there || here->left != there->left) return false;
  return hunk.missing.empty() || hunk.extra.empty() || here->read == there->read;
}

std::string replaced_text(const core::DumpSource& baseline,
                          const core::DumpSource& candidate,
                          const Hunk& hunk) {
  const std::string here = names_of(baseline, hunk.missing);
  const std::string there = names_of(candidate, hunk.extra);
  const bool in_baseline = !hunk.missing.empty();
  const Ops& shown = in_baseline ? hunk.missing : hunk.extra;
  return fmt::format("{}op {}: {} against {}",
                     in_baseline ? "" : "candidate ",
                     *std::ranges::min_element(shown),
                     here.empty() ? "nothing" : here,
                     there.empty() ? "nothing" : there);
}

}  // namespace repro_check::comparators
