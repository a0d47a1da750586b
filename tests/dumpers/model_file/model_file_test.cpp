// SPDX-License-Identifier: Apache-2.0
#include "dumpers/model_file/model_file.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "dumpers/model_file/pickled_tensors.h"
#include "tests/support/files.h"
#include "tests/support/temp_directory.h"
#include "zip_writer.h"

namespace repro_check::model_file {
namespace {

using test_support::TempDirectory;
using test_support::write_file;

FileKind kind_of(const std::string& bytes, const std::string& name = "model.pt") {
  const TempDirectory dir;
  write_file(dir / name, bytes);
  return identify_file(dir / name);
}

TEST_CASE("archives are told apart by the names of their entries") {
  const std::vector<std::pair<std::vector<std::string>, FileKind>> cases = {
      {{"m/data.pkl", "m/code/__torch__.py", "m/constants.pkl"}, FileKind::kTorchScript},
      {{"archive/data.pkl", "archive/data/0", "archive/version"}, FileKind::kSavedObject},
      {{"m/archive_format", "m/models/model.json"}, FileKind::kExportedProgram},
      {{"serialized_exported_program.json", "version"}, FileKind::kExportedProgram},
      {{"p/.data/extern_modules", "p/res/model.pkl"}, FileKind::kTorchPackage},
      {{"arr_0.npy"}, FileKind::kOtherZip},
      {{}, FileKind::kOtherZip},
  };
  for (const auto& [names, kind] : cases) CHECK(kind_of(test::zip_of(names)) == kind);
}

TEST_CASE("other formats are told by their first bytes") {
  CHECK(kind_of("") == FileKind::kEmpty);
  CHECK(kind_of("\x89HDF\r\n\x1a\n....") == FileKind::kHdf5);
  CHECK(kind_of("\x93NUMPY\x01") == FileKind::kNumpy);
  CHECK(kind_of("\x80\x02}q\x01") == FileKind::kLegacyPickle);
  CHECK(kind_of(std::string("\x10\0\0\0\0\0\0\0{\"a\":1}", 15)) == FileKind::kSafetensors);
  CHECK(kind_of("\x08\x07\x12\x07pytorch") == FileKind::kOnnx);
  CHECK(kind_of("\x08\x07:\x05graph", "model.onnx") == FileKind::kOnnx);
  CHECK(kind_of(std::string("\x1c\0\0\0ET12", 8)) == FileKind::kExecuTorch);
  CHECK(kind_of("version https://git-lfs.github.com/spec/v1\n") == FileKind::kText);
  CHECK(kind_of("\x01\x02\x03\xff") == FileKind::kUnknown);
}

TEST_CASE("an archive cut anywhere is truncated, never another kind") {
  const std::string whole = test::zip_of({"m/data.pkl", "m/constants.pkl"});
  for (std::size_t size = 2; size < whole.size(); ++size) {
    CHECK(kind_of(whole.substr(0, size)) == FileKind::kTruncatedZip);
  }
  CHECK(kind_of(whole) == FileKind::kTorchScript);
}

TEST_CASE("numbers in an archive that lie are not followed") {
  const std::string whole = test::zip_of({"m/data.pkl", "m/constants.pkl"});
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const char byte : {'\xff', '\x7f', '\0'}) {
      std::string damaged = whole;
      damaged[at] = byte;
      const TempDirectory dir;
      write_file(dir / "m.pt", damaged);
      const auto names = zip_entry_names(dir / "m.pt");
      if (names) CHECK(names->size() <= 2);
    }
  }
}

TEST_CASE("what is no TorchScript is named, with the way out") {
  const TempDirectory dir;
  write_file(dir / "weights.pt", test::zip_of({"archive/data.pkl", "archive/version"}));
  try {
    require_model(dir / "weights.pt");
    FAIL("accepted");
  } catch (const core::Error& error) {
    CHECK(error.kind() == core::ErrorKind::kUsage);
    CHECK(std::string(error.what()).find("an eager checkpoint") != std::string::npos);
    CHECK(error.hint().find("torch.jit.script(model).save(\"weights.pt\")") != std::string::npos);
  }
}

TEST_CASE("an archive with other bytes than its checksums are of is damaged") {
  constexpr std::uint32_t kChecksumOfA = 0xE8B7BE43;
  const TempDirectory dir;
  write_file(dir / "m.pt", test::zip_of({"m/data.pkl", "m/constants.pkl"}, "a", kChecksumOfA));
  CHECK_NOTHROW(require_undamaged(dir / "m.pt"));
  write_file(dir / "m.pt", test::zip_of({"m/data.pkl", "m/constants.pkl"}, "b", kChecksumOfA));
  try {
    require_undamaged(dir / "m.pt");
    FAIL("passed");
  } catch (const core::Error& error) {
    CHECK(std::string(error.what()).find("the file is damaged: m/data.pkl") != std::string::npos);
    CHECK(error.hint().find("copy it again") != std::string::npos);
  }
}

TEST_CASE("missing files and directories are usage errors") {
  const TempDirectory dir;
  CHECK_THROWS_WITH_AS(identify_file(dir / "no.pt"),
                       ((dir / "no.pt").string() + ": no such file").c_str(),
                       core::Error);
  CHECK_THROWS_WITH_AS(
      identify_file(dir.path()), (dir.path().string() + ": is a directory").c_str(), core::Error);
}

/// An opcode, and a text behind its length of four bytes.
std::string pickled_text(const std::string& text) {
  std::string out = "X";
  for (unsigned shift = 0; shift < 32; shift += 8) out += static_cast<char>(text.size() >> shift);
  return out + text;
}

const std::string kNone(1, '\0');

/// Four bytes of entry 7, as LibTorch pickles them; `name` is that of the entry.
std::string pickled_tensor(const std::string& name) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + pickled_text("storage") +
         "ctorch\nByteStorage\n" + pickled_text(name) + pickled_text("cpu") + "K\x04tQK" + kNone +
         "(K\x04t(K\x01t\x89NtR";
}

TEST_CASE("tensors are read from a pickle without calling anything") {
  const auto tensors = read_pickled_tensors("\x80\x02(" + pickled_tensor("7") + "Nt.", "m.pt");
  REQUIRE(tensors.size() == 2);
  CHECK(tensors[0].dtype == core::Dtype::kUInt8);
  CHECK(tensors[0].storage == "7");
  CHECK(tensors[0].shape == std::vector<std::int64_t>{4});
  CHECK(tensors[0].strides == std::vector<std::int64_t>{1});
  CHECK(tensors[1].dtype == core::Dtype::kUnknown);
}

TEST_CASE("a pickle that asks for more memory than a model needs is refused") {
  const std::string long_name(300, 'a');
  CHECK_THROWS_AS(read_pickled_tensors("(" + pickled_tensor(long_name) + "t.", "m.pt"),
                  core::Error);
  // The same text again and again, and as often kept for later.
  const auto repeated = [](const std::string& code, std::size_t times) {
    std::string pickle = "(" + pickled_text("a") + "q" + kNone;
    for (std::size_t i = 0; i < times; ++i) pickle += code;
    return pickle + "t.";
  };
  constexpr std::size_t kTimes = 300'000;
  CHECK(read_pickled_tensors(repeated("h" + kNone, 10), "m.pt").size() == 11);
  CHECK_THROWS_AS(read_pickled_tensors(repeated("h" + kNone, kTimes), "m.pt"), core::Error);
  CHECK_THROWS_AS(read_pickled_tensors(repeated("\x94", kTimes), "m.pt"), core::Error);
}

}  // namespace
}  // namespace repro_check::model_file
