// SPDX-License-Identifier: Apache-2.0
#include "cmd/inspect/inspect_tensor.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "core/tensor/npy.h"
#include "tests/cmd/scripts.h"
#include "tests/support/memory_source.h"

namespace repro_check::cmd::inspect_tensor_test {
namespace {

/// @param changed  the values of the output
std::string dump_with(const std::string& changed) {
  return R"({"run": "r", "tensors": {
    "x": {"dtype": "bfloat16", "shape": [3], "values": [1, 2, "nan"]},
    "big": {"dtype": "int64", "shape": [2], "values": [9007199254740993, -1]},
    "u": {"dtype": "float32", "shape": [2], "state": "uninitialised"},
    "y": {"dtype": "float32", "shape": [2, 3], "values": )" +
         changed + R"(}},
    "ops": [{"operator": "aten::mul", "inputs": {"self": "x", "index": "big", "out": "u"},
             "outputs": ["y"]}]})";
}

const std::string kOne = dump_with("[1, 2, 3, 4, 5, 6]");
const std::string kOther = dump_with(R"([1, 2.0000002, 3, 4, "nan", 6])");

TensorQuery asked(std::string slot = "out:0") {
  TensorQuery query;
  query.slot = std::move(slot);
  return query;
}

core::ErrorKind kind_of(const auto& call) {
  try {
    call();
  } catch (const core::Error& error) {
    return error.kind();
  }
  return core::ErrorKind::kInternal;
}

/// Header and contents of a .safetensors file.
struct Parsed {
  Json header;
  std::string contents;
};

Parsed parse_safetensors(const std::filesystem::path& file) {
  const std::string bytes = read_file(file);
  REQUIRE(bytes.size() > 8);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  REQUIRE(length % 8 == 0);
  REQUIRE(bytes.size() >= 8 + length);
  return {Json::parse(bytes.substr(8, length)), bytes.substr(8 + length)};
}

}  // namespace

TEST_CASE("a composite names its parts, whose values it has") {
  const auto dump = test_support::source_from_json(R"({"run": "r", "tensors": {
    "s": {"dtype": "float32", "shape": [4], "state": "composite", "layout": "sparse_coo",
          "parts": {"indices": "i", "values": "v"}},
    "i": {"dtype": "int64", "shape": [1, 2], "values": [0, 3]},
    "v": {"dtype": "float32", "shape": [2], "values": [1, 2]}},
    "ops": [{"operator": "aten::to_sparse", "outputs": ["s"]}]})");
  TensorQuery query = asked();
  CHECK_NOTHROW(tensor_view(*dump, 0, query, Form::kTabs));
  query.values = 1;
  const auto hint_of = [](const auto& call) {
    try {
      call();
    } catch (const core::Error& error) {
      return std::string(error.hint());
    }
    return std::string();
  };
  const std::string hint = "name one of its parts: out:0.indices, out:0.values";
  CHECK(hint_of([&] { tensor_view(*dump, 0, query, Form::kTabs); }) == hint);
  CHECK(hint_of([&] { compare_tensor(*dump, 0, *dump, query); }) == hint);
}

TEST_CASE("a slice shows its elements under the indices of the whole") {
  const auto dump = test_support::source_from_json(kOne);
  TensorQuery query = asked();
  query.slice = core::parse_subscript(":,::-2");
  query.values = 3;
  query.bits = true;
  const std::string text = tensor_view(*dump, 0, query, Form::kTabs);
  CHECK(text.find("  slice: [2, 2], 4 elements\n"
                  "[0, 2]\t3\t40400000\n[0, 0]\t1\t3f800000\n[1, 2]\t6\t40c00000\n"
                  "... and 1 more: --values=4\n") != std::string::npos);
  query.stats = true;
  const Json json = Json::parse(tensor_view(*dump, 0, query, Form::kJson));
  CHECK(json["slice"]["shape"] == Json({2, 2}));
  CHECK(json["values"][2]["index"] == Json({1, 2}));
  CHECK(json["tensor"]["stats"]["mean"] == 3.5);  // of the slice
  query.slice = core::parse_subscript("2");
  CHECK(kind_of([&] { tensor_view(*dump, 0, query, Form::kTabs); }) ==
        core::ErrorKind::kNotComparable);
}

TEST_CASE("statistics come with a histogram that counts every finite number") {
  const auto dump = test_support::source_from_json(kOther);
  TensorQuery query = asked();
  query.stats = true;
  const Json json = Json::parse(tensor_view(*dump, 0, query, Form::kJson));
  const Json& histogram = json["tensor"]["histogram"];
  CHECK(histogram["edges"].size() == 17);
  CHECK(histogram["edges"][0] == 1.0);
  CHECK(histogram["edges"][16] == 6.0);
  CHECK(histogram["counts"].size() == 16);
  CHECK(histogram["not_finite"] == 1);
  const std::string text = tensor_view(*dump, 0, query, Form::kTabs);
  CHECK(text.find("         1 to      1.312          1  ######") != std::string::npos);
}

TEST_CASE("two dumps at one tensor: differing elements first, then the others") {
  const auto dump = test_support::source_from_json(kOne);
  const auto other = test_support::source_from_json(kOther);
  TensorQuery query = asked();
  query.values = 4;
  const TensorAgainst pair = compare_tensor(*dump, 0, *other, query);
  CHECK_FALSE(pair.equal);
  CHECK(differing_first(pair, 4) == std::vector<std::uint64_t>{1, 4, 0, 2});
  CHECK(differing_first(pair, 1) == std::vector<std::uint64_t>{1});
  const std::string text = against_view(*dump, *other, pair, query, Form::kTabs);
  CHECK(
      text.starts_with("DIVERGED op 0 aten::mul out:0, float32 [2, 3]: 2 of 6 elements differ, "
                       "max 1 ULP"));
  CHECK(text.find("[0, 1]\t2\t2.0000002\t2.384e-07\t1\n") != std::string::npos);
  CHECK(text.find("[1, 1]\t5\tnan\tnan\tincomparable\n") != std::string::npos);
  CHECK(text.find("[0, 0]\t1\t1\t0\t0\n") != std::string::npos);
  const Json json = Json::parse(against_view(*dump, *other, pair, query, Form::kJson));
  CHECK(json["equal"] == false);
  CHECK(json["metrics"]["n_diff"] == 2);
  CHECK(json["values"][0]["differs"] == true);
  CHECK(json["values"][0]["ulp"] == 1);
  CHECK(json["values"][2]["differs"] == false);
  CHECK(json["values"][1]["candidate"]["value"] == "nan");
}

TEST_CASE("a part is judged by itself, and equal is said of nothing else") {
  const auto dump = test_support::source_from_json(kOne);
  const auto other = test_support::source_from_json(kOther);
  TensorQuery query = asked();
  query.slice = core::parse_subscript("0,::2");
  const TensorAgainst pair = compare_tensor(*dump, 0, *other, query);
  CHECK(pair.equal);
  CHECK(against_view(*dump, *other, pair, query, Form::kTabs) ==
        "REPRODUCIBLE op 0 aten::mul out:0, float32 [2, 3], slice [2]: 2 elements bit-identical\n");
  CHECK(compare_tensor(*dump, 0, *other, asked("in:self")).equal);
  CHECK(kind_of([&] { compare_tensor(*dump, 0, *other, asked("in:out")); }) ==
        core::ErrorKind::kNotComparable);
  CHECK(kind_of([&] { compare_tensor(*dump, 0, *other, asked("out:1")); }) ==
        core::ErrorKind::kNotComparable);
}

TEST_CASE("another shape or dtype is a difference without values") {
  const auto dump = test_support::source_from_json(kOne);
  std::string text = kOne;
  text.replace(text.find("\"shape\": [2, 3]"), 15, "\"shape\": [3, 2]");
  const auto other = test_support::source_from_json(text);
  const TensorAgainst pair = compare_tensor(*dump, 0, *other, asked());
  CHECK_FALSE(pair.equal);
  CHECK(pair.difference == "float32 [2, 3] against float32 [3, 2]");
  CHECK(kind_of([&] { export_pair("x.csv", pair, asked()); }) == core::ErrorKind::kNotComparable);
}

TEST_CASE("digests that differ are a difference where values are not stored") {
  const std::string digest_level = R"({"manifest": {"level": "digest"}, )";
  const auto dump = test_support::source_from_json(digest_level + kOne.substr(1));
  const auto other = test_support::source_from_json(digest_level + kOther.substr(1));
  TensorQuery query = asked();
  query.values = 3;
  const TensorAgainst pair = compare_tensor(*dump, 0, *other, query);
  CHECK_FALSE(pair.equal);
  CHECK_FALSE(pair.difference.empty());
  const TensorAgainst same = compare_tensor(*dump, 0, *dump, query);
  CHECK(same.equal);
  CHECK(same.difference.empty());
  query.slice = core::parse_subscript("0");
  CHECK(kind_of([&] { compare_tensor(*dump, 0, *other, query); }) ==
        core::ErrorKind::kNotComparable);
}

TEST_CASE("a file of safetensors holds every stored tensor of an operator, bit for bit") {
  const auto dump = test_support::source_from_json(kOne);
  const TempDirectory folder;
  const std::filesystem::path file = folder / "op.safetensors";
  export_op(file, *dump, 0, std::nullopt);
  const Parsed parsed = parse_safetensors(file);
  CHECK(parsed.header.size() == 4);  // with __metadata__; `u` has no values
  CHECK(parsed.header["__metadata__"]["operator"] == "aten::mul");
  const Json& x = parsed.header["in:self"];
  CHECK(x["dtype"] == "BF16");
  CHECK(x["shape"] == Json({3}));
  CHECK(x["data_offsets"] == Json({0, 6}));
  CHECK(parsed.header["in:index"]["data_offsets"] == Json({6, 22}));
  CHECK(parsed.header["out:0"]["data_offsets"] == Json({22, 46}));
  CHECK(parsed.contents.size() == 46);
  CHECK(parsed.contents.substr(0, 4) == std::string("\x80\x3f\x00\x40", 4));
  export_op(file, *dump, 0, core::Dtype::kFloat16);
  const Parsed narrow = parse_safetensors(file);
  CHECK(narrow.header["out:0"]["dtype"] == "F16");
  CHECK(narrow.header["in:index"]["dtype"] == "I64");
}

TEST_CASE("what a format cannot hold is refused with what to do") {
  const auto dump = test_support::source_from_json(kOne);
  const TempDirectory folder;
  TensorQuery query = asked("in:self");
  query.export_to = (folder / "x.npy").string();
  try {
    tensor_view(*dump, 0, query, Form::kTabs);
    FAIL("it was written");
  } catch (const core::Error& error) {
    CHECK(error.kind() == core::ErrorKind::kUnsupportedDtype);
    CHECK(error.hint() == "convert it with --as float32, or export to .safetensors");
  }
  CHECK_FALSE(std::filesystem::exists(folder / "x.npy"));
  query.as = core::Dtype::kFloat32;
  tensor_view(*dump, 0, query, Form::kTabs);
  CHECK(core::read_npy(folder / "x.npy").dtype == core::Dtype::kFloat32);
  for (const char* name : {"x", "x.pt", "x.pth", "x.npyy", "x.NPY", ".npy/x", "x.txt"}) {
    CAPTURE(name);
    CHECK(kind_of([&] { export_format(name); }) == core::ErrorKind::kUsage);
  }
  for (const char* name : {"int32", "complex64", "float8_e8m0fnu", "nonsense", ""}) {
    CAPTURE(name);
    CHECK(kind_of([&] { export_dtype(name); }) == core::ErrorKind::kUsage);
  }
  CHECK(export_dtype("torch.bfloat16") == core::Dtype::kBFloat16);
  for (const core::Dtype dtype :
       {core::Dtype::kComplex128, core::Dtype::kQInt8, core::Dtype::kFloat8E5M2FNUZ}) {
    CHECK(safetensors_dtype(dtype).empty());
  }
}

TEST_CASE("text formats have a row for each element") {
  const auto dump = test_support::source_from_json(kOne);
  const auto other = test_support::source_from_json(kOther);
  const TempDirectory folder;
  TensorQuery query = asked("in:index");
  query.export_to = (folder / "x.csv").string();
  tensor_view(*dump, 0, query, Form::kTabs);
  CHECK(read_file(folder / "x.csv") == "i0,value\n0,9007199254740993\n1,-1\n");
  query = asked();
  query.slice = core::parse_subscript("1,1:");
  query.bits = true;
  query.export_to = (folder / "y.csv").string();
  tensor_view(*dump, 0, query, Form::kTabs);
  CHECK(read_file(folder / "y.csv") == "i0,i1,value,bits\n1,1,5,40a00000\n1,2,6,40c00000\n");
  query.export_to = (folder / "y.jsonl").string();
  tensor_view(*dump, 0, query, Form::kTabs);
  CHECK(read_file(folder / "y.jsonl") ==
        "{\"index\":[1,1],\"value\":5,\"bits\":\"40a00000\"}\n"
        "{\"index\":[1,2],\"value\":6,\"bits\":\"40c00000\"}\n");
  query = asked();
  query.values = 0;
  const TensorAgainst pair = compare_tensor(*dump, 0, *other, query);
  export_pair(folder / "pair.csv", pair, query);
  const std::string csv = read_file(folder / "pair.csv");
  CHECK(csv.starts_with("i0,i1,baseline,candidate,abs_error,ulp\n0,0,1,1,0,0\n0,1,2,2.0000002,"));
  CHECK(csv.find("1,1,5,nan,nan,\n") != std::string::npos);
  export_pair(folder / "pair.jsonl", pair, query);
  const std::string lines = read_file(folder / "pair.jsonl");
  CHECK(Json::parse(lines.substr(0, lines.find('\n')))["ulp"] == 0);
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 6);
  // Equal ones are written too.
  query = asked();
  query.export_to = (folder / "equal.csv").string();
  const TensorAgainst equal = compare_tensor(*dump, 0, *dump, query);
  CHECK(equal.equal);
  export_pair(*query.export_to, equal, query);
  CHECK(read_file(*query.export_to).size() > 40);
}

}  // namespace repro_check::cmd::inspect_tensor_test
