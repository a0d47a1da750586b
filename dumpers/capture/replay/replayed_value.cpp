// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/replay/replayed_value.h"

#include <ATen/ATen.h>
#include <ATen/core/Generator.h>
#include <ATen/core/class_type.h>
#include <ATen/core/jit_type.h>
#include <fmt/format.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/tensor/tensor_view.h"
#include "dumpers/capture/replay/replayed_whole.h"
#include "dumpers/capture/tensors/packed_object.h"
#include "dumpers/capture/torch/torch_names.h"

namespace repro_check::capture {
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
  const auto type = scalar_type_of(tensor.dtype);
  if (!type) {
    throw_not_replayable(
        fmt::format(
            "argument {}: this LibTorch has no {}", tensor.slot, core::dtype_name(tensor.dtype)),
        "use the recorder that made the dump: --recorder");
  }
  return *type;
}

/// The number behind a name that the recorder wrote in its place.
std::int64_t number_of(const core::Symbol& symbol,
                       IntegerMeaning meaning,
                       const RebuildOptions& options) {
  constexpr int kKinds = 64;
  for (int i = 0; i < kKinds; ++i) {
    if (meaning == IntegerMeaning::kMemoryFormat &&
        i < static_cast<int>(c10::MemoryFormat::NumOptions) &&
        memory_format_name(static_cast<c10::MemoryFormat>(i)) == symbol.name) {
      return i;
    }
    if (meaning == IntegerMeaning::kLayout && i < static_cast<int>(c10::Layout::NumOptions) &&
        layout_name(static_cast<c10::Layout>(i)) == symbol.name) {
      return i;
    }
    if (meaning == IntegerMeaning::kScalarType &&
        i < static_cast<int>(c10::ScalarType::NumOptions)) {
      const auto type = static_cast<c10::ScalarType>(i);
      if (scalar_type_name(type) == symbol.name) {
        return static_cast<std::int64_t>(options.float64 ? wider(type) : type);
      }
    }
  }
  throw_not_replayable("this LibTorch does not know `" + symbol.name + "`, which an argument was",
                       "use the recorder that made the dump: --recorder");
}

class Rebuilder {
 public:
  Rebuilder(IntegerMeaning meaning,
            const ReplayedTensors& tensors,
            const at::Generator* generator,
            const RebuildOptions& options)
      : meaning_(meaning), tensors_(tensors), generator_(generator), options_(options) {}

  [[nodiscard]] c10::IValue build(const core::Value& value, const c10::TypePtr& type) const {
    if (std::holds_alternative<std::monostate>(value.data)) return {};
    if (const auto optional = type->cast<c10::OptionalType>()) {
      return build(value, optional->getElementType());
    }
    return std::visit([&](const auto& data) { return from(data, type); }, value.data);
  }

 private:
  static c10::IValue from(std::monostate /*none*/, const c10::TypePtr& /*type*/) { return {}; }
  static c10::IValue from(bool data, const c10::TypePtr& /*type*/) { return data; }
  static c10::IValue from(std::int64_t data, const c10::TypePtr& type) {
    if (type->kind() == c10::TypeKind::FloatType) return static_cast<double>(data);
    return data;
  }
  static c10::IValue from(double data, const c10::TypePtr& /*type*/) { return data; }
  static c10::IValue from(const std::complex<double>& data, const c10::TypePtr& /*type*/) {
    return c10::complex<double>(data.real(), data.imag());
  }
  static c10::IValue from(const std::string& data, const c10::TypePtr& /*type*/) { return data; }

  [[nodiscard]] c10::IValue from(const core::Symbol& data, const c10::TypePtr& type) const {
    if (type->kind() != c10::TypeKind::DeviceObjType) return number_of(data, meaning_, options_);
    return options_.device ? *options_.device : c10::Device(data.name);
  }

  [[nodiscard]] c10::IValue from(const core::TensorSlot& data, const c10::TypePtr& /*type*/) const {
    return tensors_.tensor(data.index);
  }

  [[nodiscard]] c10::IValue from(const core::Opaque& data, const c10::TypePtr& type) const {
    if (type->kind() == c10::TypeKind::GeneratorType && generator_ != nullptr) return *generator_;
    throw_not_replayable(
        "an argument is a " + data.type + ", of which a record only knows the type",
        "nothing to be done: replay another operator");
  }

  [[nodiscard]] c10::IValue from(const core::ValueList& data, const c10::TypePtr& type) const {
    if (const auto packed = type->cast<c10::ClassType>()) return packed_from(data, packed);
    const auto list = type->cast<c10::ListType>();
    if (!list) {
      throw_not_replayable("an argument is a " + type->str() + ", which cannot be made again",
                           "nothing to be done: replay another operator");
    }
    c10::impl::GenericList items(list->getElementType());
    items.reserve(data.items.size());
    for (const core::Value& item : data.items) {
      items.push_back(build(item, list->getElementType()));
    }
    return items;
  }

  /// Packs the weights of a quantised layer again, from the state in the record.
  [[nodiscard]] c10::IValue packed_from(const core::ValueList& data,
                                        const c10::ClassTypePtr& type) const {
    const auto* name =
        data.items.empty() ? nullptr : std::get_if<core::Symbol>(&data.items.front().data);
    const std::string known = packed_class_name(*type);
    const auto state = known.empty() ? nullptr : type_of_state(type)->cast<c10::TupleType>();
    if (name == nullptr || name->name != known || !state ||
        state->elements().size() + 1 != data.items.size()) {
      cannot("an argument is a " + (name == nullptr ? known : name->name) +
                 ", which this LibTorch packs from something else than the record holds",
             "use the recorder that made the dump: --recorder");
    }
    std::vector<c10::IValue> items;
    for (std::size_t i = 1; i < data.items.size(); ++i) {
      items.push_back(build(data.items[i], state->elements()[i - 1]));
    }
    try {
      return pack(type, c10::ivalue::Tuple::create(std::move(items)));
    } catch (const c10::Error& error) {
      const std::string text = error.what_without_backtrace();
      cannot("an argument is a " + known +
                 ", which cannot be packed again: " + text.substr(0, text.find('\n')),
             "use a recorder that has the engine it was packed for");
    }
  }

  IntegerMeaning meaning_;
  const ReplayedTensors& tensors_;
  const at::Generator* generator_;
  const RebuildOptions& options_;
};

}  // namespace

ReplayedTensors::ReplayedTensors(const core::DumpSource& dump,
                                 const core::OpRecord& record,
                                 const std::vector<bool>& written,
                                 const RebuildOptions& options)
    : record_(record),
      tensors_(record.tensors.size()),
      wholes_(record.tensors.size()),
      written_(written),
      device_(options.device.value_or(c10::Device(c10::kCPU))) {
  for (core::InputStorage& storage : core::input_storages(record)) {
    Memory& memory = memories_.emplace_back();
    const c10::ScalarType type = type_of(record.tensors[storage.tensors.front()]);
    memory.original =
        from_bytes(core::read_input_storage(dump, record, storage), type, storage.count);
    if (options.float64) memory.original = memory.original.to(wider(type));
    if (options.device) memory.original = memory.original.to(*options.device);
    memory.written =
        std::ranges::any_of(storage.tensors, [&](std::uint32_t member) { return written[member]; });
    memory.storage = std::move(storage);
  }
  restart();
}

void ReplayedTensors::restart() {
  for (Memory& memory : memories_) {
    if (memory.current.defined() && !memory.written) continue;
    memory.current = memory.written ? memory.original.clone() : memory.original;
    for (const std::uint32_t member : memory.storage.tensors) {
      const core::TensorRecord& tensor = record_.tensors[member];
      const bool empty = core::element_count(tensor.shape) == 0;
      tensors_[member] = memory.current.as_strided(
          tensor.shape, tensor.strides, empty ? 0 : tensor.storage_offset - memory.storage.first);
      const bool differentiable = core::is_floating(tensor.dtype) || core::is_complex(tensor.dtype);
      if (tensor.requires_grad && differentiable && !memory.written && at::GradMode::is_enabled()) {
        tensors_[member] = tensors_[member].detach().requires_grad_(true);
      }
    }
  }
  for (std::size_t i = 0; i < wholes_.size(); ++i) {
    const core::TensorRecord& tensor = record_.tensors[i];
    const bool whole = core::is_composed(tensor) || core::is_quantised(tensor.dtype);
    if (!whole || tensor.role != core::TensorRole::kInput) continue;
    if (!wholes_[i].defined() || written_[i]) wholes_[i] = make_whole(i);
  }
}

at::Tensor ReplayedTensors::make_whole(std::size_t index) const {
  const core::TensorRecord& tensor = record_.tensors[index];
  const auto part = [&](const std::string& ending) {
    const std::string slot = tensor.slot + '.' + ending;
    for (std::size_t i = index + 1; i < record_.tensors.size(); ++i) {
      const core::TensorRecord& other = record_.tensors[i];
      if (other.role == tensor.role && other.slot == slot) return tensors_[i];
    }
    return at::Tensor();
  };
  return whole_from_parts(tensor, tensors_[index], part, device_);
}

const at::Tensor& ReplayedTensors::tensor(std::uint32_t index) const {
  const at::Tensor& whole = wholes_.at(index);
  return whole.defined() ? whole : tensors_.at(index);
}

at::Tensor stored_tensor(const core::DumpSource& dump, const core::TensorRecord& tensor) {
  const auto type = scalar_type_of(tensor.dtype);
  const bool readable = tensor.state == core::ContentState::kHashed && type &&
                        !core::is_quantised(tensor.dtype) && dump.has_content(tensor.content_key());
  if (!readable) return {};
  std::vector<std::byte> content;
  dump.read_content(tensor.content_key(), content);
  return from_bytes(content, *type, core::element_count(tensor.shape)).view(tensor.shape);
}

void throw_not_replayable(const std::string& what, const std::string& hint) {
  throw core::Error(core::ErrorKind::kNotComparable, what, hint);
}

c10::IValue rebuild_value(const core::Value& value,
                          const c10::TypePtr& type,
                          IntegerMeaning meaning,
                          const ReplayedTensors& tensors,
                          const at::Generator* generator,
                          const RebuildOptions& options) {
  return Rebuilder(meaning, tensors, generator, options).build(value, type);
}

}  // namespace repro_check::capture
