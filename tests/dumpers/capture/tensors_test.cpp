// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <limits>
#include <set>

#include "core/tensor_record.h"
#include "tests/dumpers/capture/recording.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::capture {
namespace {

using core::ContentState;
using core::DumpDepth;
using core::DumpLevel;

std::vector<core::TensorRecord> describe(const at::Tensor& tensor) {
  MemorySink sink;
  Capture capture(options_for(DumpDepth::kTop), sink, nullptr);
  return capture.describe(tensor, "x");
}

DOCTEST_TEST_CASE("an ordinary tensor is described completely") {
  at::Tensor tensor = at::arange(24, at::kFloat).reshape({2, 3, 4}).transpose(0, 2);
  tensor = tensor.slice(0, 1);
  tensor.set_requires_grad(true);
  const core::TensorRecord record = describe(tensor).at(0);
  DOCTEST_CHECK(record.slot == "x");
  DOCTEST_CHECK(record.dtype == core::Dtype::kFloat32);
  DOCTEST_CHECK(record.shape == std::vector<std::int64_t>{3, 3, 2});
  DOCTEST_CHECK(record.strides == std::vector<std::int64_t>{1, 4, 12});
  DOCTEST_CHECK(record.storage_offset == 1);
  DOCTEST_CHECK(record.device == "cpu");
  DOCTEST_CHECK(record.layout == "strided");
  DOCTEST_CHECK(record.requires_grad);
  DOCTEST_CHECK(record.state == ContentState::kHashed);
  DOCTEST_CHECK(record.digest == digest_of(tensor));
  DOCTEST_CHECK(record.storage == 0);
}

DOCTEST_TEST_CASE("every dtype is hashed by its bytes") {
  for (const c10::ScalarType type : {at::kBool,
                                     at::kByte,
                                     at::kChar,
                                     at::kShort,
                                     at::kInt,
                                     at::kLong,
                                     at::kHalf,
                                     at::kBFloat16,
                                     at::kFloat,
                                     at::kDouble,
                                     at::kComplexFloat,
                                     at::kComplexDouble}) {
    const at::Tensor tensor = at::ones({3, 2}, type);
    const core::TensorRecord record = describe(tensor).at(0);
    DOCTEST_CHECK(record.dtype != core::Dtype::kUnknown);
    DOCTEST_CHECK(record.digest == digest_of(tensor));
    DOCTEST_CHECK(core::element_size(record.dtype) == tensor.element_size());
  }
}

DOCTEST_TEST_CASE("large contents are hashed leaf by leaf, whatever the strides") {
  const at::Tensor large = at::arange(3'000'017, at::kInt);
  DOCTEST_CHECK(describe(large).at(0).digest == digest_of(large));
  const at::Tensor turned = at::arange(2'000'000, at::kInt).reshape({1000, 2000}).t();
  DOCTEST_CHECK(describe(turned).at(0).digest == digest_of(turned));
  const at::Tensor expanded = at::arange(1000, at::kDouble).unsqueeze(1).expand({1000, 1700});
  DOCTEST_CHECK(describe(expanded).at(0).digest == digest_of(expanded));
  const at::Tensor image =
      at::arange(2'400'000, at::kHalf).reshape({2, 3, 400, 1000}).permute({0, 2, 3, 1});
  DOCTEST_CHECK(describe(image).at(0).digest == digest_of(image));
}

DOCTEST_TEST_CASE("undefined, empty, scalar, expanded, conjugate and negative tensors") {
  DOCTEST_CHECK(describe(at::Tensor()).at(0).state == ContentState::kUndefined);

  const core::TensorRecord empty = describe(at::ones({2, 0, 3})).at(0);
  DOCTEST_CHECK(empty.state == ContentState::kHashed);
  DOCTEST_CHECK(empty.digest == core::digest_leaf({}));
  DOCTEST_CHECK(describe(at::empty({0})).at(0).state == ContentState::kHashed);

  const at::Tensor scalar = at::scalar_tensor(2.5);
  DOCTEST_CHECK(describe(scalar).at(0).shape.empty());
  DOCTEST_CHECK(describe(scalar).at(0).digest == digest_of(scalar));

  const at::Tensor expanded = at::ones({3, 1}).expand({3, 4});
  DOCTEST_CHECK(describe(expanded).at(0).strides == std::vector<std::int64_t>{1, 0});
  DOCTEST_CHECK(describe(expanded).at(0).digest == digest_of(at::ones({3, 4})));

  const at::Tensor complex = at::complex(at::arange(4, at::kFloat), at::arange(4, at::kFloat));
  const at::Tensor conjugate = at::_conj(complex);
  DOCTEST_REQUIRE(conjugate.is_conj());
  DOCTEST_CHECK(describe(conjugate).at(0).digest == digest_of(conjugate.resolve_conj()));
  const at::Tensor negative = at::imag(conjugate);
  DOCTEST_REQUIRE(negative.is_neg());
  DOCTEST_CHECK(describe(negative).at(0).digest == digest_of(negative.resolve_neg()));
}

DOCTEST_TEST_CASE("sparse tensors are composed of records, and never coalesced") {
  const at::Tensor indices = at::tensor({0, 0, 1}, at::kLong).reshape({1, 3});
  const at::Tensor values = at::tensor({1.0F, 2.0F, 3.0F});
  const at::Tensor sparse = at::_sparse_coo_tensor_unsafe(indices, values, {4});
  const auto records = describe(sparse);
  DOCTEST_REQUIRE(records.size() == 3);
  DOCTEST_CHECK(records[0].state == ContentState::kComposite);
  DOCTEST_CHECK(records[0].layout == "sparse_coo");
  DOCTEST_CHECK(records[0].attributes == "sparse_dim=1 dense_dim=0 nnz=3 coalesced=false");
  DOCTEST_CHECK(records[0].strides.empty());
  DOCTEST_CHECK(records[1].slot == "x.indices");
  DOCTEST_CHECK(records[1].digest == digest_of(indices));
  DOCTEST_CHECK(records[2].slot == "x.values");
  DOCTEST_CHECK(records[2].digest == digest_of(values));
  DOCTEST_CHECK_FALSE(sparse.is_coalesced());

  const at::Tensor csr = at::eye(3).to_sparse_csr();
  const auto compressed = describe(csr);
  DOCTEST_REQUIRE(compressed.size() == 4);
  DOCTEST_CHECK(compressed[0].layout == "sparse_csr");
  DOCTEST_CHECK(compressed[1].slot == "x.crow_indices");
  DOCTEST_CHECK(compressed[2].slot == "x.col_indices");
  DOCTEST_CHECK(compressed[3].digest == digest_of(at::ones({3})));
}

DOCTEST_TEST_CASE("quantised tensors keep their integers and exact parameters") {
  const at::Tensor real = at::tensor({0.1F, 0.2F, 0.3F});
  const at::Tensor tensor = at::quantize_per_tensor(real, 0.1, 3, at::kQUInt8);
  const auto records = describe(tensor);
  DOCTEST_REQUIRE(records.size() == 1);
  DOCTEST_CHECK(records[0].layout == "quantised");
  DOCTEST_CHECK(records[0].dtype == core::Dtype::kQUInt8);
  DOCTEST_CHECK(records[0].attributes ==
                "scheme=per_tensor_affine scale=0.10000000000000001 zero_point=3");
  DOCTEST_CHECK(records[0].digest == digest_of(at::int_repr(tensor)));

  const at::Tensor scales = at::tensor({0.1, 0.5}, at::kDouble);
  const at::Tensor zeros = at::tensor({1, 2}, at::kLong);
  const at::Tensor channels =
      at::quantize_per_channel(at::ones({2, 3}), scales, zeros, 0, at::kQInt8);
  const auto parts = describe(channels);
  DOCTEST_REQUIRE(parts.size() == 3);
  DOCTEST_CHECK(parts[0].state == ContentState::kHashed);
  DOCTEST_CHECK(parts[1].slot == "x.scales");
  DOCTEST_CHECK(parts[2].slot == "x.zero_points");
  DOCTEST_CHECK(parts[2].digest == digest_of(zeros));
}

DOCTEST_TEST_CASE("nested, meta, mkldnn and freed tensors have defined records") {
  const at::Tensor nested =
      at::_nested_tensor_from_tensor_list({at::ones({2, 3}), at::ones({1, 3})});
  const auto records = describe(nested);
  DOCTEST_REQUIRE(records.size() == 5);
  DOCTEST_CHECK(records[0].layout == "nested");
  DOCTEST_CHECK(records[0].state == ContentState::kComposite);
  DOCTEST_CHECK(records[1].slot == "x.values");
  DOCTEST_CHECK(records[1].shape == std::vector<std::int64_t>{9});
  DOCTEST_CHECK(records[4].slot == "x.offsets");

  const core::TensorRecord meta = describe(at::ones({2, 3}, at::device(at::kMeta))).at(0);
  DOCTEST_CHECK(meta.state == ContentState::kNone);
  DOCTEST_CHECK(meta.device == "meta");
  DOCTEST_CHECK(meta.shape == std::vector<std::int64_t>{2, 3});

  if (at::hasMKLDNN()) {
    const at::Tensor dense = at::arange(6, at::kFloat).reshape({2, 3});
    const core::TensorRecord mkldnn = describe(dense.to_mkldnn()).at(0);
    DOCTEST_CHECK(mkldnn.layout == "mkldnn");
    DOCTEST_CHECK(mkldnn.state == ContentState::kHashed);
    DOCTEST_CHECK(mkldnn.digest == digest_of(dense));
  }

  const at::Tensor freed = at::ones({4});
  freed.storage().unsafeGetStorageImpl()->set_nbytes(0);
  DOCTEST_CHECK(describe(freed).at(0).state == ContentState::kNone);
}

DOCTEST_TEST_CASE("level tensor stores each content once, in logical order") {
  const at::Tensor x = at::arange(6, at::kFloat).reshape({2, 3}).t();
  const Trace sink = record(options_for(DumpDepth::kTop, DumpLevel::kTensor), [&] {
    at::neg(x);
    at::neg(x);
  });
  const core::TensorRecord& self = input(sink.records[1], "self");
  DOCTEST_REQUIRE(self.stored);
  const std::vector<std::byte>& bytes = sink.contents.at(self.content_key());
  const at::Tensor expected = x.contiguous();
  DOCTEST_CHECK(std::memcmp(bytes.data(), expected.data_ptr(), bytes.size()) == 0);
  DOCTEST_CHECK(sink.contents.size() == 2);

  const Trace digests =
      record(options_for(DumpDepth::kTop, DumpLevel::kDigest), [&] { at::neg(x); });
  DOCTEST_CHECK(digests.contents.empty());
  DOCTEST_CHECK_FALSE(input(digests.records[0], "self").stored);
}

DOCTEST_TEST_CASE("a window keeps the bytes of its operators, and of what they read") {
  const at::Tensor x = at::arange(6, at::kFloat);
  CaptureOptions options = options_for(DumpDepth::kTop, DumpLevel::kTensor);
  options.keep_ops = {{1, 1}, {3, 3}};
  const Trace window = record(options, [&] { at::neg(at::exp(at::sin(at::neg(x)))); });
  DOCTEST_REQUIRE(window.records.size() == 4);
  DOCTEST_CHECK_FALSE(input(window.records[0], "self").stored);
  DOCTEST_CHECK_FALSE(output(window.records[0], "0").stored);
  // What sin reads was made outside, and hashed there.
  const core::TensorRecord& read = input(window.records[1], "self");
  DOCTEST_CHECK(read.stored);
  DOCTEST_CHECK(window.contents.contains(read.content_key()));
  DOCTEST_CHECK(read.digest == output(window.records[0], "0").digest);
  DOCTEST_CHECK(output(window.records[1], "0").stored);
  DOCTEST_CHECK_FALSE(output(window.records[2], "0").stored);
  DOCTEST_CHECK(input(window.records[3], "self").stored);
  DOCTEST_CHECK(window.contents.size() == 4);

  options.keep_ops.clear();
  const Trace whole = record(options, [&] { at::neg(at::exp(at::sin(at::neg(x)))); });
  for (std::size_t i = 0; i < 4; ++i) {
    DOCTEST_CHECK(output(window.records[i], "0").digest == output(whole.records[i], "0").digest);
  }
}

DOCTEST_TEST_CASE("level stats summarises the values") {
  const float inf = std::numeric_limits<float>::infinity();
  const at::Tensor x = at::tensor({1.0F, -3.0F, 0.0F, inf, -inf, NAN, 1e-40F});
  const Trace sink = record(options_for(DumpDepth::kTop, DumpLevel::kStats), [&] { at::alias(x); });
  const auto& stats = input(sink.only("aten::alias"), "self").stats;
  DOCTEST_REQUIRE(stats);
  DOCTEST_CHECK(stats->min == -inf);
  DOCTEST_CHECK(stats->max == inf);
  DOCTEST_CHECK(stats->mean == doctest::Approx(-0.5));
  DOCTEST_CHECK(stats->zeros == 1);
  DOCTEST_CHECK(stats->nans == 1);
  DOCTEST_CHECK(stats->positive_infs == 1);
  DOCTEST_CHECK(stats->negative_infs == 1);
  DOCTEST_CHECK(stats->subnormals == 1);
  DOCTEST_CHECK(sink.contents.empty());
}

}  // namespace
}  // namespace repro_check::capture
