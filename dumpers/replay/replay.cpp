// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/replay.h"

#include <ATen/Parallel.h>
#include <c10/core/Device.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "core/error.h"
#include "core/trace/replay_inputs.h"
#include "dumpers/replay/call_results.h"
#include "dumpers/replay/repeated_call.h"
#include "dumpers/replay/thread_count.h"

namespace repro_check::replay {
namespace {

c10::Device device_for(const std::string& name) {
  try {
    if (const c10::Device device(name); has_device(device)) return device;
  } catch (const c10::Error&) {  // no name of one
  }
  throw core::usage_error(fmt::format("--device {}: the recorder has no such device", name),
                          "`repro-check env` lists the devices");
}

Round play(const core::DumpSource& dump,
           RepeatedCall& call,
           const std::optional<Fingerprint>& recorded,
           unsigned calls) {
  Round round;
  round.threads = at::get_num_threads();
  std::vector<std::string> seen;
  for (unsigned i = 0; i < calls; ++i) {
    const CallSink& made = call.run();
    const Fingerprint print = fingerprint(made.record);
    if (!print.unknown.empty()) {
      cannot("output " + print.unknown + " has no values that can be compared", "");
    }
    const auto place = static_cast<std::size_t>(std::ranges::find(seen, print.text) - seen.begin());
    if (place == seen.size()) {
      seen.push_back(print.text);
      Result& result = round.results.emplace_back();
      result.digest = print.digest();
      result.first = i;
      if (recorded) result.as_recorded = recorded->text == print.text;
      result.to_recorded = measure_outputs(dump, call.record(), made, false);
    }
    ++round.results[place].calls;
    round.sequence.push_back(static_cast<unsigned>(place));
  }
  return round;
}

/// A library that tunes or packs at its first call shows as one odd call at the start.
bool only_first_differs(const Round& round) {
  return round.results.size() == 2 && round.sequence.size() > 2 && round.results[0].calls == 1;
}

void add_note(std::vector<std::string>& notes, const std::string& note) {
  if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
}

}  // namespace

Outcome replay(const core::DumpSource& dump, const Request& request) {
  RebuildOptions options;
  if (!request.device.empty()) options.device = device_for(request.device);
  RepeatedCall call(dump, request.op, options);
  std::optional<Fingerprint> recorded = fingerprint(call.record());
  const bool nothing = call.record().results.empty() && recorded->digests.empty();
  if (nothing || !recorded->unknown.empty()) recorded.reset();
  Outcome outcome;
  outcome.notes = call.notes();
  if (!recorded) outcome.notes.emplace_back("the record has no result");

  std::vector<int> threads = request.threads;
  if (threads.empty()) threads.push_back(at::get_num_threads());
  for (const int count : threads) {
    const ThreadCount set(count);
    if (at::get_num_threads() != count) {
      throw core::run_failed(
          fmt::format("asked for {} threads, LibTorch reports {}", count, at::get_num_threads()));
    }
    outcome.rounds.push_back(play(dump, call, recorded, request.calls));
    if (only_first_differs(outcome.rounds.back())) {
      add_note(outcome.notes, "only the first call differs from those that followed it");
    }
  }
  return outcome;
}

ReferenceDistance distance_to_float64(const core::DumpSource& dump, std::uint64_t op) {
  ReferenceDistance distance;
  if (core::require_replayable(dump, op).generator) {
    distance.problem = "the operator draws random numbers, and float64 draws others";
    return distance;
  }
  RebuildOptions options;
  options.float64 = true;
  options.device = c10::kCPU;  // whatever there is of devices here
  try {
    // Weights that are packed as float16 or int8 cannot be packed of float64.
    RepeatedCall call(dump, op, options);
    distance.outputs = measure_outputs(dump, call.record(), call.run(), true);
  } catch (const core::Error& error) {
    const bool expected = error.kind() == core::ErrorKind::kRunFailed ||
                          error.kind() == core::ErrorKind::kNotComparable;
    if (!expected) throw;
    distance.problem = std::string("it does not run in float64: ") + error.what();
    return distance;
  }
  if (distance.outputs.empty()) distance.problem = "no floating output has its values in the dump";
  return distance;
}

}  // namespace repro_check::replay