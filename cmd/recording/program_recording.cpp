// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/program_recording.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "cmd/recording/kit.h"
#include "cmd/recording/output_lock.h"
#include "cmd/recording/source_files.h"
#include "cmd/recording/writer_options.h"
#include "cmd/render/json_form.h"
#include "cmd/render/text.h"
#include "cmd/terminal/logging.h"
#include "cmd/terminal/signals.h"
#include "core/error.h"
#include "core/system/file_descriptor.h"
#include "core/text/secrets.h"
#include "core/trace/program_records.h"
#include "dumpers/journal/journal_reader.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/directory/rank_dumps.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNothingRecorded =
    "nothing was recorded: no Python process of the program imported PyTorch or JAX, and the "
    "program is not linked to LibTorch. Not recorded are: Python started with -I, -E or -S, a "
    "frozen or static program, a C++ program that a shell starts, and a program that clears its "
    "environment";

std::optional<AttachedProcess> read_state(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  AttachedProcess process;
  try {
    static_cast<core::ProcessState&>(process) =
        core::process_state_from_json_text({std::istreambuf_iterator<char>(stream), {}});
  } catch (const core::Error& error) {
    log_warning(file.string() + " is left out: " + error.what());
    return std::nullopt;
  }
  process.journal = fs::path(file).replace_extension();
  process.stopped = fs::exists(file.parent_path() / fmt::format("{}.stopped", process.process));
  const fs::path journal = process.journal / journal::kJournalName;
  if (process.worker) return process;  // what it did is with whoever took its batches
  process.recorded = process.ended && process.operators > 0;
  // Also of one whose end has failed: what there is until then is kept.
  if (std::error_code ignored; !process.recorded && fs::exists(journal, ignored)) {
    const journal::JournalSummary reached = journal::summarise(journal);
    process.recorded = reached.completed > 0 || reached.entered;
  }
  return process;
}

/// 32 hexadecimal digits that no other run has.
std::string new_run_id() {
  core::Digest number;
  if (::getentropy(&number, sizeof number) != 0) {
    throw core::internal_error(std::string("no random number for the run: ") +
                               std::strerror(errno));
  }
  return core::to_hex(number);
}

/// Processes that the preloaded library has noted, or the probe: they use PyTorch.
std::vector<AttachedProcess> noted_in(const fs::path& folder) {
  std::vector<AttachedProcess> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".libtorch") continue;
    const auto number = core::parse_number<std::uint32_t>(entry.path().stem().string());
    if (!number) continue;
    std::ifstream stream(entry.path(), std::ios::binary);
    AttachedProcess& process = found.emplace_back();
    process.process = static_cast<pid_t>(*number);
    for (std::string word; std::getline(stream, word, '\0');) process.command.push_back(word);
  }
  return found;
}

/// Those that attached, in the order of their numbers.
std::vector<AttachedProcess> processes_in(const fs::path& folder) {
  std::vector<AttachedProcess> found;
  if (!fs::is_directory(folder)) return found;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string number = entry.path().stem().string();
    if (entry.path().extension() != ".json" ||
        number.find_first_not_of("0123456789") != std::string::npos)
      continue;
    if (auto process = read_state(entry.path())) found.push_back(std::move(*process));
  }
  // A program that another one replaced has its number, and stands behind it.
  std::ranges::sort(found, {}, [](const AttachedProcess& process) {
    return std::pair(process.process, process.journal.string().size());
  });
  return found;
}

/// Of those that recorded: the program itself, else that of rank 0, else the first.
/// @param program  0 = not known
/// @return null where none recorded
const AttachedProcess* leading(const std::vector<AttachedProcess>& processes, pid_t program) {
  const AttachedProcess* chosen = nullptr;
  for (const AttachedProcess& process : processes) {
    if (!process.recorded) continue;
    const bool leads =
        chosen != nullptr && chosen->process != program && chosen->rank != 0U && process.rank == 0U;
    if (chosen == nullptr || process.process == program || leads) chosen = &process;
  }
  return chosen;
}

/// Of a program that started its ranks several times those of one time: of the last restart that a
/// launcher made, and else of the time with the most operators. Never rank 0 of one and rank 1 of
/// another.
std::vector<const AttachedProcess*> last_attempt(const std::vector<AttachedProcess>& processes) {
  std::vector<const AttachedProcess*> joined;
  for (const AttachedProcess& process : processes) {
    if (process.recorded && process.rank && process.joins) joined.push_back(&process);
  }
  std::ranges::stable_sort(joined, {}, &AttachedProcess::began);
  struct Attempt {
    std::uint64_t operators = 0;
    std::vector<const AttachedProcess*> ranks;
  };
  // By what the launcher said, and which time it was of each rank.
  std::map<std::pair<std::uint64_t, std::size_t>, Attempt> attempts;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::size_t> times;
  for (const AttachedProcess* process : joined) {
    const std::size_t time = times[{process->attempt, *process->rank}]++;
    Attempt& attempt = attempts[{process->attempt, time}];
    attempt.operators += process->operators;
    attempt.ranks.push_back(process);
  }
  const auto is_before = [](const auto& one, const auto& other) {
    return std::pair(one.first.first, one.second.operators) <
           std::pair(other.first.first, other.second.operators);
  };
  const auto last = std::ranges::max_element(attempts, is_before);
  if (attempts.size() > 1) {
    log_warning(fmt::format("the ranks were started {} times: restart {} was recorded",
                            attempts.size(),
                            last->first.first));
  }
  return last == attempts.end() ? std::vector<const AttachedProcess*>() : last->second.ranks;
}

/// A rank's own children have its variables as well: of several processes of one rank it is the one
/// that joined a process group, and ran the most operators.
/// @return by rank
std::vector<const AttachedProcess*> ranks_among(const std::vector<AttachedProcess>& processes) {
  const auto comes_before = [](const AttachedProcess& left, const AttachedProcess& right) {
    return std::pair(left.joins, left.operators) > std::pair(right.joins, right.operators);
  };
  std::map<std::uint32_t, const AttachedProcess*> by_rank;
  for (const AttachedProcess* process : last_attempt(processes)) by_rank[*process->rank] = process;
  for (const AttachedProcess& process : processes) {
    if (!process.recorded || !process.rank || process.joins) continue;
    const AttachedProcess*& known = by_rank[*process.rank];
    if (known == nullptr || comes_before(process, *known)) known = &process;
  }
  std::vector<const AttachedProcess*> ranks;
  ranks.reserve(by_rank.size());
  for (const auto& [rank, process] : by_rank) ranks.push_back(process);
  return ranks;
}

std::vector<ProcessGroup> group_processes(const std::vector<AttachedProcess>& attached,
                                          const std::vector<AttachedProcess>& unseen,
                                          const std::vector<const AttachedProcess*>& leaders) {
  std::vector<ProcessGroup> groups;
  std::map<pid_t, std::size_t> group_of;
  for (const AttachedProcess* leader : leaders) {
    group_of[leader->process] = groups.size();
    groups.push_back({leader, {}, {}});
  }
  std::map<pid_t, const AttachedProcess*> by_number;
  std::vector<const AttachedProcess*> others;
  for (const AttachedProcess& process : attached) {
    by_number[process.process] = &process;
    const bool leads = std::ranges::find(leaders, &process) != leaders.end();
    // Those of an attempt before are told of where the ranks are.
    const bool is_earlier = process.rank && process.attempt != leaders.front()->attempt;
    if (!leads && !is_earlier && (process.recorded || !process.failure.empty())) {
      others.push_back(&process);
    }
  }
  for (const AttachedProcess& process : unseen) others.push_back(&process);
  std::ranges::sort(others, {}, [](const AttachedProcess* process) {
    return std::pair(process->started, process->process);
  });
  for (const AttachedProcess* other : others) {
    std::size_t place = 0;
    // A number may have been given twice: no further than there are processes.
    std::size_t left = attached.size();
    for (pid_t number = other->parent; left > 0; --left) {
      if (const auto known = group_of.find(number); known != group_of.end()) {
        place = known->second;
        break;
      }
      const auto parent = by_number.find(number);
      if (parent == by_number.end()) break;
      number = parent->second->parent;
    }
    ProcessGroup& group = groups[place];
    if (other->recorded) group.others.push_back(other);
    group.processes.push_back(
        {store::process_name(static_cast<std::uint32_t>(group.processes.size() + 1)),
         other->how,
         clean_utf8(fmt::format("{}", fmt::join(other->command, " "))),
         other->operators,
         other->recorded,
         other->pool});
  }
  return groups;
}

store::MadeDump make_one(const AttachedProcess& process,
                         const fs::path& dump,
                         const store::DumpWriterOptions& options,
                         const store::Completion& complete = {}) {
  const bool whole = process.ended && process.failure.empty();
  if (whole) return store::import_journal(process.journal, dump, options, {}, complete);
  const auto say_who_stopped_it = [&](core::RunManifest& manifest,
                                      const std::set<std::string>& files) {
    if (complete) complete(manifest, files);
    if (manifest.trace.partial) manifest.trace.partial->stopped = process.stopped;
  };
  return store::recover_dump(process.journal, dump, options, {}, say_who_stopped_it);
}

/// @param groups   one of each rank, or one
/// @param of_ranks the former
/// @param end      of the process that was started, whose leaders stand for it; empty: not known
std::vector<MadeOfProgram> make_all(const std::vector<ProcessGroup>& groups,
                                    bool of_ranks,
                                    const fs::path& dump,
                                    const store::DumpWriterOptions& options,
                                    const core::ProgramEnd& end) {
  const ProcessGroup& first = groups.front();
  const auto add_sources = [](const AttachedProcess& process) {
    return [&](core::RunManifest& manifest, const std::set<std::string>& files) {
      manifest.sources = unchanged_sources(files, process.began);
    };
  };
  const auto completion_of = [&](const ProcessGroup& group) {
    return [&](core::RunManifest& manifest, const std::set<std::string>& files) {
      add_sources (*group.leader)(manifest, files);
      manifest.processes = group.processes;
      core::ProgramEnd& of_leader = manifest.end ? *manifest.end : manifest.end.emplace();
      of_leader.exit_code = end.exit_code;
      of_leader.signal = end.signal;
    };
  };
  if (!of_ranks && first.others.empty()) {
    return {{{}, dump, make_one(*first.leader, dump, options, completion_of(first))}};
  }
  const fs::path working = store::temporary_beside(dump);
  const store::RecordingPlace place =
      store::prepare_replacement(dump, working, options.replace_existing);
  std::vector<MadeOfProgram> made;
  try {
    for (const ProcessGroup& group : groups) {
      const std::optional<std::uint32_t> rank = of_ranks ? group.leader->rank : std::nullopt;
      const auto place_in = [&](const fs::path& whole) {
        return rank ? store::rank_directory(whole, *rank) : whole;
      };
      made.push_back({rank,
                      place_in(dump),
                      make_one(*group.leader, place_in(working), options, completion_of(group))});
      auto recorded = group.others.begin();
      for (const core::ChildProcess& other : group.processes) {
        if (!other.recorded) continue;
        made.push_back(
            {rank,
             place_in(dump) / other.name,
             make_one(**recorded, place_in(working) / other.name, options, add_sources(**recorded)),
             other.how});
        ++recorded;
      }
    }
    if (of_ranks) store::write_rank_count(working, first.leader->ranks);
    store::publish(place);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(working, ignored);
    throw;
  }
  return made;
}

/// Those of which nothing is known but that they used PyTorch, or that they ran operators.
std::vector<AttachedProcess> unseen_in(const std::set<fs::path>& folders,
                                       const std::vector<AttachedProcess>& attached) {
  std::vector<AttachedProcess> unseen;
  // What a worker of a data loader did is with whoever took its batches.
  std::ranges::copy_if(attached, std::back_inserter(unseen), [](const AttachedProcess& process) {
    return process.unread && !process.worker;
  });
  for (const fs::path& folder : folders) {
    for (AttachedProcess& process : noted_in(folder)) {
      const bool has_told =
          std::ranges::find(attached, process.process, &AttachedProcess::process) != attached.end();
      if (!has_told) unseen.push_back(std::move(process));
    }
  }
  return unseen;
}

void hide_secrets(std::vector<AttachedProcess>& processes) {
  for (AttachedProcess& process : processes) {
    process.command = core::without_secrets(process.command);
  }
}

/// What helps where the program cannot be started.
std::string start_hint(const std::string& program) {
  if (program.ends_with(".py"))
    return "name the interpreter too: -- python " + shell_quote(program);
  return "write the program and its arguments as in a shell; a configuration starts them in "
         "/program/cwd";
}

/// How the program is started, without what leads it to us.
/// @throws core::Error as store::require_place(): before anything is made or started
ProcessPlan plan_of(const configs::RecordRequest& request) {
  const store::DumpWriterOptions options = writer_options(request);
  store::require_place(request.dump, options.replace_existing, options.needed_space);
  const std::vector<std::string>& command = request.run.program->command;
  return {command.front(),
          {command.begin() + 1, command.end()},
          configs::pinned_environment(request.run),
          request.run.program->cwd,
          start_hint(command.front())};
}

}  // namespace

ProgramRecording::ProgramRecording(const configs::RecordRequest& request)
    : request_(request),
      probes_(require_libexec()),
      plan_(plan_of(request)),
      probe_(prepare_probe(probes_, plan_)),
      journals_(fs::absolute(request.dump) += ".processes-") {
  if (!core::refusal(journals_.path()).empty()) {
    control_.emplace(fs::path(core::temporary_directory()) / "repro-check-");
    const std::string why = core::refusal(control_->path());
    if (!why.empty()) {
      throw core::usage_error(
          why + ": others could change the code that is loaded into the program",
          "set TMPDIR to a folder that only you can write to");
    }
  }
  write_plan();
  // For a program without Python: the preloaded library finds the probe beside the plan.
  if (probe_) fs::create_symlink(*probe_, control() / "probe.so");
  // What another run has compiled is not taken from there.
  if (request_.run.compile != core::CompileRung::kUntouched) {
    plan_.environment["TORCHINDUCTOR_CACHE_DIR"] = (control() / "compiled").string();
    plan_.environment["TRITON_CACHE_DIR"] = (control() / "compiled" / "triton").string();
  }
  plan_.environment["REPRO_CHECK_EXEC"] = (control() / "plan.json").string();
  const std::string python = variable_of(plan_, "PYTHONPATH");
  plan_.environment["PYTHONPATH"] =
      (probes_ / "python").string() + (python.empty() ? "" : ":" + python);
  if (can_preload(probes_)) {
    // Behind those of the program: an allocator or a sanitizer has to be the first.
    const std::string others = variable_of(plan_, "LD_PRELOAD");
    plan_.environment["LD_PRELOAD"] =
        (others.empty() ? "" : others + ":") + (probes_ / "librepro_check_stub.so").string();
  }
  growth_.emplace(journals_.path());
}

const fs::path& ProgramRecording::control() const noexcept {
  return (control_ ? *control_ : journals_).path();
}

void ProgramRecording::write_plan() const {
  configs::RunSpec run = request_.run;
  for (std::string& word : run.program->command) word = clean_utf8(word);
  run.program->cwd = clean_utf8(run.program->cwd.string());
  const fs::path built = private_build_folder();
  const core::ProgramPlan plan{
      run.dump,
      run.determinism,
      run.disable_dropout,
      run.rng,
      run.compile,
      run.compile_fallback,
      run.seed,
      request_.bare,
      request_.found_environment,
      run.name,
      new_run_id(),
      core::configuration_without_secrets(configs::to_json_text(run)),
      journals_.path().string(),
      probes_.string(),
      (built.empty() ? control() : built).string(),
  };
  std::ofstream(control() / "plan.json", std::ios::binary) << core::to_json_text(plan);
}

bool ProgramRecording::find(pid_t program, core::ProgramEnd end) {
  end_ = std::move(end);
  growth_.reset();
  journals_.keep(true);  // until all of it is in a dump, or there is nothing in it
  processes_ = processes_in(journals_.path());
  std::size_t recorded = 0;
  for (const AttachedProcess& process : processes_) {
    if (!process.failure.empty()) {
      log_warning(fmt::format("process {}: {}", process.process, process.failure));
    }
    for (const std::string& note : process.notes) {
      log_warning(
          fmt::format("process {}: not everything was recorded: {}", process.process, note));
    }
    if (!process.recorded) continue;
    ++recorded;
  }
  chosen_ = leading(processes_, program);
  if (!request_.bare) ranks_ = ranks_among(processes_);
  journals_.keep(recorded > 0);
  const std::size_t kept = std::max<std::size_t>(ranks_.size(), 1);
  const bool takes_all = request_.run.dump.processes == configs::RecordedProcesses::kAll;
  if (recorded > kept && (!takes_all || request_.bare)) {
    log_warning(fmt::format("operators of {} of its other processes are not kept",
                            format_count(recorded - kept)));
  }
  if (takes_all) unseen_ = unseen_in({control(), journals_.path()}, processes_);
  if (!request_.run.dump.keep_values) {
    hide_secrets(processes_);
    hide_secrets(unseen_);
  }
  for (const AttachedProcess& process : unseen_) {
    log_warning(fmt::format("process {} used PyTorch and was not recorded: {}",
                            process.process,
                            escape_name(fmt::format("{}", fmt::join(process.command, " ")))));
  }
  return chosen_ != nullptr;
}

void ProgramRecording::stop() const {
  constexpr std::chrono::seconds kMost{5};
  const auto deadline = std::chrono::steady_clock::now() + kMost;
  for (const AttachedProcess& process : processes_in(journals_.path())) {
    if (process.ended || !is_ours(process.process)) continue;
    ::kill(process.process, SIGKILL);
    // Its lock goes after its memory.
    while (journal::is_being_written(process.journal / journal::kJournalName) &&
           std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
}

/// A number may have been given to another process by now.
bool ProgramRecording::is_ours(pid_t process) const {
  std::ifstream file(fs::path("/proc") / std::to_string(process) / "environ", std::ios::binary);
  const std::string variables{std::istreambuf_iterator<char>(file), {}};
  return variables.find(plan_.environment.at("REPRO_CHECK_EXEC").value_or("")) != std::string::npos;
}

void ProgramRecording::throw_nothing_recorded() const {
  const bool refused = std::ranges::any_of(
      processes_, [](const AttachedProcess& process) { return !process.failure.empty(); });
  if (refused) {
    throw core::not_comparable("nothing was recorded: the probe could not be attached",
                               "see the warnings above");
  }
  if (processes_.empty()) throw core::not_comparable(kNothingRecorded);
  if (request_.run.dump.depth == core::DumpDepth::kBlocks) {
    throw core::not_comparable(
        "nothing was recorded: the program imported PyTorch, but called no module, and made no "
        "batch, loss or optimizer step",
        "record its operators: leave out depth blocks");
  }
  throw core::not_comparable(
      "nothing was recorded: the program imported PyTorch, but ran no operator that was selected",
      "check the selection: phases, modules, steps, include and exclude");
}

std::vector<ProcessGroup> ProgramRecording::groups() const {
  const std::vector<const AttachedProcess*> leaders =
      ranks_.empty() ? std::vector{chosen_} : ranks_;
  if (request_.run.dump.processes != configs::RecordedProcesses::kAll || request_.bare) {
    std::vector<ProcessGroup> alone;
    for (const AttachedProcess* leader : leaders) alone.push_back({leader, {}, {}});
    return alone;
  }
  return group_processes(processes_, unseen_, leaders);
}

std::vector<MadeOfProgram> ProgramRecording::make_dumps() {
  try {
    std::vector<Made> made =
        make_all(groups(), !ranks_.empty(), request_.dump, writer_options(request_), end_);
    journals_.keep(false);
    return made;
  } catch (const core::Error& error) {
    const fs::path& kept = ranks_.empty() ? chosen_->journal : journals_.path();
    throw core::Error(error.kind(),
                      error.what(),
                      "the recording is kept: repro-check recover " + kept.string() + " -o DIR");
  }
}

std::vector<MadeOfProgram> recover_program(const fs::path& folder,
                                           const fs::path& dump,
                                           const store::DumpWriterOptions& options) {
  std::vector<AttachedProcess> processes = processes_in(folder);
  std::vector<AttachedProcess> unseen = unseen_in({folder}, processes);
  hide_secrets(processes);
  hide_secrets(unseen);
  const AttachedProcess* chosen = leading(processes, 0);
  if (chosen == nullptr) return {};
  const std::vector<const AttachedProcess*> ranks = ranks_among(processes);
  const auto groups =
      group_processes(processes, unseen, ranks.empty() ? std::vector{chosen} : ranks);
  return make_all(groups, !ranks.empty(), dump, options, {});
}

void ProgramRecording::keep_unfinished() noexcept {
  if (chosen_ == nullptr) return;
  try {
    if (ranks_.size() > 1) {
      log_warning("the recordings of all ranks are kept: repro-check recover " +
                  journals_.path().string() + " -o DIR");
      return;
    }
    const fs::path place = store::recording_beside(request_.dump);
    if (fs::is_symlink(place)) fs::remove(place);  // what it leads to is not ours
    store::discard_recording(place);
    fs::rename(chosen_->journal, place);
    journals_.keep(false);
  } catch (const std::exception& error) {
    log_warning("the recording is kept in " + chosen_->journal.string() + ": " + error.what());
  }
}

namespace {

/// What a program said itself, and no operator: `step 3 optimizer_step param.head.weight`.
std::vector<RecorderOutput> outputs_of(const fs::path& dump) {
  std::vector<RecorderOutput> outputs;
  const auto source = store::open_dump(store::leading_dump(dump));
  for (std::uint64_t index = 0; index < source->op_count(); ++index) {
    if (!core::is_named_values(source->op_head(index))) continue;
    const core::OpRecord record = source->op(index);
    for (const core::TensorRecord& tensor : record.tensors) {
      if (tensor.role != core::TensorRole::kOutput) continue;
      outputs.push_back(
          {fmt::format("step {} {} {}",
                       record.step,
                       record.op->name.substr(core::kNamedPrefix.size()),
                       tensor.slot),
           fmt::format("{} [{}]", core::dtype_name(tensor.dtype), fmt::join(tensor.shape, ", ")),
           core::to_hex(tensor.digest)});
    }
  }
  return outputs;
}

std::vector<RecorderOutput> bare_outputs(const configs::RecordRequest& request,
                                         ProgramRecording& recording) {
  static_cast<void>(recording.make_dumps());
  std::vector<RecorderOutput> outputs = outputs_of(request.dump);
  store::discard_recording(request.dump);
  return outputs;
}

}  // namespace

RecorderOutcome record_program(const configs::RecordRequest& request,
                               const fs::path& log,
                               const std::function<void(const RecorderProgress&)>& on_progress) {
  ProgramRecording recording(request);
  RecorderCall call{recording.plan()};
  if (request.run.timeout) call.timeout = std::chrono::seconds(*request.run.timeout);
  const auto begun = std::chrono::steady_clock::now();
  LoggedEnd end = run_logged(call, log, [&] { on_progress({"recording", 0, 0}); });
  // Of one that ended otherwise no dump is made.
  const bool recorded =
      recording.find(end.process, {.exit_code = 0, .signal = {}, .exception = {}});
  if (interrupted() || end.outcome.failure) {
    recording.keep_unfinished();
    throw_if_interrupted();
    return std::move(end.outcome);
  }
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  };
  if (request.bare) {
    if (recorded) end.outcome.outputs = bare_outputs(request, recording);
    end.outcome.totals.emplace().seconds = seconds();
    return std::move(end.outcome);
  }
  if (!recorded) recording.throw_nothing_recorded();
  RecorderTotals totals;
  for (const auto& [rank, place, made, process] : recording.make_dumps()) {
    if (made.blocks) {
      totals.block_calls += made.blocks->rows;
    } else {
      totals.operators += made.operator_calls();
    }
    totals.tensors += made.tensors;
    totals.bytes += made.stored_bytes;
    if (!totals.dump) totals.dump = made.manifest;
    if (rank && process.empty()) note_own(place, made.manifest);
  }
  if (request.report_outputs) end.outcome.outputs = outputs_of(request.dump);
  totals.seconds = seconds();
  end.outcome.totals = totals;
  return std::move(end.outcome);
}

}  // namespace repro_check::cmd
