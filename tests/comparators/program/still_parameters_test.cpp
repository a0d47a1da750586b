// SPDX-License-Identifier: Apache-2.0
#include "comparators/program/still_parameters.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/trace/program_records.h"
#include "tests/support/memory_source.h"

namespace core = repro_check::core;
using repro_check::comparators::still_parameters;
using repro_check::comparators::StillParameter;
using repro_check::comparators::StillReason;
using repro_check::test_support::DumpFixture;
using repro_check::test_support::MemorySource;

namespace {

/// A training, step by step.
class Training {
 public:
  Training& step(double rate = 0.1) {
    core::OpRecord& record = fixture_.ops.emplace_back();
    record.index = fixture_.ops.size() - 1;
    record.step = static_cast<std::uint32_t>(record.index);
    record.op = std::make_shared<core::OperatorInfo>(
        core::OperatorInfo{std::string(core::kStepRecord), "", false});
    record.arguments.push_back({"lr[0]", {rate}});
    return *this;
  }

  Training& has(const std::string& slot, std::uint64_t digest) {
    core::TensorRecord& tensor = fixture_.ops.back().tensors.emplace_back();
    tensor.role = core::TensorRole::kOutput;
    tensor.slot = slot;
    tensor.state = core::ContentState::kHashed;
    tensor.digest = {digest, 1};
    return *this;
  }

  Training& says(const std::string& fact) {
    fixture_.manifest.environment.push_back({fact, ""});
    return *this;
  }

  [[nodiscard]] std::vector<StillParameter> still() const {
    return still_parameters(MemorySource(fixture_));
  }

 private:
  DumpFixture fixture_;
};

}  // namespace

TEST_CASE("parameters that an optimizer has and does not move") {
  Training training;
  for (std::uint64_t step = 0; step < 3; ++step) {
    training.step().has("param.moves", step).has("grad.moves", step);
    training.has("param.stays", 7).has("grad.stays", step);
    training.has("param.zero", 8).has("grad.zero", 0);
    training.has("param.cut", 9);
  }
  const std::vector<StillParameter> expected{{"cut", StillReason::kNoGradient},
                                             {"stays", StillReason::kUnmoved}};
  CHECK(training.still() == expected);
}

TEST_CASE("a few steps, and rates of 0, say nothing") {
  Training few;
  for (std::uint64_t step = 0; step < 2; ++step) {
    few.step().has("param.stays", 7).has("grad.stays", step);
  }
  CHECK(few.still().empty());
  Training frozen;
  for (std::uint64_t step = 0; step < 4; ++step) {
    frozen.step(0).has("param.stays", 7).has("grad.stays", step);
  }
  CHECK(frozen.still().empty());
}

TEST_CASE("the recorder tells which parameters no optimizer has") {
  Training training;
  training.step().says("untrained.body.weight");
  const std::vector<StillParameter> expected{{"body.weight", StillReason::kNoOptimizer}};
  CHECK(training.still() == expected);
}
