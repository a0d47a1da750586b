// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/detail/record_decoder.h"

#include <algorithm>
#include <utility>

#include "dumpers/journal/detail/journal_format.h"
#include "dumpers/journal/detail/value_codec.h"

namespace repro_check::journal {
namespace {

constexpr std::size_t kLeastFrame = 3 * sizeof(std::uint32_t);
constexpr std::size_t kLeastArgument = 2;
constexpr std::size_t kLeastSubstitution = 4;
constexpr std::size_t kLeastTensor = 4;

/// Definitions come numbered from 0, each once.
void expect_next(std::uint32_t id, std::size_t expected) {
  if (id != expected) ByteReader::nonsense("defines a number out of turn");
}

/// The number of a form, given that it is no form that follows.
std::size_t form_number(std::uint64_t reference, std::size_t known) {
  if (reference > known) ByteReader::nonsense("refers to a form nobody has defined");
  return static_cast<std::size_t>(reference - 1);
}

void expect_room(std::size_t forms) {
  if (forms >= kMostForms) ByteReader::nonsense("defines more forms than are kept");
}

void expect_small(std::size_t size, std::size_t items) {
  if (size > kLargestForm || items > kMostFormItems) {
    ByteReader::nonsense("defines a form that is too large to be shared");
  }
}

core::GeneratorUse generator(ByteReader& bytes) {
  core::GeneratorUse use;
  use.device = bytes.text();
  use.seed = bytes.get<std::uint64_t>();
  use.position_before = bytes.get<std::uint64_t>();
  use.position_after = bytes.get<std::uint64_t>();
  use.drawn = bytes.signed_varint();
  return use;
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
  entry.op = op(bytes);
  entry.site = site(bytes);
  entry.phase = bytes.enumerated(core::Phase::kOptimizer);
  entry.index = bytes.varint();
  entry.parent = bytes.signed_varint();
  entry.depth = bytes.varint32();
  entry.step = bytes.varint32();
  entry.rank = bytes.varint32();
  entry.lane = bytes.varint32();
  bytes.expect_end();
  return entry;
}

CallForm RecordDecoder::call_form(ByteReader& bytes) const {
  CallForm form;
  core::OpRecord& call = form.record;
  call.op = op(bytes);
  call.site = site(bytes);
  call.phase = bytes.enumerated(core::Phase::kOptimizer);
  if (bytes.get<std::uint8_t>() != 0) call.generator.emplace();
  call.depth = bytes.varint32();
  call.rank = bytes.varint32();
  call.lane = bytes.varint32();
  form.tensors = bytes.varint();
  if (form.tensors > kMostTensors) ByteReader::nonsense("has more tensors than any call");
  const std::size_t arguments = bytes.count(kLeastArgument);
  const std::size_t results = bytes.count(1);
  const std::size_t substitutions = bytes.count(kLeastSubstitution);
  std::size_t budget = kMostValues;
  for (std::size_t i = 0; i < arguments; ++i) {
    std::string name(bytes.text());
    call.arguments.push_back({std::move(name), decode_value_form(bytes, form.tensors, budget)});
  }
  for (std::size_t i = 0; i < results; ++i) {
    call.results.push_back(decode_value_form(bytes, form.tensors, budget));
  }
  form.values = kMostValues - budget;
  call.substitutions.resize(substitutions);
  for (core::Substitution& change : call.substitutions) {
    change.argument = bytes.text();
    change.from = bytes.text();
    change.to = bytes.text();
    change.reason = bytes.text();
  }
  bytes.expect_end();
  return form;
}

void RecordDecoder::define_call_form(std::span<const std::byte> payload) {
  ByteReader bytes(payload);
  expect_next(bytes.get<std::uint32_t>(), call_forms_.size());
  expect_room(call_forms_.size());
  const std::size_t size = bytes.size();
  CallForm form = call_form(bytes);
  expect_small(size, std::max(form.values, form.tensors));
  call_forms_.push_back(std::move(form));
}

void RecordDecoder::define_tensor_form(std::span<const std::byte> payload) {
  ByteReader bytes(payload);
  expect_next(bytes.get<std::uint32_t>(), tensor_forms_.size());
  expect_room(tensor_forms_.size());
  const std::size_t size = bytes.size();
  TensorForm form = decode_tensor_form(bytes);
  bytes.expect_end();
  expect_small(size, form.tensor.shape.size() + form.tensor.strides.size());
  tensor_forms_.push_back(std::move(form));
}

CallForm RecordDecoder::call(ByteReader& bytes) const {
  const std::uint64_t reference = bytes.varint();
  if (reference != kFormFollows) return call_forms_[form_number(reference, call_forms_.size())];
  ByteReader form(std::as_bytes(std::span(bytes.text())));
  return call_form(form);
}

core::TensorRecord RecordDecoder::tensor(ByteReader& bytes, std::uint64_t index) const {
  const std::uint64_t reference = bytes.varint();
  if (reference != kFormFollows) {
    return decode_tensor(tensor_forms_[form_number(reference, tensor_forms_.size())], index, bytes);
  }
  ByteReader form(std::as_bytes(std::span(bytes.text())));
  const TensorForm decoded = decode_tensor_form(form);
  form.expect_end();
  return decode_tensor(decoded, index, bytes);
}

core::OpRecord RecordDecoder::record(std::span<const std::byte> payload) const {
  ByteReader bytes(payload);
  CallForm form = call(bytes);
  core::OpRecord& record = form.record;
  record.index = bytes.varint();
  record.parent = bytes.signed_varint();
  record.wall_ns = bytes.varint();
  record.step = bytes.varint32();
  for (core::Argument& argument : record.arguments) fill_scalars(argument.value, bytes);
  for (core::Value& result : record.results) fill_scalars(result, bytes);
  if (form.tensors > bytes.size() / kLeastTensor) {
    ByteReader::nonsense("counts more than it holds");
  }
  record.tensors.resize(form.tensors);
  for (core::TensorRecord& item : record.tensors) item = tensor(bytes, record.index);
  if (record.generator) record.generator = generator(bytes);
  bytes.expect_end();
  return std::move(record);
}

}  // namespace repro_check::journal
