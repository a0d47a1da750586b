// SPDX-License-Identifier: Apache-2.0
#include "cmd/audit/audit_artefact.h"

#include <cstddef>
#include <system_error>
#include <utility>

#include "cmd/options/command_line.h"
#include "comparators/audit/constants.h"
#include "core/error.h"
#include "core/tensor/element_number.h"
#include "dumpers/model_file/model_constants.h"
#include "dumpers/model_file/model_file.h"

namespace repro_check::cmd {
namespace {

constexpr std::size_t kMostElements = 200'000;

comparators::ArtefactConstant view_of(model_file::ModelConstant constant) {
  comparators::ArtefactConstant view{
      std::move(constant.name), constant.dtype, constant.shape, {}, {}};
  view.numbers = core::numbers_of(constant.dtype, constant.bytes);
  for (model_file::ModelConstantUse& use : constant.uses) {
    view.uses.push_back({std::move(use.op), use.argument, std::move(use.line)});
  }
  return view;
}

}  // namespace

bool is_artefact(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) return false;
  const model_file::FileKind kind = model_file::identify_file(file);
  return kind == model_file::FileKind::kTorchScript ||
         kind == model_file::FileKind::kExportedProgram;
}

comparators::AuditReport audit_artefact(const std::filesystem::path& file,
                                        const std::vector<std::string>& checks,
                                        comparators::AuditPlan plan) {
  const comparators::AuditRule& constants = comparators::constants_rule();
  bool asks = checks.empty();
  std::vector<comparators::NotAudited> open;
  for (const std::string& name : checks) {
    const comparators::AuditRule* rule = comparators::rule_of_finding(name);
    if (name == "constants" || rule == &constants) {
      asks = true;
    } else if (rule != nullptr) {
      open.push_back({rule, comparators::Phrase("audit-of-artefact")});
    } else {
      throw core::usage_error("--check " + name + ": no rule is called so",
                              "the rule of exported models is " + std::string(constants.name()));
    }
  }
  comparators::AuditReport report;
  if (asks) {
    std::vector<comparators::ArtefactConstant> views;
    for (auto& each : model_file::read_model_constants(file, kMostElements)) {
      views.push_back(view_of(std::move(each)));
    }
    report = comparators::audit_constants(views, std::move(plan));
  }
  report.not_audited.insert(report.not_audited.end(), open.begin(), open.end());
  return report;
}

}  // namespace repro_check::cmd
