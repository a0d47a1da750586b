// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "comparators/compare.h"
#include "configs/spec/compare_spec.h"

namespace repro_check::cmd {

class Options;

/// What counts as equal, for every verb that judges dumps without a configuration: flags for the
/// keys of its section `compare`.
class PolicyFlags {
 public:
  void define(Options& options);

  /// @throws core::Error{kUsage} when flags contradict each other, a number is out of range, or the
  ///         rules file is missing or wrong
  [[nodiscard]] configs::CompareSpec spec() const;

 private:
  std::map<std::string, std::string> given_;  ///< JSON by key: `max_growth`
};

/// `--numbers`, for verbs that have a configuration.
class NumbersFlag {
 public:
  void define(Options& options);
  /// For /compare/numbers, as JSON; empty where it was not given.
  [[nodiscard]] const std::string& json() const noexcept { return json_; }

 private:
  std::string json_;
};

/// How dumps are judged by `spec`, with the noise floors and the dump in float64 that it names,
/// where it uses them.
/// @throws core::Error{kUsage} when there are no floors, or they are none; as store::open_dump()
///         for the dump
comparators::CompareOptions compare_options(const configs::CompareSpec& spec);

}  // namespace repro_check::cmd
