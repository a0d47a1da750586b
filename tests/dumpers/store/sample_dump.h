// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/tensor/tensor_record.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"
#include "dumpers/store/dump_writer.h"

namespace repro_check::test_support {

/// What a sample dump was made of.
struct Sample {
  core::RunManifest manifest;
  std::vector<core::OpRecord> ops;
  std::vector<core::BlockRow> blocks;
  std::vector<core::ParameterRow> parameters;
  std::map<core::ContentKey, std::vector<std::byte>> contents;
};

/// Bytes that every dtype can hold, with their key.
std::pair<core::ContentKey, std::vector<std::byte>> make_content(core::Dtype dtype,
                                                                 std::vector<std::int64_t> shape,
                                                                 std::uint64_t seed);

/// One stored tensor a dtype, awkward shapes, random records around them.
Sample make_sample(std::uint64_t seed, std::size_t random_ops);

/// Records `sample` into `sink`, all but its end.
void play(core::DumpSink& sink, const Sample& sample);
/// Writes `sample` through `writer` and finishes it.
void record(store::DumpWriter& writer, const Sample& sample);
void write_dump(const std::filesystem::path& directory,
                const Sample& sample,
                const store::DumpWriterOptions& options = {});

/// Reads everything there is in a dump. Throws what reading throws; false when something differs
/// from `sample`.
bool reads_back(const core::DumpSource& dump, const Sample& sample);

std::string read_bytes(const std::filesystem::path& file);
void write_bytes(const std::filesystem::path& file, const std::string& bytes);

}  // namespace repro_check::test_support
