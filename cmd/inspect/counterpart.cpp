// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/counterpart.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "comparators/align/align.h"
#include "core/error.h"

namespace repro_check::cmd {
namespace {

/// What a call is, without its place in the stream.
std::string key_of(const core::OpRecord& op) {
  return fmt::format("{}|{}|{}|{}|{}|{}|{}",
                     op.rank,
                     op.lane,
                     op.step,
                     static_cast<int>(op.phase),
                     op.depth,
                     op.site ? op.site->module_path : "",
                     op.op ? op.op->full_name() : "");
}

using Interned = std::unordered_map<std::string, std::uint32_t>;

/// The calls of one lane of one rank, in order.
struct Stream {
  std::vector<std::uint32_t> keys;
  std::vector<std::uint64_t> ops;
};

Stream stream_of(const core::DumpSource& dump, const core::OpRecord& like, Interned& names) {
  Stream stream;
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    const core::OpRecord head = dump.op_head(i);
    if (head.rank != like.rank || head.lane != like.lane) continue;
    const auto next = static_cast<std::uint32_t>(names.size());
    stream.keys.push_back(names.try_emplace(key_of(head), next).first->second);
    stream.ops.push_back(i);
  }
  return stream;
}

}  // namespace

std::uint64_t counterpart(const core::DumpSource& dump,
                          std::uint64_t index,
                          const core::DumpSource& other) {
  const core::OpRecord head = dump.op_head(index);
  Interned names;
  const Stream left = stream_of(dump, head, names);
  const Stream right = stream_of(other, head, names);
  const auto place = std::ranges::lower_bound(left.ops, index) - left.ops.begin();
  const std::uint32_t found =
      comparators::align(left.keys, right.keys).candidate_of[static_cast<std::size_t>(place)];
  if (found == comparators::kUnmatched) {
    throw core::Error(core::ErrorKind::kNotComparable,
                      fmt::format("{} has no counterpart of op {}", other.location(), index),
                      "name another operator with --op, or leave --against out");
  }
  return right.ops[found];
}

}  // namespace repro_check::cmd
