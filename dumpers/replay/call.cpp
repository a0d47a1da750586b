// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/call.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/DistributionsHelper.h>
#include <ATen/core/class_type.h>
#include <ATen/core/jit_type.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <complex>
#include <cstring>
#include <functional>
#include <mutex>
#include <span>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/system/pinned.h"
#include "core/tensor/tensor_view.h"
#include "dumpers/capture/engine/values.h"
#include "dumpers/capture/generators/generator_watch.h"
#include "dumpers/capture/torch/torch_compat.h"

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

}  // namespace

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

namespace {

c10::ScalarType wider(c10::ScalarType type) {
  if (c10::isComplexType(type)) return at::kComplexDouble;
  return c10::isFloatingType(type) ? at::kDouble : type;
}

at::Tensor from_bytes(std::span<const std::byte> bytes, c10::ScalarType type, std::int64_t count) {
  at::Tensor tensor = at::empty({count}, at::TensorOptions().dtype(type));
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

/// Of its elements in memory.
c10::ScalarType type_of(const core::TensorRecord& tensor) {
  if (tensor.dtype == core::Dtype::kQInt8) return at::kChar;
  if (tensor.dtype == core::Dtype::kQUInt8) return at::kByte;
  if (tensor.dtype == core::Dtype::kQInt32) return at::kInt;
  const auto type = capture::scalar_type_of(tensor.dtype);
  if (!type) {
    cannot(fmt::format(
               "argument {}: this LibTorch has no {}", tensor.slot, core::dtype_name(tensor.dtype)),
           kOwnRecorder);
  }
  return *type;
}

/// The enumerator that LibTorch's names give this name.
template <typename Enum>
std::optional<Enum> named(std::string (*name_of)(Enum), const std::string& name) {
  for (int i = 0; i < static_cast<int>(Enum::NumOptions); ++i) {
    if (name_of(static_cast<Enum>(i)) == name) return static_cast<Enum>(i);
  }
  return std::nullopt;
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
  const std::string_view text = attribute(tensor, key);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    cannot_make(tensor, "its attributes are not understood");
  }
  return value;
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

}  // namespace

void cannot(const std::string& what, const std::string& hint) {
  throw core::Error(core::ErrorKind::kNotComparable, what, hint);
}

Arguments::Arguments(const core::DumpSource& dump,
                     const core::OpRecord& record,
                     std::vector<bool> written,
                     const RebuildOptions& options)
    : record_(record),
      options_(options),
      written_(std::move(written)),
      tensors_(record.tensors.size()),
      wholes_(record.tensors.size()) {
  for (core::InputStorage& storage : core::input_storages(record)) {
    const c10::ScalarType type = type_of(record.tensors[storage.tensors.front()]);
    at::Tensor content =
        from_bytes(core::read_input_storage(dump, record, storage), type, storage.count);
    if (options.float64) content = content.to(wider(type));
    if (options.device) content = content.to(*options.device);
    const bool any_written = std::ranges::any_of(
        storage.tensors, [&](std::uint32_t member) { return written_[member]; });
    memories_.push_back({std::move(storage), any_written, std::move(content)});
  }
  restart();
}

void Arguments::restart() {
  for (const Memory& memory : memories_) {
    if (made_ && !memory.written) continue;
    const at::Tensor current = memory.written ? memory.original.clone() : memory.original;
    for (const std::uint32_t member : memory.storage.tensors) {
      const core::TensorRecord& tensor = record_.tensors[member];
      const bool empty = core::element_count(tensor.shape) == 0;
      tensors_[member] = current.as_strided(
          tensor.shape, tensor.strides, empty ? 0 : tensor.storage_offset - memory.storage.first);
      const bool differentiable = core::is_floating(tensor.dtype) || core::is_complex(tensor.dtype);
      if (tensor.requires_grad && differentiable && !memory.written && at::GradMode::is_enabled()) {
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

at::Tensor Arguments::make_whole(std::size_t index) const {
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
    return sparse(tensor, part, options_.device.value_or(c10::Device(c10::kCPU)));
  } catch (const c10::Error& error) {
    cannot_make(tensor, capture::reason_of(error));
  }
}

c10::IValue Arguments::value(const core::Value& value,
                             const c10::TypePtr& type,
                             capture::IntegerMeaning meaning,
                             const at::Generator& generator) const {
  if (std::holds_alternative<std::monostate>(value.data)) return {};
  if (const auto optional = type->cast<c10::OptionalType>()) {
    return this->value(value, optional->getElementType(), meaning, generator);
  }
  return std::visit(
      [&](const auto& data) -> c10::IValue {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, std::monostate>) {
          return {};
        } else if constexpr (std::is_same_v<T, std::int64_t>) {
          if (type->kind() == c10::TypeKind::FloatType) return static_cast<double>(data);
          return data;
        } else if constexpr (std::is_same_v<T, std::complex<double>>) {
          return c10::complex<double>(data.real(), data.imag());
        } else if constexpr (std::is_same_v<T, core::Symbol>) {
          if (type->kind() != c10::TypeKind::DeviceObjType) return number_of(data, meaning);
          return options_.device ? *options_.device : c10::Device(data.name);
        } else if constexpr (std::is_same_v<T, core::TensorSlot>) {
          const at::Tensor& whole = wholes_.at(data.index);
          return whole.defined() ? whole : tensors_[data.index];
        } else if constexpr (std::is_same_v<T, core::Opaque>) {
          if (type->kind() == c10::TypeKind::GeneratorType && generator.defined()) return generator;
          cannot("an argument is a " + data.type + ", of which a record only knows the type",
                 "nothing to be done: replay another operator");
        } else if constexpr (std::is_same_v<T, core::ValueList>) {
          if (const auto custom = type->cast<c10::ClassType>()) {
            return packed(data, custom, meaning, generator);
          }
          const auto list = type->cast<c10::ListType>();
          if (!list) {
            cannot("an argument is a " + type->str() + ", which cannot be made again",
                   "nothing to be done: replay another operator");
          }
          c10::impl::GenericList items(list->getElementType());
          for (const core::Value& item : data.items) {
            items.push_back(this->value(item, list->getElementType(), meaning, generator));
          }
          return items;
        } else {
          return data;
        }
      },
      value.data);
}

std::int64_t Arguments::number_of(const core::Symbol& symbol,
                                  capture::IntegerMeaning meaning) const {
  using capture::IntegerMeaning;
  if (meaning == IntegerMeaning::kMemoryFormat) {
    const auto format = named(capture::memory_format_name, symbol.name);
    if (format) return static_cast<std::int64_t>(*format);
  } else if (meaning == IntegerMeaning::kLayout) {
    const auto layout = named(capture::layout_name, symbol.name);
    if (layout) return static_cast<std::int64_t>(*layout);
  } else if (meaning == IntegerMeaning::kScalarType) {
    const auto type = named(capture::scalar_type_name, symbol.name);
    if (type) return static_cast<std::int64_t>(options_.float64 ? wider(*type) : *type);
  }
  cannot("this LibTorch does not know `" + symbol.name + "`, which an argument was", kOwnRecorder);
}

c10::IValue Arguments::packed(const core::ValueList& data,
                              const c10::ClassTypePtr& type,
                              capture::IntegerMeaning meaning,
                              const at::Generator& generator) const {
  const auto* name =
      data.items.empty() ? nullptr : std::get_if<core::Symbol>(&data.items.front().data);
  const std::string known = capture::packed_class_name(*type);
  const auto state = known.empty() ? nullptr : capture::type_of_state(type)->cast<c10::TupleType>();
  if (name == nullptr || name->name != known || !state ||
      state->elements().size() + 1 != data.items.size()) {
    cannot("an argument is a " + (name == nullptr ? known : name->name) +
               ", which this LibTorch packs from something else than the record holds",
           kOwnRecorder);
  }
  std::vector<c10::IValue> items;
  for (std::size_t i = 1; i < data.items.size(); ++i) {
    items.push_back(value(data.items[i], state->elements()[i - 1], meaning, generator));
  }
  try {
    return capture::pack(type, c10::ivalue::Tuple::create(std::move(items)));
  } catch (const c10::Error& error) {
    cannot("an argument is a " + known +
               ", which cannot be packed again: " + capture::reason_of(error),
           "use a recorder that has the engine it was packed for");
  }
}

namespace {

void for_each_tensor(const core::Value& value, const auto& each) {
  if (const auto* slot = std::get_if<core::TensorSlot>(&value.data)) each(slot->index);
  if (const auto* list = std::get_if<core::ValueList>(&value.data)) {
    for (const core::Value& item : list->items) for_each_tensor(item, each);
  }
}

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

capture::CaptureOptions whole_call() {
  capture::CaptureOptions options;
  options.level = core::DumpLevel::kTensor;
  options.depth = core::DumpDepth::kTop;
  return options;
}

}  // namespace

bool CallSink::has_content(const core::ContentKey& key) const {
  return contents_.contains(key) || dump_.has_content(key);
}

bool CallSink::put_content(const core::ContentKey& key, const core::ContentBytes& bytes) {
  std::vector<std::byte> content(bytes.size());
  bytes.read(0, content);
  contents_.insert_or_assign(core::key_of_read(key, bytes), std::move(content));
  return true;
}

void CallSink::clear() {
  record_ = {};
  contents_.clear();
}

void CallSink::read(const core::ContentKey& key, std::vector<std::byte>& into) const {
  const auto found = contents_.find(key);
  if (found == contents_.end()) return dump_.read_content(key, into);
  into = found->second;
}

Call::Call(const core::DumpSource& dump, std::uint64_t op, const RebuildOptions& options)
    : record_(core::require_replayable(dump, op)),
      sink_(dump),
      capture_(whole_call(), sink_, nullptr) {
  find_operator();
  for (const core::Substitution& change : record_.substitutions) {
    if (change.argument != "rng") continue;
    cannot(
        fmt::format("op {} was not executed: its numbers were drawn on the host (rng: host)", op),
        "record with \"rng\": \"device\" to replay it");
  }
  arguments_.emplace(dump, record_, written_tensors(), options);
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

std::vector<std::string> Call::notes() const {
  std::vector<std::string> notes;
  for (const core::TensorRecord& tensor : record_.tensors) {
    if (tensor.role != core::TensorRole::kInput) continue;
    if (tensor.state != core::ContentState::kUninitialised) continue;
    notes.push_back(fmt::format(
        "argument {} was memory nobody had written: here it is filled with NaN, integers with 0",
        tensor.slot));
  }
  return notes;
}

void Call::find_operator() {
  // Not std::optional in every release.
  const auto found =
      c10::Dispatcher::singleton().findSchema({record_.op->name, record_.op->overload});
  if (!found.has_value()) {
    cannot(fmt::format("this recorder has no operator {}", record_.op->full_name()), kOwnRecorder);
  }
  op_ = *found;
  plan_ = &plans_.find(*op_);
  for (const core::Argument& argument : record_.arguments) {
    if (plan_->find(argument.name) >= 0) continue;
    cannot(
        fmt::format(
            "{} takes no argument `{}` in this LibTorch", record_.op->full_name(), argument.name),
        kOwnRecorder);
  }
}

const core::Value* Call::recorded(const std::string& name) const {
  const auto found = std::ranges::find(record_.arguments, name, &core::Argument::name);
  return found == record_.arguments.end() ? nullptr : &found->value;
}

std::vector<bool> Call::written_tensors() const {
  std::vector<bool> written(record_.tensors.size(), false);
  for (std::size_t i = 0; i < plan_->arguments.size(); ++i) {
    const bool statistic = std::ranges::find(plan_->running_stats, i) != plan_->running_stats.end();
    const core::Value* value = recorded(plan_->arguments[i].name);
    if (value == nullptr || !(plan_->arguments[i].written || statistic)) continue;
    for_each_tensor(*value, [&](std::uint32_t index) {
      const std::string part = record_.tensors.at(index).slot + '.';
      do {
        written[index] = true;
      } while (++index < written.size() && record_.tensors[index].slot.starts_with(part));
    });
  }
  return written;
}

torch::jit::Stack Call::arguments() const {
  torch::jit::Stack stack;
  const auto& schema = op_->schema().arguments();
  for (std::size_t i = 0; i < schema.size(); ++i) {
    if (const core::Value* value = recorded(schema[i].name())) {
      stack.push_back(
          arguments_->value(*value, schema[i].type(), plan_->arguments[i].meaning, generator_));
    } else if (schema[i].default_value()) {
      stack.push_back(*schema[i].default_value());
    } else {
      cannot(fmt::format("{} needs an argument `{}` in this LibTorch, and the record has none",
                         record_.op->full_name(),
                         schema[i].name()),
             kOwnRecorder);
    }
  }
  return stack;
}

const CallSink& Call::run() {
  arguments_->restart();
  sink_.clear();
  torch::jit::Stack stack = arguments();
  {
    const MovedGenerator moved(generator_, start_);
    const capture::Capture::Scope scope(capture_);
    try {
      op_->callBoxed(&stack);
    } catch (const std::exception& error) {
      throw core::Error(
          core::ErrorKind::kRunFailed,
          fmt::format(
              "op {} {}: {}", record_.index, record_.op->full_name(), capture::reason_of(error)));
    }
  }
  capture_.rethrow_failure();
  return sink_;
}

}  // namespace repro_check::replay
