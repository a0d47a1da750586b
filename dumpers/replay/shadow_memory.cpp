// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/shadow_memory.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "core/error.h"
#include "core/text/text.h"
#include "dumpers/replay/recorded_call.h"

namespace repro_check::replay {
namespace {

/// A forged record must not have us allocate what no machine has.
constexpr std::int64_t kMostNumbers = std::int64_t{1} << 40U;

std::int64_t numbers_per_element(const core::TensorRecord& tensor) {
  return core::is_complex(tensor.dtype) ? 2 : 1;
}

bool is_real_number(core::Dtype dtype) {
  return core::is_floating(dtype) && dtype != core::Dtype::kFloat4E2M1FNX2;
}

/// Two real dtypes, or a complex one and that of its parts, show the same numbers.
bool show_same_numbers(core::Dtype one, core::Dtype other) {
  const auto part = [](core::Dtype dtype) {
    if (dtype == core::Dtype::kComplex64) return core::Dtype::kFloat32;
    if (dtype == core::Dtype::kComplex128) return core::Dtype::kFloat64;
    return dtype == core::Dtype::kComplex32 ? core::Dtype::kFloat16 : dtype;
  };
  return part(one) == part(other);
}

/// Of a complex tensor with a last dimension of 2.
at::Tensor parts_shown(const at::Tensor& memory, const core::TensorRecord& tensor) {
  const bool empty = core::element_count(tensor.shape) == 0;
  const std::int64_t offset = empty ? 0 : tensor.storage_offset;
  if (!core::is_complex(tensor.dtype)) {
    return memory.as_strided(tensor.shape, tensor.strides, offset);
  }
  std::vector<std::int64_t> shape = tensor.shape;
  std::vector<std::int64_t> strides = tensor.strides;
  for (std::int64_t& stride : strides) stride *= 2;
  shape.push_back(2);
  strides.push_back(1);
  return memory.as_strided(shape, strides, 2 * offset);
}

double distance(const at::Tensor& one, const at::Tensor& other) {
  return at::nan_to_num(at::abs(one - other), 0.0, 0.0, 0.0).sum().item<double>();
}

}  // namespace

bool is_widened(const core::TensorRecord& tensor) {
  return (is_real_number(tensor.dtype) || core::is_complex(tensor.dtype)) &&
         tensor.layout == "strided" && tensor.attributes.empty() &&
         tensor.state != core::ContentState::kUndefined &&
         tensor.strides.size() == tensor.shape.size();
}

std::int64_t storage_of(const core::OpRecord& record, std::size_t tensor) {
  const std::int64_t storage = record.tensors[tensor].storage;
  return storage >= 0 ? storage : -1 - static_cast<std::int64_t>(tensor);
}

at::Tensor recorded_values(const core::DumpSource& dump, const core::TensorRecord& tensor) {
  if (tensor.state != core::ContentState::kHashed || !dump.has_content(tensor.content_key())) {
    cannot(fmt::format("the dump does not hold the values of {}", core::printable(tensor.slot)),
           "record with --level tensor");
  }
  const c10::ScalarType type = type_of(tensor);
  std::vector<std::byte> content;
  dump.read_content(tensor.content_key(), content);
  const at::Tensor flat = from_bytes(content, type, core::element_count(tensor.shape));
  return flat.to(wider(type)).reshape(tensor.shape);
}

at::Tensor shown(const at::Tensor& memory, const core::TensorRecord& tensor) {
  const at::Tensor parts = parts_shown(memory, tensor);
  return core::is_complex(tensor.dtype) ? at::view_as_complex(parts) : parts;
}

at::Tensor without_repeats(at::Tensor shown, const core::TensorRecord& tensor) {
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.strides[i] != 0 || tensor.shape[i] < 2) continue;
    shown = shown.narrow(static_cast<std::int64_t>(i), 0, 1);
  }
  return shown;
}

at::Tensor as_read(const at::Tensor& tensor, const at::Tensor& recorded) {
  const at::Tensor values = tensor.detach();
  const double apart = distance(values, recorded);
  // Rounding alone may have another sign than the recorded one: these are the same numbers.
  constexpr double kSameNumbers = 0.1;
  const double near = std::min(apart, kSameNumbers * distance(at::zeros_like(recorded), recorded));
  if (distance(values.neg(), recorded) < near) return tensor.neg();
  if (!tensor.is_complex()) return tensor;
  if (distance(at::conj_physical(values), recorded) < near) return at::conj_physical(tensor);
  return tensor;
}

std::int64_t numbers_needed(const core::TensorRecord& tensor) {
  if (core::element_count(tensor.shape) == 0) return 0;
  std::int64_t last = tensor.storage_offset;
  bool sane = last >= 0;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    std::int64_t span = 0;
    sane = sane && tensor.strides[i] >= 0 &&
           !__builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &span) &&
           !__builtin_add_overflow(last, span, &last) && last < kMostNumbers;
  }
  if (!sane) {
    throw core::damaged_dump("strides of " + core::printable(tensor.slot) + " are out of range");
  }
  return (last + 1) * numbers_per_element(tensor);
}

ShadowMemory::Storage& ShadowMemory::storage_for(const core::TensorRecord& tensor,
                                                 std::int64_t storage) {
  Storage& found = storages_[storage];
  if (found.values.defined() && !show_same_numbers(found.dtype, tensor.dtype)) found = Storage();
  if (!found.values.defined()) {
    found.dtype = tensor.dtype;
    found.values = at::empty({0}, at::kDouble);
  }
  const std::int64_t missing = numbers_needed(tensor) - found.values.numel();
  if (missing <= 0) return found;
  if (!found.known.defined()) found.known = at::ones({found.values.numel()}, at::kBool);
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const at::Tensor unknown = at::full({missing}, std::numeric_limits<double>::quiet_NaN(), options);
  found.values = at::cat({found.values, unknown});
  found.known = at::cat({found.known, at::zeros({missing}, at::kBool)});
  found.lent = false;
  return found;
}

void ShadowMemory::make_own(Storage& storage) {
  if (!storage.lent) return;
  storage.values = storage.values.clone();
  storage.lent = false;
}

bool ShadowMemory::knows(const Storage& storage, const core::TensorRecord& tensor) {
  return !storage.known.defined() || parts_shown(storage.known, tensor).all().item<bool>();
}

void ShadowMemory::mark_known(Storage& storage, const core::TensorRecord& tensor) {
  if (!storage.known.defined()) return;
  without_repeats(parts_shown(storage.known, tensor), tensor).fill_(true);
  if (storage.known.all().item<bool>()) storage.known = at::Tensor();
}

bool ShadowMemory::has_changed(const core::TensorRecord& tensor, std::int64_t storage) const {
  const auto found = seen_.find(storage);
  if (found == seen_.end() || tensor.state != core::ContentState::kHashed) return false;
  bool shown_before = false;
  for (const Seen& seen : found->second) {
    if (seen.offset != tensor.storage_offset || seen.shape != tensor.shape ||
        seen.strides != tensor.strides) {
      continue;
    }
    // The same memory may be shown conjugated, or negated, too.
    if (seen.digest == tensor.digest) return false;
    shown_before = true;
  }
  return shown_before;
}

ShadowMemory::Filled ShadowMemory::follow(const core::TensorRecord& tensor, std::int64_t storage) {
  const auto found = storages_.find(storage);
  if (found == storages_.end() || !show_same_numbers(found->second.dtype, tensor.dtype) ||
      !has_changed(tensor, storage)) {
    return Filled::kNothing;
  }
  const bool was_computed = found->second.computed;
  put_recorded(tensor, storage);
  return was_computed ? Filled::kCut : Filled::kOutside;
}

bool ShadowMemory::holds(const core::TensorRecord& tensor, std::int64_t storage) const {
  const auto found = storages_.find(storage);
  return found != storages_.end() && show_same_numbers(found->second.dtype, tensor.dtype) &&
         numbers_needed(tensor) <= found->second.values.numel() && knows(found->second, tensor);
}

ShadowMemory::Filled ShadowMemory::fill(const core::TensorRecord& tensor, std::int64_t storage) {
  const Filled followed = follow(tensor, storage);
  if (followed != Filled::kNothing) return followed;
  const auto before = storages_.find(storage);
  const bool shows_others =
      before != storages_.end() && !show_same_numbers(before->second.dtype, tensor.dtype);
  const bool was_computed = before != storages_.end() && before->second.computed;
  Storage& found = storage_for(tensor, storage);
  if (tensor.state == core::ContentState::kUninitialised) return Filled::kNothing;
  if (knows(found, tensor)) {
    saw(tensor, storage);
    return Filled::kNothing;
  }
  const at::Tensor values = recorded_values(dump_, tensor);
  make_own(found);
  const at::Tensor numbers = core::is_complex(tensor.dtype) ? at::view_as_real(values) : values;
  const at::Tensor here = parts_shown(found.values, tensor);
  const at::Tensor known = parts_shown(found.known, tensor);
  const bool has_made = tensor.producer != core::kNoProducer && !known.any().item<bool>();
  without_repeats(here, tensor).copy_(without_repeats(at::where(known, here, numbers), tensor));
  mark_known(found, tensor);
  saw(tensor, storage);
  return (shows_others ? was_computed : has_made) ? Filled::kCut : Filled::kOutside;
}

at::Tensor ShadowMemory::view(const core::TensorRecord& tensor, std::int64_t storage) {
  return shown(storage_for(tensor, storage).values, tensor);
}

at::Tensor ShadowMemory::lend(std::int64_t storage) {
  const auto found = storages_.find(storage);
  if (found == storages_.end()) return {};
  found->second.lent = true;
  return found->second.values;
}

void ShadowMemory::own(std::int64_t storage) {
  const auto found = storages_.find(storage);
  if (found != storages_.end()) make_own(found->second);
}

void ShadowMemory::put(const core::TensorRecord& tensor,
                       std::int64_t storage,
                       const at::Tensor& values) {
  Storage& found = storage_for(tensor, storage);
  if (!values.is_alias_of(found.values)) {
    make_own(found);
    without_repeats(shown(found.values, tensor), tensor).copy_(without_repeats(values, tensor));
  }
  wrote(tensor, storage);
}

void ShadowMemory::wrote(const core::TensorRecord& tensor, std::int64_t storage) {
  Storage& found = storage_for(tensor, storage);
  mark_known(found, tensor);
  found.computed = true;
  seen_.erase(storage);
}

void ShadowMemory::put_recorded(const core::TensorRecord& tensor, std::int64_t storage) {
  if (tensor.state != core::ContentState::kHashed || !dump_.has_content(tensor.content_key())) {
    return forget(storage);
  }
  const bool was_computed = is_computed(storage);
  put(tensor, storage, recorded_values(dump_, tensor));
  saw(tensor, storage);
  Storage& found = storages_.at(storage);
  const bool is_all =
      core::element_count(tensor.shape) * numbers_per_element(tensor) >= found.values.numel();
  found.computed = was_computed && !is_all;
}

void ShadowMemory::saw(const core::TensorRecord& tensor, std::int64_t storage) {
  if (tensor.state != core::ContentState::kHashed) return;
  std::vector<Seen>& seen = seen_[storage];
  const bool known = std::ranges::any_of(seen, [&](const Seen& other) {
    return other.offset == tensor.storage_offset && other.shape == tensor.shape &&
           other.strides == tensor.strides && other.digest == tensor.digest;
  });
  if (!known) seen.push_back({tensor.shape, tensor.strides, tensor.storage_offset, tensor.digest});
}

bool ShadowMemory::is_computed(std::int64_t storage) const {
  const auto found = storages_.find(storage);
  return found != storages_.end() && found->second.computed;
}

}  // namespace repro_check::replay
