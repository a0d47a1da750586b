// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/error.h"
#include "dumpers/store/dump_writer.h"

namespace repro_check::test_support {

/// Options of a writer, from the words behind a fixture's: `packed`, `reference=DIR`.
/// @throws core::Error{kUsage} for any other word
inline store::DumpWriterOptions writer_options(const std::vector<std::string>& words) {
  const std::string reference = "reference=";
  store::DumpWriterOptions options;
  for (const std::string& word : words) {
    if (word == "packed") {
      options.browse = store::DumpWriterOptions::Browse::kNever;
    } else if (word.starts_with(reference)) {
      options.reference = word.substr(reference.size());
    } else {
      throw core::Error(core::ErrorKind::kUsage, "no option of a writer: " + word);
    }
  }
  return options;
}

}  // namespace repro_check::test_support
