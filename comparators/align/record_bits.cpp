// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/record_bits.h"

#include <algorithm>
#include <bit>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "comparators/measure/scalars.h"
#include "comparators/measure/tensor_metadata.h"
#include "core/error.h"

namespace repro_check::comparators::detail {
namespace {

bool same_tensor(const core::TensorRecord& left, const core::TensorRecord& right) {
  if (left.role != right.role || left.slot != right.slot || left.state != right.state) return false;
  if (left.state == core::ContentState::kUndefined) return true;
  return left.state == core::ContentState::kHashed && left.layout == right.layout &&
         left.attributes == right.attributes && left.content_key() == right.content_key();
}

bool same_argument(const core::Argument& left, const core::Argument& right) {
  return left.name == right.name && same_scalars(left.value, right.value);
}

/// What cannot be read is not known to be equal; whoever reads it again says that it is damaged.
bool known_equal(const core::DumpSource& baseline,
                 const core::DumpSource& candidate,
                 const Moved& moved) {
  try {
    return bit_equal(baseline.op(moved.baseline), candidate.op(moved.candidate));
  } catch (const core::Error& error) {
    if (error.kind() != core::ErrorKind::kDumpDamaged) throw;
    return false;
  }
}

}  // namespace

bool bit_equal(const core::OpRecord& baseline, const core::OpRecord& candidate) {
  return baseline.generator == candidate.generator &&
         std::ranges::equal(baseline.tensors, candidate.tensors, same_tensor) &&
         std::ranges::equal(baseline.arguments, candidate.arguments, same_argument) &&
         std::ranges::equal(baseline.results, candidate.results, same_scalars);
}

std::uint64_t pair_moved(const core::DumpSource& baseline,
                         const core::DumpSource& candidate,
                         Pairing& pairing) {
  if (baseline.manifest().trace.digest_algorithm != candidate.manifest().trace.digest_algorithm) {
    return 0;
  }
  const std::uint64_t before = pairing.matched;
  std::erase_if(pairing.moved, [&](const Moved& moved) {
    if (!known_equal(baseline, candidate, moved)) return false;
    pairing.match(moved.baseline, moved.candidate, MatchedBy::kOrder);
    return true;
  });
  return pairing.matched - before;
}

namespace {

using core::ContentState;

/// Bytes that are equal exactly where what was put is; texts and lists say how long they are.
class Bytes {
 public:
  template <std::integral T>
  void put(T value) {
    const auto number = static_cast<std::uint64_t>(value);
    for (unsigned shift = 0; shift < 64; shift += 8) {
      text_.push_back(static_cast<char>((number >> shift) & 0xFFU));
    }
  }
  void put(double value) { put(std::bit_cast<std::uint64_t>(value)); }
  void put(std::string_view text) {
    put(text.size());
    text_.append(text);
  }
  void put(const core::Digest& digest) {
    put(digest.high);
    put(digest.low);
  }

  [[nodiscard]] core::Digest digest() const {
    return core::digest_bytes(std::as_bytes(std::span(text_)));
  }

 private:
  std::string text_;
};

/// What a tensor slot holds is told by the tensor records.
struct ValueWriter {
  Bytes& bytes;

  void operator()(std::monostate /*none*/) const {}
  void operator()(bool value) const { bytes.put(value); }
  void operator()(std::int64_t value) const { bytes.put(value); }
  void operator()(double value) const { bytes.put(value); }
  void operator()(const std::complex<double>& value) const {
    bytes.put(value.real());
    bytes.put(value.imag());
  }
  void operator()(const std::string& value) const { bytes.put(value); }
  void operator()(const core::Symbol& value) const { bytes.put(value.name); }
  void operator()(core::TensorSlot /*slot*/) const {}
  void operator()(const core::Opaque& value) const { bytes.put(value.type); }
  void operator()(const core::ValueList& list) const {
    bytes.put(list.items.size());
    for (const core::Value& item : list.items) put(item);
  }

  void put(const core::Value& value) const {
    bytes.put(value.data.index());
    std::visit(*this, value.data);
  }
};

void put_tensor(const core::TensorRecord& tensor, Bytes& bytes) {
  bytes.put(tensor.slot);
  bytes.put(static_cast<std::uint8_t>(tensor.dtype));
  bytes.put(tensor.shape.size());
  for (const std::int64_t size : tensor.shape) bytes.put(size);
  bytes.put(tensor.layout);
  bytes.put(tensor.attributes);
  bytes.put(static_cast<std::uint8_t>(tensor.state));
  if (tensor.state == ContentState::kHashed) bytes.put(tensor.digest);
}

}  // namespace

std::optional<OpPrints> op_prints(const core::OpRecord& record) {
  Bytes inputs;
  Bytes results;
  for (const core::Argument& argument : record.arguments) {
    inputs.put(argument.name);
    ValueWriter{inputs}.put(argument.value);
  }
  if (record.generator) {
    inputs.put(record.generator->seed);
    inputs.put(record.generator->position_before);
  }
  for (const core::Value& value : record.results) ValueWriter{results}.put(value);
  bool has_result = has_scalar_results(record);
  for (const core::TensorRecord& tensor : record.tensors) {
    if (tensor.state == ContentState::kExcluded || has_unread_values(tensor)) return std::nullopt;
    const bool is_input = tensor.role == core::TensorRole::kInput;
    put_tensor(tensor, is_input ? inputs : results);
    has_result = has_result || (!is_input && tensor.state == ContentState::kHashed);
  }
  if (!has_result) return std::nullopt;
  return OpPrints{inputs.digest(), results.digest()};
}

}  // namespace repro_check::comparators::detail
