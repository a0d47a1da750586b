// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/replay.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/DistributionsHelper.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/system/pinned.h"
#include "core/tensor/element_number.h"
#include "core/tensor/tensor_record.h"
#include "core/text/text.h"
#include "core/trace/replay_inputs.h"
#include "dumpers/capture/engine/capture.h"
#include "dumpers/capture/generators/generator_watch.h"
#include "dumpers/capture/torch/call_modes.h"
#include "dumpers/capture/torch/torch_compat.h"
#include "dumpers/replay/recorded_call.h"

namespace repro_check::replay {
namespace {

/// Single steps before giving up: each hashes the whole state, 2.5 KB.
constexpr int kMaxSteps = 1 << 20;
/// Draws in all: half a minute.
constexpr std::int64_t kMaxDraws = std::int64_t{1} << 33U;
/// A normal sample is made of two 53-bit numbers, of two draws each, and comes with a second one.
constexpr std::int64_t kDrawsOfPair = 4;

struct Leg {
  std::uint64_t to = 0;
  std::int64_t drawn = 0;
};

/// What operators before `op` drew from its generator, by where they began.
std::unordered_map<std::uint64_t, Leg> legs_before(const core::DumpSource& dump,
                                                   const core::OpRecord& op) {
  std::unordered_map<std::uint64_t, Leg> legs;
  for (std::uint64_t i = 0; i < op.index; ++i) {
    const auto use = dump.op(i).generator;
    if (!use || use->device != op.generator->device || use->seed != op.generator->seed) continue;
    if (use->drawn <= 0) continue;
    // Of a composite operator and its parts the parts: they name every place on the way.
    const auto [found, fresh] =
        legs.try_emplace(use->position_before, Leg{use->position_after, use->drawn});
    if (!fresh && use->drawn < found->second.drawn) {
      found->second = {use->position_after, use->drawn};
    }
  }
  return legs;
}

std::uint64_t position(const at::Generator& generator) {
  capture::GeneratorSnapshot snapshot;
  capture::take_snapshot(&generator, snapshot);
  return capture::position_of(snapshot);
}

void draw(at::CPUGeneratorImpl& generator, std::int64_t count) {
  for (; count > 0; --count) generator.random();
}

void forget_samples(at::CPUGeneratorImpl& generator) {
  generator.set_next_float_normal_sample({});
  generator.set_next_double_normal_sample({});
}

/// Whether the generator stands at the end of the leg now. A call may have left the second number
/// of its last normal pair behind, which is part of the position.
bool take_leg(const at::Generator& generator, const Leg& leg) {
  auto& impl = *generator.get<at::CPUGeneratorImpl>();
  forget_samples(impl);
  const std::int64_t last = std::min(leg.drawn, kDrawsOfPair);
  draw(impl, leg.drawn - last);
  const at::mt19937 before_last = impl.engine();
  draw(impl, last);
  if (position(generator) == leg.to) return true;
  if (last < kDrawsOfPair) return false;
  const at::mt19937 end = impl.engine();
  impl.set_engine(before_last);
  at::normal_distribution<double> normal(0, 1);
  static_cast<void>(normal(&impl));
  if (position(generator) == leg.to) return true;
  impl.set_engine(end);
  forget_samples(impl);
  return false;
}

bool reach(const at::Generator& generator, const core::DumpSource& dump, const core::OpRecord& op) {
  const std::uint64_t target = op.generator->position_before;
  if (position(generator) == target) return true;
  const auto legs = legs_before(dump, op);
  auto& impl = *generator.get<at::CPUGeneratorImpl>();
  std::int64_t drawn = 0;
  for (int steps = 0; steps < kMaxSteps;) {
    const std::uint64_t here = position(generator);
    if (here == target) return true;
    const auto leg = legs.find(here);
    if (leg != legs.end()) {
      if (leg->second.drawn > kMaxDraws - drawn) return false;
      drawn += leg->second.drawn;
      if (take_leg(generator, leg->second)) continue;
    } else {
      forget_samples(impl);
      if (position(generator) == here) draw(impl, 1);
    }
    ++steps;
  }
  return false;
}

template <class Generator>
void set_philox(Generator& generator, std::uint64_t offset) {
  if constexpr (requires { generator.set_offset(offset); }) {
    generator.set_offset(offset);
  } else {
    cannot("this LibTorch cannot move a device's generator", "use LibTorch 2.2 or newer");
  }
}

/// A generator of the kind `op` drew from, seeded and moved to where it stood before the call. The
/// way there follows what earlier operators of the dump drew, then single steps.
/// @param op  with `generator` set; its device must be the CPU or one this process has
/// @throws core::Error{kNotComparable} when no way from the seed leads there
at::Generator restore_generator(const core::DumpSource& dump, const core::OpRecord& op) {
  const core::GeneratorUse& use = *op.generator;
  const c10::Device device(use.device);
  if (!device.is_cpu()) {
    const at::Generator* given = capture::default_generator(device);
    if (given == nullptr) {
      cannot(fmt::format(
                 "op {} drew from the generator of {}, which is not here", op.index, use.device),
             "replay it where it was recorded");
    }
    at::Generator generator = given->clone();
    generator.set_current_seed(use.seed);
    set_philox(generator, use.position_before);
    return generator;
  }
  at::Generator generator = at::detail::createCPUGenerator(use.seed);
  if (!reach(generator, dump, op)) {
    cannot(
        fmt::format("op {} drew random numbers, and its generator's position was not found on the "
                    "way from seed {}",
                    op.index,
                    use.seed),
        "something outside the recorded operators moved the generator; seed it before the call");
  }
  return generator;
}

/// Part of a tensor by its ending: `values`, `scales`; undefined where there is none.
using PartOf = std::function<at::Tensor(const std::string& ending)>;

[[noreturn]] void cannot_make(const core::TensorRecord& tensor, std::string_view why) {
  cannot(fmt::format("argument {}: this {} tensor ({}) cannot be made again: {}",
                     tensor.slot,
                     tensor.layout,
                     tensor.attributes,
                     why),
         "replay another operator");
}

/// Of `key=value key=value`; empty where the key is not there.
std::string_view attribute(const core::TensorRecord& tensor, std::string_view key) {
  std::string_view text = tensor.attributes;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(item.size() + 1, text.size()));
    if (item.starts_with(key) && item.substr(key.size()).starts_with('=')) {
      return item.substr(key.size() + 1);
    }
  }
  return {};
}

template <typename Number>
Number number(const core::TensorRecord& tensor, std::string_view key) {
  const auto value = core::parse_number<Number>(attribute(tensor, key));
  if (!value) cannot_make(tensor, "its attributes are not understood");
  return *value;
}

at::Tensor quantised(const core::TensorRecord& tensor,
                     const at::Tensor& integers,
                     const PartOf& part) {
  if (attribute(tensor, "axis").empty()) {
    return at::_make_per_tensor_quantized_tensor(
        integers, number<double>(tensor, "scale"), number<std::int64_t>(tensor, "zero_point"));
  }
  return at::_make_per_channel_quantized_tensor(
      integers, part("scales"), part("zero_points"), number<std::int64_t>(tensor, "axis"));
}

at::Tensor sparse(const core::TensorRecord& tensor, const PartOf& part, c10::Device device) {
  const at::Tensor values = part("values");
  if (!values.defined()) cannot_make(tensor, "its values are not there");
  if (tensor.layout == capture::layout_name(c10::Layout::Sparse)) {
    const at::Tensor made = at::sparse_coo_tensor(
        part("indices"), values, tensor.shape, values.options().layout(at::kSparse).device(device));
    return made._coalesced_(attribute(tensor, "coalesced") == "true");
  }
  const auto layout = named(capture::layout_name, tensor.layout);
  const bool by_row = part("crow_indices").defined();
  if (!layout || !(by_row || part("ccol_indices").defined())) {
    cannot_make(tensor, "this layout has no builder");
  }
  return at::sparse_compressed_tensor(part(by_row ? "crow_indices" : "ccol_indices"),
                                      part(by_row ? "col_indices" : "row_indices"),
                                      values,
                                      tensor.shape,
                                      values.options().layout(*layout).device(device));
}

at::Tensor nested(const core::TensorRecord& tensor, const PartOf& part) {
  const at::Tensor buffer = part("values");
  const at::Tensor sizes = part("sizes");
  const at::Tensor strides = part("strides");
  const at::Tensor offsets = part("offsets");
  if (!buffer.defined() || !sizes.defined() || !strides.defined() || !offsets.defined()) {
    cannot_make(tensor, "its parts are not there");
  }
  // A view of a buffer looks at nothing; a component that is made by itself must lie inside.
  for (std::int64_t i = 0; i < sizes.size(0); ++i) {
    const auto numbers = [](const at::Tensor& row) {
      const at::Tensor flat = row.contiguous();
      return at::IntArrayRef(flat.data_ptr<std::int64_t>(), static_cast<std::size_t>(flat.numel()))
          .vec();
    };
    buffer.as_strided(numbers(sizes[i]), numbers(strides[i]), offsets[i].item<std::int64_t>());
  }
  return capture::nested_view(buffer, sizes, strides, offsets);
}

bool has_device(const c10::Device& device) {
  try {
    // The one way to learn it that every release and device has.
    at::empty({1}, at::TensorOptions().device(device));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

/// Where the tensor was when it was recorded.
c10::Device device_of(const core::TensorRecord& tensor) {
  const c10::Device device(tensor.device);
  if (!device.is_cpu() && !has_device(device)) {
    cannot(fmt::format("argument {} was on {}, which is not here", tensor.slot, tensor.device),
           "replay it where it was recorded, or add --device cpu");
  }
  return device;
}

/// The arguments of one recorded call, made again from the stored values: tensors with the same
/// strides, and those that shared a storage share one.
class Arguments {
 public:
  /// @param record   borrowed; as core::require_replayable() gives it
  /// @param written  per tensor of the record, whether the operator may write it
  Arguments(const core::DumpSource& dump,
            const core::OpRecord& record,
            std::vector<bool> written,
            const RebuildOptions& options)
      : record_(record),
        options_(options),
        written_(std::move(written)),
        tensors_(record.tensors.size()),
        wholes_(record.tensors.size()) {
    for (core::InputStorage& storage : core::input_storages(dump, record)) {
      const core::TensorRecord& first = record.tensors[storage.tensors.front()];
      const c10::ScalarType type = type_of(first);
      at::Tensor content =
          from_bytes(core::read_input_storage(dump, record, storage), type, storage.count);
      if (options.float64) content = content.to(wider(type));
      content = content.to(options.device ? *options.device : device_of(first));
      const bool any_written = std::ranges::any_of(
          storage.tensors, [&](std::uint32_t member) { return written_[member]; });
      memories_.push_back({std::move(storage), any_written, std::move(content)});
    }
    restart();
  }

  /// Forgets what calls have written.
  void restart() {
    for (const Memory& memory : memories_) {
      if (made_ && !memory.written) continue;
      const at::Tensor current = memory.written ? memory.original.clone() : memory.original;
      for (const std::uint32_t member : memory.storage.tensors) {
        const core::TensorRecord& tensor = record_.tensors[member];
        const bool empty = core::element_count(tensor.shape) == 0;
        tensors_[member] = current.as_strided(
            tensor.shape, tensor.strides, empty ? 0 : tensor.storage_offset - memory.storage.first);
        const bool differentiable =
            core::is_floating(tensor.dtype) || core::is_complex(tensor.dtype);
        if (tensor.requires_grad && differentiable && !memory.written &&
            at::GradMode::is_enabled()) {
          tensors_[member] = tensors_[member].detach().requires_grad_(true);
        }
      }
    }
    made_ = true;
    for (std::size_t i = 0; i < wholes_.size(); ++i) {
      const core::TensorRecord& tensor = record_.tensors[i];
      const bool whole = core::is_composed(tensor) || core::is_quantised(tensor.dtype);
      if (!whole || tensor.role != core::TensorRole::kInput) continue;
      if (!wholes_[i].defined() || written_[i]) wholes_[i] = make_whole(i);
    }
  }

  /// @param generator  what an argument that is one will be
  [[nodiscard]] ArgumentSource source(at::Generator generator) const {
    const auto tensor = [this](std::uint32_t index) {
      const at::Tensor& whole = wholes_.at(index);
      return whole.defined() ? whole : tensors_[index];
    };
    return {options_, tensor, std::move(generator)};
  }

 private:
  struct Memory {
    core::InputStorage storage;
    bool written = false;
    at::Tensor original;
  };

  [[nodiscard]] at::Tensor make_whole(std::size_t index) const {
    const core::TensorRecord& tensor = record_.tensors[index];
    const auto part = [&](const std::string& ending) {
      const std::string slot = tensor.slot + '.' + ending;
      for (std::size_t i = index + 1; i < record_.tensors.size(); ++i) {
        const core::TensorRecord& other = record_.tensors[i];
        if (other.role == tensor.role && other.slot == slot) return tensors_[i];
      }
      return at::Tensor();
    };
    try {
      if (tensor.layout == "quantised") return quantised(tensor, tensors_[index], part);
      if (tensor.layout == "nested") return nested(tensor, part);
      return sparse(tensor, part, options_.device ? *options_.device : device_of(tensor));
    } catch (const c10::Error& error) {
      cannot_make(tensor, capture::reason_of(error));
    }
  }

  const core::OpRecord& record_;
  RebuildOptions options_;
  std::vector<bool> written_;
  std::vector<Memory> memories_;
  bool made_ = false;                ///< whether those that nobody writes are in `tensors_`
  std::vector<at::Tensor> tensors_;  ///< by position in the record; of quantised ones the integers
  std::vector<at::Tensor> wholes_;   ///< quantised, sparse and nested ones
};

/// Moves a generator for as long as it lives.
class MovedGenerator : core::Pinned {
 public:
  /// @param generator  may be undefined
  MovedGenerator(at::Generator generator, const at::Tensor& state)
      : generator_(std::move(generator)) {
    if (!generator_.defined()) return;
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    found_ = generator_.get_state();
    generator_.set_state(state);
  }
  ~MovedGenerator() {
    if (!generator_.defined()) return;
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_state(found_);
  }

 private:
  at::Generator generator_;
  at::Tensor found_;
};

/// What the engine says of the last call. Contents that the dump holds are left there.
class CallSink final : public core::DumpSink {
 public:
  /// @param dump  borrowed
  explicit CallSink(const core::DumpSource& dump) : dump_(dump) {}

  void enter(const core::OpHead& /*call*/) override {}
  [[nodiscard]] bool has_content(const core::ContentKey& key) const override {
    return contents_.contains(key) || dump_.has_content(key);
  }
  bool put_content(const core::ContentKey& key, const core::ContentBytes& bytes) override {
    std::vector<std::byte> content(bytes.size());
    bytes.read(0, content);
    contents_.insert_or_assign(core::key_of_read(key, bytes), std::move(content));
    return true;
  }
  void append(const core::OpRecord& appended) override { record = appended; }
  void fail(const std::string& /*message*/) override {}

  void clear() {
    record = {};
    contents_.clear();
  }
  void read(const core::ContentKey& key, std::vector<std::byte>& into) const {
    const auto found = contents_.find(key);
    if (found == contents_.end()) return dump_.read_content(key, into);
    into = found->second;
  }

  core::OpRecord record;

 private:
  const core::DumpSource& dump_;
  std::map<core::ContentKey, std::vector<std::byte>> contents_;
};

/// One recorded call, ready to be made any number of times.
class Call {
 public:
  /// @param dump  borrowed
  /// @throws core::Error as replay()
  Call(const core::DumpSource& dump, std::uint64_t op, const RebuildOptions& options)
      : record_(core::require_replayable(dump, op)),
        op_(plans_, record_),
        sink_(dump),
        capture_({}, sink_, nullptr) {
    for (const core::Substitution& change : record_.substitutions) {
      if (change.argument != "rng") continue;
      cannot(
          fmt::format("op {} was not executed: its numbers were drawn on the host (rng: host)", op),
          "record with \"rng\": \"device\" to replay it");
    }
    arguments_.emplace(dump, record_, op_.written_tensors(record_), options);
    if (!record_.generator) return;
    if (options.device && options.device->str() != c10::Device(record_.generator->device).str()) {
      cannot(fmt::format("op {} drew random numbers on {}: {} draws others",
                         op,
                         record_.generator->device,
                         options.device->str()),
             "replay it where it was recorded");
    }
    const at::Generator restored = restore_generator(dump, record_);
    start_ = restored.get_state();
    generator_ = *capture::default_generator(restored.device());
  }

  /// Makes it, from the same inputs and the same place of the generator each time.
  /// @return what the engine recorded of it, until the next call
  const CallSink& run() {
    arguments_->restart();
    sink_.clear();
    torch::jit::Stack stack = op_.arguments(record_, arguments_->source(generator_));
    {
      const MovedGenerator moved(generator_, start_);
      const capture::CallModesPin modes(record_.modes);
      const capture::Capture::Scope scope(capture_);
      try {
        op_.call(stack);
      } catch (const std::exception& error) {
        throw core::run_failed(fmt::format(
            "op {} {}: {}", record_.index, record_.op->full_name(), capture::reason_of(error)));
      }
    }
    capture_.rethrow_failure();
    return sink_;
  }

  [[nodiscard]] const core::OpRecord& record() const noexcept { return record_; }
  /// What of the call is not as recorded.
  [[nodiscard]] std::vector<std::string> notes() const {
    std::vector<std::string> notes;
    for (const core::TensorRecord& tensor : record_.tensors) {
      if (tensor.role != core::TensorRole::kInput) continue;
      if (tensor.state != core::ContentState::kUninitialised) continue;
      notes.push_back(
          fmt::format("argument {} was memory that was never written: here it is filled with NaN, "
                      "integers with 0",
                      tensor.slot));
    }
    return notes;
  }

 private:
  core::OpRecord record_;
  capture::OperatorPlans plans_{{}, {}};
  RecordedOperator op_;
  std::optional<Arguments> arguments_;
  at::Generator generator_;  ///< that operators draw from; undefined = nothing was drawn
  at::Tensor start_;         ///< its state before the call
  CallSink sink_;
  capture::Capture capture_;
};

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
    return core::digest_bytes(text);
  }
};

Fingerprint fingerprint(const core::OpRecord& record) {
  Fingerprint print;
  for (const core::TensorRecord& tensor : record.tensors) {
    if (tensor.role != core::TensorRole::kOutput || tensor.state == ContentState::kUndefined) {
      continue;
    }
    if (tensor.state == ContentState::kUninitialised) {
      cannot(fmt::format(
                 "op {} {}: output {} is memory that was never written, so its values mean nothing",
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
      squares += static_cast<long double>(gap) * static_cast<long double>(gap);
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
        std::ranges::find_if(made.record.tensors, [&](const core::TensorRecord& other) {
          return other.role == tensor.role && other.slot == tensor.slot;
        });
    if (found == made.record.tensors.end() || found->state != ContentState::kHashed ||
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
    if (const c10::Device device(name); has_device(device)) return device;
  } catch (const c10::Error&) {  // no name of one
  }
  throw core::usage_error(fmt::format("--device {}: the recorder has no such device", name),
                          "`repro-check env` lists the devices");
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
  Call call(dump, request.op, options);
  std::optional<Fingerprint> recorded = fingerprint(call.record());
  const bool nothing = call.record().results.empty() && recorded->digests.empty();
  if (nothing || !recorded->unknown.empty()) recorded.reset();
  Outcome outcome;
  outcome.notes = call.notes();
  if (!recorded) outcome.notes.emplace_back("the record has no result");

  const ThreadCount put_back;
  std::vector<int> threads = request.threads;
  if (threads.empty()) threads.push_back(at::get_num_threads());
  for (const int count : threads) {
    at::set_num_threads(count);
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
