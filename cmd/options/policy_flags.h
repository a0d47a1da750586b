// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "configs/spec/compare_spec.h"

namespace CLI {
class App;
}

namespace repro_check::cmd {

/// What counts as equal, for every verb that judges dumps without a configuration.
class PolicyFlags {
 public:
  void define(CLI::App& app);

  /// @throws core::Error{kUsage} when flags contradict each other, a number is out of range, or the
  ///         rules file is missing or wrong
  [[nodiscard]] configs::CompareSpec spec() const;

 private:
  [[nodiscard]] configs::PolicyKind kind() const;
  [[nodiscard]] configs::PolicySpec policy() const;
  void check_yardsticks(const configs::CompareSpec& spec) const;
  void define_numbers(CLI::App& app);
  void define_strictness(CLI::App& app);

  std::optional<std::string> policy_;
  std::optional<double> rtol_;
  std::optional<double> atol_;
  std::optional<std::uint64_t> ulp_;
  std::optional<double> share_;
  std::optional<double> cosine_;
  std::optional<double> drift_;
  std::optional<double> factor_;
  std::optional<double> slack_;
  std::optional<std::string> noise_;
  std::optional<std::string> fp64_;
  std::optional<std::string> equal_nan_;
  std::optional<bool> signed_zero_;
  std::optional<std::string> subnormals_;
  bool lenient_ = false;
  std::optional<std::string> rules_;
  std::optional<std::string> unmatched_;
  bool strict_rules_ = false;
  std::optional<std::string> dtype_;
  std::optional<std::string> strides_;
  std::optional<std::string> device_;
  std::optional<std::string> alias_;
  std::optional<std::string> align_;
  std::optional<std::string> order_;
  std::optional<std::string> map_;
  std::optional<double> max_growth_;
  std::optional<unsigned> threads_;
};

}  // namespace repro_check::cmd
