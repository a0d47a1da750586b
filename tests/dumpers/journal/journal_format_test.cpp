// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <span>
#include <string>

#include "core/digest/digest.h"
#include "dumpers/journal/entry.h"
#include "dumpers/journal/journal_writer.h"
#include "tests/dumpers/journal/random_record.h"
#include "tests/support/temp_directory.h"

namespace repro_check::journal {
namespace {

/// A journal with an entry of every kind and a record that sets every member.
std::string sample_bytes() {
  const test_support::TempDirectory directory;
  const auto file = directory / "journal.bin";
  {
    JournalWriter writer(file);
    core::OpRecord record = test_support::small_record(0);
    core::ValueList list;
    list.items = {{true},
                  {std::int64_t{-2}},
                  {0.5},
                  {std::complex<double>(1, -1)},
                  {std::string("text")},
                  {core::Symbol{"cpu"}},
                  {core::Opaque{"Stream"}},
                  {}};
    record.arguments.push_back({"all", {std::move(list)}});
    record.tensors[2].stats = core::TensorStats{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    record.tensors[1].counted = core::NonFinite{1, 0, 300};
    record.substitutions = {{"p", "0.5", "0.0", "disable_dropout"}};
    record.generator = core::GeneratorUse{"cpu", 1, 2, 3, 4};
    writer.begun("[]");
    writer.enter({0, record.op, record.site, -1, core::Phase::kBackward, 1, 2, 3, 4});
    writer.append(record);
    record.arguments.resize(70, record.arguments.back());  // too much for a shared form
    writer.append(record);
    const core::ContentKey key{core::Dtype::kInt16, {2, 1}, {1, 2}};
    writer.content(key, std::as_bytes(std::span<const char>("abcd", 4)));
    writer.content(key, ContentPlace::kContents, 4096);
    writer.refers({"baseline", {3, 4}});
    writer.content(key, ContentPlace::kReference, 0);
    writer.sliced({key, {1, 2, {5, 6}}});
    writer.block({1, "fc", 2, core::Phase::kEval, true, core::Digest{7, 8}, std::nullopt, 3});
    writer.parameter({1, "fc.weight", core::Digest{9, 10}});
    writer.roots({{"Net@main:1", "Net@main:0"}});
    writer.fail("failure");
    writer.finished("{}");
  }
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST_CASE("the bytes of a journal change only together with its version") {
  // When this fails: raise kJournalVersion, describe the change in docs/DUMP_FORMAT.md, then put
  // the new digest here.
  static_assert(kJournalVersion == 7);
  const std::string bytes = sample_bytes();
  CHECK(core::to_hex(core::digest_bytes(std::as_bytes(std::span<const char>(bytes)))) ==
        "4ddec9f9585a7ca47b21010a2833fd33");
}

}  // namespace
}  // namespace repro_check::journal
