// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/replay.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "core/error.h"
#include "core/system/pinned.h"
#include "core/tensor/element_number.h"
#include "core/trace/replay_inputs.h"
#include "dumpers/replay/call.h"

namespace repro_check::replay {
namespace {

using core::ContentState;

/// Everything about the results of a call that must repeat: a line an output, then what is no
/// tensor.
struct Fingerprint {
  std::string text;
  std::vector<core::Digest> digests;
  std::string unknown;  ///< an output without a digest; empty = all have one

  void add(const core::TensorRecord& tensor) {
    text += fmt::format("{} {}", tensor.slot, core::dtype_name(tensor.dtype));
    for (const std::int64_t size : tensor.shape) text += fmt::format(" {}", size);
    text += ": " + core::to_hex(tensor.digest) + "\n";
    digests.push_back(tensor.digest);
  }

  void add(const core::Value& value) {
    if (std::holds_alternative<core::TensorSlot>(value.data)) return;
    if (const auto* list = std::get_if<core::ValueList>(&value.data)) {
      for (const core::Value& item : list->items) add(item);
      text += fmt::format("list of {}\n", list->items.size());
    } else {
      text += core::to_text(value) + "\n";
    }
  }

  /// One output's own digest is what `inspect` shows too.
  [[nodiscard]] core::Digest digest() const {
    if (digests.size() == 1) return digests.front();
    return core::digest_bytes(std::as_bytes(std::span(text.data(), text.size())));
  }
};

Fingerprint fingerprint(const core::OpRecord& record) {
  Fingerprint print;
  for (const core::TensorRecord& tensor : record.tensors) {
    if (tensor.role != core::TensorRole::kOutput || tensor.state == ContentState::kUndefined) {
      continue;
    }
    if (tensor.state == ContentState::kUninitialised) {
      cannot(fmt::format("op {} {}: output {} is memory nobody has written, which repeats by luck",
                         record.index,
                         record.op->full_name(),
                         tensor.slot),
             "replay the operator that reads it");
    }
    // Of a quantised, sparse or nested tensor, what its parts do not say.
    if (!tensor.attributes.empty()) {
      print.text += fmt::format("{}: {}\n", tensor.slot, tensor.attributes);
    }
    if (tensor.state == ContentState::kComposite) continue;
    if (tensor.state == ContentState::kHashed) {
      print.add(tensor);
    } else {
      print.unknown = tensor.slot;
    }
  }
  for (const core::Value& value : record.results) print.add(value);
  return print;
}

OutputDistance measure(const std::string& slot,
                       const std::vector<double>& a,
                       const std::vector<double>& b) {
  OutputDistance distance;
  distance.slot = slot;
  distance.elements = a.size();
  double max = 0;
  long double squares = 0;
  std::uint64_t finite = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool both_nan = std::isnan(a[i]) && std::isnan(b[i]);
    if (a[i] != b[i] && !both_nan) ++distance.differing;
    if (std::isfinite(a[i]) && std::isfinite(b[i])) {
      const double gap = std::abs(a[i] - b[i]);
      max = std::max(max, gap);
      squares += static_cast<long double>(gap) * gap;
      ++finite;
    } else if (a[i] != b[i] && !both_nan) {
      ++distance.incomparable;
    }
  }
  if (finite > 0) {
    distance.max_abs = max;
    distance.rmse = static_cast<double>(std::sqrt(squares / static_cast<long double>(finite)));
  }
  return distance;
}

/// Whether the tensor is a part of another output: the scales of a quantised one.
bool is_part(const core::OpRecord& record, const core::TensorRecord& tensor) {
  return std::ranges::any_of(record.tensors, [&](const core::TensorRecord& whole) {
    return whole.role == tensor.role && tensor.slot.starts_with(whole.slot + '.');
  });
}

/// Of every output whose recorded values are stored.
std::vector<OutputDistance> measure_outputs(const core::DumpSource& dump,
                                            const core::OpRecord& record,
                                            const CallSink& made,
                                            bool floating_only) {
  std::vector<OutputDistance> distances;
  for (const core::TensorRecord& tensor : record.tensors) {
    const bool real = core::is_floating(tensor.dtype) || core::is_complex(tensor.dtype);
    const bool wanted = tensor.role == core::TensorRole::kOutput && (real || !floating_only) &&
                        tensor.dtype != core::Dtype::kFloat4E2M1FNX2 &&
                        !core::is_quantised(tensor.dtype) && !is_part(record, tensor);
    if (!wanted || tensor.state != ContentState::kHashed ||
        !dump.has_content(tensor.content_key())) {
      continue;
    }
    const auto found =
        std::ranges::find_if(made.record().tensors, [&](const core::TensorRecord& other) {
          return other.role == tensor.role && other.slot == tensor.slot;
        });
    if (found == made.record().tensors.end() || found->state != ContentState::kHashed ||
        found->shape != tensor.shape || !made.has_content(found->content_key())) {
      continue;
    }
    std::vector<std::byte> content;
    dump.read_content(tensor.content_key(), content);
    const std::vector<double> recorded = core::numbers_of(tensor.dtype, content);
    made.read(found->content_key(), content);
    distances.push_back(measure(tensor.slot, recorded, core::numbers_of(found->dtype, content)));
  }
  return distances;
}

c10::Device device_for(const std::string& name) {
  try {
    const c10::Device device(name);
    // The one way to learn whether it is there that every release and device has.
    at::empty({1}, at::TensorOptions().device(device));
    return device;
  } catch (const std::exception&) {
    throw core::Error(core::ErrorKind::kUsage,
                      fmt::format("--device {}: the recorder has no such device", name),
                      "`repro-check env` lists the devices there are");
  }
}

class ThreadCount : core::Pinned {
 public:
  ThreadCount() : found_(at::get_num_threads()) {}
  ~ThreadCount() { at::set_num_threads(found_); }

 private:
  int found_;
};

Round play(const core::DumpSource& dump,
           Call& call,
           const std::optional<Fingerprint>& recorded,
           unsigned calls) {
  Round round;
  round.threads = at::get_num_threads();
  std::vector<std::string> seen;
  for (unsigned i = 0; i < calls; ++i) {
    const CallSink& made = call.run();
    const Fingerprint print = fingerprint(made.record());
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
  Call call(dump, request.op, options);
  std::optional<Fingerprint> recorded = fingerprint(call.record());
  const bool nothing = call.record().results.empty() && recorded->digests.empty();
  if (nothing || !recorded->unknown.empty()) recorded.reset();
  Outcome outcome;
  outcome.notes = call.notes();
  if (!recorded) outcome.notes.emplace_back("the record does not say what came out");

  const ThreadCount put_back;
  std::vector<int> threads = request.threads;
  if (threads.empty()) threads.push_back(at::get_num_threads());
  for (const int count : threads) {
    at::set_num_threads(count);
    if (at::get_num_threads() != count) {
      throw core::Error(
          core::ErrorKind::kRunFailed,
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
  try {
    // Weights that are packed as float16 or int8 cannot be packed of float64.
    Call call(dump, op, options);
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
