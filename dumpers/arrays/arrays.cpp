// SPDX-License-Identifier: Apache-2.0
#include "dumpers/arrays/arrays.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/digest/digest.h"
#include "core/error.h"
#include "core/system/signals_blocked.h"
#include "core/system/told.h"
#include "core/system/workers.h"
#include "core/tensor/content_summary.h"
#include "core/tensor/dtype.h"
#include "core/text/text.h"
#include "core/trace/given_seed.h"
#include "core/trace/hook_failures.h"
#include "core/trace/host_generator_watch.h"
#include "core/trace/op_record.h"
#include "core/trace/program_plan.h"
#include "core/trace/run_manifest.h"
#include "dumpers/journal/journal_writer.h"

namespace repro_check::arrays {
namespace {

using core::told;

/// The next of texts with a null behind each.
std::string take_text(const char*& texts) {
  std::string text = texts;
  texts += text.size() + 1;
  return text;
}

/// A call that has begun.
struct Open {
  core::OpHead head;
  bool keeps_bytes = false;
};

/// As the plan has it, but for what only PyTorch has: the borders of calls are all that is seen, at
/// any depth.
core::RunManifest manifest_of_arrays(const core::ProgramPlan& plan) {
  core::ProgramPlan of_calls = plan;
  of_calls.depth = core::DumpDepth::kTop;
  of_calls.determinism = core::DeterminismMode::kOff;
  of_calls.disable_dropout = false;
  of_calls.rng = core::RngMode::kDevice;
  of_calls.phases.clear();
  core::RunManifest manifest = core::manifest_of(of_calls);
  const auto say_unless_equal = [&](std::string_view key, const auto& asked, const auto& done) {
    if (asked == done) return;
    manifest.warnings.push_back(fmt::format("{} is of PyTorch alone, and was not applied", key));
  };
  say_unless_equal("determinism", plan.determinism, of_calls.determinism);
  say_unless_equal("disable_dropout", plan.disable_dropout, of_calls.disable_dropout);
  say_unless_equal("rng", plan.rng, of_calls.rng);
  say_unless_equal("dump.phases", plan.phases, of_calls.phases);
  manifest.trace.optimizer.clear();
  manifest.created = core::utc_now();
  for (const std::string_view name : core::known_variables()) {
    const std::string variable(name);
    const char* value = std::getenv(variable.c_str());
    const std::string used = value == nullptr ? "unset" : value;
    const auto found = plan.found.find(variable);
    manifest.settings.push_back({"env." + variable,
                                 found == plan.found.end() ? used : found->second.value_or("unset"),
                                 used});
  }
  if (plan.seed) {
    manifest.settings.push_back(
        {std::string(core::kSeededGenerator), "", std::to_string(*plan.seed)});
  }
  return manifest;
}

class Recording {
 public:
  Recording(const std::string& directory, const core::ProgramPlan& plan)
      : plan_(plan), manifest_(manifest_of_arrays(plan)), sink_(directory) {
    sink_.begin(manifest_);
  }

  [[nodiscard]] bool is_of_this_process() const { return ::getpid() == process_; }
  [[nodiscard]] std::uint64_t calls() const { return next_call_.load(); }

  /// In a child that was forked: the lock may be held by a thread that is not there.
  void let_go() noexcept { sink_.let_go(); }

  std::uint32_t site(core::CallSite site) {
    sites_.push_back(std::make_shared<const core::CallSite>(std::move(site)));
    return static_cast<std::uint32_t>(sites_.size() - 1);
  }

  void read(std::span<const repro_check_array> arrays, std::int64_t* numbers) {
    std::vector<core::TensorRecord> tensors(arrays.size());
    std::vector<Reading> readings;
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      tensors[i] = record_of(arrays[i]);
      if (tensors[i].dtype == core::Dtype::kUnknown) {
        note_unread(arrays[i].dtype);
      } else if (arrays[i].data != nullptr) {
        const std::span content = bytes_of(tensors[i], arrays[i].data);
        readings.push_back({i, content, {tensors[i].dtype, has_stats(), content.size()}});
        bytes += content.size();
      }
    }
    read_all(readings, bytes);
    for (const Reading& reading : readings) {
      const core::ContentSummary summary = reading.leaves.put_together();
      core::TensorRecord& tensor = tensors[reading.array];
      tensor.digest = summary.digest;
      tensor.state = core::ContentState::kHashed;
      tensor.stats = summary.stats;
      if (!has_stats()) tensor.counted = summary.non_finite;
    }
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      numbers[i] = tensors[i].storage = next_array_++;
      known_.emplace(numbers[i], std::move(tensors[i]));
    }
  }

  void keep(std::int64_t number, const void* data) {
    const auto found = known_.find(number);
    if (found == known_.end() || found->second.state != core::ContentState::kHashed) return;
    core::TensorRecord& tensor = found->second;
    if (!tensor.stored) {
      tensor.stored = sink_.put_content(tensor.content_key(), bytes_of(tensor, data));
    }
  }

  void forget(std::int64_t number) {
    known_.erase(number);
    made_by_.erase(number);
  }

  std::int64_t enter(std::string_view op,
                     std::uint32_t site,
                     std::uint32_t step,
                     std::int64_t parent,
                     int lane,
                     bool draws) {
    const core::CallSite& place = *sites_.at(site);
    generators_.look(place.frames.empty() ? nullptr : &place.frames.front());
    if (!is_wanted(op, site, step)) return -1;
    Open call;
    call.head.index = next_call_++;
    call.head.op = operator_of(op, draws);
    call.head.site = sites_.at(site);
    call.head.parent = parent;
    for (std::int64_t above = parent; above >= 0 && open_.contains(above); ++call.head.depth) {
      above = open_.at(above).head.parent;
    }
    call.head.step = step;
    call.head.lane = lane == 0 ? core::kMainLane : core::pool_lane(core::kMainLane);
    call.keeps_bytes = plan_.level == core::DumpLevel::kTensor &&
                       (plan_.keep_ops.empty() || core::contains(plan_.keep_ops, call.head.index));
    sink_.enter(call.head);
    const auto number = static_cast<std::int64_t>(call.head.index);
    open_.emplace(number, std::move(call));
    return number;
  }

  [[nodiscard]] bool keeps(std::int64_t call) const {
    const auto found = open_.find(call);
    return found != open_.end() && found->second.keeps_bytes;
  }

  void leave(std::int64_t number,
             const repro_check_arrays_of& inputs,
             const repro_check_arrays_of& outputs,
             const repro_check_key& key,
             std::uint64_t wall_ns) {
    const auto found = open_.find(number);
    if (found == open_.end()) return;
    const Open call = std::move(found->second);
    open_.erase(found);
    core::OpRecord record{call.head};
    add(record, inputs, core::TensorRole::kInput, call.keeps_bytes);
    add(record, outputs, core::TensorRole::kOutput, call.keeps_bytes);
    if (key.kind != nullptr) {
      record.generator = core::GeneratorUse{key.kind, key.seed, key.position, key.position};
      ++manifest_.trace.drawing_operators;
    }
    record.wall_ns = wall_ns;
    ++manifest_.trace.operators;
    manifest_.trace.tensors += record.tensors.size();
    sink_.append(record);
  }

  core::HostGeneratorWatch& generators() { return generators_; }
  core::RunManifest& manifest() { return manifest_; }

  void note_failed(std::string_view where, std::string_view error, std::uint64_t count) {
    core::count_failure(manifest_.notes, where, error, count);
  }

  void note_unread(std::string_view type) { ++unread_[std::string(type)]; }

  void fail(const std::string& why) {
    if (failure_.empty()) failure_ = why;
  }

  /// @throws core::Error
  void end() {
    if (ended_) return;
    ended_ = true;
    if (!failure_.empty()) {
      sink_.fail(failure_);
      throw core::Error(core::ErrorKind::kIo, failure_);
    }
    for (const auto& [type, count] : unread_) {
      manifest_.warnings.push_back(
          fmt::format("values of {} were not read, {} times", type, count));
    }
    for (core::EnvironmentFact& fact : generators_.facts()) {
      manifest_.environment.push_back(std::move(fact));
    }
    manifest_.seconds = std::chrono::duration<double>(Clock::now() - begun_).count();
    sink_.finish(manifest_);
  }

  [[nodiscard]] bool has_ended() const { return ended_; }

  std::mutex lock;  ///< of all but calls()

 private:
  using Clock = std::chrono::steady_clock;

  /// What of a content is read, leaf by leaf.
  struct Reading {
    std::size_t array = 0;
    std::span<const std::byte> content;
    core::SummaryOfLeaves leaves;
  };

  [[nodiscard]] bool has_stats() const { return plan_.level != core::DumpLevel::kDigest; }

  static std::span<const std::byte> bytes_of(const core::TensorRecord& tensor, const void* data) {
    return {static_cast<const std::byte*>(data), core::content_size(tensor.content_key())};
  }

  static core::TensorRecord record_of(const repro_check_array& array) {
    core::TensorRecord tensor;
    tensor.dtype = core::parse_dtype(array.dtype).value_or(core::Dtype::kUnknown);
    tensor.shape.assign(array.shape, array.shape + array.dims);
    tensor.strides.resize(array.dims);
    std::int64_t stride = 1;
    for (std::size_t axis = array.dims; axis-- > 0;) {
      tensor.strides[axis] = stride;
      stride *= std::max<std::int64_t>(tensor.shape[axis], 1);
    }
    tensor.device = array.device;
    tensor.attributes = array.attributes;
    if (tensor.dtype == core::Dtype::kUnknown) tensor.attributes += std::string(" ") + array.dtype;
    return tensor;
  }

  /// Whoever is done takes the next leaf, of whatever array.
  static void read_all(std::vector<Reading>& readings, std::size_t bytes) {
    constexpr std::size_t kWorthAThread = std::size_t{4} << 20U;
    constexpr std::size_t kMostThreads = 8;
    std::vector<std::pair<Reading*, std::size_t>> leaves;
    for (Reading& reading : readings) {
      for (std::size_t leaf = 0; leaf < reading.leaves.leaves(); ++leaf) {
        leaves.emplace_back(&reading, leaf);
      }
    }
    std::atomic<std::size_t> next = 0;
    const auto take = [&](unsigned /*worker*/) {
      for (std::size_t at = next++; at < leaves.size(); at = next++) {
        const auto& [reading, leaf] = leaves[at];
        const std::size_t begin = leaf * core::kDigestChunk;
        const std::size_t size = std::min(core::kDigestChunk, reading->content.size() - begin);
        reading->leaves.set(leaf, reading->content.subspan(begin, size));
      }
    };
    const std::size_t threads =
        std::min<std::size_t>({core::worker_count(0), bytes / kWorthAThread + 1, kMostThreads});
    if (threads == 1) return take(0);
    const core::SignalsBlocked blocked;  // which are the program's
    core::run_workers(static_cast<unsigned>(threads), take);
  }

  [[nodiscard]] bool is_wanted(std::string_view op, std::uint32_t site, std::uint32_t step) const {
    if (plan_.first_ops > 0 && next_call_ >= plan_.first_ops) return false;
    if (!plan_.steps.empty() && !core::contains(plan_.steps, step)) return false;
    const auto matches = [&](const std::string& pattern) {
      return core::glob_match(pattern, op) ||
             core::glob_match(pattern, sites_.at(site)->module_path);
    };
    return (plan_.include.empty() || std::ranges::any_of(plan_.include, matches)) &&
           std::ranges::none_of(plan_.exclude, matches);
  }

  std::shared_ptr<const core::OperatorInfo> operator_of(std::string_view name, bool draws) {
    auto& known = operators_[{std::string(name), draws}];
    if (!known) {
      core::OperatorInfo info{std::string(name), {}, draws};
      known = std::make_shared<const core::OperatorInfo>(std::move(info));
    }
    return known;
  }

  /// Whatever the program has let go of was read when it was there.
  void add(core::OpRecord& record,
           const repro_check_arrays_of& arrays,
           core::TensorRole role,
           bool keeps_bytes) {
    const char* names = arrays.names;
    for (std::size_t i = 0; i < arrays.count; ++i) {
      const std::string name = take_text(names);
      const core::TensorSlot slot{static_cast<std::uint32_t>(record.tensors.size())};
      const auto known = known_.find(arrays.numbers[i]);
      core::TensorRecord& tensor =
          record.tensors.emplace_back(known == known_.end() ? core::TensorRecord{} : known->second);
      tensor.role = role;
      tensor.slot = name;
      tensor.stored = tensor.stored && keeps_bytes;
      const auto made = made_by_.find(arrays.numbers[i]);
      if (role == core::TensorRole::kInput) {
        if (made != made_by_.end()) tensor.producer = made->second;
        record.arguments.push_back({name, {slot}});
      } else {
        // A call that hands through what it was given has made nothing.
        const auto own = static_cast<std::int64_t>(record.index);
        tensor.producer = made_by_.try_emplace(arrays.numbers[i], own).first->second;
        record.results.push_back({slot});
      }
    }
  }

  const pid_t process_ = ::getpid();
  const Clock::time_point begun_ = Clock::now();
  const core::ProgramPlan plan_;
  core::RunManifest manifest_;
  journal::JournalSink sink_;
  std::map<std::pair<std::string, bool>, std::shared_ptr<const core::OperatorInfo>> operators_;
  std::vector<std::shared_ptr<const core::CallSite>> sites_;
  std::unordered_map<std::int64_t, core::TensorRecord> known_;  ///< by number
  std::unordered_map<std::int64_t, std::int64_t> made_by_;      ///< likewise: a call
  std::map<std::int64_t, Open> open_;                           ///< calls, by number
  std::int64_t next_array_ = 0;
  std::atomic<std::uint64_t> next_call_ = 0;
  core::HostGeneratorWatch generators_;
  std::map<std::string, std::uint64_t> unread_;  ///< by type
  std::string failure_;
  bool ended_ = false;
};

/// Never destroyed: threads of the program may call until the process is gone.
std::atomic<Recording*> latest = nullptr;

Recording* active() {
  Recording* recording = latest.load();
  return recording != nullptr && recording->is_of_this_process() ? recording : nullptr;
}

void let_go_in_child() {
  if (Recording* recording = latest.load()) recording->let_go();
}

/// On a recording that goes on. What fails there makes it one that is not whole.
template <typename Result, typename Work>
Result when_active(Result otherwise, Work&& work) noexcept {
  Recording* recording = active();
  if (recording == nullptr) return otherwise;
  Result result = otherwise;
  const char* why = told([&] {
    const std::lock_guard lock(recording->lock);
    if (!recording->has_ended()) result = work(*recording);
  });
  if (why != nullptr) {
    static_cast<void>(told([&] {
      const std::lock_guard lock(recording->lock);
      recording->fail(why);
    }));
  }
  return result;
}

template <typename Work>
void tell(Work&& work) noexcept {
  static_cast<void>(when_active(0, [&](Recording& recording) {
    work(recording);
    return 0;
  }));
}

}  // namespace

const char* repro_check_arrays_begin(const char* directory, const char* plan) {
  return told([&] {
    if (active() != nullptr && !active()->has_ended()) return;
    const bool is_first = latest.load() == nullptr;
    latest = new Recording(directory, core::program_plan_from_json_text(plan));
    if (is_first) pthread_atfork(nullptr, nullptr, &let_go_in_child);
  });
}

const char* repro_check_arrays_end() {
  return told([] {
    Recording* recording = active();
    if (recording == nullptr) return;
    const std::lock_guard lock(recording->lock);
    recording->end();
  });
}

std::uint64_t repro_check_arrays_calls() {
  return latest.load() == nullptr ? 0 : latest.load()->calls();
}

void repro_check_arrays_fact(const char* name, const char* value) {
  tell([&](Recording& recording) { recording.manifest().environment.push_back({name, value}); });
}

void repro_check_arrays_raised(
    const char* type, const char* file, std::uint64_t line, const char* text, const char* thread) {
  tell([&](Recording& recording) {
    core::RunManifest& manifest = recording.manifest();
    manifest.end.emplace().exception = {
        type, file, line, core::digest_bytes(std::string_view(text)), thread};
  });
}

void repro_check_arrays_failed_hook(const char* where, const char* error, std::uint64_t count) {
  tell([&](Recording& recording) { recording.note_failed(where, error, count); });
}

void repro_check_arrays_unread(const char* type) {
  tell([&](Recording& recording) { recording.note_unread(type); });
}

void repro_check_arrays_watch_generator(const char* name,
                                        const void* state,
                                        std::size_t size,
                                        std::size_t position) {
  tell([&](Recording& recording) {
    recording.generators().watch({name, static_cast<const std::byte*>(state), size, position});
  });
}

std::uint32_t repro_check_arrays_site(const char* module_path,
                                      std::uint32_t count,
                                      const char* files,
                                      const std::uint32_t* lines,
                                      const char* functions) {
  return when_active(std::uint32_t{0}, [&](Recording& recording) {
    core::CallSite site;
    site.module_path = module_path;
    for (std::uint32_t i = 0; i < count; ++i) {
      std::string file = take_text(files);
      site.frames.push_back({std::move(file), lines[i], take_text(functions)});
    }
    return recording.site(std::move(site));
  });
}

void repro_check_arrays_read(std::size_t count,
                             const repro_check_array* arrays,
                             std::int64_t* numbers) {
  std::fill_n(numbers, count, -1);
  tell([&](Recording& recording) { recording.read(std::span(arrays, count), numbers); });
}

void repro_check_arrays_keep(std::int64_t number, const void* data) {
  tell([&](Recording& recording) { recording.keep(number, data); });
}

void repro_check_arrays_forget(std::int64_t number) {
  tell([&](Recording& recording) { recording.forget(number); });
}

std::int64_t repro_check_arrays_enter(const char* op,
                                      std::uint32_t site,
                                      std::uint32_t step,
                                      std::int64_t parent,
                                      int lane,
                                      int draws) {
  constexpr std::int64_t kLeftOut = -1;
  return when_active(kLeftOut, [&](Recording& recording) {
    return recording.enter(op, site, step, parent, lane, draws != 0);
  });
}

int repro_check_arrays_keeps(std::int64_t call) {
  return when_active(0, [&](Recording& recording) { return recording.keeps(call) ? 1 : 0; });
}

void repro_check_arrays_leave(std::int64_t call,
                              const repro_check_arrays_of* inputs,
                              const repro_check_arrays_of* outputs,
                              const repro_check_key* key,
                              std::uint64_t wall_ns) {
  tell([&](Recording& recording) { recording.leave(call, *inputs, *outputs, *key, wall_ns); });
}

}  // namespace repro_check::arrays
