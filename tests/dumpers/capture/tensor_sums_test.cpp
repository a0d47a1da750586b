// SPDX-License-Identifier: Apache-2.0
// The sums of a step, and what a GPU would do for them, its threads played one after the other.
#include "dumpers/capture/tensors/tensor_sums.h"

#include <ATen/ATen.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string_view>

#include "dumpers/capture/tensors/sum_kernel.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::capture {
namespace {

sum_kernel::NumberKind kind_of(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kDouble) return sum_kernel::kDoubles;
  if (tensor.scalar_type() == at::kFloat) return sum_kernel::kFloats;
  return tensor.scalar_type() == at::kHalf ? sum_kernel::kHalves : sum_kernel::kBrainHalves;
}

/// @param at_once  pieces whose sums the device has room for
ColumnSums sums_as_device(const SumOrder& order, std::size_t at_once) {
  using namespace sum_kernel;
  std::vector<SumPiece> pieces;
  std::vector<at::Tensor> kept;
  std::uint64_t row = 0;
  for (const at::Tensor& tensor : order.tensors) {
    const at::Tensor& whole = kept.emplace_back(tensor.contiguous());
    for_each_piece(
        static_cast<std::size_t>(whole.numel()),
        row,
        [&](std::size_t first, std::size_t count, std::uint64_t its_row) {
          const auto* data = static_cast<const u8*>(whole.data_ptr());
          pieces.push_back({data + first * static_cast<std::size_t>(whole.element_size()),
                            its_row,
                            static_cast<u32>(count),
                            static_cast<u16>(kind_of(whole)),
                            static_cast<u16>(order.squares ? 1 : 0)});
        });
  }
  const SumGroup group{0, static_cast<u32>(pieces.size())};
  ColumnSums total{};
  std::vector<double> sums(at_once * kColumns);
  for (std::size_t begin = 0; begin < pieces.size(); begin += at_once) {
    const std::size_t end = std::min(begin + at_once, pieces.size());
    for (std::size_t i = begin; i < end; ++i) {
      for (u32 column = 0; column < kColumns; ++column) {
        sums[(i - begin) * kColumns + column] = sum_of_column(pieces[i], column);
      }
    }
    for (u32 column = 0; column < kColumns; ++column) {
      total[column] = add_pieces(group,
                                 static_cast<u32>(begin),
                                 static_cast<u32>(end),
                                 column,
                                 sums.data(),
                                 total[column]);
    }
  }
  return total;
}

bool same_bits(const ColumnSums& left, const ColumnSums& right) {
  return std::ranges::equal(left, right, [](double one, double other) {
    return std::bit_cast<std::uint64_t>(one) == std::bit_cast<std::uint64_t>(other);
  });
}

/// Of every kind, in several pieces, whose last rows are not whole.
std::vector<at::Tensor> numbers() {
  at::Tensor some = at::arange(-70'000, 75'001, at::TensorOptions(at::kDouble)).div(7);
  const at::Tensor small = at::arange(0, 3'000, at::TensorOptions(at::kFloat)).mul(3e-8);
  return {some,
          some.to(at::kFloat),
          at::empty({0}),
          some.slice(0, 0, 9'001).to(at::kHalf),
          small.to(at::kHalf),
          some.to(at::kBFloat16),
          some.to(at::kFloat).slice(0, 0, 144'900).view({300, 483}).t(),
          at::ones({}, at::kDouble)};
}

DOCTEST_TEST_CASE("a device finds the sums of the host, bit by bit") {
  for (const bool squares : {true, false}) {
    SumOrder order{squares, numbers()};
    add_up(std::span(&order, 1));
    DOCTEST_REQUIRE(order.sums);
    for (const std::size_t at_once : {1U, 4U, 100U}) {
      DOCTEST_CHECK(same_bits(sums_as_device(order, at_once), *order.sums));
    }
  }
}

DOCTEST_TEST_CASE("a device widens every number of 16 bits as the host does") {
  const at::Tensor bits = at::arange(-32'768, 32'768, at::TensorOptions(at::kShort));
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16}) {
    const at::Tensor halves = bits.view(type);
    const at::Tensor finite = halves.index({halves.isfinite()});
    for (const bool squares : {true, false}) {
      SumOrder order{squares, {finite}};
      add_up(std::span(&order, 1));
      DOCTEST_CHECK(same_bits(sums_as_device(order, 1), order.sums.value()));
    }
    const at::Tensor nothing = halves.index({halves.isnan()});
    const at::Tensor infinite = halves.index({halves.isinf()}).slice(0, 0, 1);
    DOCTEST_CHECK(std::isnan(sums_as_device({true, {nothing}}, 1)[0]));
    DOCTEST_CHECK(std::isinf(sums_as_device({true, {infinite}}, 1)[0]));
  }
}

DOCTEST_TEST_CASE("sums: every order has its own, and what cannot be read has none") {
  const at::Tensor three = at::full({3}, 2.0);
  std::array<SumOrder, 4> orders{SumOrder{true, {three, {}, at::full({1}, 2.0, at::kDouble)}},
                                 {true, {three, at::ones({2}, at::kInt)}},
                                 {true, {at::Tensor()}},
                                 {true, {at::full({2}, std::numeric_limits<float>::quiet_NaN())}}};
  add_up(orders);
  DOCTEST_CHECK(norm_of(orders[0].sums.value()) == 4.0);
  DOCTEST_CHECK_FALSE(orders[1].sums.has_value());
  DOCTEST_CHECK_FALSE(orders[2].sums.has_value());
  DOCTEST_CHECK(std::isnan(norm_of(orders[3].sums.value())));
}

DOCTEST_TEST_CASE("a device is given the sums' code as a text") {
  const std::string_view text = sum_kernel::kText;
  DOCTEST_CHECK(text.find("sum_groups") != std::string_view::npos);
  DOCTEST_CHECK(text.find("//") == std::string_view::npos);
}

}  // namespace
}  // namespace repro_check::capture
