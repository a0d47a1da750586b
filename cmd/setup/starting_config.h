// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace repro_check::cmd {

/// One argument of a model's method, as a recorder describes it.
struct DescribedArgument {
  std::string name;
  std::string type;  ///< TorchScript's text: `Tensor`, `Optional[int]`, `List[Tensor]`
  bool has_default = false;
  std::string default_value = {};  ///< as Python writes it
};

struct StartingConfig {
  std::string text;                ///< JSON, two-space indent, trailing newline
  std::vector<std::string> edits;  ///< what a person has to look at, one sentence each
};

/// A configuration that runs as soon as shapes and values fit the model.
/// @param arguments  without self
StartingConfig starting_config(const std::string& model_path,
                               const std::string& method,
                               const std::vector<DescribedArgument>& arguments);

}  // namespace repro_check::cmd
