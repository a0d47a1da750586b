// SPDX-License-Identifier: Apache-2.0
// make_unfinished_dump FIXTURE.json OUTDIR [reference=DIR] [slice=N:K]: leaves what a recorder
// leaves that dies inside the last operator of the fixture.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "core/error.h"
#include "dumpers/store/dump_writer.h"
#include "tests/support/dump_fixture.h"
#include "tests/support/writer_options.h"

int main(int argc, char** argv) {
  using repro_check::core::Error;
  if (argc < 3) {
    std::fputs("usage: make_unfinished_dump FIXTURE.json OUTDIR [reference=DIR] [slice=N:K]\n",
               stderr);
    return 2;
  }
  try {
    std::ifstream stream(argv[1], std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    auto fixture = repro_check::test_support::parse_dump_fixture(text);
    repro_check::store::DumpWriter writer(
        argv[2], repro_check::test_support::writer_options({argv + 3, argv + argc}));
    writer.begin(fixture.manifest);
    repro_check::test_support::put_contents(fixture, writer);
    for (std::size_t i = 0; i < fixture.ops.size(); ++i) {
      const auto& op = fixture.ops[i];
      writer.enter(op);
      if (i + 1 < fixture.ops.size()) writer.append(op);
    }
    // No destructor may run: nothing is tidied up by a process that was killed.
    ::_exit(0);
  } catch (const Error& error) {
    std::fprintf(stderr, "make_unfinished_dump: %s\n", error.what());
    return 1;
  }
}
