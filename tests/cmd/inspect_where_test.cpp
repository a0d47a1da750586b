// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <limits>
#include <random>
#include <string>

#include "cmd/inspect/inspect_list.h"
#include "core/error.h"

namespace repro_check::cmd {
namespace {

core::TensorRecord output(std::uint64_t nans, double max) {
  core::TensorRecord tensor;
  tensor.role = core::TensorRole::kOutput;
  tensor.dtype = core::Dtype::kFloat16;
  tensor.device = "cuda:0";
  tensor.shape = {8, 512};
  tensor.state = core::ContentState::kHashed;
  tensor.stats.emplace();
  tensor.stats->nans = nans;
  tensor.stats->max = max;
  tensor.stats->positive_infs = 1;
  tensor.stats->negative_infs = 2;
  return tensor;
}

Answer ask(const char* condition, const core::TensorRecord& tensor) {
  return OutputCondition(condition).of(tensor);
}

}  // namespace

TEST_CASE("each field and each sign says what it should") {
  const core::TensorRecord tensor = output(3, 65504);
  for (const char* yes :
       {"nan>0",           "nan >= 3",      "nan=3",         "nan == 3",       "nan<=3",
        "nan!=2",          "nan<4",         "inf=3",         "positive_inf=1", "negative_inf=2",
        "zero=0",          "subnormal<1",   "max=65504",     "max>6.5e4",      "max<inf",
        "min>-inf",        "elements=4096", "dtype=float16", "dtype=half",     "dtype=float*",
        "dtype!=bfloat16", "device=cuda:?", "device!=cpu",   "  nan > 0\t"}) {
    CAPTURE(yes);
    CHECK(ask(yes, tensor) == Answer::kYes);
  }
  for (const char* no :
       {"nan=0", "nan>3", "max>65504", "dtype=bfloat16", "device=cpu", "mean!=0"}) {
    CAPTURE(no);
    CHECK(ask(no, tensor) == Answer::kNo);
  }
}

TEST_CASE("and binds before or, in every spelling") {
  const core::TensorRecord tensor = output(3, 1);
  CHECK(ask("nan=0 and nan=0 or nan=3", tensor) == Answer::kYes);
  CHECK(ask("nan=3 or nan=0 and nan=0", tensor) == Answer::kYes);
  CHECK(ask("nan=0&&nan=3", tensor) == Answer::kNo);
  CHECK(ask("nan=0||nan=3", tensor) == Answer::kYes);
  CHECK(ask("nan=3,max=1", tensor) == Answer::kYes);
  CHECK(ask("nan=3,max=2", tensor) == Answer::kNo);
}

TEST_CASE("a statistic that is not recorded is unknown only where it decides") {
  core::TensorRecord tensor = output(3, 1);
  tensor.stats.reset();
  CHECK(ask("nan>0", tensor) == Answer::kUnknown);
  CHECK(ask("nan>0 and dtype=bfloat16", tensor) == Answer::kNo);
  CHECK(ask("dtype=bfloat16 and nan>0", tensor) == Answer::kNo);
  CHECK(ask("nan>0 and dtype=float16", tensor) == Answer::kUnknown);
  CHECK(ask("nan>0 or dtype=float16", tensor) == Answer::kYes);
  CHECK(ask("elements>1", tensor) == Answer::kYes);
  // Counts are there without the rest.
  tensor.counted = core::NonFinite{2, 1, 1};
  CHECK(ask("nan=2 and inf=2 and negative_inf=1", tensor) == Answer::kYes);
  CHECK(ask("nan>2 or inf>2", tensor) == Answer::kNo);
  CHECK(ask("max>0", tensor) == Answer::kUnknown);
  tensor.counted.reset();
  // Nobody could have looked: there are no values.
  tensor.state = core::ContentState::kNone;
  CHECK(ask("nan>0", tensor) == Answer::kNo);
}

TEST_CASE("a statistic of nothing compares as no") {
  core::TensorRecord tensor = output(3, std::numeric_limits<double>::quiet_NaN());
  for (const char* no : {"max>0", "max<=0", "max=0", "max!=0"}) {
    CAPTURE(no);
    CHECK(ask(no, tensor) == Answer::kNo);
  }
}

TEST_CASE("one output must meet all of it, and inputs are not asked") {
  core::OpRecord op;
  op.tensors = {output(9, 9), output(1, 0), output(0, 5)};
  op.tensors[0].role = core::TensorRole::kInput;
  CHECK(OutputCondition("nan=9").of(op) == Answer::kNo);
  CHECK(OutputCondition("nan=1 and max=5").of(op) == Answer::kNo);
  CHECK(OutputCondition("nan=1 or max=5").of(op) == Answer::kYes);
  op.tensors[2].stats.reset();
  CHECK(OutputCondition("max=5").of(op) == Answer::kUnknown);
  CHECK(OutputCondition("nan=1").of(op) == Answer::kYes);
}

TEST_CASE("what is no condition is refused with a hint") {
  for (const char* wrong : {"",
                            " ",
                            "nan",
                            "nan>",
                            "nan>>0",
                            ">0",
                            "nan>0 and",
                            "nan>0 or or nan>0",
                            "nan>0 nan>0",
                            "nan>0)",
                            "(nan>0)",
                            "nan>zero",
                            "nan>0x10",
                            "nan=nan",
                            "max>1e999",
                            "naan>0",
                            "NAN>0",
                            "dtype>float16",
                            "dtype=flaot16",
                            "device=",
                            "nan>0;rm -rf",
                            "nan>0\n",
                            "\xff\xfe"}) {
    CAPTURE(wrong);
    try {
      const OutputCondition condition{std::string(wrong)};
      FAIL("it was taken");
    } catch (const core::Error& error) {
      CHECK(error.kind() == core::ErrorKind::kUsage);
      CHECK_FALSE(error.hint().empty());
    }
  }
  CHECK_THROWS_AS(OutputCondition(std::string(100'000, 'n')), core::Error);
}

TEST_CASE("no text does anything but parse or be refused") {
  constexpr std::string_view kPieces[] = {"nan>0",
                                          "max<=1",
                                          "dtype=half",
                                          "nan",
                                          ">",
                                          "!=",
                                          "0",
                                          "1e5",
                                          " ",
                                          " and ",
                                          " or ",
                                          "&&",
                                          "||",
                                          ",",
                                          "*",
                                          "\x01"};
  std::mt19937 random(20240701);
  int taken = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (std::uint32_t i = random() % 8; i > 0; --i) text += kPieces[random() % std::size(kPieces)];
    try {
      const OutputCondition condition(text);
      const Answer answer = condition.of(output(0, 0));
      taken += answer == Answer::kYes || answer == Answer::kNo ? 1 : 0;
    } catch (const core::Error& error) {
      REQUIRE(error.kind() == core::ErrorKind::kUsage);
    }
  }
  CHECK(taken > 100);
}

}  // namespace repro_check::cmd
