// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstdint>

#include "core/tensor/content.h"

namespace repro_check::core {
namespace {

TEST_CASE("so many elements stand at every so many positions") {
  CHECK(slice_length(0, 1) == 0);
  CHECK(slice_length(1, UINT64_MAX) == 1);
  CHECK(slice_length(10, 1) == 10);
  CHECK(slice_length(10, 3) == 4);
  CHECK(slice_length(9, 3) == 3);
  CHECK(slice_length(UINT64_MAX, 1) == UINT64_MAX);
}

TEST_CASE("a slice has fewer elements than the content, all inside it") {
  CHECK(is_slice_of({4, 3, {}}, 10));
  CHECK(is_slice_of({9, 1, {}}, 10));
  CHECK(is_slice_of({1, UINT64_MAX, {}}, 2));
  CHECK_FALSE(is_slice_of({5, 3, {}}, 10));
  CHECK_FALSE(is_slice_of({10, 1, {}}, 10));
  CHECK_FALSE(is_slice_of({0, 1, {}}, 10));
  CHECK_FALSE(is_slice_of({1, 0, {}}, 10));
  CHECK_FALSE(is_slice_of({1, 1, {}}, 0));
  CHECK_FALSE(is_slice_of({UINT64_MAX, UINT64_MAX, {}}, 10));
}

TEST_CASE("a slice is a content of one dimension, and says what it is") {
  const ContentKey whole{Dtype::kFloat16, {2, 5}, {1, 2}};
  CHECK(slice_key(whole, {4, 3, {5, 6}}) == ContentKey{Dtype::kFloat16, {4}, {5, 6}});
  CHECK(describe_slice({4, 1, {}}, 10) == "the first 4 of 10 elements");
  CHECK(describe_slice({4, 3, {}}, 10) == "4 of 10 elements, one in 3 from the first on");
}

}  // namespace
}  // namespace repro_check::core
