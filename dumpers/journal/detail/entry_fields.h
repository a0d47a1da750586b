// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "core/trace/op_record.h"
#include "dumpers/journal/detail/byte_reader.h"
#include "dumpers/journal/detail/entry_buffer.h"
#include "dumpers/journal/journal_event.h"

namespace repro_check::journal {

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

/// Of a core::OpEntry or an EnteredOp, operator and site left out.
template <typename Codec, typename Entered>
void entered_fields(Codec& codec, Entered& entered) {
  codec(entered.phase,
        entered.index,
        entered.parent,
        entered.depth,
        entered.step,
        entered.rank,
        entered.lane);
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
