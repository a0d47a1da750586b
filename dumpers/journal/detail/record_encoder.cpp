// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/detail/record_encoder.h"

#include <fmt/format.h>

#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "dumpers/journal/detail/entry_fields.h"

namespace repro_check::journal {

std::uint64_t RecordEncoder::define(EntryKind kind,
                                    std::string_view body,
                                    const core::Digest& digest) {
  Numbers& numbers = numbers_.at(static_cast<std::size_t>(kind));
  const auto found = numbers.find(digest);
  if (found != numbers.end()) return found->second + std::uint64_t{1};
  const auto number = static_cast<std::uint32_t>(numbers.size());
  definition_.begin(kind);
  definition_(number);
  definition_.put_bytes(body);
  log_.append(definition_.finish());
  numbers.emplace(digest, number);
  return number + std::uint64_t{1};
}

/// The reference to an object that is pinned, else kNothing.
std::uint64_t RecordEncoder::pinned(const void* object) {
  const auto address = reinterpret_cast<std::uintptr_t>(object) / alignof(std::max_align_t);
  RecentPin& recent = recent_pins_[(address ^ (address >> 6U)) % recent_pins_.size()];
  if (recent.object != object) {
    const auto found = pins_.find(object);
    if (found == pins_.end()) return kNothing;
    recent = {object, found->second.reference};
  }
  return recent.reference;
}

template <typename Object>
std::uint64_t RecordEncoder::define_object(EntryKind kind, const Object& object) {
  body_.begin(kind);
  object_fields(body_, object);
  const std::string_view body = body_.payload();
  return define(kind, body, core::digest_leaf(std::as_bytes(std::span(body))));
}

template <typename Object>
std::uint64_t RecordEncoder::refer(EntryKind kind, const Object* object) {
  if (object == nullptr) return kNothing;
  const std::uint64_t known = pinned(object);
  return known != kNothing ? known : define_object(kind, *object);
}

template <typename Object>
std::uint64_t RecordEncoder::refer(EntryKind kind, const std::shared_ptr<const Object>& object) {
  if (object == nullptr) return kNothing;
  const std::uint64_t known = pinned(object.get());
  if (known != kNothing) return known;
  const std::uint64_t reference = define_object(kind, *object);
  pin(object, reference);
  return reference;
}

void RecordEncoder::pin(std::shared_ptr<const void> object, std::uint64_t reference) {
  // A recorder that makes a new object for every call must not be kept alive by us without end.
  constexpr std::size_t kMostPins = 1U << 16U;
  if (pins_.size() >= kMostPins) {
    pins_.clear();
    recent_pins_.fill({});
  }
  const void* address = object.get();
  pins_.insert_or_assign(address, Pin{reference, std::move(object)});
}

/// Refers to the form in form_; one that cannot be shared is written out.
/// @return what was put to refer to it, which may be put again
std::uint64_t RecordEncoder::put_form(EntryBuffer& into) {
  const std::string_view form = form_.payload();
  std::uint64_t reference = kNothing;
  if (form.size() <= kLargestForm) {
    const core::Digest digest = core::digest_leaf(std::as_bytes(std::span(form)));
    const Numbers& numbers = numbers_.at(static_cast<std::size_t>(form_.kind()));
    if (numbers.size() < kMostForms || numbers.contains(digest)) {
      reference = define(form_.kind(), form, digest);
    }
  }
  into(reference);
  if (reference == kNothing) into(form);
  return reference;
}

/// The form is in form_.
void RecordEncoder::put_call_form(RecentCall& recent, EntryBuffer& into) {
  if (recent.reference != kNothing && recent.form == form_.payload()) return into(recent.reference);
  recent.reference = put_form(into);
  recent.form.assign(form_.payload());
}

void RecordEncoder::put_tensor_form(const core::TensorRecord& tensor,
                                    RecentTensor& recent,
                                    EntryBuffer& into) {
  if (recent.reference != kNothing && same_form(tensor, recent.tensor)) {
    return into(recent.reference);
  }
  form_.begin(EntryKind::kTensorForm);
  tensor_form(form_, tensor);
  recent = {put_form(into), tensor};
}

void RecordEncoder::encode(const core::OpRecord& record, EntryBuffer& into) {
  const std::uint64_t op = refer(EntryKind::kOperator, record.op);
  const std::uint64_t site = refer(EntryKind::kSite, record.site);
  form_.begin(EntryKind::kCallForm);
  form_(op, site);
  std::size_t values = 0;
  const std::uint64_t tensors = call_form(form_, record, values);
  if (values > kMostValues || tensors > kMostTensors) {
    throw core::Error(core::ErrorKind::kInternal,
                      fmt::format("op {} has {} values and {} tensors: more than a record takes",
                                  record.index,
                                  values,
                                  tensors));
  }
  into.begin(EntryKind::kRecord);
  put_call_form(recent_calls_[op % recent_calls_.size()], into);
  call_rest(into, record);
  // Prime, so that the places of two operators rarely meet.
  constexpr std::uint64_t kPlaces = 7;
  std::uint64_t place = kPlaces * op;
  for (const core::TensorRecord& tensor : record.tensors) {
    put_tensor_form(tensor, recent_tensors_[place++ % recent_tensors_.size()], into);
    tensor_rest(into, tensor, record.index);
  }
  if (record.generator) generator_fields(into, *record.generator);
}

void RecordEncoder::encode(const core::OpEntry& entry, EntryBuffer& into) {
  const std::uint64_t op = refer(EntryKind::kOperator, entry.op);
  const std::uint64_t site = refer(EntryKind::kSite, entry.site);
  into.begin(EntryKind::kEnter);
  into(op, site);
  entered_fields(into, entry);
}

}  // namespace repro_check::journal
