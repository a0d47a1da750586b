// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/detail/record_encoder.h"

#include <complex>
#include <cstdint>
#include <string>
#include <variant>

#include "dumpers/journal/detail/journal_format.h"
#include "dumpers/journal/journal.h"

namespace repro_check::journal {
namespace {

template <typename T>
std::uint32_t count_of(const std::vector<T>& items) noexcept {
  return static_cast<std::uint32_t>(items.size());
}

class ValueEncoder {
 public:
  ValueEncoder(Interner& interner, EntryBuffer& into) : interner_(interner), into_(into) {}

  void encode(const core::Value& value) { std::visit(*this, value.data); }

  void operator()(std::monostate) { into_.put(ValueTag::kNone); }
  void operator()(bool value) {
    into_.put(ValueTag::kBool);
    into_.put(static_cast<std::uint8_t>(value ? 1 : 0));
  }
  void operator()(std::int64_t value) {
    into_.put(ValueTag::kInt);
    into_.put(value);
  }
  void operator()(double value) {
    into_.put(ValueTag::kDouble);
    into_.put(value);
  }
  void operator()(const std::complex<double>& value) {
    into_.put(ValueTag::kComplex);
    into_.put(value.real());
    into_.put(value.imag());
  }
  /// Not interned: what a model computes with may be long, and different every time.
  void operator()(const std::string& value) {
    into_.put(ValueTag::kString);
    into_.put(static_cast<std::uint32_t>(value.size()));
    into_.put_bytes(value);
  }
  void operator()(const core::Symbol& value) { named(ValueTag::kSymbol, value.name); }
  void operator()(core::TensorSlot value) {
    into_.put(ValueTag::kTensor);
    into_.put(value.index);
  }
  void operator()(const core::Opaque& value) { named(ValueTag::kOpaque, value.type); }
  void operator()(const core::ValueList& value) {
    if (depth_ == kMaxListDepth) {
      named(ValueTag::kOpaque, "list in more than 64 lists");
      return;
    }
    into_.put(ValueTag::kList);
    into_.put(count_of(value.items));
    ++depth_;
    for (const core::Value& item : value.items) encode(item);
    --depth_;
  }

 private:
  void named(ValueTag tag, const std::string& name) {
    into_.put(tag);
    into_.put(interner_.text(name));
  }

  Interner& interner_;
  EntryBuffer& into_;
  int depth_ = 0;
};

void encode_tensor(const core::TensorRecord& tensor, Interner& interner, EntryBuffer& into) {
  std::uint8_t flags = 0;
  if (tensor.requires_grad) flags |= kFlagRequiresGrad;
  if (tensor.stored) flags |= kFlagStored;
  if (tensor.stats) flags |= kFlagStats;
  into.put(tensor.role);
  into.put(tensor.state);
  into.put(tensor.dtype);
  into.put(flags);
  into.put(interner.text(tensor.slot));
  into.put(interner.text(tensor.device));
  into.put(interner.text(tensor.layout));
  into.put(interner.text(tensor.attributes));
  into.put(interner.text(tensor.name));
  into.put(tensor.digest.high);
  into.put(tensor.digest.low);
  into.put(tensor.storage_offset);
  into.put(tensor.storage);
  into.put(tensor.producer);
  into.put_sizes(tensor.shape);
  into.put_sizes(tensor.strides);
  if (tensor.stats) into.put(*tensor.stats);
}

void encode_generator(const core::GeneratorUse& use, Interner& interner, EntryBuffer& into) {
  into.put(interner.text(use.device));
  into.put(use.seed);
  into.put(use.position_before);
  into.put(use.position_after);
  into.put(use.drawn);
}

}  // namespace

void encode(const core::OpRecord& record, Interner& interner, EntryBuffer& into) {
  const std::uint32_t op = interner.op(record.op);
  const std::uint32_t site = interner.site(record.site);
  if (op != kNoId) interner.begin_record(op);
  into.begin(EntryKind::kRecord);
  into.put(record.index);
  into.put(op);
  into.put(site);
  into.put(record.parent);
  into.put(record.wall_ns);
  into.put(record.depth);
  into.put(record.step);
  into.put(record.rank);
  into.put(record.lane);
  into.put(record.phase);
  into.put(static_cast<std::uint8_t>(record.generator ? 1 : 0));
  into.put(count_of(record.arguments));
  into.put(count_of(record.results));
  into.put(count_of(record.tensors));
  into.put(count_of(record.substitutions));
  ValueEncoder values(interner, into);
  for (const core::Argument& argument : record.arguments) {
    into.put(interner.text(argument.name));
    values.encode(argument.value);
  }
  for (const core::Value& result : record.results) values.encode(result);
  for (const core::TensorRecord& tensor : record.tensors) encode_tensor(tensor, interner, into);
  for (const core::Substitution& change : record.substitutions) {
    into.put(interner.text(change.argument));
    into.put(interner.text(change.from));
    into.put(interner.text(change.to));
    into.put(interner.text(change.reason));
  }
  if (record.generator) encode_generator(*record.generator, interner, into);
}

}  // namespace repro_check::journal
