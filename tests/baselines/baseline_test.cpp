// SPDX-License-Identifier: Apache-2.0
#include "baselines/baseline.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "core/error.h"
#include "tests/baselines/sample_baseline.h"

namespace repro_check::baselines::baseline_test {
namespace {

using test_support::digest;
using test_support::sample_baseline;
using test_support::sample_of_blocks;

core::Error error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const core::Error& error) {
    return error;
  }
  return {core::ErrorKind::kInternal, "nothing was thrown"};
}

core::Error refusal(const std::string& text) {
  return error_of([&] { baseline_from_text(text, "b.repro"); });
}

/// A file whose lines were changed by somebody who mended the checksum as well.
std::string resealed(const std::string& text) {
  const std::string body = text.substr(0, text.rfind("\nend ") + 1);
  const core::Digest sum = core::digest_bytes(std::as_bytes(std::span<const char>(body)));
  const std::string end = text.substr(body.size(), text.rfind(' ') - body.size());
  return body + end + " xxh3:" + core::to_hex(sum) + "\n";
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const std::size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}

TEST_CASE("a baseline is read as it was written") {
  for (const Baseline& sample : {sample_baseline(), sample_of_blocks()}) {
    const std::string text = to_text(sample);
    CHECK(baseline_from_text(text, "b.repro") == sample);
    for (const char byte : text) CHECK((byte == '\n' || (byte >= ' ' && byte < 0x7f)));
  }
}

TEST_CASE("a recording of blocks has a line a call, and one a parameter") {
  const std::string text = to_text(sample_of_blocks());
  CHECK(text.starts_with("repro-baseline 2\n"));
  CHECK(text.find(" ops 1 blocks 3 calls 3 parameters 2\n") != std::string::npos);
  const std::string lines = "\nk f encoder\\x200 3 0 " + core::to_hex(digest(20)) + " " +
                            core::to_hex(digest(21)) + "\nk e \\x2d 3 2 - " +
                            core::to_hex(digest(22)) + "\nk f head 4/1 0 " +
                            core::to_hex(digest(23)) + " -\nu head.weight 3 " +
                            core::to_hex(digest(24)) + "\nu head.weight 4/1 -\n";
  CHECK(text.find(lines) != std::string::npos);
  for (const auto& [what, by] : {std::pair{"repro-baseline 2", "repro-baseline 1"},
                                 std::pair{" blocks 3 calls 3 ", " blocks 3 calls 4 "},
                                 std::pair{" 4/1 0 ", " 4/0 0 "},
                                 std::pair{" parameters 2", ""}}) {
    CAPTURE(by);
    CHECK(refusal(resealed(replaced(text, what, by))).kind() == core::ErrorKind::kDumpDamaged);
  }
}

TEST_CASE("many calls of blocks fold into a line a step, whatever went into them") {
  Baseline sample = sample_of_blocks();
  CHECK(fold(sample) == sample);
  const AcceptedCall one = sample.blocks->calls.front();
  sample.blocks->parameters.resize(1);
  sample.blocks->calls.assign(kMostLines + 1, one);
  for (std::uint32_t i = 0; i <= kMostLines; ++i) sample.blocks->calls[i].row.step = i / 10;
  count_anew(*sample.blocks);
  const Baseline folded = fold(sample);
  REQUIRE(is_folded(folded));
  CHECK(folded.ops.empty());
  CHECK(folded.blocks->calls.empty());
  CHECK(folded.blocks->call_count == kMostLines + 1);
  REQUIRE(folded.blocks->folded.size() == kMostLines / 10 + 1);
  CHECK(folded.blocks->folded[0].lines == 11);  // with the record
  CHECK(folded.blocks->folded[3].lines == 11);  // with a parameter
  CHECK(folded.blocks->folded[5].lines == 10);
  CHECK(baseline_from_text(to_text(folded), "b.repro") == folded);

  Baseline other = sample;
  other.blocks->calls[57].row.in = digest(98);
  CHECK(same_results(folded, folded_like(other, folded)));
  other.blocks->calls[57].row.out = digest(99);
  CHECK_FALSE(same_results(folded, folded_like(other, folded)));
  CHECK(describe_changes(folded, folded_like(other, folded)) ==
        "1 of 501 steps change, first step 5");
}

TEST_CASE("the ranks of steps that are folded are told apart") {
  Baseline sample = sample_of_blocks();
  sample.blocks->calls.insert(
      sample.blocks->calls.begin(), kMostLines, sample.blocks->calls.front());
  count_anew(*sample.blocks);
  const Baseline folded = fold(sample);
  CHECK(ranks_in(folded) == std::vector<std::uint32_t>{0, 1});
  CHECK(to_text(folded).find("\nt 4/1 1 2 xxh3:") != std::string::npos);
  CHECK(baseline_from_text(to_text(folded), "b.repro") == folded);
  sample.blocks->parameters.back().row.digest = digest(99);
  CHECK(describe_changes(folded, folded_like(sample, folded)) ==
        "1 of 3 steps change, first step 4 of rank 1");
}

TEST_CASE("more steps than there may be lines share them") {
  Baseline sample = sample_of_blocks();
  sample.blocks->parameters.clear();
  sample.blocks->calls.assign(kMostLines + 1, sample.blocks->calls.front());
  for (std::uint32_t i = 0; i <= kMostLines; ++i) sample.blocks->calls[i].row.step = i;
  count_anew(*sample.blocks);
  const Baseline folded = fold(sample);
  CHECK(folded.blocks->folded.size() == kMostLines / 2 + 1);
  CHECK(folded.blocks->folded[1].width == 2);
  sample.blocks->calls[7].row.out = digest(99);
  CHECK(describe_changes(folded, folded_like(sample, folded)) ==
        "1 of 2501 groups of steps change, first steps 6 to 7");
}

core::OpRecord record(core::Phase phase, const char* name, const char* module) {
  core::OpRecord record;
  record.phase = phase;
  auto info = std::make_shared<core::OperatorInfo>();
  info->name = name;
  record.op = info;
  auto site = std::make_shared<core::CallSite>();
  site->module_path = module;
  record.site = site;
  return record;
}

core::TensorRecord output(const char* slot,
                          core::Dtype dtype,
                          std::vector<std::int64_t> shape,
                          std::optional<core::Digest> digest) {
  core::TensorRecord tensor;
  tensor.role = core::TensorRole::kOutput;
  tensor.slot = slot;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  tensor.state = digest ? core::ContentState::kHashed : core::ContentState::kUndefined;
  tensor.digest = digest.value_or(core::Digest{});
  return tensor;
}

TEST_CASE("an operator is one line, and an inserted one changes no other") {
  core::OpRecord add = record(core::Phase::kForward, "aten::add", "");
  auto named = std::make_shared<core::OperatorInfo>(*add.op);
  named->overload = "Tensor";
  add.op = named;
  add.tensors = {core::TensorRecord{}, output("0", core::Dtype::kFloat32, {2, 3}, digest(7))};
  core::OpRecord topk = record(core::Phase::kBackward, "aten::topk", "a b.\xc3\xa9");
  topk.step = 1;
  topk.rank = 2;
  topk.lane = 3;
  topk.depth = 4;
  topk.tensors = {output("0", core::Dtype::kFloat32, {1}, digest(8)),
                  output("1.values", core::Dtype::kUnknown, {}, {})};
  core::OpRecord item = record(core::Phase::kOptimizer, "aten::item", "-");
  item.results = {core::Value{core::Symbol{"nan \"two words\""}}};
  const Baseline sample = sample_baseline();
  CHECK(to_line(add) == sample.ops[0]);
  CHECK(to_line(topk) == sample.ops[1]);
  CHECK(to_line(item) == sample.ops[2]);
}

TEST_CASE("the line of an operator tells what it was") {
  const Baseline sample = sample_baseline();
  const AcceptedOp topk = op_of(sample.ops[1]);
  CHECK(topk.record.phase == core::Phase::kBackward);
  CHECK(topk.record.site->module_path == "a b.\xc3\xa9");
  CHECK(topk.record.depth == 4);
  REQUIRE(topk.record.tensors.size() == 2);
  CHECK(topk.record.tensors[0].digest == digest(8));
  CHECK(topk.record.tensors[1].slot == "1.values");
  CHECK(op_of(sample.ops[0]).record.op->overload == "Tensor");
  CHECK(op_of(sample.ops[2]).scalars == "nan \"two words\"");
  // Paths of what a call returned hold brackets, and keys of dictionaries anything.
  for (const char* slot : {"out.logits[0]", "out[a=b]", "out[x y]"}) {
    core::OpRecord returned = record(core::Phase::kForward, "repro_check::returned", "");
    returned.tensors = {output(slot, core::Dtype::kFloat32, {2}, digest(9))};
    CHECK(op_of(to_line(returned)).record.tensors.at(0).slot == slot);
  }
}

TEST_CASE("what a hand or a merge changed is damaged, not another baseline") {
  const std::string text = to_text(sample_baseline());
  const std::string edited = replaced(text, "float32[2,3]", "float32[3,2]");
  CHECK(refusal(edited).kind() == core::ErrorKind::kDumpDamaged);
  CHECK(std::string(refusal(edited).what()).find("checksum") != std::string::npos);
  CHECK(std::string(refusal(replaced(text, "root", "<<<<<<< HEAD\nroot")).what())
            .find("merge conflict") != std::string::npos);
  CHECK(refusal(text.substr(0, text.size() / 2)).kind() == core::ErrorKind::kDumpDamaged);
  CHECK(refusal(replaced(text, "\n", "\r\n")).kind() == core::ErrorKind::kDumpDamaged);
  CHECK(refusal(text + "\n").kind() == core::ErrorKind::kDumpDamaged);
  CHECK(refusal("").kind() == core::ErrorKind::kDumpUnknown);
  CHECK(refusal("{}").kind() == core::ErrorKind::kDumpUnknown);
}

TEST_CASE("a newer version is refused as that") {
  const std::string text =
      replaced(to_text(sample_baseline()), "repro-baseline 1", "repro-baseline 3");
  CHECK(refusal(text).kind() == core::ErrorKind::kDumpUnknown);
}

TEST_CASE("with a right checksum, a second spelling is refused") {
  const std::string text = to_text(sample_baseline());
  for (const auto& [what, by] :
       {std::pair{"float32[2,3]:", "float[2,3]:"},
        std::pair{" ops 3", " ops 03"},
        std::pair{"f aten::add.Tensor - 0 ", "f aten::add.Tensor - 0/0/0/0 "},
        std::pair{"\\xc3", "\\xC3"},
        std::pair{"[2,3]:", "[2,03]:"},
        std::pair{"c /seed 7\n", "c /seed 7 \n"},
        std::pair{" ops 3", " ops 4"},
        std::pair{"p os.machine x86_64", "p os.machine arm64"},
        std::pair{"o aten::item", "z aten::item"}}) {
    CAPTURE(by);
    CHECK(refusal(resealed(replaced(text, what, by))).kind() == core::ErrorKind::kDumpDamaged);
  }
  CHECK_NOTHROW(baseline_from_text(resealed(text), "b.repro"));
}

TEST_CASE("the key follows every field of the platform") {
  Platform platform = sample_baseline().platform;
  const core::Digest before = platform.key();
  for (std::size_t i = 0; i < platform.fields.size(); ++i) {
    Platform other = platform;
    other.fields[i].value += "1";
    CHECK(other.key() != before);
  }
}

TEST_CASE("many operators fold into a line a module") {
  Baseline sample = sample_baseline();
  const std::string one = sample.ops.front();
  CHECK(fold(sample) == sample);
  sample.ops.assign(kMostLines + 1, one);
  sample.ops.back() = replaced(one, " - ", " last ");
  sample.operators = sample.ops.size();
  const Baseline folded = fold(sample);
  REQUIRE(folded.modules.size() == 2);
  CHECK(folded.ops.empty());
  CHECK(folded.modules[0].operators == kMostLines);
  CHECK(baseline_from_text(to_text(folded), "b.repro") == folded);
  sample.ops[17] = replaced(one, core::to_hex(digest(7)), core::to_hex(digest(99)));
  CHECK(fold(sample).modules[0].digest != folded.modules[0].digest);
  CHECK(fold(sample).modules[1] == folded.modules[1]);
}

TEST_CASE("few operators fold to the same lines, to be compared with many") {
  Baseline sample = sample_baseline();
  const std::string one = sample.ops.front();
  sample.ops.assign(kMostLines + 1, one);
  sample.ops.back() = replaced(one, " - ", " last ");
  const Baseline many = fold(sample);
  sample.ops.erase(sample.ops.begin(), sample.ops.begin() + 2);
  CHECK(fold(sample).modules.empty());
  const Baseline few = folded_like(sample, many);
  REQUIRE(few.modules.size() == 2);
  CHECK(few.ops.empty());
  CHECK(few.modules[0].operators == kMostLines - 2);
  CHECK(few.modules[0] != many.modules[0]);
  CHECK(few.modules[1] == many.modules[1]);
}

TEST_CASE("many tensors of a kind fold into one line") {
  Baseline sample = sample_baseline();
  sample.tensors.assign(kMostLines + 1, sample.tensors[1]);
  const Baseline folded = fold(sample);
  CHECK(folded.tensors.empty());
  REQUIRE(folded.folded.size() == 1);
  CHECK(folded.folded[0].count == kMostLines + 1);
  CHECK(baseline_from_text(to_text(folded), "b.repro") == folded);
}

TEST_CASE("a pending file says whether its runs agreed, and cannot be edited") {
  const Pending pending{false, 5, {digest(12), "models/a b.pt"}, sample_baseline()};
  const std::string text = to_text(pending);
  const Pending read = pending_from_text(text, "p");
  CHECK_FALSE(read.agreed);
  CHECK(read.runs == 5);
  CHECK(read.model.digest == digest(12));
  CHECK(read.model.path == "models/a b.pt");
  CHECK(read.baseline == pending.baseline);
  CHECK_FALSE(read.weights);
  Pending other = pending;
  other.weights = {digest(13), "models/c\nd.pt"};
  const Pending again = pending_from_text(to_text(other), "p");
  CHECK(again.weights == other.weights);
  CHECK(again.model.digest == digest(12));
  const auto error =
      error_of([&] { pending_from_text(replaced(text, "runs disagreed", "runs agreed"), "p"); });
  CHECK(error.kind() == core::ErrorKind::kDumpDamaged);
  CHECK(error_of([&] { pending_from_text(to_text(sample_baseline()), "p"); }).kind() ==
        core::ErrorKind::kDumpUnknown);
}

}  // namespace
}  // namespace repro_check::baselines::baseline_test
