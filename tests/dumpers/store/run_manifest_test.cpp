// SPDX-License-Identifier: Apache-2.0
#include "core/trace/run_manifest.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <limits>
#include <span>
#include <string>

#include "core/error.h"
#include "tests/dumpers/store/error_of.h"

namespace repro_check::core {
namespace {

using test_support::contains;
using test_support::error_of;

RunManifest full_manifest() {
  RunManifest manifest;
  manifest.tool_version = "0.1.0";
  manifest.run_name = "baseline \"quoted\" \n";
  manifest.created = "2026-01-02T03:04:05Z";
  manifest.configuration = R"({"seed": 1, "trap": "00000000000000000000000000000000"})";
  manifest.model_path = "models/größe.pt";
  manifest.model_method = "encode";
  manifest.model_digest = {1, 2};
  manifest.seed = 4294967295;
  manifest.device = "cuda:0";
  manifest.determinism = "warn";
  manifest.disable_dropout = true;
  manifest.rng = "host";
  manifest.grad = "inference";
  manifest.settings = {{"threads.intra_op", "2", "1"}, {"env.MKL_CBWR", "unset", "COMPATIBLE"}};
  manifest.environment = {{"libtorch.version", "2.13.0"}};
  manifest.named_tensors = {{NamedTensorKind::kInput, "tokens", Dtype::kInt64, {2, 16}, {3, 4}},
                            {NamedTensorKind::kParameter, "w", Dtype::kBFloat16, {}, {5, 6}},
                            {NamedTensorKind::kBuffer, "b", Dtype::kUnknown, {0}, {UINT64_MAX, 0}}};
  manifest.warnings = {"first", "second"};
  manifest.trace.operators = UINT64_MAX;
  manifest.trace.returned = 3;
  manifest.trace.tensors = 2;
  manifest.trace.contents = 3;
  manifest.trace.stored_bytes = 4;
  manifest.trace.substitutions = 5;
  manifest.trace.drawing_operators = 6;
  manifest.trace.level = "digest";
  manifest.trace.depth = "all";
  manifest.trace.include = {"aten::*"};
  manifest.trace.exclude = {"encoder.*", "x"};
  manifest.trace.keep_ops = {{3, 11}, {UINT64_MAX, UINT64_MAX}};
  manifest.trace.digest_algorithm = kDigestAlgorithm;
  manifest.trace.io = "direct";
  manifest.trace.bytes_limit_reached_at = 9;
  manifest.trace.index_digest = {7, 8};
  manifest.seconds = 0.1;
  manifest.load_seconds = std::numeric_limits<double>::infinity();
  manifest.run_id = "0123456789abcdef0123456789abcdef";
  manifest.attempt = 2;
  manifest.end = {.exit_code = 1,
                  .signal = "",
                  .exception = RaisedException{"ValueError", "train.py", 7, {11, 12}, "Thread-1"}};
  manifest.processes = {{"proc-1", "fork", "python train.py", 5, true}};
  manifest.notes = {{"at_step", "ValueError: no such parameter", 3}};
  manifest.sources = {{"/project/train.py", {13, 14}}};
  return manifest;
}

/// The text with its digest made to hold again.
std::string signed_again(std::string text) {
  const std::string field = "\"manifest_digest\": \"";
  const std::size_t at = text.rfind(field) + field.size();
  text.replace(at, 32, 32, '0');
  text.replace(at, 32, to_hex(digest_bytes(std::as_bytes(std::span<const char>(text)))));
  return text;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

RunManifest parse(const std::string& text) { return manifest_from_json_text(text, "m.json"); }

TEST_CASE("a manifest survives being written and read") {
  const RunManifest manifest = full_manifest();
  const std::string text = to_json_text(manifest);
  CHECK(text.back() == '\n');
  const RunManifest read = parse(text);
  CHECK(to_json_text(read) == text);
  CHECK(read.run_name == manifest.run_name);
  CHECK(read.configuration == manifest.configuration);
  CHECK(read.settings == manifest.settings);
  CHECK(read.environment == manifest.environment);
  CHECK(read.named_tensors == manifest.named_tensors);
  CHECK(read.warnings == manifest.warnings);
  CHECK(read.trace.operators == UINT64_MAX);
  CHECK(read.trace.returned == 3);
  CHECK(read.trace.exclude == manifest.trace.exclude);
  CHECK(read.trace.io == "direct");
  CHECK(read.trace.bytes_limit_reached_at == 9U);
  CHECK(read.trace.keep_ops == manifest.trace.keep_ops);
  CHECK(read.trace.index_digest == manifest.trace.index_digest);
  CHECK(read.seconds == manifest.seconds);
  CHECK(std::isinf(read.load_seconds));
  CHECK(read.run_id == manifest.run_id);
  CHECK(read.attempt == 2);
  CHECK(read.end == manifest.end);
  CHECK(read.processes == manifest.processes);
  CHECK(read.notes == manifest.notes);
  CHECK(read.sources == manifest.sources);
  RunManifest odd = manifest;
  odd.seconds = std::nan("");
  CHECK(std::isnan(parse(to_json_text(odd)).seconds));
}

TEST_CASE("what a partial recording says about itself is read back, and need not be there") {
  RunManifest manifest = full_manifest();
  CHECK_FALSE(parse(to_json_text(manifest)).trace.partial.has_value());
  manifest.trace.partial = PartialTrace{"out of memory", 57, "aten::conv2d", {12, 13}, 2};
  const std::string text = to_json_text(manifest);
  CHECK(parse(text).trace.partial == manifest.trace.partial);
  const std::string wrong = signed_again(replaced(text, "\"last\": 57", "\"last\": -1"));
  CHECK(contains(error_of(ErrorKind::kDumpDamaged, [&] { parse(wrong); }), "/trace/partial/last"));
}

TEST_CASE("which dump a dump refers to is read back, and need not be there") {
  RunManifest manifest = full_manifest();
  CHECK_FALSE(parse(to_json_text(manifest)).trace.reference.has_value());
  manifest.trace.reference = TraceReference{"baseline", {9, 10}, 57, UINT64_MAX};
  manifest.trace.slices = 12;
  const std::string text = to_json_text(manifest);
  CHECK(parse(text).trace.reference == manifest.trace.reference);
  CHECK(parse(text).trace.slices == 12);
  const std::string wrong = signed_again(replaced(text, "\"contents\": 57", "\"contents\": \"\""));
  CHECK(contains(error_of(ErrorKind::kDumpDamaged, [&] { parse(wrong); }),
                 "/trace/reference/contents"));
}

TEST_CASE("text that is not UTF-8 is cleaned, and the file stays readable") {
  RunManifest manifest = full_manifest();
  manifest.warnings = {"bad \xff\xfe bytes"};
  CHECK(parse(to_json_text(manifest)).warnings.front() == "bad \xef\xbf\xbd\xef\xbf\xbd bytes");
}

TEST_CASE("what version 1.0 did not have has its default") {
  std::string text = replaced(to_json_text(full_manifest()), "  \"io\": \"direct\",\n", "");
  text = replaced(text, ",\n  \"bytes_limit_reached_at\": 9", "");
  text = replaced(text, "\"version\": \"1.5\"", "\"version\": \"1.0\"");
  const RunManifest read = parse(signed_again(text));
  CHECK(read.trace.io == "buffered");
  CHECK_FALSE(read.trace.bytes_limit_reached_at);
}

TEST_CASE("a manifest before version 1.4 says nothing of the program's end") {
  RunManifest manifest = full_manifest();
  manifest.end.reset();
  manifest.run_id.clear();
  manifest.attempt = 0;
  manifest.processes.clear();
  manifest.notes.clear();
  manifest.sources.clear();
  const std::string text = to_json_text(manifest);
  for (const char* field : {"run_id", "attempt", "end", "processes", "notes", "sources"}) {
    CHECK_FALSE(contains(text, fmt::format("\"{}\":", field)));
  }
  const RunManifest older =
      parse(signed_again(replaced(text, "\"version\": \"1.5\"", "\"version\": \"1.3\"")));
  CHECK_FALSE(older.end.has_value());
  CHECK(older.run_id.empty());
  // Of a later one it may be unknown.
  manifest.end.emplace();
  CHECK(parse(to_json_text(manifest)).end == ProgramEnd{});
}

TEST_CASE("a manifest of version 1.0 kept the bytes of every operator") {
  RunManifest manifest = full_manifest();
  manifest.trace.keep_ops.clear();
  const std::string text = to_json_text(manifest);
  CHECK_FALSE(contains(text, "keep_ops"));
  const std::string older = replaced(text, "\"version\": \"1.5\"", "\"version\": \"1.0\"");
  CHECK(parse(signed_again(older)).trace.keep_ops.empty());
}

TEST_CASE("fields of a later minor version are passed over") {
  std::string text = to_json_text(full_manifest());
  text = replaced(text, "\"version\": \"1.5\"", "\"version\": \"1.7\", \"later\": [1, {\"a\": 2}]");
  CHECK(parse(signed_again(text)).run_name == full_manifest().run_name);
  CHECK(contains(error_of(ErrorKind::kDumpDamaged, [&] { parse(text); }), "/manifest_digest"));
}

TEST_CASE("a manifest of very many keys is read in linear time") {
  std::string many;
  for (int i = 0; i < 400'000; ++i) many += ", \"key" + std::to_string(i) + "\": 1";
  std::string text = to_json_text(full_manifest());
  text = replaced(text, "\"version\": \"1.5\"", "\"version\": \"1.5\"" + many);
  const std::clock_t begin = std::clock();  // of the processor: the machine may be busy
  CHECK(parse(signed_again(text)).run_name == full_manifest().run_name);
  const std::string twice = replaced(text, "\"key399999\"", "\"key0\"");
  CHECK(contains(error_of(ErrorKind::kDumpDamaged, [&] { parse(twice); }),
                 "\"key0\" is there twice"));
  CHECK(std::clock() - begin < 30 * CLOCKS_PER_SEC);
}

TEST_CASE("another format or another major version is unknown") {
  const std::string text = to_json_text(full_manifest());
  const auto unknown = [&](const std::string& from, const std::string& to) {
    return error_of(ErrorKind::kDumpUnknown, [&] { parse(replaced(text, from, to)); });
  };
  CHECK(contains(unknown("repro-check-dump", "other-dump"), "m.json: not the manifest of a dump"));
  CHECK(
      contains(unknown("\"version\": \"1.5\"", "\"version\": \"2.0\""),
               "dump format 2.0 cannot be read: this repro-check reads 1.x | use the repro-check"));
  CHECK(contains(unknown("\"version\": \"1.5\"", "\"version\": \"0.9\""), "record the run again"));
  CHECK(contains(error_of(ErrorKind::kDumpUnknown, [] { parse("[]"); }), "not the manifest"));
}

TEST_CASE("what is malformed is named by its JSON pointer") {
  const std::string text = to_json_text(full_manifest());
  const auto damage = [&](const std::string& from, const std::string& to) {
    const std::string changed = signed_again(replaced(text, from, to));
    return error_of(ErrorKind::kDumpDamaged, [&] { parse(changed); });
  };
  CHECK(contains(damage("\"seed\": 4294967295", "\"seed\": -1"), "m.json: /seed: must be an int"));
  CHECK(contains(damage("\"seed\": 4294967295", "\"seed\": 1.5"), "/seed"));
  CHECK(contains(damage("\"run_name\"", "\"other\""), "m.json: /: \"run_name\" is missing"));
  CHECK(contains(damage("\"tensors\": 2", "\"tensors\": \"2\""), "/trace/tensors"));
  CHECK(contains(damage("\"bfloat16\"", "\"float12\""),
                 "/named_tensors/1/dtype: nothing is called \"float12\""));
  CHECK(contains(damage("\"kind\": \"buffer\"", "\"kind\": \"bucket\""), "/named_tensors/2/kind"));
  CHECK(contains(damage("\"first\"", "7"), "/warnings/0: must be a string"));
  // The array is the last of the trace, a line a number.
  const auto moved = [&](const char* from, const char* to) {
    return contains(damage(from, to), "/trace/keep_ops");
  };
  CHECK(moved("    11\n", "    2\n"));
  CHECK(moved("    11\n", "    -1\n"));
  CHECK(moved("    11\n", "    11,\n 12\n"));
  CHECK(moved("    3,\n", ""));
  CHECK(moved("\"keep_ops\": [", "\"keep_ops\": [[0, 4], "));
  CHECK(contains(damage("\"inf\"", "\"many\""), "/load_seconds"));
  CHECK(contains(damage("\"disable_dropout\": true", "\"disable_dropout\": 1"),
                 "/disable_dropout: must be true or false"));
  CHECK(contains(damage("\"00000000000000010000000000000002\"", "\"xyz\""), "/model_digest"));
  CHECK(contains(damage("\"version\": \"1.5\"", "\"version\": \"1.0x\""), "/version"));
  CHECK(contains(damage("\"exit_code\": 1", "\"exit_code\": -1"), "/end/exit_code"));
  CHECK(contains(damage("\"line\": 7", "\"line\": \"7\""), "/end/exception/line"));
  CHECK(contains(damage("\"recorded\": true", "\"recorded\": 1"), "/processes/0/recorded"));
  CHECK(contains(damage("\"count\": 3", "\"count\": {}"), "/notes/0/count"));
  CHECK(contains(damage("\"seed\"", "\"rng\": \"host\", \"seed\""),
                 "the key \"rng\" is there twice"));
  CHECK(contains(
      damage("\"warnings\": [",
             "\"deep\": " + std::string(100, '[') + std::string(100, ']') + ", \"warnings\": ["),
      "nested too deep"));
  CHECK(contains(error_of(ErrorKind::kDumpDamaged, [&] { parse(text.substr(0, 100)); }),
                 "m.json: not valid JSON: parse error"));
}

TEST_CASE("any changed character of a manifest is noticed") {
  const std::string text = to_json_text(full_manifest());
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    CHECK_THROWS_AS(parse(changed), Error);
  }
}

}  // namespace
}  // namespace repro_check::core
