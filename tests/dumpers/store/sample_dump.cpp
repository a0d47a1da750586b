// SPDX-License-Identifier: Apache-2.0
#include "tests/dumpers/store/sample_dump.h"

#include <fstream>
#include <iterator>
#include <random>

#include "core/digest/digest.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/dump.h"
#include "tests/dumpers/journal/random_record.h"
#include "tests/dumpers/journal/same_record.h"

namespace repro_check::test_support {
namespace {

void add_stored(Sample& sample,
                core::OpRecord& record,
                core::Dtype dtype,
                const std::vector<std::int64_t>& shape) {
  auto [key, bytes] = make_content(dtype, shape, record.index * 31 + record.tensors.size());
  core::TensorRecord tensor;
  tensor.role =
      record.tensors.size() % 2 == 0 ? core::TensorRole::kInput : core::TensorRole::kOutput;
  tensor.slot = record.tensors.size() < 2 ? "same/slot" : ".";
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.device = "cpu";
  tensor.state = core::ContentState::kHashed;
  tensor.digest = key.digest;
  tensor.stored = true;
  record.tensors.push_back(tensor);
  sample.contents.emplace(key, std::move(bytes));
}

}  // namespace

std::pair<core::ContentKey, std::vector<std::byte>> make_content(core::Dtype dtype,
                                                                 std::vector<std::int64_t> shape,
                                                                 std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(static_cast<std::size_t>(core::element_count(shape)) *
                               core::element_size(dtype));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  core::ContentKey key{dtype, std::move(shape), core::digest_bytes(bytes)};
  return {std::move(key), std::move(bytes)};
}

Sample make_sample(std::uint64_t seed, std::size_t random_ops) {
  Sample sample;
  RandomRecords random(seed);
  const std::vector<std::vector<std::int64_t>> shapes{
      {}, {0}, {3, 0, 2}, {1}, {2, 3}, {2, 1, 3, 1, 2}};
  for (std::uint8_t i = 1; i <= static_cast<std::uint8_t>(core::Dtype::kQInt32); ++i) {
    core::OpRecord op = small_record(sample.ops.size());
    op.tensors.clear();
    op.arguments.clear();
    op.results.clear();
    for (const auto& shape : shapes) add_stored(sample, op, static_cast<core::Dtype>(i), shape);
    sample.ops.push_back(std::move(op));
  }
  // Above the size that is kept in memory, and above one leaf of the digest.
  add_stored(sample, sample.ops[0], core::Dtype::kFloat32, {300, 70});
  add_stored(sample, sample.ops[1], core::Dtype::kFloat64, {3, 70'001});
  // More dimensions than HDF5 has.
  std::vector<std::int64_t> deep(40, 1);
  deep[7] = 3;
  add_stored(sample, sample.ops[2], core::Dtype::kInt32, deep);
  while (sample.ops.size() < 25 + random_ops) sample.ops.push_back(random.next(sample.ops.size()));

  sample.manifest.tool_version = "test";
  sample.manifest.run_name = "baseline";
  sample.manifest.named_tensors = {
      {core::NamedTensorKind::kParameter, "w", core::Dtype::kFloat32, {2, 3}, {1, 2}}};
  sample.manifest.trace.digest_algorithm = core::kDigestAlgorithm;
  sample.manifest.trace.operators = sample.ops.size();
  for (const core::OpRecord& op : sample.ops) sample.manifest.trace.tensors += op.tensors.size();
  for (std::uint32_t i = 0; i < 5; ++i) {
    core::BlockRow block{i / 2, i % 2 == 0 ? "layers.0-3" : "head", i, core::Phase::kForward};
    block.training = i % 2 == 0;
    if (i != 1) block.in = {seed, i};
    if (i != 2) block.out = {i, seed};
    block.unopened = i;
    sample.blocks.push_back(std::move(block));
    core::ParameterRow read{i, "layers.0.weight", core::Digest{seed, i}};
    if (i == 3) read.digest.reset();
    sample.parameters.push_back(std::move(read));
  }
  sample.manifest.trace.blocks = core::BlockSummary{5, 5, 1, {{"mamba.Cache", 7}}, {"tail"}};
  return sample;
}

void play(core::DumpSink& sink, const Sample& sample) {
  sink.begin(sample.manifest);
  for (core::OpRecord op : sample.ops) {
    sink.enter(op);
    for (core::TensorRecord& tensor : op.tensors) {
      const core::ContentKey key = tensor.content_key();
      if (tensor.stored && !sink.has_content(key)) {
        tensor.stored = sink.put_content(key, sample.contents.at(key));
      }
    }
    sink.append(op);
  }
  for (const core::BlockRow& block : sample.blocks) sink.block(block);
  for (const core::ParameterRow& read : sample.parameters) sink.parameter(read);
}

void record(store::DumpWriter& writer, const Sample& sample) {
  play(writer, sample);
  writer.finish(sample.manifest);
}

void write_dump(const std::filesystem::path& directory,
                const Sample& sample,
                const store::DumpWriterOptions& options) {
  store::DumpWriter writer(directory, options);
  record(writer, sample);
}

bool reads_back(const core::DumpSource& dump, const Sample& sample) {
  bool same = dump.op_count() == sample.ops.size();
  same = same && dump.manifest().run_name == sample.manifest.run_name &&
         dump.manifest().named_tensors == sample.manifest.named_tensors &&
         dump.manifest().trace.contents == sample.contents.size();
  core::OpRecord used;  // by the record before
  for (std::uint64_t i = 0; i < dump.op_count(); ++i) {
    const core::OpRecord head = dump.op_head(i);
    const core::OpRecord whole = dump.op(i);
    dump.read_op(i, used);
    same = same && i < sample.ops.size() && same_record(whole, sample.ops[i]) &&
           same_record(used, sample.ops[i]) && *head.op == *whole.op && head.parent == whole.parent;
  }
  same = same && dump.manifest().trace.blocks == sample.manifest.trace.blocks &&
         dump.block_count() == sample.blocks.size() &&
         dump.parameter_count() == sample.parameters.size();
  for (std::uint64_t i = 0; i < dump.block_count(); ++i) {
    same = dump.block(i) == sample.blocks.at(i) && same;
  }
  for (std::uint64_t i = 0; i < dump.parameter_count(); ++i) {
    same = dump.parameter(i) == sample.parameters.at(i) && same;
  }
  std::vector<std::byte> bytes;
  for (const auto& [key, expected] : sample.contents) {
    if (!dump.has_content(key)) {
      same = false;
      continue;
    }
    dump.read_content(key, bytes);
    same = same && bytes == expected;
  }
  core::verify_contents(dump);
  return same;
}

std::string read_bytes(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_bytes(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
}

}  // namespace repro_check::test_support
