// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cmd/render/render.h"
#include "comparators/report.h"

namespace CLI {
class App;
}

namespace repro_check::cmd {

/// `--report html=FILE`: pages beside the report on stdout.
class HtmlFlag {
 public:
  void define(CLI::App& app);

  [[nodiscard]] bool wanted() const noexcept { return !requests_.empty(); }

  /// @throws core::Error{kUsage} for another format, or a file that cannot be written
  void check() const;

  /// Writes every page that was asked for.
  void write(std::span<const comparators::Report> reports, const RenderOptions& options) const;

 private:
  std::vector<std::string> requests_;
};

}  // namespace repro_check::cmd
