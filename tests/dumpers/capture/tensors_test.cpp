// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "core/tensor/tensor_record.h"
#include "dumpers/capture/torch/torch_compat.h"
#include "tests/dumpers/capture/recording.h"

#if REPRO_CHECK_TORCH_AT_LEAST(2, 0)
#include <ATen/functorch/BatchedTensorImpl.h>
#endif

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

/// By word: the enumerators of newer types do not exist in older releases.
std::optional<c10::ScalarType> type_called(std::string_view word) {
  for (int i = 0; i < static_cast<int>(c10::ScalarType::NumOptions); ++i) {
    const auto type = static_cast<c10::ScalarType>(i);
    if (word == c10::toString(type)) return type;
  }
  return std::nullopt;
}

std::uint8_t* memory_of(const at::Tensor& tensor) {
  return static_cast<std::uint8_t*>(tensor.data_ptr());
}

core::Digest digest_of_bytes(const std::vector<std::uint8_t>& bytes) {
  return core::digest_bytes(std::as_bytes(std::span(bytes)));
}

DOCTEST_TEST_CASE("packed quantised tensors are composed of their bytes and their quantiser") {
  const at::Tensor real = at::tensor({1.0F, 2.0F, 3.0F, 0.0F, 2.0F});
  const at::Tensor nibbles = at::quantize_per_tensor(real, 0.5, 1, at::kQUInt4x2);
  const auto records = describe(nibbles);
  DOCTEST_REQUIRE(records.size() == 2);
  DOCTEST_CHECK(records[0].dtype == core::Dtype::kUnknown);
  DOCTEST_CHECK(records[0].state == ContentState::kComposite);
  DOCTEST_CHECK(records[0].layout == "quantised");
  DOCTEST_CHECK(records[0].shape == std::vector<std::int64_t>{5});
  DOCTEST_CHECK(records[0].strides == std::vector<std::int64_t>{1});
  DOCTEST_CHECK(records[0].attributes ==
                "dtype=quint4x2 scheme=per_tensor_affine scale=0.5 zero_point=1");
  DOCTEST_CHECK(records[1].slot == "x.values");
  DOCTEST_CHECK(records[1].dtype == core::Dtype::kUInt8);
  DOCTEST_CHECK(records[1].shape == std::vector<std::int64_t>{3});
  DOCTEST_CHECK(records[1].storage == records[0].storage);
  DOCTEST_CHECK(records[1].digest == digest_of_bytes({0x53, 0x17, 0x05}));

  // The half byte behind the last of five elements is nobody's; the one before is the last's.
  memory_of(nibbles)[2] = 0xF5;
  DOCTEST_CHECK(describe(nibbles).at(1).digest == records[1].digest);
  DOCTEST_CHECK(memory_of(nibbles)[2] == 0xF5);
  memory_of(nibbles)[2] = 0xF4;
  DOCTEST_CHECK(describe(nibbles).at(1).digest == digest_of_bytes({0x53, 0x17, 0x04}));

  const at::Tensor pairs = at::quantize_per_tensor(real, 1, 0, at::kQUInt2x4);
  memory_of(pairs)[1] = 0xFE;
  DOCTEST_CHECK(describe(pairs).at(0).attributes ==
                "dtype=quint2x4 scheme=per_tensor_affine scale=1 zero_point=0");
  DOCTEST_CHECK(describe(pairs).at(1).digest == digest_of_bytes({0x39, 0x02}));
}

/// Undefined where LibTorch refuses such a view, as 1.13 does: it holds the elements for bytes.
at::Tensor packed_view() {
  const at::Tensor whole = at::quantize_per_tensor(at::ones({8}), 1, 0, at::kQUInt4x2);
  try {
    return whole.slice(0, 2, 6);
  } catch (const c10::Error&) {
    return {};
  }
}

DOCTEST_TEST_CASE("packed tensors of one scale a channel have that in parts") {
  const at::Tensor scales = at::tensor({1.0F, 0.5F, 0.25F});
  const at::Tensor zeros = at::tensor({0.0F, 1.0F, 0.5F});
  const at::Tensor whole =
      at::quantize_per_channel(at::ones({3, 6}), scales, zeros, 0, at::kQUInt4x2);
  const auto records = describe(whole);
  DOCTEST_REQUIRE(records.size() == 4);
  DOCTEST_CHECK(records[0].attributes ==
                "dtype=quint4x2 scheme=per_channel_affine_float_qparams axis=0");
  DOCTEST_CHECK(records[1].slot == "x.values");
  DOCTEST_CHECK(records[1].shape == std::vector<std::int64_t>{9});
  DOCTEST_CHECK(records[1].digest == digest_of(at::int_repr(whole)));
  DOCTEST_CHECK(records[2].slot == "x.scales");
  DOCTEST_CHECK(records[2].digest == digest_of(scales));
  DOCTEST_CHECK(records[3].digest == digest_of(zeros));

  // LibTorch has room for three rows of two bytes, and packs 15 elements into four.
  const at::Tensor rows =
      at::quantize_per_channel(at::ones({3, 5}), scales, zeros, 0, at::kQUInt2x4);
  DOCTEST_CHECK(describe(rows).at(1).shape == std::vector<std::int64_t>{4});
}

DOCTEST_TEST_CASE("views of packed tensors have no content") {
  const at::Tensor view = packed_view();
  if (!view.defined()) return;
  // LibTorch takes the offset of elements for one of bytes: nobody knows what it should show.
  const auto row = describe(view);
  DOCTEST_REQUIRE(row.size() == 1);
  DOCTEST_CHECK(row[0].state == ContentState::kNone);
  DOCTEST_CHECK(row[0].attributes ==
                "dtype=quint4x2 scheme=per_tensor_affine scale=1 zero_point=0 "
                "elements=unreadable");
}

DOCTEST_TEST_CASE("dtypes that only have bits are composed of their bytes") {
  const at::Tensor bytes = at::arange(24, at::kByte).reshape({4, 6});
  for (const char* word :
       {"Bits1x8", "Bits2x4", "Bits4x2", "Bits8", "Int1", "Int4", "UInt1", "UInt4", "UInt7"}) {
    const auto type = type_called(word);
    if (!type) continue;
    const auto records = describe(bytes.view(*type).t());
    DOCTEST_REQUIRE(records.size() == 2);
    DOCTEST_CHECK(records[0].state == ContentState::kComposite);
    DOCTEST_CHECK(records[0].attributes.starts_with("dtype="));
    DOCTEST_CHECK(records[0].layout == "strided");
    DOCTEST_CHECK(records[1].shape == std::vector<std::int64_t>{6, 4});
    DOCTEST_CHECK(records[1].strides == std::vector<std::int64_t>{1, 6});
    DOCTEST_CHECK(records[1].digest == digest_of(bytes.t()));
  }
  if (const auto wide = type_called("Bits16")) {
    const at::Tensor part = bytes.view(*wide).slice(1, 1);
    const auto records = describe(part);
    DOCTEST_REQUIRE(records.size() == 2);
    DOCTEST_CHECK(records[0].shape == std::vector<std::int64_t>{4, 2});
    DOCTEST_CHECK(records[1].shape == std::vector<std::int64_t>{4, 2, 2});
    DOCTEST_CHECK(records[1].digest == digest_of(bytes.slice(1, 2)));
  }
}

DOCTEST_TEST_CASE("who made packed elements is who wrote their memory") {
  const auto type = type_called("UInt4");
  if (!type) return;
  const at::Tensor start = at::arange(6, at::kByte);
  const Trace sink = record(options_for(DumpDepth::kTop, DumpLevel::kTensor), [&] {
    const at::Tensor made = at::bitwise_not(start);
    const at::Tensor view = made.view(*type);
    made.add_(1);
    at::alias(view);
    at::alias(at::empty({3}, *type));
  });
  DOCTEST_REQUIRE(sink.records.size() == 6);
  const core::TensorRecord& before = output(sink.records[1], "0");
  DOCTEST_CHECK(before.state == ContentState::kComposite);
  DOCTEST_CHECK(before.producer == 0);
  const core::TensorRecord& values = output(sink.records[1], "0.values");
  DOCTEST_CHECK(values.producer == 0);
  DOCTEST_CHECK(values.stored);
  DOCTEST_CHECK(values.digest == output(sink.records[0], "0").digest);
  DOCTEST_CHECK(values.storage == output(sink.records[0], "0").storage);
  const core::TensorRecord& after = input(sink.records[3], "self.values");
  DOCTEST_CHECK(after.producer == 2);
  DOCTEST_CHECK(after.digest == output(sink.records[2], "0").digest);
  DOCTEST_CHECK(input(sink.records[5], "self").state == ContentState::kUninitialised);
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

#if REPRO_CHECK_TORCH_AT_LEAST(2, 0)
DOCTEST_TEST_CASE("a tensor inside of transforms is what they hold") {
  const at::Tensor x = at::arange(6, at::kFloat).reshape({2, 3});
  const at::Tensor batched = at::functorch::makeBatched(at::functorch::makeBatched(x, 1, 1), 0, 2);
  const auto records = describe(batched);
  DOCTEST_REQUIRE(records.size() == 2);
  DOCTEST_CHECK(records[0].layout == "transformed");
  DOCTEST_CHECK(records[0].attributes == "vmap=0 vmap=1");
  DOCTEST_CHECK(records[0].state == ContentState::kComposite);
  DOCTEST_CHECK(records[0].shape.empty());
  DOCTEST_CHECK(records[1].slot == "x.values");
  DOCTEST_CHECK(records[1].shape == std::vector<std::int64_t>{2, 3});
  DOCTEST_CHECK(records[1].digest == digest_of(x));
}
#endif

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

DOCTEST_TEST_CASE("every level counts NaN and infinities, however the elements lie") {
  const float inf = std::numeric_limits<float>::infinity();
  // Above one leaf of the digest, an odd number of elements, and one of each kind at its borders.
  at::Tensor whole = at::zeros({1025, 1027});
  const std::int64_t leaf = (1 << 20U) / 4;
  for (const std::int64_t at : {std::int64_t{0}, leaf - 1, leaf, whole.numel() - 1}) {
    whole.view({-1})[at] = NAN;
  }
  whole.view({-1})[leaf + 1] = inf;
  whole.view({-1})[2 * leaf] = -inf;
  const auto half = at::empty({7}, at::kHalf).fill_(-INFINITY);
  const auto parts = at::complex(at::full({3}, NAN), at::full({3}, inf));
  const int threads_found = at::get_num_threads();
  for (const DumpLevel level : {DumpLevel::kDigest, DumpLevel::kStats, DumpLevel::kTensor}) {
    for (const int threads : {1, 2}) {
      at::set_num_threads(threads);
      const Trace sink = record(options_for(DumpDepth::kTop, level), [&] {
        at::alias(whole);
        at::alias(whole.t());
        at::alias(whole.expand({2, 1025, 1027}));
        at::alias(half);
        at::alias(parts);
        at::alias(at::arange(5));
      });
      std::vector<core::NonFinite> found;
      for (const core::OpRecord& op : sink.records) {
        if (op.op->name != "aten::alias") continue;
        for (const core::TensorRecord& tensor : op.tensors) {
          DOCTEST_REQUIRE(tensor.non_finite());
          DOCTEST_CHECK(tensor.stats.has_value() == (level != DumpLevel::kDigest));
          DOCTEST_CHECK(tensor.counted.has_value() == (level == DumpLevel::kDigest));
          // What aliases it was not looked at again.
          if (tensor.role == core::TensorRole::kOutput) {
            const bool is_same = *tensor.non_finite() == found.back();
            DOCTEST_CHECK(is_same);
          } else {
            found.push_back(*tensor.non_finite());
          }
        }
      }
      const std::vector<core::NonFinite> expected{
          {4, 1, 1}, {4, 1, 1}, {8, 2, 2}, {0, 0, 7}, {3, 3, 0}, {}};
      const bool as_expected = found == expected;
      DOCTEST_CHECK(as_expected);
    }
  }
  at::set_num_threads(threads_found);
}

}  // namespace
}  // namespace repro_check::capture
