// SPDX-License-Identifier: Apache-2.0
// Reading strided memory, which needs no LibTorch.
#include <limits>
#include <numeric>
#include <vector>

#include "dumpers/capture/tensors/strided_bytes.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::capture {
namespace {

using Sizes = std::vector<std::int64_t>;

/// What a reader would see, element by element.
template <class Element>
std::vector<Element> by_index(const std::vector<Element>& memory,
                              const Sizes& sizes,
                              const Sizes& strides) {
  std::vector<Element> out;
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    std::int64_t at = 0;
    for (std::size_t d = sizes.size(); d > 0; --d) {
      at += rest % sizes[d - 1] * strides[d - 1];
      rest /= sizes[d - 1];
    }
    out.push_back(memory[static_cast<std::size_t>(at)]);
  }
  return out;
}

template <class Element>
void check_reading(const Sizes& sizes, const Sizes& strides) {
  std::vector<Element> memory(4096);
  std::iota(memory.begin(), memory.end(), Element{0});
  const StridedBytes content(
      reinterpret_cast<const std::byte*>(memory.data()), sizeof(Element), sizes, strides);
  const std::vector<Element> expected = by_index(memory, sizes, strides);
  DOCTEST_REQUIRE(content.count() == expected.size());
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, expected.size() + 1}) {
    std::vector<Element> out(expected.size());
    for (std::size_t begin = 0; begin < out.size(); begin += step) {
      const std::size_t count = std::min(step, out.size() - begin);
      content.copy(begin,
                   std::as_writable_bytes(std::span(out))
                       .subspan(begin * sizeof(Element), count * sizeof(Element)));
    }
    DOCTEST_REQUIRE(out == expected);
  }
}

DOCTEST_TEST_CASE("memory is read in logical order from any place on") {
  const std::vector<std::pair<Sizes, Sizes>> layouts = {{{5, 7}, {7, 1}},
                                                        {{7, 5}, {1, 7}},
                                                        {{3, 4, 5}, {1, 3, 12}},
                                                        {{4, 6}, {0, 1}},
                                                        {{4, 6}, {1, 0}},
                                                        {{2, 3, 4, 5}, {60, 1, 15, 3}},
                                                        {{6}, {3}},
                                                        {{1, 6, 1}, {9, 2, 5}},
                                                        {{3, 1, 4}, {8, 100, 2}},
                                                        {{2, 2, 2}, {0, 0, 0}},
                                                        {{}, {}},
                                                        {{2, 3, 4}, {24, 8, 2}},
                                                        {{64, 64}, {1, 64}},
                                                        {{40, 70}, {1, 40}},
                                                        {{33, 65}, {1, 34}},
                                                        {{2, 20, 36}, {720, 1, 20}}};
  for (const auto& [sizes, strides] : layouts) {
    check_reading<std::uint8_t>(sizes, strides);
    check_reading<std::uint16_t>(sizes, strides);
    check_reading<std::uint32_t>(sizes, strides);
    check_reading<double>(sizes, strides);
  }
}

DOCTEST_TEST_CASE("a transposed tensor of many leaves and long rows has the digest of its copy") {
  constexpr std::int64_t kRows = 40;
  constexpr std::int64_t kColumns = 60'000;
  std::vector<float> memory(kRows * kColumns);
  std::iota(memory.begin(), memory.end(), 0.0F);
  memory[memory.size() / 2] = std::numeric_limits<float>::infinity();
  const Sizes sizes{kRows, kColumns};
  const Sizes strides{1, kRows};
  const auto* first = reinterpret_cast<const std::byte*>(memory.data());
  const std::vector<float> copy = by_index(memory, sizes, strides);
  for (const bool with_stats : {false, true}) {
    const ContentSummary summary = summarise_content(
        StridedBytes(first, sizeof(float), sizes, strides), core::Dtype::kFloat32, with_stats);
    DOCTEST_CHECK(summary.digest == core::digest_bytes(std::as_bytes(std::span(copy))));
    DOCTEST_CHECK((with_stats ? summary.stats->positive_infs : summary.non_finite.positive_infs) ==
                  1);
  }
}

DOCTEST_TEST_CASE("contiguous and overlapping are told apart") {
  const std::vector<float> memory(64);
  const auto* first = reinterpret_cast<const std::byte*>(memory.data());
  DOCTEST_CHECK(StridedBytes(first, 4, Sizes{2, 3}, Sizes{3, 1}).contiguous());
  DOCTEST_CHECK(StridedBytes(first, 4, Sizes{2, 1, 3}, Sizes{3, 77, 1}).contiguous());
  DOCTEST_CHECK(StridedBytes(first, 4, Sizes{2, 0}, Sizes{9, 9}).contiguous());
  DOCTEST_CHECK_FALSE(StridedBytes(first, 4, Sizes{2, 3}, Sizes{1, 2}).contiguous());
  DOCTEST_CHECK(StridedBytes(first, 4, Sizes{2, 3}, Sizes{0, 1}).overlapping());
  DOCTEST_CHECK_FALSE(StridedBytes(first, 4, Sizes{2, 3}, Sizes{1, 2}).overlapping());
}

}  // namespace
}  // namespace repro_check::capture
