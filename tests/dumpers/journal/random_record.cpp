// SPDX-License-Identifier: Apache-2.0
#include "tests/dumpers/journal/random_record.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <complex>
#include <limits>
#include <string>

namespace repro_check::test_support {

double RandomRecords::real() {
  const std::array<double, 6> odd{0.0,
                                  -0.0,
                                  std::numeric_limits<double>::infinity(),
                                  -std::numeric_limits<double>::infinity(),
                                  std::bit_cast<double>(std::uint64_t{0x7ff8dead00000001}),
                                  std::numeric_limits<double>::denorm_min()};
  if (chance(2)) return odd[below(odd.size())];
  return static_cast<double>(engine_()) / 1e9;
}

std::string RandomRecords::text() {
  static const std::array<std::string, 8> kTexts{"",
                                                 "self",
                                                 "a/b",
                                                 std::string("nul\0inside", 10),
                                                 "\xff\xfe not utf-8",
                                                 "grüße",
                                                 ".",
                                                 std::string(3000, 'x')};
  if (chance(4)) return fmt::format("t{}", below(1000));
  return kTexts[below(kTexts.size())];
}

core::Value RandomRecords::value(std::size_t tensors, int depth) {
  switch (below(10)) {
    case 0:
      return {};
    case 1:
      return {chance(2)};
    case 2:
      return {static_cast<std::int64_t>(engine_())};
    case 3:
      return {real()};
    case 4:
      return {std::complex<double>(real(), real())};
    case 5:
      return {text()};
    case 6:
      return {core::Symbol{text()}};
    case 7:
      if (tensors != 0) return {core::TensorSlot{static_cast<std::uint32_t>(below(tensors))}};
      return {};
    case 8:
      return {core::Opaque{text()}};
    default: {
      core::ValueList list;
      if (depth < 5) list.items.resize(below(4));
      for (core::Value& item : list.items) item = value(tensors, depth + 1);
      return {std::move(list)};
    }
  }
}

core::TensorRecord RandomRecords::tensor(std::uint64_t index) {
  core::TensorRecord tensor;
  tensor.role = chance(2) ? core::TensorRole::kInput : core::TensorRole::kOutput;
  tensor.slot = text();
  tensor.dtype = static_cast<core::Dtype>(below(26));
  tensor.shape.resize(below(5));
  for (std::int64_t& size : tensor.shape) size = static_cast<std::int64_t>(below(1000));
  tensor.strides.resize(chance(3) ? 0 : tensor.shape.size());
  for (std::int64_t& stride : tensor.strides) stride = static_cast<std::int64_t>(below(100000));
  tensor.storage_offset = static_cast<std::int64_t>(below(1U << 30U));
  tensor.device = text();
  tensor.layout = text();
  tensor.attributes = text();
  tensor.requires_grad = chance(2);
  tensor.watch = static_cast<core::InputWatch>(below(3));
  tensor.state = static_cast<core::ContentState>(below(6));
  tensor.digest = {engine_(), engine_()};
  tensor.storage = static_cast<std::int64_t>(below(100)) - 1;
  tensor.producer = static_cast<std::int64_t>(below(index + 1)) - 1;
  tensor.name = text();
  if (chance(2)) {
    tensor.stats = core::TensorStats{
        real(), real(), real(), real(), real(), engine_(), engine_(), engine_(), 1, 2};
  } else if (chance(2)) {
    tensor.counted.emplace();
    if (chance(2)) *tensor.counted = {engine_(), below(2), engine_()};
  }
  return tensor;
}

std::shared_ptr<const core::OperatorInfo> RandomRecords::op() {
  if (ops_.empty() || chance(5)) {
    ops_.push_back(std::make_shared<core::OperatorInfo>(
        core::OperatorInfo{"aten::" + text(), text(), chance(2)}));
  }
  return ops_[below(ops_.size())];
}

std::shared_ptr<const core::CallSite> RandomRecords::site() {
  if (chance(8)) return nullptr;
  if (sites_.empty() || chance(5)) {
    auto site = std::make_shared<core::CallSite>();
    site->module_path = text();
    site->module_type = text();
    site->frames.resize(below(4));
    for (core::SourceFrame& frame : site->frames) {
      frame = {text(), static_cast<std::uint32_t>(below(3000)), text()};
    }
    sites_.push_back(std::move(site));
  }
  return sites_[below(sites_.size())];
}

core::OpRecord RandomRecords::next(std::uint64_t index) {
  core::OpRecord record;
  record.index = index;
  record.op = op();
  record.site = site();
  record.depth = static_cast<std::uint32_t>(below(5));
  record.parent = static_cast<std::int64_t>(below(index + 1)) - 1;
  record.phase = static_cast<core::Phase>(below(3));
  record.step = static_cast<std::uint32_t>(below(4));
  record.rank = static_cast<std::uint32_t>(below(4));
  record.lane = static_cast<std::uint32_t>(below(4));
  record.modes = below(3) == 0 ? "autocast.cpu=bfloat16" : "";
  record.tensors.resize(below(5));
  for (core::TensorRecord& item : record.tensors) item = tensor(index);
  record.arguments.resize(below(6));
  for (core::Argument& argument : record.arguments) {
    argument = {text(), value(record.tensors.size(), 0)};
  }
  record.results.resize(below(3));
  for (core::Value& result : record.results) result = value(record.tensors.size(), 0);
  record.substitutions.resize(below(3));
  for (core::Substitution& change : record.substitutions) {
    change = {text(), text(), text(), text()};
  }
  if (chance(3)) {
    record.generator = core::GeneratorUse{
        text(), engine_(), engine_(), engine_(), static_cast<std::int64_t>(below(1000)) - 1};
  }
  record.wall_ns = engine_();
  return record;
}

core::OpRecord small_record(std::uint64_t index) {
  static const auto kOp =
      std::make_shared<const core::OperatorInfo>(core::OperatorInfo{"aten::add", "Tensor", false});
  static const auto kSite = std::make_shared<const core::CallSite>(core::CallSite{
      "encoder.layers.3.linear1",
      "Linear",
      {{"torch/nn/modules/linear.py", 134, "forward"}, {"model.py", 123, "forward"}}});
  core::OpRecord record;
  record.index = index;
  record.op = kOp;
  record.site = kSite;
  const std::int64_t previous = static_cast<std::int64_t>(index) - 1;
  for (const char* slot : {"self", "other", "0"}) {
    core::TensorRecord tensor;
    tensor.role = slot[0] == '0' ? core::TensorRole::kOutput : core::TensorRole::kInput;
    tensor.slot = slot;
    tensor.dtype = core::Dtype::kFloat32;
    tensor.shape = {4, 4};
    tensor.strides = {4, 1};
    tensor.device = "cpu";
    tensor.state = core::ContentState::kHashed;
    tensor.digest = {index * 3, index * 7};
    tensor.storage = static_cast<std::int64_t>(index);
    tensor.producer = previous;
    record.tensors.push_back(std::move(tensor));
  }
  record.arguments = {{"self", {core::TensorSlot{0}}},
                      {"other", {core::TensorSlot{1}}},
                      {"alpha", {std::int64_t{1}}}};
  record.results = {{core::TensorSlot{2}}};
  record.wall_ns = 2800;
  return record;
}

}  // namespace repro_check::test_support
