// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/error.h"
#include "dumpers/store/dump_writer.h"
#include "tests/support/dump_fixture.h"

namespace repro_check::test_support {

/// Options of a writer, from the words behind a fixture's: `packed`, `reference=DIR`,
/// `slice=ELEMENTS:STRIDE`, `max_bytes=BYTES`.
/// @throws core::Error{kUsage} for any other word
inline store::DumpWriterOptions writer_options(const std::vector<std::string>& words) {
  const std::string reference = "reference=";
  const std::string slice = "slice=";
  const std::string max_bytes = "max_bytes=";
  store::DumpWriterOptions options;
  for (const std::string& word : words) {
    if (word == "packed") {
      options.browse = store::DumpWriterOptions::Browse::kNever;
    } else if (word.starts_with(reference)) {
      options.reference = word.substr(reference.size());
    } else if (word.starts_with(slice)) {
      const std::size_t colon = word.find(':');
      options.slice.emplace();
      options.slice->elements = std::stoull(word.substr(slice.size()));
      options.slice->stride = std::stoull(word.substr(colon + 1));
    } else if (word.starts_with(max_bytes)) {
      options.max_bytes = std::stoull(word.substr(max_bytes.size()));
    } else {
      throw core::Error(core::ErrorKind::kUsage, "no option of a writer: " + word);
    }
  }
  return options;
}

/// Hands the contents of a fixture to `writer`; its records then say which of them are stored.
inline void put_contents(DumpFixture& fixture, store::DumpWriter& writer) {
  for (const auto& [key, bytes] : fixture.contents) {
    if (writer.put_content(key, bytes)) continue;
    for (core::OpRecord& op : fixture.ops) {
      for (core::TensorRecord& tensor : op.tensors) {
        if (tensor.content_key() == key) tensor.stored = false;
      }
    }
  }
}

}  // namespace repro_check::test_support
