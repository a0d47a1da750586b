// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "core/trace/op_record.h"

namespace repro_check::test_support {

/// Makes records in which every member takes odd values; the same seed gives the same records.
class RandomRecords {
 public:
  explicit RandomRecords(std::uint64_t seed) : engine_(seed) {}

  /// Index, parent and producers fit a trace of which `index` records are done.
  core::OpRecord next(std::uint64_t index);

 private:
  std::uint64_t below(std::uint64_t limit) { return engine_() % limit; }
  bool chance(std::uint64_t one_in) { return below(one_in) == 0; }
  double real();
  std::string text();
  core::Value value(std::size_t tensors, int depth);
  core::TensorRecord tensor(std::uint64_t index);
  std::shared_ptr<const core::OperatorInfo> op();
  std::shared_ptr<const core::CallSite> site();

  std::mt19937_64 engine_;
  std::vector<std::shared_ptr<const core::OperatorInfo>> ops_;
  std::vector<std::shared_ptr<const core::CallSite>> sites_;
};

/// What a small operator of a real model looks like: two tensors in, one out, one scalar.
core::OpRecord small_record(std::uint64_t index);

}  // namespace repro_check::test_support
