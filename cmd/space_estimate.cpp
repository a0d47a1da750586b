// SPDX-License-Identifier: Apache-2.0
#include "cmd/space_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <set>
#include <system_error>

#include "cmd/logging.h"
#include "cmd/render/text.h"
#include "core/content_size.h"
#include "core/error.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

/// Of the files in a finished dump; empty where they cannot be asked.
std::optional<std::uint64_t> dump_size(const fs::path& dump) {
  std::error_code error;
  std::uint64_t bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(dump, error)) {
    const std::uintmax_t size = entry.file_size(error);
    if (error) return std::nullopt;
    bytes += size;
  }
  if (error) return std::nullopt;
  return bytes;
}

/// Of the distinct contents of the operators: each is stored once.
std::uint64_t content_bytes(const core::DumpSource& dump, const core::OpRanges& operators) {
  std::set<core::ContentKey> seen;
  std::uint64_t bytes = 0;
  for (const core::OpRange& range : operators) {
    for (std::uint64_t index = range.first; index <= range.last && index < dump.op_count();
         ++index) {
      for (const core::TensorRecord& tensor : dump.op(index).tensors) {
        if (tensor.state != core::ContentState::kHashed) continue;
        const core::ContentKey key = tensor.content_key();
        if (seen.insert(key).second) bytes += core::content_size(key);
      }
    }
  }
  return bytes;
}

}  // namespace

std::optional<SpaceEstimate> estimate_from(const configs::RunSpec& done,
                                           const fs::path& done_at,
                                           const configs::RunSpec& next) {
  const bool alike = done.model == next.model && done.calls == next.calls &&
                     done.dtype == next.dtype && done.dump == next.dump;
  const std::optional<std::uint64_t> bytes = alike ? dump_size(done_at) : std::nullopt;
  if (!bytes) return std::nullopt;
  return SpaceEstimate{*bytes, "as " + done.name + " took"};
}

std::optional<SpaceEstimate> estimate_values(const fs::path& digests,
                                             const configs::RunSpec& next,
                                             const core::OpRanges& operators) {
  if (next.dump.slice || next.dump.reference) return std::nullopt;
  try {
    std::uint64_t bytes = content_bytes(*store::open_dump(digests), operators);
    if (next.dump.max_bytes) bytes = std::min(bytes, *next.dump.max_bytes);
    // Its records take again what those of the digests take.
    bytes += dump_size(digests).value_or(0);
    return SpaceEstimate{bytes, "the values of " + core::describe(operators)};
  } catch (const core::Error& error) {
    // What is wrong with the dump is said by whoever compares it.
    log_debug(std::string("no estimate of the space: ") + error.what());
    return std::nullopt;
  }
}

std::optional<std::uint64_t> free_space(const fs::path& dump) {
  std::error_code error;
  fs::path there = fs::absolute(dump, error);
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  const fs::space_info space = fs::space(there, error);
  // Some file systems do not know how large they are.
  if (error || space.capacity == 0) return std::nullopt;
  return space.available;
}

std::optional<RecordingResult> refuse_for_space(const RecordingJob& job,
                                                const SpaceEstimate& estimate,
                                                std::uint64_t free) {
  if (free >= estimate.bytes) return std::nullopt;
  RecordingResult refused;
  refused.summary.name = job.run.name;
  refused.summary.location = job.dump.string();
  refused.summary.status = "failed";
  refused.summary.message = fmt::format("{}: needs about {} ({}), {} are free",
                                        job.dump.string(),
                                        format_bytes(estimate.bytes),
                                        estimate.reason,
                                        format_bytes(free));
  refused.hint = "free space, record to another disk (dump.directory), or lower dump.max_bytes";
  return refused;
}

}  // namespace repro_check::cmd
