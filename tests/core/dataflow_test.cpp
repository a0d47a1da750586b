// SPDX-License-Identifier: Apache-2.0
#include "core/trace/dataflow.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/memory_source.h"

namespace repro_check::core {
namespace {

// op 0 writes h; op 1 views it; op 2 reads the view; op 3 writes over h; op 4 reads that.
constexpr const char* kDump = R"({
  "run": "baseline",
  "tensors": {
    "x": {"dtype": "float32", "shape": [4], "values": [1, 2, 3, 4]},
    "w": {"dtype": "float32", "shape": [4], "values": [1, 1, 1, 1]},
    "c": {"dtype": "float32", "shape": [4], "values": [0, 0, 0, 0]},
    "h": {"dtype": "float32", "shape": [4], "values": [2, 3, 4, 5]},
    "v": {"dtype": "float32", "shape": [2, 2], "values": [2, 3, 4, 5], "storage": "h"},
    "s": {"dtype": "float32", "shape": [], "values": [14]},
    "h2": {"dtype": "float32", "shape": [4], "values": [0, 0, 0, 0], "storage": "h"},
    "t": {"dtype": "float32", "shape": [], "values": [0]}
  },
  "named": [{"kind": "input", "name": "x", "tensor": "x"},
            {"kind": "parameter", "name": "linear.weight", "tensor": "w"}],
  "ops": [
    {"operator": "aten::addcmul", "inputs": {"self": "x", "tensor1": "w", "tensor2": "c"},
     "outputs": ["h"]},
    {"operator": "aten::view", "inputs": {"self": "h"}, "outputs": ["v"]},
    {"operator": "aten::sum", "inputs": {"self": "v"}, "outputs": ["s"]},
    {"operator": "aten::zero_", "inputs": {"self": "h"}, "outputs": ["h2"]},
    {"operator": "aten::sum", "inputs": {"self": "h2"}, "outputs": ["t"]}
  ]})";

std::vector<std::string> readers(const DumpSource& dump, std::uint64_t index) {
  std::vector<std::string> found;
  const OpRecord op = dump.op(index);
  for_each_reader(dump, op, [&](const auto& reader, const auto& argument, const auto& output) {
    found.push_back(std::to_string(reader.index) + " " + argument.slot + " " + output.slot);
  });
  return found;
}

}  // namespace

TEST_CASE("an argument comes from an operator, the model's inputs or state, or nowhere") {
  const auto dump = test_support::source_from_json(kDump);
  const OpRecord first = dump->op(0);
  CHECK(tensor_source(first.tensors[0]).kind == SourceKind::kInput);
  CHECK(tensor_source(first.tensors[0]).name == "x");
  CHECK(tensor_source(first.tensors[1]).kind == SourceKind::kState);
  CHECK(tensor_source(first.tensors[1]).name == "linear.weight");
  CHECK(tensor_source(first.tensors[2]).kind == SourceKind::kConstant);
  const OpRecord view = dump->op(1);
  CHECK(tensor_source(view.tensors[0]).kind == SourceKind::kOperator);
  CHECK(tensor_source(view.tensors[0]).op == 0);
  CHECK(named_source("").kind == SourceKind::kConstant);
  CHECK(named_source("input:").kind == SourceKind::kInput);
  CHECK(named_source("inputs:x").kind == SourceKind::kConstant);
}

TEST_CASE("what an operator wrote is read until somebody writes over it, through views too") {
  const auto dump = test_support::source_from_json(kDump);
  CHECK(readers(*dump, 0) == std::vector<std::string>{"1 self 0", "2 self 0", "3 self 0"});
  CHECK(readers(*dump, 3) == std::vector<std::string>{"4 self 0"});
}

TEST_CASE("a view is read by those who see the memory as it does") {
  const auto dump = test_support::source_from_json(kDump);
  CHECK(readers(*dump, 1) == std::vector<std::string>{"2 self 0"});
  CHECK(readers(*dump, 4).empty());
}

TEST_CASE("the output that made a value is the one of the same view, else of the same storage") {
  const auto dump = test_support::source_from_json(kDump);
  const OpRecord writer = dump->op(0);
  const OpRecord reader = dump->op(2);
  const TensorRecord* output = written_output(writer, reader.tensors[0]);
  REQUIRE(output != nullptr);
  CHECK(output->slot == "0");
  CHECK_FALSE(is_same_view(*output, reader.tensors[0]));
  // A producer that returned nothing of that storage, and a tensor without one.
  CHECK(written_output(dump->op(4), reader.tensors[0]) == nullptr);
  TensorRecord without = reader.tensors[0];
  without.storage = -1;
  CHECK(written_output(writer, without) == nullptr);
  CHECK(read_output(writer, without) == nullptr);

  OpRecord several = writer;
  several.tensors.back().shape = {2, 2};
  several.tensors.back().strides = reader.tensors[0].strides;
  several.tensors.back().slot = std::string("1");
  several.tensors.push_back(writer.tensors.back());
  std::swap(several.tensors[several.tensors.size() - 1],
            several.tensors[several.tensors.size() - 2]);
  CHECK(written_output(several, reader.tensors[0])->slot == "1");
}

}  // namespace repro_check::core
