// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/reductions.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comparators/ranks/rank_roots.h"
#include "core/trace/program_records.h"
#include "tests/support/memory_source.h"

namespace core = repro_check::core;
using repro_check::comparators::reduction_of;
using repro_check::comparators::ReplicaItems;
using repro_check::test_support::DumpFixture;
using repro_check::test_support::MemorySource;

namespace {

/// A tensor, of so many elements, and the record that wrote it.
core::TensorRecord tensor(core::TensorRole role,
                          std::int64_t producer,
                          std::int64_t elements,
                          const std::string& slot = "0") {
  core::TensorRecord made;
  made.role = role;
  made.slot = slot;
  made.shape = {elements};
  made.state = core::ContentState::kHashed;
  made.digest = {static_cast<std::uint64_t>(producer) + 1, 7};
  made.producer = producer;
  return made;
}

/// One operator behind the other, each of what the one before it gave.
class Chain {
 public:
  /// @param reads  elements of its input, as many as it gives unless that is said
  Chain& op(const std::string& name, std::int64_t gives, std::int64_t reads = 0) {
    std::vector<core::TensorRecord> tensors;
    if (last() >= 0) {
      tensors.push_back(tensor(core::TensorRole::kInput, last(), reads > 0 ? reads : gives));
    }
    add(name, std::move(tensors), gives);
    return *this;
  }

  /// Adds what the backward pass of a module gives.
  Chain& accumulate() {
    const std::int64_t gradient = last();
    add("aten::mm", {}, 8);
    core::CallSite site;
    site.module_type = "Linear";
    fixture_.ops.back().phase = core::Phase::kBackward;
    fixture_.ops.back().site = std::make_shared<core::CallSite>(std::move(site));
    add("aten::add_",
        {tensor(core::TensorRole::kInput, gradient, 8),
         tensor(core::TensorRole::kInput, gradient + 1, 8)},
        8);
    return *this;
  }

  /// By a norm that is made of the gradient.
  Chain& clip() {
    const auto read = [](std::int64_t from, std::int64_t elements) {
      return tensor(core::TensorRole::kInput, from, elements);
    };
    const std::int64_t gradient = last();
    add("aten::norm", {read(gradient, 8)}, 1);
    add("aten::mul_", {read(gradient, 8), read(gradient + 1, 1)}, 8);
    return *this;
  }

  /// Names of what the step of an optimizer finds.
  [[nodiscard]] std::vector<std::string> reduction() const {
    core::OpRecord step;
    step.tensors = {tensor(core::TensorRole::kInput, 0, 2, "grad.small"),
                    tensor(core::TensorRole::kInput, last(), 8, "grad.weight"),
                    tensor(core::TensorRole::kInput, 0, 99, "grad.equal")};
    std::vector<std::string> names;
    for (const auto& item : reduction_of(MemorySource(fixture_), step, {"small", "weight"})) {
      names.push_back(item.name + (item.by_norm ? ", by a norm" : ""));
    }
    return names;
  }

 private:
  [[nodiscard]] std::int64_t last() const {
    return static_cast<std::int64_t>(fixture_.ops.size()) - 1;
  }

  void add(const std::string& name,
           std::vector<core::TensorRecord> tensors,
           std::int64_t elements) {
    core::OpRecord record;
    record.index = fixture_.ops.size();
    record.op = std::make_shared<core::OperatorInfo>(core::OperatorInfo{name, "", false});
    record.tensors = std::move(tensors);
    record.tensors.push_back(tensor(core::TensorRole::kOutput, last() + 1, elements));
    fixture_.ops.push_back(std::move(record));
  }

  DumpFixture fixture_;
};

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("what made a gradient is found behind what was done to it since") {
  Chain chain;
  chain.op("aten::mm", 8);
  CHECK(chain.reduction().empty());
  chain.op("c10d::allreduce_", 16);
  CHECK(chain.reduction() == Names{"c10d::allreduce_"});
  chain.op("aten::div_", 8).op("aten::mul_", 8);
  CHECK(chain.reduction() == Names{"c10d::allreduce_", "aten::div_", "aten::mul_"});
  chain.clip();
  CHECK(chain.reduction() ==
        Names{"c10d::allreduce_", "aten::div_", "aten::mul_", "aten::mul_, by a norm"});
}

TEST_CASE("a collective of less than the gradient, or that it is computed from, is none") {
  Chain less;
  less.op("c10d::allreduce_", 1).op("aten::mul_", 8);
  CHECK(less.reduction().empty());
  Chain before;
  before.op("c10d::allreduce_", 16).op("aten::mm", 8, 16);
  CHECK(before.reduction().empty());
  Chain early;  // as where the first micro-batch is reduced, and not the last
  early.op("c10d::allreduce_", 8).accumulate();
  CHECK(early.reduction().empty());
  Chain scattered;  // each rank has a part of its own
  scattered.op("c10d::reduce_scatter_", 8).op("aten::mul_", 8);
  CHECK(scattered.reduction().empty());
}

TEST_CASE("without a collective it is the backward pass that made a gradient") {
  Chain chain;
  chain.op("aten::ones", 8).accumulate();
  chain.clip();
  CHECK(chain.reduction() == Names{"aten::mm", "aten::add_", "aten::mul_, by a norm"});
}
