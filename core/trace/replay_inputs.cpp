// SPDX-License-Identifier: Apache-2.0
#include "core/trace/replay_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/tensor/tensor_record.h"
#include "core/text/text.h"

namespace repro_check::core {
namespace {

constexpr std::int64_t kAlignedElements = 64;
/// A forged record must not have us allocate what no machine has.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 40U;
constexpr std::uint64_t kMostWithoutValues = std::uint64_t{1} << 30U;
constexpr std::uint64_t kMostPerByte = 64;

[[noreturn]] void cannot(const std::string& what, const std::string& hint) {
  throw not_comparable(what, hint);
}

bool is_written(const OpRecord& op, const TensorRecord& tensor) {
  return std::ranges::any_of(op.tensors, [&](const TensorRecord& other) {
    return is_output(other) && other.storage >= 0 && other.storage == tensor.storage;
  });
}

/// Has elements in a storage; a quantised one has integers there.
bool is_plain(const TensorRecord& tensor) {
  const bool dense = tensor.layout == "strided" && tensor.attributes.empty();
  const bool quantised = tensor.layout == "quantised" && is_quantised(tensor.dtype);
  return (quantised || (dense && !is_quantised(tensor.dtype))) && element_size(tensor.dtype) > 0 &&
         tensor.strides.size() == tensor.shape.size();
}

void require_values(const DumpSource& dump, const OpRecord& op, const TensorRecord& tensor) {
  // Those of a composed one are asked of its parts.
  if (tensor.state == ContentState::kUndefined || is_composed(tensor)) return;
  const std::string argument = fmt::format(
      "op {} {}: argument {}", op.index, printable(op.op->full_name()), printable(tensor.slot));
  const bool no_values =
      tensor.state == ContentState::kNone || tensor.state == ContentState::kComposite;
  if (no_values || !is_plain(tensor)) {
    cannot(argument + " is of a kind whose values are not recorded", "replay another operator");
  }
  if (tensor.state == ContentState::kUninitialised) {
    if (is_written(op, tensor)) return;
    cannot(argument + " was memory that was never written, so there is no input to call it with",
           "find the operator that should have written it");
  }
  if (tensor.state == ContentState::kHashed && dump.has_content(tensor.content_key())) return;
  const bool sliced =
      tensor.state == ContentState::kHashed && dump.find_slice(tensor.content_key()).has_value();
  const std::string absent = dump.missing_reference();
  cannot(fmt::format("{}: the dump {}",
                     argument,
                     sliced ? "holds a slice of its values alone" : "does not hold its values"),
         !absent.empty() ? absent
                         : fmt::format("record them: dump.level \"tensor\"{}, and \"{}\" among "
                                       "dump.include if that is set",
                                       sliced ? " without dump.slice" : "",
                                       printable(op.op->name)));
}

/// Lowest and highest element a tensor shows, relative to its first; of a tensor that has some.
std::pair<std::int64_t, std::int64_t> reach(const TensorRecord& tensor) {
  std::int64_t low = 0;
  std::int64_t high = 0;
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    std::int64_t span = 0;
    const bool overflows =
        __builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &span) ||
        __builtin_add_overflow(span < 0 ? low : high, span, span < 0 ? &low : &high);
    if (overflows || high - low > kMaxElements) {
      throw damaged_dump("strides of " + printable(tensor.slot) + " are out of range");
    }
  }
  return {low, high};
}

void join(const TensorRecord& tensor, InputStorage& storage) {
  if (element_count(tensor.shape) == 0) return;
  const auto [low, high] = reach(tensor);
  const std::int64_t offset = tensor.storage_offset;
  if (offset < 0 || offset > kMaxElements || offset + low < 0) {
    throw damaged_dump(printable(tensor.slot) + " begins outside of its storage");
  }
  const std::int64_t end = std::max(storage.first + storage.count, offset + high + 1);
  storage.first = storage.count == 0 ? offset + low : std::min(storage.first, offset + low);
  storage.first -= storage.first % kAlignedElements;
  storage.count = end - storage.first;
}

/// The arguments by the storage that they shared, and by dtype.
std::vector<InputStorage> shared_storages(const OpRecord& op) {
  std::vector<InputStorage> storages;
  for (std::uint32_t i = 0; i < op.tensors.size(); ++i) {
    const TensorRecord& tensor = op.tensors[i];
    if (!is_input(tensor) || tensor.state == ContentState::kUndefined || is_composed(tensor)) {
      continue;
    }
    const auto shared = std::ranges::find_if(storages, [&](const InputStorage& storage) {
      return tensor.storage >= 0 && storage.storage == tensor.storage;
    });
    const bool other_dtype = shared != storages.end() && shared->dtype != tensor.dtype;
    if (other_dtype && is_written(op, tensor)) {
      cannot(fmt::format("op {}: argument {} is memory that the operator writes and that another "
                         "argument shows in another dtype",
                         op.index,
                         printable(tensor.slot)),
             "replay another operator");
    }
    InputStorage& storage =
        shared == storages.end() || other_dtype ? storages.emplace_back() : *shared;
    if (storage.tensors.empty()) {
      storage.storage = tensor.storage;
      storage.dtype = tensor.dtype;
    }
    storage.tensors.push_back(i);
    join(tensor, storage);
  }
  return storages;
}

/// What lies between the values of an argument is made, and so is memory that nobody had written:
/// of a forged record, as much as it likes to say. What the dump holds cannot be forged.
void require_room(const DumpSource& dump, const OpRecord& op) {
  for (const InputStorage& storage : shared_storages(op)) {
    std::uint64_t needed = static_cast<std::uint64_t>(storage.count) * element_size(storage.dtype);
    std::uint64_t held = 0;
    for (const TensorRecord& tensor : op.tensors) {
      const bool shares = storage.storage >= 0 && tensor.storage == storage.storage;
      const bool hashed = tensor.state == ContentState::kHashed;
      if (shares && hashed && dump.has_content(tensor.content_key())) {
        held += content_size(tensor.content_key());
      }
    }
    for (const std::uint32_t member : storage.tensors) {
      const TensorRecord& tensor = op.tensors[member];
      const std::uint64_t bytes = content_size(tensor.content_key());
      const bool hashed = tensor.state == ContentState::kHashed;
      if (hashed && storage.storage < 0) held += bytes;
      if (!hashed && __builtin_add_overflow(needed, bytes, &needed)) needed = ~std::uint64_t{0};
    }
    if (needed <= kMostWithoutValues || needed / kMostPerByte <= held) continue;
    throw damaged_dump(
        fmt::format("op {} {}: argument {}: {} bytes would have to be made around {} bytes "
                    "of values",
                    op.index,
                    printable(op.op->full_name()),
                    printable(op.tensors[storage.tensors.front()].slot),
                    needed,
                    held),
        "1 GiB are, or 64 times the values; record the operator with an argument that lies "
        "closer together");
  }
}

/// Calls `each` with where strides put an element, and where it is among the contiguous ones.
template <class Each>
void for_each_place(const TensorRecord& tensor, std::int64_t first, std::size_t count, Each each) {
  std::vector<std::int64_t> index(tensor.shape.size(), 0);
  std::int64_t position = first;
  for (std::size_t next = 0; next < count; ++next) {
    each(static_cast<std::size_t>(position), next);
    for (std::size_t d = index.size(); d-- > 0;) {
      position += tensor.strides[d];
      if (++index[d] < tensor.shape[d]) break;
      position -= tensor.strides[d] * tensor.shape[d];
      index[d] = 0;
    }
  }
}

/// From contiguous bytes to where strides put them.
void scatter(const TensorRecord& tensor,
             std::int64_t first,
             std::span<const std::byte> content,
             std::span<std::byte> into) {
  const std::size_t width = element_size(tensor.dtype);
  for_each_place(
      tensor, first, content.size() / width, [&](std::size_t position, std::size_t next) {
        std::memcpy(into.data() + position * width, content.data() + next * width, width);
      });
}

/// Whether two tensors of one storage hold the same numbers where they share elements. Those of a
/// tensor that is conjugated or negated only when it is read are not what lies in its memory.
bool agree(const DumpSource& dump, const TensorRecord& one, const TensorRecord& other) {
  const bool hashed = one.state == ContentState::kHashed && other.state == ContentState::kHashed;
  if (!hashed || element_count(one.shape) == 0 || element_count(other.shape) == 0) return true;
  if (one.storage_offset == other.storage_offset && one.shape == other.shape &&
      one.strides == other.strides) {
    return one.digest == other.digest;
  }
  const auto [low, high] = reach(one);
  const auto [other_low, other_high] = reach(other);
  const std::int64_t apart = other.storage_offset - one.storage_offset;
  if (apart + other_high < low || apart + other_low > high) return true;
  const std::size_t width = element_size(one.dtype);
  const auto span = static_cast<std::size_t>(high - low + 1);
  std::vector<std::byte> content;
  dump.read_content(one.content_key(), content);
  std::vector<std::byte> bytes(span * width);
  scatter(one, -low, content, bytes);
  std::vector<bool> held(span);
  for_each_place(one, -low, content.size() / width, [&](std::size_t position, std::size_t) {
    held[position] = true;
  });
  dump.read_content(other.content_key(), content);
  bool same = true;
  for_each_place(
      other, apart - low, content.size() / width, [&](std::size_t position, std::size_t next) {
        if (!same || position >= span || !held[position]) return;
        same =
            std::memcmp(bytes.data() + position * width, content.data() + next * width, width) == 0;
      });
  return same;
}

bool goes_into(const DumpSource& dump,
               const OpRecord& op,
               const InputStorage& storage,
               const TensorRecord& tensor) {
  return std::ranges::all_of(storage.tensors, [&](std::uint32_t member) {
    return agree(dump, op.tensors[member], tensor);
  });
}

}  // namespace

bool is_composed(const TensorRecord& tensor) {
  return tensor.state == ContentState::kComposite &&
         (tensor.layout == "nested" || tensor.layout.starts_with("sparse"));
}

OpRecord require_replayable(const DumpSource& dump, std::uint64_t op) {
  if (op >= dump.op_count()) {
    cannot(fmt::format("there is no op {}: the dump has {} operators", op, dump.op_count()), "");
  }
  OpRecord record = dump.op(op);
  if (!record.op) cannot(fmt::format("op {} was never finished: it has no record", op), "");
  if (is_returned(record)) {
    cannot(fmt::format("op {} is a result of the model, not an operator", op),
           "replay the operator that made it: `repro-check inspect DUMP --op " +
               std::to_string(op) + "` names it");
  }
  for (const TensorRecord& tensor : record.tensors) {
    if (is_input(tensor)) require_values(dump, record, tensor);
  }
  require_room(dump, record);
  return record;
}

std::vector<InputStorage> input_storages(const DumpSource& dump, const OpRecord& op) {
  std::vector<InputStorage> storages;
  for (const InputStorage& shared : shared_storages(op)) {
    const std::size_t begin = storages.size();
    for (const std::uint32_t i : shared.tensors) {
      const TensorRecord& tensor = op.tensors[i];
      const auto place = std::ranges::find_if(
          storages.begin() + static_cast<std::ptrdiff_t>(begin),
          storages.end(),
          [&](const InputStorage& storage) { return goes_into(dump, op, storage, tensor); });
      const bool is_apart = place == storages.end();
      if (is_apart && storages.size() > begin && is_written(op, tensor)) {
        cannot(fmt::format("op {}: argument {} is memory that the operator writes and that another "
                           "argument shows as other numbers, such as the conjugated ones",
                           op.index,
                           printable(tensor.slot)),
               "replay another operator");
      }
      InputStorage& storage = is_apart ? storages.emplace_back() : *place;
      storage.storage = shared.storage;
      storage.dtype = shared.dtype;
      storage.tensors.push_back(i);
      join(tensor, storage);
    }
  }
  return storages;
}

std::vector<std::byte> read_input_storage(const DumpSource& dump,
                                          const OpRecord& op,
                                          const InputStorage& storage) {
  const std::size_t width = element_size(storage.dtype);
  std::vector<std::byte> bytes(static_cast<std::size_t>(storage.count) * width);
  std::vector<std::byte> content;
  std::vector<std::uint32_t> members = storage.tensors;
  // What is known of the same elements comes on top.
  std::stable_partition(members.begin(), members.end(), [&](std::uint32_t member) {
    return op.tensors.at(member).state == ContentState::kUninitialised;
  });
  for (const std::uint32_t member : members) {
    const TensorRecord& tensor = op.tensors.at(member);
    const auto elements = static_cast<std::size_t>(element_count(tensor.shape));
    if (elements == 0) continue;
    if (tensor.state == ContentState::kUninitialised) {
      const bool poison = is_floating(tensor.dtype) || is_complex(tensor.dtype);
      content.assign(elements * width, poison ? std::byte{0xff} : std::byte{0});
    } else {
      dump.read_content(tensor.content_key(), content);
    }
    scatter(tensor, tensor.storage_offset - storage.first, content, bytes);
  }
  return bytes;
}

}  // namespace repro_check::core
