// SPDX-License-Identifier: Apache-2.0
#include "dumpers/model_file/exported_file.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/support/files.h"
#include "tests/support/temp_directory.h"
#include "zip_writer.h"

namespace repro_check::model_file {
namespace {

TEST_CASE("a Python stack is read from the inside out, its lines of code passed over") {
  const auto frames = frames_of_stack(
      "  File \"/a b/m.py\", line 19, in forward\n    File \"x\", which is code\n"
      "  File \"<eval_with_key>.5\", line 9, in <lambda>\n    y = 1\n  File \"n.py\", line 3");
  REQUIRE(frames.size() == 3);
  CHECK(frames[0].file == "n.py");
  CHECK(frames[0].function.empty());
  CHECK(frames[1].file == "<eval_with_key>.5");
  CHECK(frames[2].file == "/a b/m.py");
  CHECK(frames[2].line == 19);
  CHECK(frames[2].function == "forward");
  CHECK(frames_of_stack("").empty());
}

TEST_CASE("dtypes have the numbers of the schema") {
  CHECK(exported_dtype(7) == core::Dtype::kFloat32);
  CHECK(exported_dtype(13) == core::Dtype::kBFloat16);
  CHECK(exported_dtype(28) == core::Dtype::kUInt16);
  CHECK(exported_dtype(35) == core::Dtype::kUInt64);
  for (const std::int64_t other : {-1, 0, 14, 27, 36}) {
    CHECK(exported_dtype(other) == core::Dtype::kUnknown);
  }
}

TEST_CASE("entries are found below their folder") {
  CHECK(entry_below("m/data/weights/weight_0", "weights") == "weights/weight_0");
  CHECK(entry_below("weights/weight_0", "weights").empty());
}

TEST_CASE("an archive without a graph is named") {
  const test_support::TempDirectory dir;
  test_support::write_file(dir / "old.pt2", test::zip_of({"serialized_exported_program.json"}));
  CHECK_THROWS_WITH_AS(
      read_exported_file(dir / "old.pt2"),
      ((dir / "old.pt2").string() + ": is of another version of torch.export than is known")
          .c_str(),
      core::Error);
  test_support::write_file(dir / "aoti.pt2", test::zip_of({"m/data/aotinductor/model/m.so"}));
  CHECK_THROWS_WITH_AS(read_exported_file(dir / "aoti.pt2"),
                       ((dir / "aoti.pt2").string() +
                        ": holds compiled code (AOTInductor), and no graph of operators")
                           .c_str(),
                       core::Error);
}

}  // namespace
}  // namespace repro_check::model_file
