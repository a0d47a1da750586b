// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <limits>
#include <utility>
#include <variant>

#include "core/error.h"
#include "core/tensor/tensor_view.h"
#include "dumpers/journal/detail/entry_fields.h"
#include "dumpers/journal/journal.h"

namespace repro_check::journal {
namespace {

constexpr std::size_t kLeastTensor = 4;

/// Definitions come numbered from 0, each once.
void expect_next(ByteReader& bytes, std::size_t expected) {
  if (bytes.varint() != expected) ByteReader::nonsense("defines a number out of turn");
}

template <typename Object>
void define(std::vector<std::shared_ptr<const Object>>& objects, ByteReader bytes) {
  expect_next(bytes, objects.size());
  auto object = std::make_shared<Object>();
  object_fields(bytes, *object);
  bytes.expect_end();
  objects.push_back(std::move(object));
}

void define(std::vector<std::string>& forms, ByteReader bytes) {
  expect_next(bytes, forms.size());
  if (forms.size() >= kMostForms) ByteReader::nonsense("defines more forms than are kept");
  if (bytes.size() > kLargestForm) {
    ByteReader::nonsense("defines a form that is too large to be shared");
  }
  forms.emplace_back(bytes.rest());
}

/// What the next reference refers to; null for kNothing.
template <typename Definition>
const Definition* find(const std::vector<Definition>& definitions, ByteReader& bytes) {
  const std::uint64_t reference = bytes.varint();
  if (reference == kNothing) return nullptr;
  if (reference > definitions.size()) ByteReader::nonsense("refers to what nobody has defined");
  return &definitions[static_cast<std::size_t>(reference - 1)];
}

template <typename Object>
std::shared_ptr<const Object> object(const std::vector<std::shared_ptr<const Object>>& objects,
                                     ByteReader& bytes) {
  const auto* found = find(objects, bytes);
  return found == nullptr ? nullptr : *found;
}

ByteReader form(const std::vector<std::string>& forms, ByteReader& bytes) {
  const std::string* known = find(forms, bytes);
  return ByteReader(known != nullptr ? std::string_view(*known) : bytes.text());
}

/// Elements of the content. @throws core::Error{kDumpDamaged} when the key makes no tensor
std::uint64_t elements_of(const core::ContentKey& key) {
  if (key.shape.size() > kMostDims) ByteReader::nonsense("keeps a tensor of too many dimensions");
  const auto elements = static_cast<std::uint64_t>(core::element_count(key.shape));
  std::uint64_t size = 0;
  if (key.dtype == core::Dtype::kUnknown ||
      __builtin_mul_overflow(elements, core::element_size(key.dtype), &size)) {
    ByteReader::nonsense("keeps what is no tensor");
  }
  return elements;
}

StoredContent stored_content(ByteReader bytes) {
  StoredContent content;
  content_fields(bytes, content);
  if (content.size != elements_of(content.key) * core::element_size(content.key.dtype)) {
    ByteReader::nonsense("keeps another number of bytes than dtype and shape make");
  }
  constexpr auto kEnd = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (content.offset > kEnd || content.size > kEnd - content.offset) {
    ByteReader::nonsense("keeps bytes where no file can have any");
  }
  if (content.place == ContentPlace::kReference && content.offset != 0) {
    ByteReader::nonsense("says where in another dump bytes are");
  }
  if (content.place == ContentPlace::kInline) {
    content.bytes = bytes.rest_of_bytes();
    if (content.bytes.size() != content.size || content.offset != 0) {
      ByteReader::nonsense("holds other bytes than it says");
    }
  }
  bytes.expect_end();
  return content;
}

SlicedContent sliced_content(ByteReader bytes) {
  SlicedContent content;
  sliced_fields(bytes, content);
  bytes.expect_end();
  if (!core::is_slice_of(content.slice, elements_of(content.key))) {
    ByteReader::nonsense("keeps an impossible slice");
  }
  return content;
}

}  // namespace

core::OpRecord JournalReader::record(std::span<const std::byte> payload) const {
  ByteReader bytes(payload);
  core::OpRecord record;
  ByteReader call = form(call_forms_, bytes);
  record.op = object(ops_, call);
  record.site = object(sites_, call);
  std::size_t values = 0;
  const std::uint64_t tensors = call_form(call, record, values);
  call.expect_end();
  call_rest(bytes, record);
  if (tensors > bytes.size() / kLeastTensor) ByteReader::nonsense("counts more than it holds");
  record.tensors.resize(tensors);
  for (core::TensorRecord& tensor : record.tensors) {
    ByteReader shared = form(tensor_forms_, bytes);
    tensor_form(shared, tensor);
    shared.expect_end();
    tensor_rest(bytes, tensor, record.index);
  }
  if (record.generator) generator_fields(bytes, *record.generator);
  bytes.expect_end();
  return record;
}

std::optional<Event> JournalReader::take(const Entry& entry) {
  ByteReader bytes(entry.payload);
  switch (entry.kind) {
    case EntryKind::kOperator:
      define(ops_, bytes);
      return std::nullopt;
    case EntryKind::kSite:
      define(sites_, bytes);
      return std::nullopt;
    case EntryKind::kCallForm:
      define(call_forms_, bytes);
      return std::nullopt;
    case EntryKind::kTensorForm:
      define(tensor_forms_, bytes);
      return std::nullopt;
    case EntryKind::kEnter: {
      EnteredOp entered;
      entered.op = object(ops_, bytes);
      entered.site = object(sites_, bytes);
      entered_fields(bytes, entered);
      bytes.expect_end();
      return entered;
    }
    case EntryKind::kRecord:
      return record(entry.payload);
    case EntryKind::kFail:
      return Failure{std::string(bytes.rest())};
    case EntryKind::kContent:
      return stored_content(bytes);
    case EntryKind::kBegun:
      return Begun{std::string(bytes.rest())};
    case EntryKind::kSlice:
      return sliced_content(bytes);
    case EntryKind::kReference: {
      Referred dump;
      bytes(dump.index_digest, dump.run_name);
      bytes.expect_end();
      return dump;
    }
    case EntryKind::kFinished:
      return Finished{std::string(bytes.rest())};
  }
  ByteReader::nonsense("is of a kind nobody knows");
}

std::optional<Event> JournalReader::checked(const Entry& entry) {
  try {
    return take(entry);
  } catch (const core::Error& failure) {
    throw core::Error(
        failure.kind(),
        fmt::format("{}: the entry at byte {} {}", entries_.path(), entry.offset, failure.what()),
        "record the run again");
  }
}

std::optional<Event> JournalReader::next_event() {
  while (const std::optional<Entry> entry = entries_.next()) {
    begin_ = entry->offset;
    end_ = entry->offset + sizeof(EntryHeader) + entry->payload.size();
    if (std::optional<Event> event = checked(*entry)) return event;
  }
  return std::nullopt;
}

std::optional<core::OpRecord> JournalReader::next() {
  while (std::optional<Event> event = next_event()) {
    if (auto* record = std::get_if<core::OpRecord>(&*event)) return std::move(*record);
  }
  return std::nullopt;
}

core::OpRecord JournalReader::record_at(std::uint64_t offset) {
  entries_.go_to(offset);
  const std::optional<Entry> entry = entries_.next();
  std::optional<Event> event;
  if (entry && entry->kind == EntryKind::kRecord) event = checked(*entry);
  if (!event) {
    throw core::Error(core::ErrorKind::kDumpDamaged,
                      fmt::format("{}: changed while it was read", entries_.path()));
  }
  return std::get<core::OpRecord>(std::move(*event));
}

}  // namespace repro_check::journal
