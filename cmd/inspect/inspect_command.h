// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cmd/inspect/inspect_list.h"
#include "cmd/inspect/inspect_views.h"
#include "cmd/terminal/command.h"
#include "core/trace/dump_source.h"

namespace repro_check::cmd {

/// `repro-check inspect`: looks into one dump.
class InspectCommand final : public Command {
 public:
  [[nodiscard]] std::string name() const override { return "inspect"; }
  [[nodiscard]] std::string summary() const override {
    return "Look into a dump: operators, tensors, values";
  }
  [[nodiscard]] std::vector<std::string> examples() const override;
  void define(CLI::App& app) override;
  core::ExitCode run(const GlobalOptions& globals) override;

 private:
  void check_combination() const;
  [[nodiscard]] bool is_list() const;
  [[nodiscard]] OpSelection selection() const;
  [[nodiscard]] core::ExitCode show(const core::DumpSource& dump,
                                    const GlobalOptions& globals) const;
  [[nodiscard]] core::ExitCode show_list(const core::DumpSource& dump) const;
  [[nodiscard]] core::ExitCode show_against(const core::DumpSource& dump,
                                            const GlobalOptions& globals) const;
  [[nodiscard]] core::ExitCode report_unreadable(const std::string& dump,
                                                 const core::Error& error,
                                                 const GlobalOptions& globals) const;
  [[nodiscard]] bool is_readable(const core::DumpSource& dump) const;
  [[nodiscard]] TensorQuery query() const;
  [[nodiscard]] std::unique_ptr<core::DumpSource> open(const std::string& dump) const;
  void check_tensor_flags() const;
  void check_export() const;
  void define_selection(CLI::App& app);
  void define_tensor(CLI::App& app);

  std::string dump_;
  bool list_ = false;
  std::optional<std::string> operator_;
  std::optional<std::string> module_;
  std::optional<std::string> range_;
  std::optional<std::string> where_;
  bool modules_ = false;
  bool generators_ = false;
  std::optional<std::uint64_t> op_;
  std::optional<std::string> tensor_;
  bool stats_ = false;
  bool verify_ = false;
  bool partial_ = false;
  std::vector<std::string> references_;
  std::optional<std::uint64_t> values_;
  std::optional<std::string> slice_;
  bool bits_ = false;
  std::optional<std::string> against_;
  std::optional<std::string> export_;
  std::optional<std::string> as_;
  std::string format_ = "text";
};

}  // namespace repro_check::cmd
