// SPDX-License-Identifier: Apache-2.0
#include "configs/parser/rules_file.h"

#include <string>

#include "configs/parser/compare_parser.h"
#include "configs/parser/config_parser.h"
#include "configs/parser/problems.h"

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
