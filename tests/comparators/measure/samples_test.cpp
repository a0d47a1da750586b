// SPDX-License-Identifier: Apache-2.0
#include "comparators/measure/samples.h"

#include <doctest/doctest.h>

#include "tests/comparators/measure/tensor_pair.h"

namespace repro_check::comparators {
namespace {

using core::Dtype;

std::string text_of(Dtype dtype, const std::string& bits) {
  const TensorPair pair = bits_pair(dtype, "[" + bits + "]", "[" + bits + "]");
  return element_text(dtype, pair.baseline_bytes);
}

TEST_CASE("elements are written as short as they read back in their own dtype") {
  CHECK(text_of(Dtype::kFloat32, R"("3dcccccd")") == "0.1");
  CHECK(text_of(Dtype::kFloat64, R"("3fb999999999999a")") == "0.1");
  CHECK(text_of(Dtype::kFloat16, R"("2e66")") == "0.099975586");
  CHECK(text_of(Dtype::kBFloat16, R"("3dcd")") == "0.100097656");
  CHECK(text_of(Dtype::kBFloat16, R"("3f81")") == "1.0078125");
  CHECK(text_of(Dtype::kBFloat16, R"("3f80")") == "1");
  CHECK(text_of(Dtype::kFloat16, R"("7bff")") == "65504");
  CHECK(text_of(Dtype::kFloat16, R"("0001")") == "5.9604645e-08");
  CHECK(text_of(Dtype::kFloat8E4M3FN, R"("7e")") == "448");
  CHECK(text_of(Dtype::kFloat8E8M0FNU, R"("7f")") == "1");
  CHECK(text_of(Dtype::kFloat32, R"("80000000")") == "-0");
  CHECK(text_of(Dtype::kFloat16, R"("8000")") == "-0");
  CHECK(text_of(Dtype::kFloat32, R"("7fc00000")") == "nan");
  CHECK(text_of(Dtype::kFloat8E5M2, R"("fc")") == "-inf");
  CHECK(text_of(Dtype::kInt8, R"("80")") == "-128");
  CHECK(text_of(Dtype::kUInt64, R"("ffffffffffffffff")") == "18446744073709551615");
  CHECK(text_of(Dtype::kBool, R"("01")") == "True");
  CHECK(text_of(Dtype::kBool, R"("02")") == "2");
  CHECK(text_of(Dtype::kComplex64, R"(["3f800000","c0000000"])") == "(1-2j)");
}

TEST_CASE("samples are the first elements that differ, with bits and ULP") {
  TensorPair pair = values_pair(Dtype::kFloat32, "[1,2,3,4,5,6]", "[1,2.5,3,4,-5,7]");
  pair.shape = {2, 3};
  const auto samples = first_differences(pair.baseline(), pair.candidate(), 2);
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].flat_index == 1);
  CHECK(samples[0].index == std::vector<std::int64_t>{0, 1});
  CHECK(samples[0].baseline == "2");
  CHECK(samples[0].candidate == "2.5");
  CHECK(samples[0].baseline_bits == "40000000");
  CHECK(samples[0].candidate_bits == "40200000");
  CHECK(samples[0].ulp == 2097152);
  CHECK(samples[1].index == std::vector<std::int64_t>{1, 1});
}

TEST_CASE("a 0-d tensor has an empty index, NaN has no ULP") {
  TensorPair pair = bits_pair(Dtype::kFloat32, R"(["7fc00000"])", R"(["3f800000"])");
  pair.shape = {};
  const auto samples = first_differences(pair.baseline(), pair.candidate(), 10);
  REQUIRE(samples.size() == 1);
  CHECK(samples[0].index.empty());
  CHECK_FALSE(samples[0].ulp);
}

}  // namespace
}  // namespace repro_check::comparators
