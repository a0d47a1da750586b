// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "core/trace/op_record.h"

namespace repro_check::core {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("values read as Python writes them") {
  CHECK(to_text({}) == "None");
  CHECK(to_text({true}) == "True");
  CHECK(to_text({std::int64_t{-3}}) == "-3");
  CHECK(to_text({0.5}) == "0.5");
  CHECK(to_text({1.0}) == "1.0");
  CHECK(to_text({-0.0}) == "-0.0");
  CHECK(to_text({1e300}) == "1e+300");
  CHECK(to_text({kNan}) == "nan");
  CHECK(to_text({-std::numeric_limits<double>::infinity()}) == "-inf");
  CHECK(to_text({std::complex<double>{1.5, -2}}) == "(1.5-2j)");
  CHECK(to_text({std::string("mean")}) == "\"mean\"");
  CHECK(to_text({Symbol{"cuda:0"}}) == "cuda:0");
  CHECK(to_text({TensorSlot{2}}) == "<tensor 2>");
  CHECK(to_text({Opaque{"Stream"}}) == "<Stream>");
  CHECK(to_text({ValueList{{{std::int64_t{1}}, {ValueList{}}, {}}}}) == "[1, [], None]");
}

TEST_CASE("text from a model cannot steer a terminal") {
  CHECK(to_text({std::string("\x1b[2J")}) == "\"\\x1b[2J\"");
  CHECK(to_text({Symbol{"a\nb"}}) == "a\\nb");
  CHECK(to_text({Opaque{"\xff"}}) == "<\\xff>");
}

TEST_CASE("equality is of bits") {
  CHECK(Value{kNan} == Value{kNan});
  CHECK_FALSE(Value{kNan} == Value{-kNan});
  CHECK_FALSE(Value{0.0} == Value{-0.0});
  CHECK_FALSE(Value{1.0} == Value{std::int64_t{1}});
  CHECK_FALSE(Value{true} == Value{std::int64_t{1}});
  CHECK(Value{std::complex<double>{kNan, 0.0}} == Value{std::complex<double>{kNan, 0.0}});
  CHECK_FALSE(Value{std::complex<double>{0.0, 0.0}} == Value{std::complex<double>{0.0, -0.0}});
  CHECK(Value{ValueList{{{kNan}, {}}}} == Value{ValueList{{{kNan}, {}}}});
  CHECK_FALSE(Value{ValueList{{{0.0}}}} == Value{ValueList{{{-0.0}}}});
  CHECK_FALSE(Value{ValueList{{{}}}} == Value{ValueList{}});
  CHECK_FALSE(Value{std::string("a")} == Value{Symbol{"a"}});
}

}  // namespace
}  // namespace repro_check::core
