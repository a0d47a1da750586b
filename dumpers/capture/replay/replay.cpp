// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/replay/replay.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/trace/replay_inputs.h"
#include "dumpers/capture/replay/replayed_call.h"
#include "dumpers/capture/tensors/hashing.h"
#include "dumpers/capture/tensors/tensor_form.h"
#include "dumpers/capture/torch/torch_names.h"

namespace repro_check::capture {
namespace {

using core::ContentState;

[[noreturn]] void cannot(const std::string& what, const std::string& hint) {
  throw core::Error(core::ErrorKind::kNotComparable, what, hint);
}

/// Everything about one result that must repeat: a line an output, then what is no tensor.
struct Fingerprint {
  std::string text;
  std::vector<core::Digest> digests;

  void add(const std::string& slot, core::Dtype dtype, at::IntArrayRef shape, core::Digest digest) {
    text += fmt::format("{} {}", slot, core::dtype_name(dtype));
    for (const std::int64_t size : shape) text += fmt::format(" {}", size);
    text += ": " + core::to_hex(digest) + "\n";
    digests.push_back(digest);
  }

  /// Of a quantised, sparse or nested tensor, what its parts do not say.
  void add_attributes(const std::string& slot, const std::string& attributes) {
    if (!attributes.empty()) text += fmt::format("{}: {}\n", slot, attributes);
  }

  void add_scalars(const core::Value& value) {
    if (std::holds_alternative<core::TensorSlot>(value.data)) return;
    if (const auto* list = std::get_if<core::ValueList>(&value.data)) {
      for (const core::Value& item : list->items) add_scalars(item);
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

/// As a recording has it: the tensor, then its parts.
void add_tensor(const std::string& slot, const at::Tensor& tensor, Fingerprint& print) {
  const TensorForm form = form_of(tensor);
  std::string attributes;
  const TensorParts parts = parts_of(tensor, form, attributes);
  print.add_attributes(slot, attributes);
  const core::Dtype dtype = dtype_of(tensor.scalar_type());
  if (form == TensorForm::kStrided && dtype != core::Dtype::kUnknown) {
    const auto content = host_content(tensor);
    if (!content) cannot("output " + slot + " has no values: it cannot be compared", "");
    print.add(slot, dtype, tensor.sizes(), summarise_content(content->bytes, dtype, false).digest);
  } else if (parts.empty()) {
    cannot("output " + slot + " is of a kind that cannot be compared", "");
  }
  for (const auto& [ending, part] : parts) add_tensor(slot + '.' + ending, part, print);
}

Fingerprint fingerprint(const CallResults& results) {
  Fingerprint print;
  for (const auto& [slot, tensor] : results.tensors) {
    if (tensor.defined()) add_tensor(slot, tensor, print);
  }
  for (const core::Value& value : results.values) print.add_scalars(value);
  return print;
}

/// Empty when the record does not say what came out.
std::optional<Fingerprint> fingerprint(const core::OpRecord& record) {
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
    print.add_attributes(tensor.slot, tensor.attributes);
    if (core::is_composed(tensor)) continue;
    if (tensor.state != ContentState::kHashed) return std::nullopt;
    print.add(tensor.slot, tensor.dtype, tensor.shape, tensor.digest);
  }
  if (record.results.empty() && print.digests.empty()) return std::nullopt;
  for (const core::Value& value : record.results) print.add_scalars(value);
  return print;
}

/// Real numbers in float64, contiguous, on the host.
at::Tensor as_reals(const at::Tensor& tensor) {
  at::Tensor host = tensor.detach().resolve_conj().resolve_neg().to(at::kCPU);
  if (host.is_complex()) host = at::view_as_real(host.to(at::kComplexDouble));
  return host.to(at::kDouble).contiguous();
}

OutputDistance measure(const std::string& slot, const at::Tensor& from, const at::Tensor& to) {
  OutputDistance distance;
  distance.slot = slot;
  const at::Tensor left = as_reals(from);
  const at::Tensor right = as_reals(to);
  const auto count = static_cast<std::size_t>(left.numel());
  const std::span<const double> a(left.data_ptr<double>(), count);
  const std::span<const double> b(right.data_ptr<double>(), count);
  double max = 0;
  long double squares = 0;
  std::uint64_t finite = 0;
  for (std::size_t i = 0; i < count; ++i) {
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
  distance.elements = count;
  if (finite > 0) {
    distance.max_abs = max;
    distance.rmse = static_cast<double>(std::sqrt(squares / static_cast<long double>(finite)));
  }
  return distance;
}

bool is_real_valued(core::Dtype dtype) {
  return core::is_floating(dtype) || core::is_complex(dtype);
}

/// Of every output whose recorded values are stored.
std::vector<OutputDistance> measure_outputs(const core::DumpSource& dump,
                                            const core::OpRecord& record,
                                            const CallResults& results,
                                            bool floating_only) {
  std::vector<OutputDistance> distances;
  for (const core::TensorRecord& tensor : record.tensors) {
    if (tensor.role != core::TensorRole::kOutput) continue;
    if (floating_only && !is_real_valued(tensor.dtype)) continue;
    if (tensor.dtype == core::Dtype::kFloat4E2M1FNX2) continue;
    const auto found =
        std::ranges::find(results.tensors, tensor.slot, &std::pair<std::string, at::Tensor>::first);
    if (found == results.tensors.end() || !found->second.defined()) continue;
    const at::Tensor recorded = stored_tensor(dump, tensor);
    if (!recorded.defined() || recorded.sizes() != found->second.sizes()) continue;
    distances.push_back(measure(tensor.slot, recorded, found->second));
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

class ThreadCount {
 public:
  ThreadCount() : found_(at::get_num_threads()) {}
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;
  ThreadCount(ThreadCount&&) = delete;
  ThreadCount& operator=(ThreadCount&&) = delete;
  ~ThreadCount() { at::set_num_threads(found_); }

 private:
  int found_;
};

ReplayRound play(const core::DumpSource& dump,
                 ReplayedCall& call,
                 const std::optional<Fingerprint>& recorded,
                 unsigned calls) {
  ReplayRound round;
  round.threads = at::get_num_threads();
  std::vector<std::string> seen;
  for (unsigned i = 0; i < calls; ++i) {
    const CallResults results = call.run();
    const Fingerprint print = fingerprint(results);
    const auto place = static_cast<std::size_t>(std::ranges::find(seen, print.text) - seen.begin());
    if (place == seen.size()) {
      seen.push_back(print.text);
      ReplayResult& result = round.results.emplace_back();
      result.digest = print.digest();
      result.first = i;
      if (recorded) result.as_recorded = recorded->text == print.text;
      result.to_recorded = measure_outputs(dump, call.record(), results, false);
    }
    ++round.results[place].calls;
    round.sequence.push_back(static_cast<unsigned>(place));
  }
  return round;
}

/// A library that tunes or packs at its first call shows as one odd call at the start.
bool only_first_differs(const ReplayRound& round) {
  return round.results.size() == 2 && round.sequence.size() > 2 && round.results[0].calls == 1;
}

void add_note(std::vector<std::string>& notes, const std::string& note) {
  if (std::ranges::find(notes, note) == notes.end()) notes.push_back(note);
}

}  // namespace

ReplayOutcome replay(const core::DumpSource& dump, const ReplayRequest& request) {
  RebuildOptions options;
  if (!request.device.empty()) options.device = device_for(request.device);
  ReplayedCall call(dump, request.op, options);
  const std::optional<Fingerprint> recorded = fingerprint(call.record());
  ReplayOutcome outcome;
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
    ReplayedCall call(dump, op, options);
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

}  // namespace repro_check::capture
