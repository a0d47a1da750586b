// SPDX-License-Identifier: Apache-2.0
#include "cmd/counterpart.h"

#include <fmt/format.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "comparators/align.h"
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

std::vector<std::uint32_t> keys_of(const core::DumpSource& dump, Interned& names) {
  std::vector<std::uint32_t> keys;
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    const auto next = static_cast<std::uint32_t>(names.size());
    keys.push_back(names.try_emplace(key_of(dump.op_head(i)), next).first->second);
  }
  return keys;
}

}  // namespace

std::uint64_t counterpart(const core::DumpSource& dump,
                          std::uint64_t index,
                          const core::DumpSource& other) {
  const std::string key = key_of(dump.op_head(index));
  if (index < other.op_count() && key_of(other.op_head(index)) == key) return index;
  Interned names;
  const std::vector<std::uint32_t> left = keys_of(dump, names);
  const std::vector<std::uint32_t> right = keys_of(other, names);
  const std::uint32_t found = comparators::align(left, right).candidate_of[index];
  if (found == comparators::kUnmatched) {
    throw core::Error(core::ErrorKind::kNotComparable,
                      fmt::format("{} has no counterpart of op {}", other.location(), index),
                      "name another operator with --op, or leave --against out");
  }
  return found;
}

}  // namespace repro_check::cmd
