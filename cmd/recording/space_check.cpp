// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/space_check.h"

#include <fmt/format.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "cmd/render/text.h"
#include "cmd/terminal/logging.h"
#include "core/error.h"
#include "core/trace/run_modes.h"
#include "dumpers/store/directory/discard.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

fs::path measuring_directory(const fs::path& dump) {
  fs::path beside = dump;
  return beside += ".measure";
}

/// A recording that is gone when it has told its size, however it ended.
class Measurement {
 public:
  explicit Measurement(const RecordingJob& job) : job_(job) {
    job_.dump = measuring_directory(job.dump);
    job_.log = log_beside(job_.dump);
    job_.run.dump.level = core::DumpLevel::kDigest;
    job_.run.dump.keep_ops.clear();
    job_.replace_existing = false;
    job_.report_outputs = false;
    store::discard_recording(job_.dump);
  }
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;
  Measurement(Measurement&&) = delete;
  Measurement& operator=(Measurement&&) = delete;
  ~Measurement() {
    std::error_code ignored;
    fs::remove(job_.log, ignored);
    try {
      store::discard_recording(job_.dump);
    } catch (const std::exception& error) {
      log_debug(std::string("a measurement is left: ") + error.what());
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
                  "what the tensors take",
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
  const std::optional<std::uint64_t> free = job.bare ? std::nullopt : free_space(job.dump);
  if (free) {
    const auto estimate = known ? known : estimate_first(job, *free, progress);
    auto refused = estimate ? refuse_for_space(job, *estimate, *free) : std::nullopt;
    if (refused) return std::move(*refused);
  }
  return record(job, progress);
}

}  // namespace repro_check::cmd
