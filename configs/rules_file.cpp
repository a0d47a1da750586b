// SPDX-License-Identifier: Apache-2.0
#include "configs/rules_file.h"

#include <string>

#include "configs/config_parser.h"
#include "configs/detail/compare_parser.h"
#include "configs/detail/problems.h"

namespace repro_check::configs {
namespace {

constexpr const char* kHint = "docs/CONFIGURATION.md, Rules, has the syntax";

}  // namespace

void load_rules(const std::filesystem::path& file, CompareSpec& spec) {
  const std::string text = read_config_text(file, kHint);
  detail::Problems problems;
  const auto document = detail::parse_json(text, "", problems);
  const detail::ParseContext context{problems, std::filesystem::absolute(file).parent_path()};
  if (document) detail::read_rules_document({&*document, ""}, context, spec);
  if (!problems.empty()) detail::refuse(file.string(), problems.all(), kHint);
}

}  // namespace repro_check::configs
