// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor/content.h"
#include "core/trace/dump.h"

namespace repro_check::comparators {

/// A tensor at the border of a region of compiled code, or what an operator inside gives.
enum class RegionRole : std::uint8_t { kInput, kNode, kOutput, kGradient };

/// Where in a program an operator of a region stands.
struct RegionPlace {
  std::string line;      ///< `model.py:40`, with the folder
  std::string module;    ///< `blocks.1`
  std::string function;  ///< of PyTorch: `gelu`
};

struct RegionTensor {
  RegionRole role{};
  std::string region;  ///< the digest of what it computes
  /// `input[L_x_]`, `output[0]`, the operator's name in the region, and of a gradient that of the
  /// tensor.
  std::string name;
  std::uint64_t time = 0;  ///< how many of the same role, region and name came before
  std::uint32_t step = 0;
  std::uint64_t op = 0;      ///< op index of the record that holds it
  std::uint32_t tensor = 0;  ///< and its place there
  core::ContentKey content;
  bool stored = false;
};

/// A region, however often it was called.
struct Region {
  std::string line;      ///< where it begins
  std::string function;  ///< of the program, that was compiled
  std::uint64_t calls = 0;
  /// The operator that gives an output, by the output's name.
  std::map<std::string, std::string> makers;
  /// The operators, by name; empty where none was recorded by itself.
  std::map<std::string, RegionPlace> nodes;
  /// Operators that PyTorch does not define, `own::scale`, each with the first of the region that
  /// calls it.
  std::map<std::string, std::string> custom;
  std::string draws;  ///< the first operator that draws random numbers; empty = none was seen
};

/// The compiled code of one run, recorded under the key `compile`.
struct RegionSide {
  std::unique_ptr<core::DumpSource> dump;
  std::map<std::string, Region> regions;  ///< by digest
  std::vector<RegionTensor> tensors;      ///< in the order of the records
  std::set<std::uint32_t> steps;          ///< whose operators were recorded
};

/// @throws core::Error{kNotComparable} for a recording without values; {kDumpDamaged}
RegionSide read_regions(std::unique_ptr<core::DumpSource> dump);

}  // namespace repro_check::comparators
