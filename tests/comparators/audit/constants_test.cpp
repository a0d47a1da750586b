// SPDX-License-Identifier: Apache-2.0
// What draws look like, and that tables which models are made with do not.
#include "comparators/audit/constants.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numbers>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace repro_check::comparators {
namespace {

using Numbers = std::vector<double>;

Numbers made(std::size_t rows,
             std::size_t columns,
             const std::function<double(double, double)>& at) {
  Numbers numbers;
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      numbers.push_back(at(static_cast<double>(row), static_cast<double>(column)));
    }
  }
  return numbers;
}

NumbersLook look_of(const Numbers& numbers, std::size_t row = 1) {
  return look_at(numbers, row, false).look;
}

ArtefactConstant constant_of(Numbers numbers, std::vector<ConstantUse> uses) {
  ArtefactConstant constant;
  constant.name = "CONSTANTS.c0";
  constant.dtype = core::Dtype::kFloat32;
  constant.shape = {static_cast<std::int64_t>(numbers.size() / 8), 8};
  constant.numbers = std::move(numbers);
  constant.uses = std::move(uses);
  return constant;
}

}  // namespace

TEST_CASE("draws are told from each other") {
  for (const std::size_t size : {64U, 256U, 2048U}) {
    CAPTURE(size);
    std::mt19937_64 engine(size);
    Numbers normal(size);
    std::ranges::generate(
        normal, [&, draw = std::normal_distribution<>(3, 2)]() mutable { return draw(engine); });
    const NumbersLook bell = look_of(normal, 8);
    CHECK((bell == NumbersLook::kNormal || (size < 256 && bell == NumbersLook::kUniform)));
    Numbers uniform(size);
    std::ranges::generate(uniform, [&, draw = std::uniform_real_distribution<>(-1, 1)]() mutable {
      return draw(engine);
    });
    const NumbersLook look = look_of(uniform, 8);
    CHECK((look == NumbersLook::kUniform || (size < 256 && look == NumbersLook::kNormal)));
    Numbers mask(size);
    std::ranges::generate(mask, [&, draw = std::bernoulli_distribution(0.5)]() mutable {
      return draw(engine) ? 2.0 : 0.0;
    });
    const LookOfNumbers found = look_at(mask, 8, false);
    CHECK(found.look == NumbersLook::kMask);
    CHECK(found.share == doctest::Approx(0.5).epsilon(0.3));
    Numbers order(size);
    std::iota(order.begin(), order.end(), 0.0);
    CHECK(look_of(order) == NumbersLook::kOfNothing);
    std::ranges::shuffle(order, engine);
    CHECK(look_of(order) == NumbersLook::kPermutation);
  }
}

TEST_CASE("a mask of channels is one, whatever its rows hold") {
  std::mt19937_64 engine(3);
  std::bernoulli_distribution draw(0.5);
  Numbers numbers;
  for (int channel = 0; channel < 128; ++channel) {
    numbers.insert(numbers.end(), 16, draw(engine) ? 2.0 : 0.0);
  }
  CHECK(look_of(numbers, 16) == NumbersLook::kMask);
}

TEST_CASE("tables that models are made with look like no draws") {
  const double pi = std::numbers::pi;
  const std::vector<std::pair<const char*, Numbers>> tables{
      {"positions",
       made(64,
            32,
            [](double row, double column) {
              const double angle = row / std::pow(10'000, 2 * std::floor(column / 2) / 32);
              return std::fmod(column, 2) == 0 ? std::sin(angle) : std::cos(angle);
            })},
      {"rotary",
       made(64,
            32,
            [](double row, double column) {
              return std::cos(row / std::pow(10'000, column / 32));
            })},
      {"causal", made(32, 32, [](double row, double column) { return column > row ? -1e9 : 0; })},
      {"band", made(32, 32, [](double row, double column) { return std::abs(row - column) < 4; })},
      {"checker",
       made(32, 32, [](double row, double column) { return std::fmod(row + column, 2); })},
      {"relative", made(16, 16, [](double row, double column) { return row - column + 15; })},
      {"hann",
       made(1, 400, [&](double, double at) { return 0.5 - 0.5 * std::cos(2 * pi * at / 400); })},
      {"dct",
       made(32,
            32,
            [&](double row, double column) { return std::cos(pi * (column + 0.5) * row / 32); })},
      {"linear", made(1, 256, [](double, double at) { return at / 255; })},
      {"alibi", made(8, 64, [](double head, double at) { return -at * std::pow(2, -head - 1); })},
      {"bit reversal",
       made(1,
            256,
            [](double, double at) {
              auto bits = static_cast<std::uint32_t>(at);
              std::uint32_t turned = 0;
              for (int i = 0; i < 8; ++i, bits >>= 1U) turned = (turned << 1U) | (bits & 1U);
              return static_cast<double>(turned);
            })},
      {"ones", made(8, 8, [](double, double) { return 1; })}};
  for (const auto& [name, numbers] : tables) {
    CAPTURE(name);
    CHECK(look_of(numbers, 32) == NumbersLook::kOfNothing);
  }
}

TEST_CASE("weights are drawn, and are no findings") {
  std::mt19937_64 engine(5);
  std::normal_distribution<> draw;
  Numbers numbers(128);
  std::ranges::generate(numbers, [&] { return draw(engine); });
  const auto found = [&](std::vector<ConstantUse> uses) {
    const std::vector<ArtefactConstant> constants{constant_of(numbers, std::move(uses))};
    return audit_constants(constants, {}).findings.size();
  };
  CHECK(found({{"mul", 1, "m.py:3"}}) == 1);
  CHECK(found({{"linear", 1, "m.py:3"}}) == 0);
  CHECK(found({{"linear", 1, "m.py:3"}, {"add", 0, "m.py:4"}}) == 1);
  CHECK(found({{"linear", 0, "m.py:3"}}) == 1);
  CHECK(found({}) == 1);
  numbers.clear();
  CHECK(found({{"mul", 1, "m.py:3"}}) == 0);
}

TEST_CASE("a known constant is excused until its day") {
  std::mt19937_64 engine(5);
  std::normal_distribution<> draw;
  Numbers numbers(128);
  std::ranges::generate(numbers, [&] { return draw(engine); });
  AuditPlan plan;
  plan.expected.emplace_back();
  plan.expected.front().id = "constant-looks-drawn";
  plan.expected.front().expires = std::chrono::sys_days(std::chrono::year(2026) / 5 / 31);
  const std::vector<ArtefactConstant> constants{constant_of(numbers, {{"mul", 1, "m.py:3"}})};
  plan.today = plan.expected.front().expires;
  CHECK(audit_constants(constants, plan).count(Finding::Weight::kSuspicion) == 0);
  plan.today += std::chrono::days(1);
  CHECK(audit_constants(constants, plan).count(Finding::Weight::kSuspicion) == 1);
}

}  // namespace repro_check::comparators
