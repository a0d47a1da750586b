// SPDX-License-Identifier: Apache-2.0
#include "configs/rules_file.h"

#include <string>

#include "configs/config_parser.h"
#include "configs/detail/compare_parser.h"
#include "configs/detail/problems.h"

namespace repro_check::configs {

void load_rules(const std::filesystem::path& file, CompareSpec& spec) {
  const std::string text = read_config_text(file);
  detail::Problems problems;
  const auto document = detail::parse_json(text, "", problems);
  const detail::ParseContext context{problems, std::filesystem::absolute(file).parent_path()};
  if (document) detail::read_rules_document({&*document, ""}, context, spec);
  if (!problems.empty()) detail::refuse(file.string(), problems.all());
}

}  // namespace repro_check::configs
