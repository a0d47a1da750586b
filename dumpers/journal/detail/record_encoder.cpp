// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/detail/record_encoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "core/error.h"
#include "dumpers/journal/detail/journal_format.h"
#include "dumpers/journal/detail/tensor_codec.h"
#include "dumpers/journal/detail/value_codec.h"

namespace repro_check::journal {
namespace {

void encode_generator(const core::GeneratorUse& use, EntryBuffer& into) {
  into.put_text(use.device);
  into.put(use.seed);
  into.put(use.position_before);
  into.put(use.position_after);
  into.put_signed(use.drawn);
}

/// What a call form begins with.
void put_call_head(const core::OpRecord& record,
                   std::uint32_t op,
                   std::uint32_t site,
                   EntryBuffer& form) {
  constexpr std::size_t kNumbers = 7;
  EntryPen pen(form, sizeof(op) + sizeof(site) + 2 + kNumbers * kMostVarint);
  pen.put(op);
  pen.put(site);
  pen.put(record.phase);
  pen.put(static_cast<std::uint8_t>(record.generator ? 1 : 0));
  pen.put_varint(record.depth);
  pen.put_varint(record.rank);
  pen.put_varint(record.lane);
  pen.put_varint(record.tensors.size());
  pen.put_varint(record.arguments.size());
  pen.put_varint(record.results.size());
  pen.put_varint(record.substitutions.size());
}

void put_numbers(const core::OpRecord& record, EntryBuffer& into) {
  constexpr std::size_t kNumbers = 4;
  EntryPen pen(into, kNumbers * kMostVarint);
  pen.put_varint(record.index);
  pen.put_signed(record.parent);
  pen.put_varint(record.wall_ns);
  pen.put_varint(record.step);
}

}  // namespace

/// Fills form_ and scalars_.
/// @param op  number of the operator
/// @return whether the form is small enough to be shared
bool RecordEncoder::encode_call_form(const core::OpRecord& record, std::uint32_t op) {
  const std::uint32_t site = interner_.site(record.site);
  scalars_.begin(EntryKind::kRecord);
  form_.begin(EntryKind::kCallForm);
  put_call_head(record, op, site, form_);
  ValueEncoder values(form_, scalars_);
  for (const core::Argument& argument : record.arguments) {
    form_.put_text(argument.name);
    values.encode(argument.value);
  }
  for (const core::Value& result : record.results) values.encode(result);
  for (const core::Substitution& change : record.substitutions) {
    form_.put_text(change.argument);
    form_.put_text(change.from);
    form_.put_text(change.to);
    form_.put_text(change.reason);
  }
  if (values.count() > kMostValues || record.tensors.size() > kMostTensors) {
    throw core::Error(core::ErrorKind::kInternal,
                      fmt::format("op {} has {} values and {} tensors: more than a record takes",
                                  record.index,
                                  values.count(),
                                  record.tensors.size()));
  }
  return std::max(values.count(), record.tensors.size()) <= kMostFormItems;
}

/// The form is in form_.
void RecordEncoder::put_call_form(bool shared, RecentCall& recent, EntryBuffer& into) {
  if (recent.reference != kFormFollows && recent.form == form_.payload()) {
    into.put_varint(recent.reference);
    return;
  }
  const std::uint64_t reference = interner_.put_form(form_, shared, into);
  if (reference == kFormFollows) return;
  recent.reference = reference;
  recent.form.assign(form_.payload());
}

void RecordEncoder::put_tensor_form(const core::TensorRecord& tensor,
                                    RecentTensor& recent,
                                    EntryBuffer& into) {
  if (recent.reference != kFormFollows && same_tensor_form(tensor, recent.form)) {
    into.put_varint(recent.reference);
    return;
  }
  form_.begin(EntryKind::kTensorForm);
  const bool shared = encode_tensor_form(tensor, form_);
  const std::uint64_t reference = interner_.put_form(form_, shared, into);
  if (reference == kFormFollows) return;
  recent.reference = reference;
  recent.form = tensor;
}

void RecordEncoder::encode(const core::OpRecord& record, EntryBuffer& into) {
  const std::uint32_t op = interner_.op(record.op);
  const bool shared = encode_call_form(record, op);
  into.begin(EntryKind::kRecord);
  put_call_form(shared, recent_calls_[op % recent_calls_.size()], into);
  put_numbers(record, into);
  into.put_bytes(scalars_.payload());
  // Prime, so that the places of two operators rarely meet.
  constexpr std::uint32_t kPlaces = 7;
  std::uint32_t place = kPlaces * op;
  for (const core::TensorRecord& tensor : record.tensors) {
    put_tensor_form(tensor, recent_tensors_[place++ % recent_tensors_.size()], into);
    encode_tensor_rest(tensor, record.index, into);
  }
  if (record.generator) encode_generator(*record.generator, into);
}

void RecordEncoder::encode(const core::OpEntry& entry, EntryBuffer& into) {
  const std::uint32_t op = interner_.op(entry.op);
  const std::uint32_t site = interner_.site(entry.site);
  into.begin(EntryKind::kEnter);
  constexpr std::size_t kNumbers = 6;
  EntryPen pen(into, sizeof(op) + sizeof(site) + 1 + kNumbers * kMostVarint);
  pen.put(op);
  pen.put(site);
  pen.put(entry.phase);
  pen.put_varint(entry.index);
  pen.put_signed(entry.parent);
  pen.put_varint(entry.depth);
  pen.put_varint(entry.step);
  pen.put_varint(entry.rank);
  pen.put_varint(entry.lane);
}

}  // namespace repro_check::journal
