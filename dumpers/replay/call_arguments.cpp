// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/call_arguments.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "core/tensor/tensor_record.h"
#include "core/text/text.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::replay {
namespace {

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

/// Where the tensor was when it was recorded.
c10::Device device_of(const core::TensorRecord& tensor) {
  const c10::Device device(tensor.device);
  if (!device.is_cpu() && !has_device(device)) {
    cannot(fmt::format("argument {} was on {}, which is not here", tensor.slot, tensor.device),
           "replay it where it was recorded, or add --device cpu");
  }
  return device;
}

/// The same numbers in new memory, behind so many bytes, or one element if those are more.
at::Tensor shifted(const at::Tensor& content, std::int64_t shift) {
  const auto size = static_cast<std::int64_t>(content.element_size());
  const std::int64_t before = std::max<std::int64_t>(1, shift / size);
  const at::Tensor place = at::empty({before + content.numel()}, content.options());
  return place.narrow(0, before, content.numel()).copy_(content);
}

bool may_be_number(const core::TensorRecord& tensor) {
  using enum core::Dtype;
  return core::is_input(tensor) && tensor.shape.empty() && tensor.device == "cpu" &&
         tensor.producer == core::kNoProducer &&
         (tensor.dtype == kFloat64 || tensor.dtype == kInt64 || tensor.dtype == kComplex128);
}

/// Whether the last bit of its numbers can be another.
bool has_last_bits(const at::Tensor& content) {
  const c10::ScalarType type = content.scalar_type();
  return content.numel() > 0 &&
         (type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16);
}

/// Each number with another last bit, but for infinities, NaN and small whole numbers, which are
/// exact: those of masks, counts and labels.
at::Tensor nudged(const at::Tensor& content) {
  const std::map<std::int64_t, c10::ScalarType> integers{
      {2, at::kShort}, {4, at::kInt}, {8, at::kLong}};
  const c10::ScalarType bits = integers.at(static_cast<std::int64_t>(content.element_size()));
  const at::Tensor turned = content.view(bits).bitwise_xor(1).view(content.scalar_type());
  constexpr int kExact = 16;
  const at::Tensor numbers = content.to(at::kDouble);
  const at::Tensor exact = numbers.eq(numbers.round()).logical_and(numbers.abs().le(kExact));
  return at::where(numbers.isfinite().logical_and(exact.logical_not()), turned, content);
}

}  // namespace

bool has_device(const c10::Device& device) {
  try {
    // The one way to learn it that every release and device has.
    at::empty({1}, at::TensorOptions().device(device));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

CallArguments::CallArguments(const core::DumpSource& dump,
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
}

void CallArguments::show(std::size_t index, const ArgumentChange& change) {
  const Memory& memory = memories_[index];
  at::Tensor current = memory.original;
  if (change.shift != 0) {
    current = shifted(current, change.shift);
  } else if (change.nudged == index) {
    current = nudged(current);
  } else if (memory.written) {
    current = current.clone();
  }
  for (const std::uint32_t member : memory.storage.tensors) {
    const core::TensorRecord& tensor = record_.tensors[member];
    const bool empty = core::element_count(tensor.shape) == 0;
    // No view, which some operators refuse to write.
    tensors_[member] = at::empty({0}, current.options())
                           .set_(current.storage(),
                                 current.storage_offset() +
                                     (empty ? 0 : tensor.storage_offset - memory.storage.first),
                                 tensor.shape,
                                 tensor.strides);
    if (are_numbers_ && may_be_number(tensor)) {
      tensors_[member].unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    // Without gradients, too: a product decides by it how it is computed.
    const bool differentiable = core::is_floating(tensor.dtype) || core::is_complex(tensor.dtype);
    if (tensor.requires_grad && differentiable && !memory.written) {
      tensors_[member] = tensors_[member].detach().requires_grad_(true);
    }
  }
}

void CallArguments::restart(const ArgumentChange& change) {
  const bool is_new = change_ != change;
  for (std::size_t i = 0; i < memories_.size(); ++i) {
    if (is_new || memories_[i].written) show(i, change);
  }
  change_ = change;
  for (std::size_t i = 0; i < wholes_.size(); ++i) {
    const core::TensorRecord& tensor = record_.tensors[i];
    const bool whole = core::is_composed(tensor) || core::is_quantised(tensor.dtype);
    if (!whole || tensor.role != core::TensorRole::kInput) continue;
    if (is_new || written_[i]) wholes_[i] = make_whole(i);
  }
}

bool CallArguments::take_for_numbers() {
  are_numbers_ = std::ranges::any_of(record_.tensors, &may_be_number);
  change_.reset();
  return are_numbers_;
}

std::vector<CallArguments::Nudge> CallArguments::nudges() const {
  std::vector<Nudge> nudges;
  for (std::size_t i = 0; i < memories_.size(); ++i) {
    const Memory& memory = memories_[i];
    const core::TensorRecord& first = record_.tensors[memory.storage.tensors.front()];
    const bool is_read = std::ranges::any_of(memory.storage.tensors, [&](std::uint32_t member) {
      return core::reads_values(*record_.op, record_.tensors[member].slot);
    });
    if (!is_read || !has_last_bits(memory.original)) continue;
    const at::Tensor numbers = memory.original.to(at::kDouble).nan_to_num(0, 0, 0);
    const at::Tensor moved = nudged(memory.original).to(at::kDouble).nan_to_num(0, 0, 0);
    const auto whole = numbers.norm().item<double>();
    if (whole == 0) continue;
    nudges.push_back({i, first.slot, (moved - numbers).norm().item<double>() / whole});
  }
  return nudges;
}

ArgumentSource CallArguments::source(at::Generator generator) const {
  const auto tensor = [this](std::uint32_t index) {
    const at::Tensor& whole = wholes_.at(index);
    return whole.defined() ? whole : tensors_[index];
  };
  return {options_, tensor, std::move(generator)};
}

at::Tensor CallArguments::make_whole(std::size_t index) const {
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

}  // namespace repro_check::replay
