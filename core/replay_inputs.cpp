// SPDX-License-Identifier: Apache-2.0
#include "core/replay_inputs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/printable.h"
#include "core/tensor_view.h"

namespace repro_check::core {
namespace {

constexpr std::int64_t kAlignedElements = 64;
/// A forged record must not have us allocate what no machine has.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 40U;

[[noreturn]] void cannot(const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::kNotComparable, what, hint);
}

bool is_written(const OpRecord& op, const TensorRecord& tensor) {
  return std::ranges::any_of(op.tensors, [&](const TensorRecord& other) {
    return other.role == TensorRole::kOutput && other.storage >= 0 &&
           other.storage == tensor.storage;
  });
}

bool is_plain(const TensorRecord& tensor) {
  return tensor.layout == "strided" && tensor.attributes.empty() && !is_quantised(tensor.dtype) &&
         element_size(tensor.dtype) > 0 && tensor.strides.size() == tensor.shape.size();
}

void require_values(const DumpSource& dump, const OpRecord& op, const TensorRecord& tensor) {
  if (tensor.state == ContentState::kUndefined) return;
  const std::string argument = fmt::format(
      "op {} {}: argument {}", op.index, printable(op.op->full_name()), printable(tensor.slot));
  const bool no_values =
      tensor.state == ContentState::kNone || tensor.state == ContentState::kComposite;
  if (no_values || !is_plain(tensor)) {
    cannot(argument + " is no dense tensor with values: it cannot be made again",
           "replay another operator");
  }
  if (tensor.state == ContentState::kUninitialised) {
    if (is_written(op, tensor)) return;
    cannot(argument + " was memory nobody had written, so there is nothing to call it with",
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
      throw Error(ErrorKind::kDumpDamaged,
                  "strides of " + printable(tensor.slot) + " lead nowhere");
    }
  }
  return {low, high};
}

void join(const TensorRecord& tensor, InputStorage& storage) {
  if (element_count(tensor.shape) == 0) return;
  const auto [low, high] = reach(tensor);
  const std::int64_t offset = tensor.storage_offset;
  if (offset < 0 || offset > kMaxElements || offset + low < 0) {
    throw Error(ErrorKind::kDumpDamaged, printable(tensor.slot) + " begins outside of its storage");
  }
  const std::int64_t end = std::max(storage.first + storage.count, offset + high + 1);
  storage.first = storage.count == 0 ? offset + low : std::min(storage.first, offset + low);
  storage.first -= storage.first % kAlignedElements;
  storage.count = end - storage.first;
}

/// From contiguous bytes to where strides put them.
void scatter(const TensorRecord& tensor,
             std::int64_t first,
             std::span<const std::byte> content,
             std::span<std::byte> into) {
  const std::size_t width = element_size(tensor.dtype);
  std::vector<std::int64_t> index(tensor.shape.size(), 0);
  std::int64_t position = first;
  for (std::size_t next = 0; next < content.size(); next += width) {
    std::memcpy(
        into.data() + static_cast<std::size_t>(position) * width, content.data() + next, width);
    for (std::size_t d = index.size(); d-- > 0;) {
      position += tensor.strides[d];
      if (++index[d] < tensor.shape[d]) break;
      position -= tensor.strides[d] * tensor.shape[d];
      index[d] = 0;
    }
  }
}

}  // namespace

OpRecord require_replayable(const DumpSource& dump, std::uint64_t op) {
  if (op >= dump.op_count()) {
    cannot(fmt::format("there is no op {}: the dump has {} operators", op, dump.op_count()), "");
  }
  OpRecord record = dump.op(op);
  if (!record.op) cannot(fmt::format("op {} was never finished: it has no record", op), "");
  for (const TensorRecord& tensor : record.tensors) {
    if (tensor.role == TensorRole::kInput) require_values(dump, record, tensor);
  }
  return record;
}

std::vector<InputStorage> input_storages(const OpRecord& op) {
  std::vector<InputStorage> storages;
  for (std::uint32_t i = 0; i < op.tensors.size(); ++i) {
    const TensorRecord& tensor = op.tensors[i];
    if (tensor.role != TensorRole::kInput || tensor.state == ContentState::kUndefined) continue;
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

std::vector<std::byte> read_input_storage(const DumpSource& dump,
                                          const OpRecord& op,
                                          const InputStorage& storage) {
  const std::size_t width = element_size(storage.dtype);
  std::vector<std::byte> bytes(static_cast<std::size_t>(storage.count) * width);
  std::vector<std::byte> content;
  for (const std::uint32_t member : storage.tensors) {
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
