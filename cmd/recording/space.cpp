// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/space.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <memory>
#include <set>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "cmd/render/text.h"
#include "cmd/terminal/logging.h"
#include "configs/parser/config_parser.h"
#include "configs/setting_changes.h"
#include "core/error.h"
#include "core/system/file_descriptor.h"
#include "core/system/pinned.h"
#include "core/tensor/content.h"
#include "core/tensor/dtype.h"
#include "core/text/secrets.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

using Contents = std::set<core::ContentKey>;

/// Of the distinct contents of the operators that are not `held`: each is stored once.
/// @param operators  empty = all
std::uint64_t content_bytes(const core::DumpSource& dump, core::OpRanges operators, Contents held) {
  std::uint64_t bytes = 0;
  if (operators.empty()) operators = {{0, dump.op_count()}};
  for (const core::OpRange& range : operators) {
    for (std::uint64_t index = range.first; index <= range.last && index < dump.op_count();
         ++index) {
      for (const core::TensorRecord& tensor : dump.op(index).tensors) {
        if (tensor.state != core::ContentState::kHashed) continue;
        const core::ContentKey key = tensor.content_key();
        if (held.insert(key).second) bytes += core::content_size(key);
      }
    }
  }
  return bytes;
}

/// What a recording need not store since the dump that it refers to holds it; a dump does not refer
/// to itself.
/// @return empty where that dump has slices, of which the whole may be stored again or not
std::optional<Contents> held_by_reference(const RecordingJob& job) {
  Contents held;
  const std::optional<fs::path>& reference = job.run.dump.reference;
  if (!reference || store::is_same_place(*reference, job.dump)) return held;
  const std::unique_ptr<core::DumpSource> dump = store::open_dump(*reference);
  if (dump->manifest().trace.slices != 0) return std::nullopt;
  for (std::uint64_t index = 0; index < dump->op_count(); ++index) {
    for (const core::TensorRecord& tensor : dump->op(index).tensors) {
      if (tensor.stored) held.insert(tensor.content_key());
    }
  }
  return held;
}

/// As a float64, which holds the product of any shape.
double made_bytes(const configs::InputSpec& input) {
  const auto* made = std::get_if<configs::GeneratedInput>(&input.source);
  if (made == nullptr) return 0;
  auto bytes = static_cast<double>(core::element_size(made->dtype));
  for (const std::int64_t size : made->shape) bytes *= static_cast<double>(size);
  return bytes;
}

/// Whether what a run reads was last changed before the dump was finished.
bool is_unchanged_since(const fs::path& manifest, const configs::RunSpec& run) {
  std::error_code error;
  const fs::file_time_type finished = fs::last_write_time(manifest, error);
  if (error) return false;
  std::vector<fs::path> files = configs::files_of(run);
  if (run.dump.reference) files.push_back(*run.dump.reference / "manifest.json");
  return std::ranges::all_of(files, [&](const fs::path& file) {
    const fs::file_time_type changed = fs::last_write_time(file, error);
    return !error && changed <= finished;
  });
}

std::optional<SpaceEstimate> estimate_at(const fs::path& place, const RecordingJob& job) {
  if (!is_unchanged_since(place / "manifest.json", job.run)) return std::nullopt;
  const core::RunManifest manifest = store::open_dump(place)->manifest();
  if (manifest.trace.partial) return std::nullopt;
  if (manifest.configuration ==
      core::configuration_without_secrets(configs::to_json_text(job.run))) {
    const std::optional<std::uint64_t> bytes = dump_size(place);
    if (!bytes) return std::nullopt;
    return SpaceEstimate{*bytes, "as " + place.string() + " took"};
  }
  if (job.run.dump.level != core::DumpLevel::kTensor) return std::nullopt;
  configs::RunSpec without_values = job.run;
  without_values.dump.keep_ops.clear();
  without_values.dump.open_steps.clear();
  for (const core::DumpLevel level : {core::DumpLevel::kDigest, core::DumpLevel::kStats}) {
    without_values.dump.level = level;
    if (manifest.configuration !=
        core::configuration_without_secrets(configs::to_json_text(without_values)))
      continue;
    auto estimate = estimate_values(place, job, job.run.dump.keep_ops);
    if (estimate) estimate->reason = "the tensors whose digests " + place.string() + " holds";
    return estimate;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> dump_size(const fs::path& dump) {
  std::error_code error;
  std::uint64_t bytes = 0;
  for (auto at = fs::recursive_directory_iterator(dump, error);
       !error && at != fs::recursive_directory_iterator();
       at.increment(error)) {
    if (at->is_directory(error)) continue;
    const std::uintmax_t size = at->file_size(error);
    if (error) return std::nullopt;
    bytes += size;
  }
  if (error) return std::nullopt;
  return bytes;
}

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
                                             const RecordingJob& next,
                                             const core::OpRanges& operators) {
  const configs::DumpSpec& dump = next.run.dump;
  if (dump.slice) return std::nullopt;
  try {
    std::optional<Contents> held = held_by_reference(next);
    if (!held) return std::nullopt;
    std::uint64_t bytes = content_bytes(*store::open_dump(digests), operators, std::move(*held));
    if (dump.max_bytes) bytes = std::min(bytes, *dump.max_bytes);
    // Its records take again what those of the digests take.
    bytes += dump_size(digests).value_or(0);
    return SpaceEstimate{
        bytes, "the values of " + (operators.empty() ? "every op" : core::describe(operators))};
  } catch (const core::Error& error) {
    // What is wrong with the dump is said by whoever compares it.
    log_debug(std::string("no estimate of the space: ") + error.what());
    return std::nullopt;
  }
}

std::optional<SpaceEstimate> estimate_from_earlier(const RecordingJob& job) {
  for (const fs::path& place : {job.dump, digest_directory(job.dump)}) {
    std::error_code ignored;
    if (!fs::exists(place / "manifest.json", ignored)) continue;
    try {
      if (auto estimate = estimate_at(place, job)) return estimate;
    } catch (const core::Error& error) {
      log_debug(std::string("no estimate of the space: ") + error.what());
    }
  }
  return std::nullopt;
}

std::uint64_t given_bytes(const configs::RunSpec& run) {
  double bytes = 0;
  for (const fs::path& file : configs::files_of(run)) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(file, error);
    if (!error && file != run.recorder) bytes += static_cast<double>(size);
  }
  configs::for_each_leaf(run, [&](const configs::InputSpec& input) { bytes += made_bytes(input); });
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  return bytes < static_cast<double>(kMost) ? static_cast<std::uint64_t>(bytes) : kMost;
}

bool is_scarce(std::uint64_t free, std::uint64_t given) noexcept {
  // ResNet-50 records 25 times what it is given, BERT-base 5 times.
  constexpr std::uint64_t kOften = 50;
  constexpr std::uint64_t kAlways = std::uint64_t{1} << 30U;
  return free < kAlways || free / kOften < given;
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
  refused.hint =
      "free space, record to another disk (dump.directory, --out), or limit it by dump.max_bytes";
  return refused;
}

namespace {

/// A recording that is gone when it has told its size, however it ended.
class Measurement : core::Pinned {
 public:
  explicit Measurement(RecordingJob job) : job_(std::move(job)) {
    job_.dump += ".measure";
    job_.run.dump.level = core::DumpLevel::kDigest;
    job_.run.dump.keep_ops.clear();
    job_.replace_existing = false;
    job_.report_outputs = false;
    store::discard_recording(job_.dump);
  }
  ~Measurement() {
    try {
      discard_with_log(job_.dump);
    } catch (const std::exception& error) {
      log_debug(std::string("a measurement was not removed: ") + error.what());
    }
  }

  [[nodiscard]] const RecordingJob& job() const noexcept { return job_; }

 private:
  RecordingJob job_;
};

std::optional<SpaceEstimate> measure(const RecordingJob& job,
                                     std::uint64_t free,
                                     Progress& progress) {
  log_info(
      fmt::format("{}: {} are free, which may be too little: recording digests first, to measure "
                  "the space for tensors",
                  job.dump.string(),
                  format_bytes(free)));
  const Measurement measurement(job);
  progress.begin(0, 0, job.run.name + ", digests");
  const RecordingResult digests = record(measurement.job(), progress);
  progress.begin(0, 0, job.run.name);
  if (!digests.totals) {
    // It fails again, where what it leaves is kept.
    log_debug("no estimate of the space: " + digests.summary.message);
    return std::nullopt;
  }
  auto estimate = estimate_values(measurement.job().dump, job, job.run.dump.keep_ops);
  if (!estimate) return std::nullopt;
  estimate->reason = "measured by a recording of digests";
  if (estimate->bytes <= free) {
    log_info(fmt::format("{}: needs about {}", job.dump.string(), format_bytes(estimate->bytes)));
  }
  return estimate;
}

/// Where dump.max_bytes limits the tensors, the recorder sees whether there is room for so many.
bool can_be_measured(const configs::DumpSpec& dump) {
  return dump.level == core::DumpLevel::kTensor && !dump.max_bytes && !dump.slice;
}

std::optional<SpaceEstimate> estimate_first(const RecordingJob& job,
                                            std::uint64_t free,
                                            Progress& progress) {
  if (auto earlier = estimate_from_earlier(job)) return earlier;
  if (!can_be_measured(job.run.dump) || !is_scarce(free, given_bytes(job.run))) return std::nullopt;
  return measure(job, free, progress);
}

}  // namespace

RecordingResult record_where_it_fits(const RecordingJob& job,
                                     const std::optional<SpaceEstimate>& known,
                                     Progress& progress) {
  const std::optional<std::uint64_t> free = job.bare ? std::nullopt : core::free_space(job.dump);
  if (free) {
    const auto estimate = known ? known : estimate_first(job, *free, progress);
    auto refused = estimate ? refuse_for_space(job, *estimate, *free) : std::nullopt;
    if (refused) return std::move(*refused);
  }
  return record(job, progress);
}

}  // namespace repro_check::cmd
