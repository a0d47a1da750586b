// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/detail/record_decoder.h"

#include <complex>
#include <utility>

#include "dumpers/journal/detail/journal_format.h"
#include "dumpers/journal/journal.h"

namespace repro_check::journal {
namespace {

constexpr std::size_t kId = sizeof(std::uint32_t);
constexpr std::size_t kLeastFrame = 3 * kId;
constexpr std::size_t kLeastTensor = 60;
constexpr std::size_t kLeastSubstitution = 4 * kId;

/// Definitions come numbered from 0, each once.
void expect_next(std::uint32_t id, std::size_t expected) {
  if (id != expected) ByteReader::nonsense("defines a number out of turn");
}

void check_slots(const core::Value& value, std::size_t tensors) {
  if (const auto* slot = std::get_if<core::TensorSlot>(&value.data)) {
    if (slot->index >= tensors) ByteReader::nonsense("refers to a tensor it does not hold");
  } else if (const auto* list = std::get_if<core::ValueList>(&value.data)) {
    for (const core::Value& item : list->items) check_slots(item, tensors);
  }
}

}  // namespace

void RecordDecoder::define_text(std::span<const std::byte> payload) {
  ByteReader bytes(payload);
  expect_next(bytes.get<std::uint32_t>(), texts_.size());
  texts_.emplace_back(bytes.rest());
}

void RecordDecoder::define_op(std::span<const std::byte> payload) {
  ByteReader bytes(payload);
  expect_next(bytes.get<std::uint32_t>(), ops_.size());
  auto info = std::make_shared<core::OperatorInfo>();
  info->name = text(bytes);
  info->overload = text(bytes);
  info->seeded = bytes.get<std::uint8_t>() != 0;
  bytes.expect_end();
  ops_.push_back(std::move(info));
}

void RecordDecoder::define_site(std::span<const std::byte> payload) {
  ByteReader bytes(payload);
  expect_next(bytes.get<std::uint32_t>(), sites_.size());
  auto place = std::make_shared<core::CallSite>();
  place->module_path = text(bytes);
  place->module_type = text(bytes);
  place->frames.resize(bytes.count(kLeastFrame));
  for (core::SourceFrame& frame : place->frames) {
    frame.file = text(bytes);
    frame.line = bytes.get<std::uint32_t>();
    frame.function = text(bytes);
  }
  bytes.expect_end();
  sites_.push_back(std::move(place));
}

const std::string& RecordDecoder::text(ByteReader& bytes) const {
  const auto id = bytes.get<std::uint32_t>();
  if (id >= texts_.size()) ByteReader::nonsense("refers to a text nobody has defined");
  return texts_[id];
}

std::shared_ptr<const core::OperatorInfo> RecordDecoder::op(ByteReader& bytes) const {
  const auto id = bytes.get<std::uint32_t>();
  if (id == kNoId) return nullptr;
  if (id >= ops_.size()) ByteReader::nonsense("refers to an operator nobody has defined");
  return ops_[id];
}

std::shared_ptr<const core::CallSite> RecordDecoder::site(ByteReader& bytes) const {
  const auto id = bytes.get<std::uint32_t>();
  if (id == kNoId) return nullptr;
  if (id >= sites_.size()) ByteReader::nonsense("refers to a call site nobody has defined");
  return sites_[id];
}

EnteredOp RecordDecoder::entered(std::span<const std::byte> payload) const {
  ByteReader bytes(payload);
  EnteredOp entry;
  entry.index = bytes.get<std::uint64_t>();
  entry.op = op(bytes);
  entry.site = site(bytes);
  entry.parent = bytes.get<std::int64_t>();
  entry.depth = bytes.get<std::uint32_t>();
  entry.step = bytes.get<std::uint32_t>();
  entry.rank = bytes.get<std::uint32_t>();
  entry.lane = bytes.get<std::uint32_t>();
  entry.phase = bytes.enumerated(core::Phase::kOptimizer);
  bytes.expect_end();
  return entry;
}

core::Value RecordDecoder::value(ByteReader& bytes, int depth) const {
  switch (bytes.enumerated(ValueTag::kList)) {
    case ValueTag::kNone:
      return {};
    case ValueTag::kBool:
      return {bytes.get<std::uint8_t>() != 0};
    case ValueTag::kInt:
      return {bytes.get<std::int64_t>()};
    case ValueTag::kDouble:
      return {bytes.get<double>()};
    case ValueTag::kComplex: {
      const auto real = bytes.get<double>();
      return {std::complex<double>(real, bytes.get<double>())};
    }
    case ValueTag::kString:
      return {std::string(bytes.text(bytes.count(1)))};
    case ValueTag::kSymbol:
      return {core::Symbol{text(bytes)}};
    case ValueTag::kTensor:
      return {core::TensorSlot{bytes.get<std::uint32_t>()}};
    case ValueTag::kOpaque:
      return {core::Opaque{text(bytes)}};
    case ValueTag::kList:
      break;
  }
  if (depth == kMaxListDepth) ByteReader::nonsense("nests lists too deep");
  core::ValueList list;
  // Grown item by item: lists in lists could otherwise ask for far more than the entry holds.
  for (std::uint32_t left = bytes.count(1); left > 0; --left) {
    list.items.push_back(value(bytes, depth + 1));
  }
  return {std::move(list)};
}

core::TensorRecord RecordDecoder::tensor(ByteReader& bytes) const {
  core::TensorRecord tensor;
  tensor.role = bytes.enumerated(core::TensorRole::kOutput);
  tensor.state = bytes.enumerated(core::ContentState::kExcluded);
  tensor.dtype = bytes.enumerated(core::Dtype::kQInt32);
  const auto flags = bytes.get<std::uint8_t>();
  tensor.requires_grad = (flags & kFlagRequiresGrad) != 0;
  tensor.stored = (flags & kFlagStored) != 0;
  tensor.slot = text(bytes);
  tensor.device = text(bytes);
  tensor.layout = text(bytes);
  tensor.attributes = text(bytes);
  tensor.name = text(bytes);
  tensor.digest.high = bytes.get<std::uint64_t>();
  tensor.digest.low = bytes.get<std::uint64_t>();
  tensor.storage_offset = bytes.get<std::int64_t>();
  tensor.storage = bytes.get<std::int64_t>();
  tensor.producer = bytes.get<std::int64_t>();
  tensor.shape = bytes.sizes();
  tensor.strides = bytes.sizes();
  if ((flags & kFlagStats) != 0) tensor.stats = bytes.get<core::TensorStats>();
  return tensor;
}

core::OpRecord RecordDecoder::record(std::span<const std::byte> payload) const {
  ByteReader bytes(payload);
  core::OpRecord record;
  record.index = bytes.get<std::uint64_t>();
  record.op = op(bytes);
  record.site = site(bytes);
  record.parent = bytes.get<std::int64_t>();
  record.wall_ns = bytes.get<std::uint64_t>();
  record.depth = bytes.get<std::uint32_t>();
  record.step = bytes.get<std::uint32_t>();
  record.rank = bytes.get<std::uint32_t>();
  record.lane = bytes.get<std::uint32_t>();
  record.phase = bytes.enumerated(core::Phase::kOptimizer);
  const bool draws = bytes.get<std::uint8_t>() != 0;
  record.arguments.resize(bytes.count(kId + 1));
  record.results.resize(bytes.count(1));
  record.tensors.resize(bytes.count(kLeastTensor));
  record.substitutions.resize(bytes.count(kLeastSubstitution));
  for (core::Argument& argument : record.arguments) {
    argument.name = text(bytes);
    argument.value = value(bytes, 0);
    check_slots(argument.value, record.tensors.size());
  }
  for (core::Value& result : record.results) {
    result = value(bytes, 0);
    check_slots(result, record.tensors.size());
  }
  for (core::TensorRecord& item : record.tensors) item = tensor(bytes);
  for (core::Substitution& change : record.substitutions) {
    change.argument = text(bytes);
    change.from = text(bytes);
    change.to = text(bytes);
    change.reason = text(bytes);
  }
  if (draws) {
    core::GeneratorUse use;
    use.device = text(bytes);
    use.seed = bytes.get<std::uint64_t>();
    use.position_before = bytes.get<std::uint64_t>();
    use.position_after = bytes.get<std::uint64_t>();
    use.drawn = bytes.get<std::int64_t>();
    record.generator = std::move(use);
  }
  bytes.expect_end();
  return record;
}

}  // namespace repro_check::journal
