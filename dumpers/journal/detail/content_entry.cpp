// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/detail/content_entry.h"

#include <fmt/format.h>

#include <limits>

#include "core/error.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_view.h"
#include "dumpers/journal/detail/byte_reader.h"
#include "dumpers/journal/detail/journal_format.h"
#include "dumpers/journal/journal.h"

namespace repro_check::journal {
namespace {

/// Bytes that dtype and shape make. @throws core::Error{kDumpDamaged} when they make no tensor
std::uint64_t size_of(const core::ContentKey& key) {
  if (key.shape.size() > kMostDims) ByteReader::nonsense("keeps a tensor of too many dimensions");
  const auto elements = static_cast<std::uint64_t>(core::element_count(key.shape));
  std::uint64_t size = 0;
  if (key.dtype == core::Dtype::kUnknown ||
      __builtin_mul_overflow(elements, core::element_size(key.dtype), &size)) {
    ByteReader::nonsense("keeps what is no tensor");
  }
  return size;
}

void put_key(const core::ContentKey& key, EntryBuffer& into) {
  into.put(key.digest.high);
  into.put(key.digest.low);
  into.put_sizes(key.shape);
}

void read_key(ByteReader& bytes, core::ContentKey& into) {
  into.digest.high = bytes.get<std::uint64_t>();
  into.digest.low = bytes.get<std::uint64_t>();
  into.shape = bytes.sizes();
}

void put_head(const core::ContentKey& key,
              ContentPlace place,
              std::uint64_t offset,
              EntryBuffer& into) {
  into.begin(EntryKind::kContent);
  into.put(key.dtype);
  into.put(place);
  put_key(key, into);
  into.put(size_of(key));
  into.put(offset);
}

}  // namespace

void encode_inline(const core::ContentKey& key,
                   std::span<const std::byte> bytes,
                   EntryBuffer& into) {
  if (bytes.size() > kLargestInline || bytes.size() != size_of(key)) {
    throw core::Error(
        core::ErrorKind::kInternal,
        fmt::format("content {} was handed {} bytes", core::content_name(key), bytes.size()));
  }
  put_head(key, ContentPlace::kInline, 0, into);
  into.put_bytes(bytes);
}

void encode_elsewhere(const core::ContentKey& key,
                      ContentPlace place,
                      std::uint64_t offset,
                      EntryBuffer& into) {
  put_head(key, place, offset, into);
}

StoredContent decode_content(std::span<const std::byte> payload) {
  ByteReader bytes(payload);
  StoredContent content;
  content.key.dtype = bytes.enumerated(core::Dtype::kQInt32);
  content.place = bytes.enumerated(ContentPlace::kReference);
  read_key(bytes, content.key);
  content.size = bytes.get<std::uint64_t>();
  content.offset = bytes.get<std::uint64_t>();
  if (content.size != size_of(content.key)) {
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

void encode_sliced(const SlicedContent& content, EntryBuffer& into) {
  into.begin(EntryKind::kSlice);
  into.put(content.key.dtype);
  put_key(content.key, into);
  into.put(content.slice.elements);
  into.put(content.slice.stride);
  into.put(content.slice.digest.high);
  into.put(content.slice.digest.low);
}

SlicedContent decode_sliced(std::span<const std::byte> payload) {
  ByteReader bytes(payload);
  SlicedContent content;
  content.key.dtype = bytes.enumerated(core::Dtype::kQInt32);
  read_key(bytes, content.key);
  content.slice.elements = bytes.get<std::uint64_t>();
  content.slice.stride = bytes.get<std::uint64_t>();
  content.slice.digest.high = bytes.get<std::uint64_t>();
  content.slice.digest.low = bytes.get<std::uint64_t>();
  bytes.expect_end();
  static_cast<void>(size_of(content.key));
  const auto total = static_cast<std::uint64_t>(core::element_count(content.key.shape));
  if (!core::is_slice_of(content.slice, total)) ByteReader::nonsense("keeps an impossible slice");
  return content;
}

}  // namespace repro_check::journal
