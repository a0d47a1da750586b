// SPDX-License-Identifier: Apache-2.0
// make_dump FIXTURE.json OUTDIR [packed] [reference=DIR] [slice=N:K] [max_bytes=N]: writes a dump
// as a recorder would, from a description in text; packed as a long recording is, referring to what
// DIR holds, with slices, or with no bytes beyond a limit.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "core/error.h"
#include "dumpers/store/dump_writer.h"
#include "tests/support/dump_fixture.h"
#include "tests/support/writer_options.h"

namespace {

using repro_check::core::Error;
using repro_check::core::ErrorKind;

std::string read_text(const char* file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw Error(ErrorKind::kUsage, std::string(file) + ": cannot be read");
  return {std::istreambuf_iterator<char>(stream), {}};
}

void make_dump(const char* description,
               const char* directory,
               const repro_check::store::DumpWriterOptions& options) {
  auto fixture = repro_check::test_support::parse_dump_fixture(read_text(description));
  repro_check::store::DumpWriter writer(directory, options);
  repro_check::test_support::put_contents(fixture, writer);
  for (const auto& op : fixture.ops) {
    writer.enter(op);
    writer.append(op);
  }
  for (const auto& block : fixture.blocks) writer.block(block);
  for (const auto& parameter : fixture.parameters) writer.parameter(parameter);
  writer.finish(fixture.manifest);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs(
        "usage: make_dump FIXTURE.json OUTDIR [packed] [reference=DIR] [slice=N:K] [max_bytes=N]\n",
        stderr);
    return static_cast<int>(repro_check::core::ExitCode::kUsage);
  }
  try {
    const auto options = repro_check::test_support::writer_options({argv + 3, argv + argc});
    make_dump(argv[1], argv[2], options);
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "make_dump: %s\n", error.what());
    return static_cast<int>(repro_check::core::exit_code_for(error.kind()));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_dump: %s\n", error.what());
    return static_cast<int>(repro_check::core::ExitCode::kInternal);
  }
}
