// SPDX-License-Identifier: Apache-2.0
// What lies where in a storage: the part that has been written, and names.
#include <string>

#include "dumpers/capture/settings/determinism.h"
#include "tests/dumpers/capture/recording.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::capture {
namespace {

using core::ContentState;
using core::DumpDepth;

DOCTEST_TEST_CASE(
    "memory written in part is unwritten in the rest, until the parts are the whole") {
  const at::Tensor row = at::ones({4});
  const Trace sink = record(top(), [&] {
    at::Tensor x = at::empty({4, 4});
    x.select(0, 1).copy_(row);
    at::neg(x.select(0, 1));
    at::neg(x);
    at::neg(x.select(0, 2));
    at::neg(x.t());
    for (const int i : {3, 0, 2}) x.select(0, i).fill_(i);
    at::neg(x);
  });
  const auto negs = sink.all("aten::neg");
  DOCTEST_REQUIRE(negs.size() == 5);
  DOCTEST_CHECK(input(*negs[0], "self").digest == digest_of(row));
  const core::TensorRecord& part = input(*negs[1], "self");
  DOCTEST_CHECK(part.state == ContentState::kUninitialised);
  at::Tensor shown = at::zeros({4, 4});
  shown.select(0, 1).copy_(row);
  DOCTEST_CHECK(part.digest == digest_of(shown));
  DOCTEST_CHECK(part.producer == static_cast<std::int64_t>(sink.only("aten::copy_").index));
  DOCTEST_CHECK(output(*negs[1], "0").state == ContentState::kHashed);
  DOCTEST_CHECK(input(*negs[2], "self").state == ContentState::kUninitialised);
  DOCTEST_CHECK(input(*negs[2], "self").digest == core::Digest{});
  DOCTEST_CHECK(input(*negs[3], "self").state == ContentState::kUninitialised);
  DOCTEST_CHECK(input(*negs[4], "self").state == ContentState::kHashed);
}

DOCTEST_TEST_CASE("columns, padding and writes that nobody can follow make memory whole") {
  const Trace sink = record(top(), [] {
    at::Tensor columns = at::empty({3, 4});
    for (int i = 0; i < 4; ++i) columns.select(1, i).fill_(i);
    at::neg(columns);
    // Two elements of the storage belong to nobody.
    at::Tensor padded = at::empty_strided({2, 2}, {4, 1});
    padded.fill_(1);
    at::neg(padded);
    at::Tensor out = at::empty({0});
    at::add_out(out, at::ones({6}), at::ones({6}));
    at::neg(out);
    at::Tensor stepped = at::empty({100'000, 2});
    stepped.select(1, 0).fill_(1);
    at::neg(stepped);
  });
  for (const core::OpRecord* neg : sink.all("aten::neg")) {
    DOCTEST_CAPTURE(neg->index);
    DOCTEST_CHECK(input(*neg, "self").state == ContentState::kHashed);
  }
}

DOCTEST_TEST_CASE("of operators that pick elements those count as written") {
  const at::Tensor some = at::arange(4).remainder(2) == 0;
  const at::Tensor low = at::tensor({0, 2}, at::kLong);
  const Trace sink = record(top(), [&] {
    at::Tensor put = at::empty({4});
    put.index_put_({low}, at::ones({2}));
    at::neg(put);
    at::neg(put.slice(0, 0, 1));
    put.index_put_({some.logical_not()}, at::ones({}));
    at::neg(put);
    at::Tensor masked = at::empty({4});
    masked.masked_fill_(some, 1);
    at::neg(masked);
    masked.masked_fill_(some.logical_not(), 2);
    at::neg(masked);
    at::Tensor scattered = at::empty({2, 2});
    scattered.scatter_(1, at::zeros({2, 1}, at::kLong), 1);
    at::neg(scattered);
    scattered.index_fill_(1, at::tensor({1}, at::kLong), 2);
    at::neg(scattered);
  });
  std::string seen;
  for (const core::OpRecord* neg : sink.all("aten::neg")) {
    seen += input(*neg, "self").state == ContentState::kHashed ? 'h' : 'u';
  }
  DOCTEST_CHECK(seen == "uhhuhuh");
  const core::TensorRecord& put = output(*sink.all("aten::index_put_").front(), "0");
  DOCTEST_CHECK(put.state == ContentState::kUninitialised);
  // What it wrote is compared, though the rest is nobody's.
  DOCTEST_CHECK(put.digest == digest_of(at::tensor({1.0F, 0.0F, 1.0F, 0.0F})));
}

DOCTEST_TEST_CASE(
    "a mask of bytes picks as one of truths does, and nothing is said of the asking") {
  const at::Tensor bytes = at::tensor({1, 0, 1, 0}, at::kByte);
  const WarningCollector collector;
  const Trace sink = record(top(), [&] {
    at::Tensor put = at::empty({4});
    put.index_put_({bytes}, at::ones({2}));
    at::neg(put);
    put.index_put_({1 - bytes}, at::ones({2}));
    at::neg(put);
  });
  const auto negs = sink.all("aten::neg");
  DOCTEST_REQUIRE(negs.size() == 2);
  DOCTEST_CHECK(input(*negs[0], "self").state == ContentState::kUninitialised);
  DOCTEST_CHECK(input(*negs[1], "self").state == ContentState::kHashed);
  for (const std::string& text : collector.warnings()) {
    // What the model is told of its own call.
    DOCTEST_CHECK(text.find("indexing with dtype torch.uint8") != std::string::npos);
  }
}

DOCTEST_TEST_CASE("what a kernel allocates for itself is taken for whole at its first write") {
  const Trace sink = record(options_for(DumpDepth::kAll), [] {
    const at::Tensor x = at::ones({2, 3});
    at::stack({x, x}, 1);
    at::cat({x, x.t().contiguous().view({2, 3})}, 0);
    at::block_diag({x, x});
  });
  for (const core::OpRecord& record : sink.records) {
    for (const core::TensorRecord& tensor : record.tensors) {
      const bool reads = tensor.role == core::TensorRole::kOutput && record.depth == 0;
      if (reads) DOCTEST_CHECK(tensor.state == ContentState::kHashed);
    }
  }
}

DOCTEST_TEST_CASE("tensors that share a storage keep a name each") {
  const at::Tensor flat = at::randn({20});
  const at::Tensor weight = flat.narrow(0, 0, 12).view({3, 4});
  const at::Tensor bias = flat.narrow(0, 12, 4);
  MemorySink sink;
  Capture capture(top(), sink, nullptr);
  capture.name_tensor(weight, "state:weight");
  capture.name_tensor(bias, "state:bias");
  {
    const Capture::Scope scope(capture);
    at::linear(at::ones({2, 3}), weight.t(), bias);
    at::neg(weight.select(0, 1));
    at::neg(flat);
  }
  capture.rethrow_failure();
  DOCTEST_CHECK(input(sink.only("aten::linear"), "weight").name == "state:weight");
  DOCTEST_CHECK(input(sink.only("aten::linear"), "bias").name == "state:bias");
  const auto negs = sink.all("aten::neg");
  DOCTEST_CHECK(input(*negs[0], "self").name == "state:weight");
  DOCTEST_CHECK(input(*negs[1], "self").name.empty());
}

}  // namespace
}  // namespace repro_check::capture
