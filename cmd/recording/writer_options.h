// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "configs/parser/config_parser.h"
#include "dumpers/store/dump_writer.h"

namespace repro_check::cmd {

/// How the dump of a run is written.
inline store::DumpWriterOptions writer_options(const configs::RecordRequest& request) {
  using Browse = store::DumpWriterOptions::Browse;
  const configs::DumpSpec& dump = request.run.dump;
  store::DumpWriterOptions options;
  options.replace_existing = request.replace_existing;
  options.memory = dump.memory;
  options.max_bytes = dump.max_bytes;
  if (dump.level == configs::DumpLevel::kTensor) {
    options.needed_space = options.max_bytes.value_or(options.memory);
    options.reference = dump.reference;
    options.slice = dump.slice;
  }
  options.browse = dump.browse == configs::BrowseMode::kAlways  ? Browse::kAlways
                   : dump.browse == configs::BrowseMode::kNever ? Browse::kNever
                                                                : Browse::kAuto;
  return options;
}

}  // namespace repro_check::cmd
