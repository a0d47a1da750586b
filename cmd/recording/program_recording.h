// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cmd/recording/growth_notice.h"
#include "cmd/recording/recorder_process.h"
#include "configs/parser/config_parser.h"
#include "core/system/ownership.h"
#include "core/system/pinned.h"
#include "core/trace/program_plan.h"
#include "dumpers/store/recovery/recovery.h"

namespace repro_check::cmd {

/// A process below a program that has loaded PyTorch, as it says itself.
struct AttachedProcess : core::ProcessState {
  std::filesystem::path journal;  ///< its directory
  bool recorded = false;
  bool stopped = false;  ///< by the program
};

/// What a dump was made of.
struct MadeOfProgram {
  std::optional<std::uint32_t> rank;  ///< empty where the program did not run on several
  std::filesystem::path place;
  store::MadeDump dump;
  std::string process = {};  ///< how it was made, of one that leads nothing
};

/// Makes dumps of the folder of a program's journals, as ProgramRecording would have made them:
/// where that could not, the folder is kept.
/// @return none where `folder` is no such one, or nothing was recorded in it
/// @throws core::Error as store::recover_dump()
std::vector<MadeOfProgram> recover_program(const std::filesystem::path& folder,
                                           const std::filesystem::path& dump,
                                           const store::DumpWriterOptions& options);

/// A process that the dump is of, or that of a rank, and the others that belong to it.
struct ProcessGroup {
  const AttachedProcess* leader = nullptr;
  std::vector<const AttachedProcess*> others;  ///< that ran operators, in the order of their start
  std::vector<core::ChildProcess> processes;   ///< the same, and those that were not recorded
};

/// A program that records itself: a folder for the journals of its Python processes, a plan that
/// they read, and variables that lead them to it. The folder is this user's alone and beside the
/// dump, and goes with the object. The plan, which tells what is loaded, is elsewhere if others can
/// write to the folder of the dump, and so move what is in it.
class ProgramRecording : core::Pinned {
 public:
  /// @param request  of a run with a program; where it is `bare`, one rank stands for all
  /// @throws core::Error{kUsage} when there is no probe and none can be built, or nothing can be
  ///         written there
  explicit ProgramRecording(const configs::RecordRequest& request);

  /// How the program is started.
  [[nodiscard]] const ProcessPlan& plan() const noexcept { return plan_; }

  /// Kills what is left of the program: processes that attached and outlived the one that was
  /// started.
  void stop() const;

  /// To be called once the program has ended: finds the process whose recording the dump will be
  /// (of several that ran operators the program itself, else that of rank 0, else the one that
  /// began first), or all ranks, and says on stderr what was not seen.
  /// @param program  the process that was started
  /// @param end      how that ended
  /// @return whether any recorded
  bool find(pid_t program, core::ProgramEnd end);
  /// That nothing was recorded, and why.
  /// @throws core::Error{kNotComparable} always
  [[noreturn]] void throw_nothing_recorded() const;

  using Made = MadeOfProgram;
  /// Makes the dump of the process that was found, which is there, or of each rank; partial ones
  /// where they did not come to their end. Those of ranks are put in the dump's place together.
  /// @throws core::Error as store::recover_dump(); whatever it throws, what was recorded is kept
  std::vector<Made> make_dumps();

  /// Leaves what was recorded of it where readers look for the recording of a dump that was never
  /// finished: `<dump>.recording`.
  void keep_unfinished() noexcept;

 private:
  [[nodiscard]] bool is_ours(pid_t process) const;
  [[nodiscard]] std::vector<ProcessGroup> groups() const;
  void write_plan() const;
  [[nodiscard]] const std::filesystem::path& control() const noexcept;

  configs::RecordRequest request_;
  std::filesystem::path probes_;  ///< the folder of what is loaded into it
  ProcessPlan plan_;
  std::optional<std::filesystem::path> probe_;  ///< that the program has to load itself
  core::PrivateFolder journals_;                ///< beside the dump
  /// The folder of the plan, and of the probe; empty = with the journals.
  std::optional<core::PrivateFolder> control_;
  std::optional<GrowthNotice> growth_;  ///< until the program has ended
  std::vector<AttachedProcess> processes_;
  const AttachedProcess* chosen_ = nullptr;
  std::vector<const AttachedProcess*> ranks_;  ///< by rank
  std::vector<AttachedProcess> unseen_;        ///< that used PyTorch, and left no record
  core::ProgramEnd end_;                       ///< of the process that was started
};

/// As run_recorder(), of a run with a program, which is started with its streams on `log`. It must
/// end with 0. What it returned is what it said itself: its losses, and what its optimizers made;
/// where the request is `bare`, nothing else is recorded, and there is no dump.
/// @throws core::Error{kNotComparable} when it did, and nothing was recorded; otherwise as
///         run_recorder() and ProgramRecording
RecorderOutcome record_program(const configs::RecordRequest& request,
                               const std::filesystem::path& log,
                               const std::function<void(const RecorderProgress&)>& on_progress);

}  // namespace repro_check::cmd
