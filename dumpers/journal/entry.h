// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.h"
#include "core/tensor/content.h"
#include "core/tensor/tensor_record.h"
#include "core/text/short_text.h"
#include "core/trace/op_record.h"

namespace repro_check::journal {

/// The files of a recording, in its directory.
inline constexpr const char* kJournalName = "journal.bin";
inline constexpr const char* kContentsName = "contents.bin";

/// Contents up to this size belong into the journal; it takes none above kLargestInline.
inline constexpr std::size_t kSmallContent = std::size_t{32} << 10U;
inline constexpr std::size_t kLargestInline = std::size_t{16} << 20U;

/// Lists in lists in an argument are kept this deep; a deeper one becomes core::Opaque.
inline constexpr int kMaxListDepth = 64;

struct Failure {
  std::string message;
};

/// Where the bytes of a content are. The files stand in the directory of the journal; an entry
/// names a file of this list only, never a path.
enum class ContentPlace : std::uint8_t {
  kInline = 0,     ///< in the entry
  kTrace = 1,      ///< in trace.h5
  kContents = 2,   ///< in contents.bin
  kReference = 3,  ///< in none of ours: in the dump that Referred names
};

/// The recording refers to contents of this dump instead of keeping them itself.
struct Referred {
  core::Digest index_digest;
  std::string run_name;
  bool operator==(const Referred&) const = default;
};

/// A content that the recording keeps. That its bytes have arrived where they are said to be is
/// not promised: who reads them holds them against key.digest.
struct StoredContent {
  core::ContentKey key;
  ContentPlace place = ContentPlace::kInline;
  std::uint64_t offset = 0;          ///< in that file; 0 inline and in a reference
  std::uint64_t size = 0;            ///< what dtype and shape of the key make
  std::span<const std::byte> bytes;  ///< inline: borrowed until the next entry is read
};

/// A content of which only a slice is kept: as the content core::slice_key() of the two.
struct SlicedContent {
  core::ContentKey key;
  core::ContentSlice slice;
};

/// What was known of the run before its first operator.
struct Begun {
  std::string manifest;  ///< text of the manifest
};

/// The recording has come to its end.
struct Finished {
  std::string manifest;
};

/// What happened in a recording, in order: a head is an operator entered.
using Event = std::variant<core::OpRecord,
                           core::OpHead,
                           Failure,
                           StoredContent,
                           Begun,
                           Finished,
                           Referred,
                           SlicedContent>;

static_assert(std::endian::native == std::endian::little, "the journal is little-endian");

inline constexpr std::array<char, 8> kMagic{'R', 'C', 'J', 'O', 'U', 'R', 'N', '\n'};
/// Raised by every change to what an entry's bytes mean. A journal of another version is refused:
/// what recorded it reads it.
inline constexpr std::uint32_t kJournalVersion = 4;

struct FileHeader {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kJournalVersion;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(FileHeader) == 16);

enum class EntryKind : std::uint32_t {
  kOperator = 1,    ///< number, then what an operator consists of
  kSite = 2,        ///< number, then what a site consists of
  kTensorForm = 3,  ///< number, then what tensors of many records have in common
  kCallForm = 4,    ///< number, then what many records have in common
  kEnter = 5,       ///< operator, site, and what places the call among others
  kRecord = 6,      ///< one OpRecord
  kFail = 7,        ///< the bytes of the message
  kContent = 8,     ///< place, key, size, offset, and the bytes where the place is kInline
  kFinished = 9,    ///< the bytes of the manifest
  kBegun = 10,      ///< the bytes of a manifest, as far as it is known
  kReference = 11,  ///< index digest of the dump referred to, the name of its run
  kSlice = 12,      ///< key of a content, elements and stride of what is kept of it, its digest
};
inline constexpr std::size_t kLastDefinition = static_cast<std::size_t>(EntryKind::kCallForm);

/// Before every payload. The checksum covers all that follows it: length, kind and payload. No kind
/// is 0, so the zeros after the last entry are no entry.
struct EntryHeader {
  std::uint64_t checksum = 0;
  std::uint32_t length = 0;  ///< of the payload, in bytes, without the padding behind it
  std::uint32_t kind = 0;
};
static_assert(sizeof(EntryHeader) == 16);

inline constexpr std::size_t kChecksummedFrom = sizeof(std::uint64_t);
inline constexpr std::size_t kAlignment = 8;

/// Dimensions of a tensor that are believed; LibTorch has 64 at most.
inline constexpr std::size_t kMostDims = 1024;

constexpr std::size_t padded(std::size_t size) noexcept {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

/// Operators, sites and forms are referred to by their number plus one. kNothing is no operator and
/// no site; in place of a form it says that the form itself follows, its length and its bytes.
inline constexpr std::uint64_t kNothing = 0;
/// No more forms of a kind are kept, so that a trace in which everything changes all the time does
/// not fill the memory of whoever writes or reads it.
inline constexpr std::size_t kMostForms = std::size_t{1} << 16U;
/// A form is kept only up to this size: a short record that names a huge form would let a small
/// hostile file ask for hours of copying.
inline constexpr std::size_t kLargestForm = 512;
/// What one call may have: far beyond what any has, and little enough to be asked for.
inline constexpr std::size_t kMostValues = std::size_t{1} << 22U;
inline constexpr std::size_t kMostTensors = std::size_t{1} << 20U;

/// LEB128: seven bits a byte, the lowest first.
/// @param at  with room for ten bytes
/// @return behind what was written
inline std::byte* write_varint(std::byte* at, std::uint64_t value) noexcept {
  constexpr unsigned kMore = 0x80;
  while (value >= kMore) {
    *at++ = static_cast<std::byte>(static_cast<std::uint8_t>(value | kMore));
    value >>= 7U;
  }
  *at++ = static_cast<std::byte>(value);
  return at;
}

/// One entry being put together, header included. Kept between entries, so that its memory is
/// asked for once.
class EntryBuffer {
 public:
  static constexpr bool kReads = false;

  void begin(EntryKind kind) noexcept {
    kind_ = kind;
    size_ = sizeof(EntryHeader);
  }

  /// Adds fields, each spelled as its type has it; ByteReader is the inverse. Room for all of them
  /// is asked for once: this runs for every member of every record.
  template <typename... Fields>
  void operator()(const Fields&... fields) {
    std::byte* at = reserve((most_bytes(fields) + ...));
    ((at = write(at, fields)), ...);
    size_ = static_cast<std::size_t>(at - bytes_.data());
  }

  void put_bytes(std::span<const std::byte> bytes) {
    std::byte* to = reserve(bytes.size());
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    size_ += bytes.size();
  }
  void put_bytes(std::string_view text) { put_bytes(std::as_bytes(std::span(text))); }

  [[nodiscard]] EntryKind kind() const noexcept { return kind_; }
  [[nodiscard]] std::string_view payload() const noexcept {
    return {reinterpret_cast<const char*>(bytes_.data()) + sizeof(EntryHeader),
            size_ - sizeof(EntryHeader)};
  }

  /// The entry as it goes into the file, padding included; valid until the next begin() or field.
  std::span<const std::byte> finish();

 private:
  static constexpr std::size_t kMostVarint = 10;

  static std::size_t most_bytes(std::string_view text) noexcept {
    return kMostVarint + text.size();
  }
  static std::size_t most_bytes(const std::vector<std::int64_t>& sizes) noexcept {
    return kMostVarint + std::span(sizes).size_bytes();
  }
  template <typename T>
  requires std::is_trivially_copyable_v<T> &&
      (!std::is_same_v<T, std::string_view>)static constexpr std::size_t
      most_bytes(const T& /*field*/) noexcept {
    return sizeof(T) + kMostVarint - sizeof(std::uint64_t);
  }

  static std::byte* write(std::byte* at, std::string_view text) noexcept {
    return core::copy_text(write_varint(at, text.size()), text);
  }
  static std::byte* write(std::byte* at, const std::vector<std::int64_t>& sizes) noexcept {
    at = write_varint(at, sizes.size());
    for (const std::int64_t size : sizes) at = write(at, size);
    return at;
  }
  template <typename T>
  requires std::is_trivially_copyable_v<T> &&
      (!std::is_same_v<T, std::string_view>)static std::byte* write(std::byte* at,
                                                                    const T& field) noexcept {
    if constexpr (std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::uint64_t>) {
      return write_varint(at, field);
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      // With the sign in the lowest bit: short for small numbers of either sign.
      return write_varint(
          at, (static_cast<std::uint64_t>(field) << 1U) ^ (field < 0 ? ~std::uint64_t{0} : 0));
    } else {
      std::memcpy(at, &field, sizeof(T));
      return at + sizeof(T);
    }
  }

  std::byte* reserve(std::size_t most) {
    if (size_ + most > bytes_.size()) [[unlikely]] {
      enlarge(most);
    }
    return bytes_.data() + size_;
  }

  /// Apart, so that what runs for every member of a record stays short enough to be inlined.
  void enlarge(std::size_t length);

  EntryKind kind_ = EntryKind::kFail;
  std::size_t size_ = sizeof(EntryHeader);
  std::vector<std::byte> bytes_ = std::vector<std::byte>(1024);
};

/// Checksum of what stands behind EntryHeader::checksum.
std::uint64_t entry_checksum(std::span<const std::byte> covered) noexcept;

/// The last enumerator of what a field may hold.
template <typename Enum>
inline constexpr Enum kLast = Enum{};
template <>
inline constexpr core::Phase kLast<core::Phase> = core::kLastPhase;
template <>
inline constexpr core::TensorRole kLast<core::TensorRole> = core::TensorRole::kOutput;
template <>
inline constexpr core::ContentState kLast<core::ContentState> = core::ContentState::kExcluded;
template <>
inline constexpr core::InputWatch kLast<core::InputWatch> = core::InputWatch::kMoved;
template <>
inline constexpr core::Dtype kLast<core::Dtype> = core::Dtype::kQInt32;
template <>
inline constexpr ContentPlace kLast<ContentPlace> = ContentPlace::kReference;

/// Takes a payload apart, field by field as EntryBuffer put it together. Every step is checked
/// against what is left, and a count against the bytes its items need at least, before memory is
/// asked for.
class ByteReader {
 public:
  static constexpr bool kReads = true;

  explicit ByteReader(std::span<const std::byte> bytes) : left_(bytes) {}
  explicit ByteReader(std::string_view bytes) : left_(std::as_bytes(std::span(bytes))) {}

  [[nodiscard]] std::size_t size() const noexcept { return left_.size(); }

  template <typename... Fields>
  void operator()(Fields&... fields) {
    (read(fields), ...);
  }

  std::uint64_t varint() {
    constexpr unsigned kBits = 64;
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < kBits; shift += 7U) {
      const auto byte = static_cast<std::uint8_t>(take(1).front());
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80U) return value;
    }
    nonsense("holds a number without end");
  }

  std::size_t count(std::size_t least_item_size) {
    const std::uint64_t count = varint();
    if (count > left_.size() / least_item_size) nonsense("counts more than it holds");
    return static_cast<std::size_t>(count);
  }

  std::string_view text() { return text_of(take(count(1))); }
  std::string_view rest() { return text_of(rest_of_bytes()); }
  std::span<const std::byte> rest_of_bytes() { return take(left_.size()); }

  void expect_end() const {
    if (!left_.empty()) nonsense("is longer than its content");
  }

  [[noreturn]] static void nonsense(const std::string& what) {
    throw core::Error(core::ErrorKind::kDumpDamaged, what);
  }

 private:
  void read(std::string& into) { into = text(); }
  void read(std::vector<std::int64_t>& into) {
    into.resize(count(1));
    for (std::int64_t& size : into) read(size);
  }
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void read(T& into) {
    if constexpr (std::is_same_v<T, std::uint64_t>) {
      into = varint();
    } else if constexpr (std::is_same_v<T, std::uint32_t>) {
      const std::uint64_t value = varint();
      if (value > UINT32_MAX) nonsense("holds a number that is too large");
      into = static_cast<std::uint32_t>(value);
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      const std::uint64_t bits = varint();
      into = static_cast<std::int64_t>((bits >> 1U) ^ ((bits & 1U) != 0 ? ~std::uint64_t{0} : 0));
    } else if constexpr (std::is_same_v<T, bool>) {
      into = take(1).front() != std::byte{0};
    } else if constexpr (std::is_enum_v<T>) {
      static_assert(sizeof(T) == 1 && kLast<T> != T{});
      const auto value = static_cast<std::uint8_t>(take(1).front());
      if (value > static_cast<std::uint8_t>(kLast<T>)) nonsense("names no known kind");
      into = static_cast<T>(value);
    } else {
      std::memcpy(&into, take(sizeof(T)).data(), sizeof(T));
    }
  }

  static std::string_view text_of(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  std::span<const std::byte> take(std::size_t size) {
    if (size > left_.size()) nonsense("is shorter than its content");
    const std::span<const std::byte> taken = left_.first(size);
    left_ = left_.subspan(size);
    return taken;
  }

  std::span<const std::byte> left_;
};

// What an entry consists of, said once: `codec` is an EntryBuffer, to which the members of a const
// object are added, or a ByteReader, from which those of an object are taken. Of records the *form*
// is what is the same from call to call, and the *rest* what need not be.

/// @param least  bytes that an item takes at least
template <typename Codec, typename Items, typename Visit>
void each_field(Codec& codec, Items& items, std::size_t least, Visit visit) {
  if constexpr (Codec::kReads) {
    // Grown item by item: lists in lists could otherwise ask for far more than the entry holds.
    for (std::size_t left = codec.count(least); left > 0; --left) visit(items.emplace_back());
  } else {
    codec(std::uint64_t{items.size()});
    for (auto& item : items) visit(item);
  }
}

template <typename Codec, typename Op>
requires std::is_same_v<std::remove_const_t<Op>, core::OperatorInfo>
void object_fields(Codec& codec, Op& op) { codec(op.name, op.overload, op.seeded); }

template <typename Codec, typename Site>
requires std::is_same_v<std::remove_const_t<Site>, core::CallSite>
void object_fields(Codec& codec, Site& site) {
  constexpr std::size_t kLeastFrame = 3;
  codec(site.module_path, site.module_type);
  each_field(codec, site.frames, kLeastFrame, [&](auto& frame) {
    codec(frame.file, frame.line, frame.function);
  });
}

/// Operator and site left out.
template <typename Codec, typename Head>
void head_fields(Codec& codec, Head& call) {
  codec(call.phase, call.index, call.parent, call.depth, call.step, call.rank, call.lane);
}

template <typename Codec, typename Key>
void key_fields(Codec& codec, Key& key) {
  codec(key.dtype, key.digest, key.shape);
}

/// Of a StoredContent, inline bytes left out: they follow.
template <typename Codec, typename Content>
void content_fields(Codec& codec, Content& content) {
  codec(content.place);
  key_fields(codec, content.key);
  codec(content.size, content.offset);
}

template <typename Codec, typename Content>
void sliced_fields(Codec& codec, Content& content) {
  key_fields(codec, content.key);
  codec(content.slice.elements, content.slice.stride, content.slice.digest);
}

template <typename Codec, typename Generator>
void generator_fields(Codec& codec, Generator& use) {
  codec(use.device, use.seed, use.position_before, use.position_after, use.drawn);
}

/// Which members of a tensor have something to say in its rest.
struct TensorPresence {
  bool digest = false;
  bool stats = false;
  bool counted = false;
  bool non_finite = false;
  bool operator==(const TensorPresence&) const = default;
};

inline TensorPresence presence_of(const core::TensorRecord& tensor) noexcept {
  return {tensor.digest != core::Digest{},
          tensor.stats.has_value(),
          tensor.counted.has_value(),
          tensor.counted && tensor.counted->any()};
}

template <typename Tensor>
auto form_members(Tensor& tensor) {
  return std::tie(tensor.role,
                  tensor.state,
                  tensor.dtype,
                  tensor.requires_grad,
                  tensor.stored,
                  tensor.watch,
                  tensor.slot,
                  tensor.device,
                  tensor.layout,
                  tensor.attributes,
                  tensor.name,
                  tensor.shape,
                  tensor.strides);
}

template <typename Codec, typename Tensor>
void tensor_form(Codec& codec, Tensor& tensor) {
  TensorPresence has = presence_of(tensor);
  codec(has.digest, has.stats, has.counted, has.non_finite);
  std::apply([&](auto&... members) { codec(members...); }, form_members(tensor));
  if constexpr (Codec::kReads) {
    // The rest says what these are.
    if (has.digest) tensor.digest = {1, 1};
    if (has.stats) tensor.stats.emplace();
    if (has.counted) tensor.counted.emplace().nans = has.non_finite ? 1 : 0;
  }
}

/// Whether two tensors have one form; cheaper than spelling it.
inline bool same_form(const core::TensorRecord& left, const core::TensorRecord& right) noexcept {
  const auto same = []<typename Member>(const Member& one, const Member& other) {
    if constexpr (std::is_same_v<Member, std::string>) {
      return core::same_text(one, other);
    } else if constexpr (std::is_same_v<Member, std::vector<std::int64_t>>) {
      return core::same_sizes(one, other);
    } else {
      return one == other;
    }
  };
  const auto members = form_members(left);
  const auto others = form_members(right);
  return presence_of(left) ==
         presence_of(right)&& [&]<std::size_t... I>(std::index_sequence<I...> /*all*/) {
    return (same(std::get<I>(members), std::get<I>(others)) && ...);
  }
  (std::make_index_sequence<std::tuple_size_v<decltype(members)>>());
}

/// @param index  of the operator, which most producers are close to
template <typename Codec, typename Tensor>
void tensor_rest(Codec& codec, Tensor& tensor, std::uint64_t index) {
  if (tensor.digest != core::Digest{}) codec(tensor.digest);
  // Wraps around, so that every pair of numbers comes back as it was.
  auto distance = static_cast<std::int64_t>(index - static_cast<std::uint64_t>(tensor.producer));
  codec(tensor.storage_offset, tensor.storage, distance);
  if constexpr (Codec::kReads) {
    tensor.producer = static_cast<std::int64_t>(index - static_cast<std::uint64_t>(distance));
  }
  if (tensor.stats) codec(*tensor.stats);
  if (tensor.counted && tensor.counted->any()) {
    codec(tensor.counted->nans, tensor.counted->positive_infs, tensor.counted->negative_infs);
  }
}

using ValueData = decltype(core::Value::data);
inline constexpr std::uint8_t kOpaqueKind = 8;
static_assert(std::is_same_v<std::variant_alternative_t<kOpaqueKind, ValueData>, core::Opaque>);

/// Makes `into` the alternative of that number. @return whether there is such an alternative
inline bool set_alternative(ValueData& into, std::size_t kind) {
  return [&]<std::size_t... I>(std::index_sequence<I...> /*all*/) {
    return ((I == kind && (into.emplace<I>(), true)) || ...);
  }
  (std::make_index_sequence<std::variant_size_v<ValueData>>());
}

/// @param tensors  of the record: a slot beyond is refused
/// @param values   so far, those in lists included; counted up
template <typename Codec, typename Value>
void value_form(
    Codec& codec, Value& value, std::uint64_t tensors, std::size_t& values, int depth = 0) {
  ++values;
  auto kind = static_cast<std::uint8_t>(value.data.index());
  if constexpr (Codec::kReads) {
    if (values > kMostValues) codec.nonsense("holds more values than a call has");
    codec(kind);
    if (!set_alternative(value.data, kind)) codec.nonsense("names no known kind");
  } else if (depth == kMaxListDepth && std::holds_alternative<core::ValueList>(value.data)) {
    codec(kOpaqueKind, std::string_view("list in more than 64 lists"));
    return;
  } else {
    codec(kind);
  }
  if (auto* symbol = std::get_if<core::Symbol>(&value.data)) {
    codec(symbol->name);
  } else if (auto* opaque = std::get_if<core::Opaque>(&value.data)) {
    codec(opaque->type);
  } else if (auto* slot = std::get_if<core::TensorSlot>(&value.data)) {
    codec(slot->index);
    if constexpr (Codec::kReads) {
      if (slot->index >= tensors) codec.nonsense("refers to a tensor it does not hold");
    }
  } else if (auto* list = std::get_if<core::ValueList>(&value.data)) {
    if constexpr (Codec::kReads) {
      if (depth == kMaxListDepth) codec.nonsense("nests lists too deep");
    }
    each_field(codec, list->items, 1, [&](auto& item) {
      value_form(codec, item, tensors, values, depth + 1);
    });
  }
}

/// The scalars of a value. A string is one, and no part of the form: what a model computes with
/// may be long, and different every time.
template <typename Codec, typename Value>
void value_rest(Codec& codec, Value& value, int depth = 0) {
  const auto rest = [&](auto& data) {
    using Data = std::remove_cvref_t<decltype(data)>;
    if constexpr (std::is_same_v<Data, core::ValueList>) {
      if (depth == kMaxListDepth) return;  // written as an opaque value
      for (auto& item : data.items) value_rest(codec, item, depth + 1);
    } else if constexpr (std::is_arithmetic_v<Data> || std::is_same_v<Data, std::complex<double>> ||
                         std::is_same_v<Data, std::string>) {
      codec(data);
    }
  };
  std::visit(rest, value.data);
}

/// Operator and site left out.
/// @param values  counted up
/// @return how many tensors the record has
template <typename Codec, typename Record>
std::uint64_t call_form(Codec& codec, Record& record, std::size_t& values) {
  constexpr std::size_t kLeastArgument = 2;
  constexpr std::size_t kLeastSubstitution = 4;
  bool draws = record.generator.has_value();
  std::uint64_t tensors = record.tensors.size();
  codec(record.phase, draws, record.depth, record.rank, record.lane, tensors);
  if constexpr (Codec::kReads) {
    if (tensors > kMostTensors) codec.nonsense("has more tensors than any call");
    if (draws) record.generator.emplace();
  }
  each_field(codec, record.arguments, kLeastArgument, [&](auto& argument) {
    codec(argument.name);
    value_form(codec, argument.value, tensors, values);
  });
  each_field(
      codec, record.results, 1, [&](auto& result) { value_form(codec, result, tensors, values); });
  each_field(codec, record.substitutions, kLeastSubstitution, [&](auto& change) {
    codec(change.argument, change.from, change.to, change.reason);
  });
  return tensors;
}

/// Tensors and generator left out.
template <typename Codec, typename Record>
void call_rest(Codec& codec, Record& record) {
  codec(record.index, record.parent, record.wall_ns, record.step);
  for (auto& argument : record.arguments) value_rest(codec, argument.value);
  for (auto& result : record.results) value_rest(codec, result);
}

}  // namespace repro_check::journal
