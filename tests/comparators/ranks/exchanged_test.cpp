// SPDX-License-Identifier: Apache-2.0
#include "comparators/ranks/exchanged.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/tensor_record.h"
#include "core/trace/op_record.h"

namespace core = repro_check::core;
using repro_check::comparators::ExchangedReader;

namespace {

/// One operator behind the other, each of what the one before it gave, with a parameter.
std::set<std::string> exchanged(const std::vector<std::pair<std::string, std::string>>& operators) {
  ExchangedReader reader;
  for (std::size_t i = 0; i < operators.size(); ++i) {
    core::OpRecord record;
    record.index = i;
    record.op =
        std::make_shared<core::OperatorInfo>(core::OperatorInfo{operators[i].first, "", false});
    record.tensors.resize(2);
    record.tensors[0].producer = static_cast<std::int64_t>(i) - 1;
    record.tensors[1].name = operators[i].second;
    reader.see(record);
  }
  return reader.finish();
}

}  // namespace

TEST_CASE("what works between two exchanges is each rank's own") {
  CHECK(exchanged({{"aten::linear", "state:router.weight"},
                   {"c10d::alltoall_base_", ""},
                   {"aten::linear", "state:expert.weight"},
                   {"aten::gelu", ""},
                   {"_c10d_functional::all_to_all_single", ""},
                   {"aten::linear", "state:head.weight"}}) ==
        std::set<std::string>{"expert.weight"});
  CHECK(exchanged({{"c10d::allreduce_", ""}, {"aten::linear", "state:head.weight"}}).empty());
}
