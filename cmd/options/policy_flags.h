// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

#include "configs/spec/compare_spec.h"

namespace CLI {
class App;
}

namespace repro_check::cmd {

/// What counts as equal, for every verb that judges dumps without a configuration: flags for the
/// keys of its section `compare`.
class PolicyFlags {
 public:
  void define(CLI::App& app);

  /// @throws core::Error{kUsage} when flags contradict each other, a number is out of range, or the
  ///         rules file is missing or wrong
  [[nodiscard]] configs::CompareSpec spec() const;

 private:
  std::map<std::string, std::string> given_;  ///< JSON by key: `max_growth`
};

}  // namespace repro_check::cmd
