// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"

namespace repro_check::cmd {

/// The files among `files` that were not written since a program began, with their digests. Left
/// out: names that are no absolute path, what is no regular file, and files above 4 MiB.
/// @param began  seconds since 1970
std::vector<core::SourceFile> unchanged_sources(const std::set<std::string>& files, double began);

/// The line of source at a frame, without the spaces around it and cut after 160 bytes; empty where
/// the file is not there any more, or is another one than was recorded.
/// @param sources  of the recording that the frame is of
std::string source_line(const std::vector<core::SourceFile>& sources,
                        const core::SourceFrame& frame);

}  // namespace repro_check::cmd
