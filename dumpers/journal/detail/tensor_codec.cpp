// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/detail/tensor_codec.h"

#include "core/text/short_text.h"
#include "dumpers/journal/detail/journal_format.h"

namespace repro_check::journal {
namespace {

bool has_digest(const core::TensorRecord& tensor) noexcept {
  return tensor.digest != core::Digest{};
}

std::uint8_t flags_of(const core::TensorRecord& tensor) noexcept {
  std::uint8_t flags = 0;
  if (tensor.requires_grad) flags |= kFlagRequiresGrad;
  if (tensor.stored) flags |= kFlagStored;
  if (tensor.stats) flags |= kFlagStats;
  if (has_digest(tensor)) flags |= kFlagDigest;
  if (tensor.watch == core::InputWatch::kSteady) flags |= kFlagSteady;
  if (tensor.watch == core::InputWatch::kMoved) flags |= kFlagMoved;
  if (tensor.counted) flags |= kFlagCounted;
  if (tensor.counted && tensor.counted->any()) flags |= kFlagNonFinite;
  return flags;
}

core::InputWatch watch_of(std::uint8_t flags) noexcept {
  if ((flags & kFlagMoved) != 0) return core::InputWatch::kMoved;
  return (flags & kFlagSteady) != 0 ? core::InputWatch::kSteady : core::InputWatch::kNotWatched;
}

/// Wraps around, so that every pair of numbers comes back as it was.
std::int64_t distance(std::uint64_t index, std::int64_t producer) noexcept {
  return static_cast<std::int64_t>(index - static_cast<std::uint64_t>(producer));
}

}  // namespace

bool same_tensor_form(const core::TensorRecord& left, const core::TensorRecord& right) noexcept {
  return left.role == right.role && left.state == right.state && left.dtype == right.dtype &&
         flags_of(left) == flags_of(right) && core::same_sizes(left.shape, right.shape) &&
         core::same_sizes(left.strides, right.strides) && core::same_text(left.slot, right.slot) &&
         core::same_text(left.device, right.device) && core::same_text(left.layout, right.layout) &&
         core::same_text(left.attributes, right.attributes) &&
         core::same_text(left.name, right.name);
}

bool encode_tensor_form(const core::TensorRecord& tensor, EntryBuffer& form) {
  form.put(tensor.role);
  form.put(tensor.state);
  form.put(tensor.dtype);
  form.put(flags_of(tensor));
  form.put_text(tensor.slot);
  form.put_text(tensor.device);
  form.put_text(tensor.layout);
  form.put_text(tensor.attributes);
  form.put_text(tensor.name);
  form.put_sizes(tensor.shape);
  form.put_sizes(tensor.strides);
  return tensor.shape.size() + tensor.strides.size() <= kMostFormItems;
}

void encode_tensor_rest(const core::TensorRecord& tensor, std::uint64_t index, EntryBuffer& into) {
  EntryPen pen(into, sizeof(core::Digest) + 6 * kMostVarint + sizeof(core::TensorStats));
  if (has_digest(tensor)) {
    pen.put(tensor.digest.high);
    pen.put(tensor.digest.low);
  }
  pen.put_signed(tensor.storage_offset);
  pen.put_signed(tensor.storage);
  pen.put_signed(distance(index, tensor.producer));
  if (tensor.stats) pen.put(*tensor.stats);
  if (!tensor.counted || !tensor.counted->any()) return;
  pen.put_varint(tensor.counted->nans);
  pen.put_varint(tensor.counted->positive_infs);
  pen.put_varint(tensor.counted->negative_infs);
}

TensorForm decode_tensor_form(ByteReader& form) {
  TensorForm result;
  core::TensorRecord& tensor = result.tensor;
  tensor.role = form.enumerated(core::TensorRole::kOutput);
  tensor.state = form.enumerated(core::ContentState::kExcluded);
  tensor.dtype = form.enumerated(core::Dtype::kQInt32);
  const auto flags = form.get<std::uint8_t>();
  tensor.requires_grad = (flags & kFlagRequiresGrad) != 0;
  tensor.stored = (flags & kFlagStored) != 0;
  tensor.watch = watch_of(flags);
  result.has_stats = (flags & kFlagStats) != 0;
  result.has_non_finite = (flags & kFlagNonFinite) != 0;
  if ((flags & kFlagCounted) != 0) tensor.counted.emplace();
  result.has_digest = (flags & kFlagDigest) != 0;
  tensor.slot = form.text();
  tensor.device = form.text();
  tensor.layout = form.text();
  tensor.attributes = form.text();
  tensor.name = form.text();
  tensor.shape = form.sizes();
  tensor.strides = form.sizes();
  return result;
}

core::TensorRecord decode_tensor(const TensorForm& form, std::uint64_t index, ByteReader& bytes) {
  core::TensorRecord tensor = form.tensor;
  if (form.has_digest) {
    tensor.digest.high = bytes.get<std::uint64_t>();
    tensor.digest.low = bytes.get<std::uint64_t>();
  }
  tensor.storage_offset = bytes.signed_varint();
  tensor.storage = bytes.signed_varint();
  tensor.producer =
      static_cast<std::int64_t>(index - static_cast<std::uint64_t>(bytes.signed_varint()));
  if (form.has_stats) tensor.stats = bytes.get<core::TensorStats>();
  if (form.has_non_finite) {
    core::NonFinite& counted = tensor.counted.emplace();
    counted.nans = bytes.varint();
    counted.positive_infs = bytes.varint();
    counted.negative_infs = bytes.varint();
  }
  return tensor;
}

}  // namespace repro_check::journal
