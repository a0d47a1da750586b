// SPDX-License-Identifier: Apache-2.0
#include <ATen/ThreadLocalState.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/trace/op_record.h"
#include "dumpers/capture/engine/lane.h"
#include "tests/dumpers/capture/recording.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::capture {
namespace {

using core::DumpDepth;

at::Tensor linear_and_relu(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  return at::relu(at::linear(x, w, b));
}

DOCTEST_TEST_CASE("depth top records what the model calls, and nothing inside") {
  const at::Tensor x = at::randn({4, 3});
  const at::Tensor w = at::randn({2, 3});
  const at::Tensor b = at::randn({2});
  const Trace sink = record(options_for(DumpDepth::kTop), [&] { linear_and_relu(x, w, b); });
  DOCTEST_CHECK(sink.names() == "linear relu");
  const core::OpRecord& linear = sink.only("aten::linear");
  DOCTEST_CHECK(linear.index == 0);
  DOCTEST_CHECK(linear.depth == 0);
  DOCTEST_CHECK(linear.parent == -1);
  DOCTEST_CHECK(input(linear, "input").digest == digest_of(x));
  DOCTEST_CHECK(input(linear, "weight").digest == digest_of(w));
  DOCTEST_CHECK(output(linear, "0").digest == digest_of(at::linear(x, w, b)));
  DOCTEST_CHECK(output(linear, "0").producer == 0);
  DOCTEST_CHECK(input(linear, "input").producer == core::kNoProducer);
  DOCTEST_CHECK(input(sink.only("aten::relu"), "self").producer == 0);
  DOCTEST_CHECK(input(sink.only("aten::relu"), "self").storage == output(linear, "0").storage);
  DOCTEST_CHECK(sink.entered == std::vector<std::uint64_t>{0, 1});
}

DOCTEST_TEST_CASE("depth leaf records kernels only, depth all the tree") {
  const at::Tensor x = at::randn({4, 3});
  const at::Tensor w = at::randn({2, 3});
  const at::Tensor b = at::randn({2});
  const Trace leaf = record(options_for(DumpDepth::kLeaf), [&] { linear_and_relu(x, w, b); });
  DOCTEST_CHECK(leaf.names() == "t addmm relu");
  DOCTEST_CHECK(leaf.records.front().depth == 0);

  const Trace all = record(options_for(DumpDepth::kAll), [&] { linear_and_relu(x, w, b); });
  const core::OpRecord& linear = all.only("aten::linear");
  const core::OpRecord& addmm = all.only("aten::addmm");
  DOCTEST_CHECK(linear.index == 0);
  DOCTEST_CHECK(addmm.depth > linear.depth);
  DOCTEST_CHECK(addmm.parent == static_cast<std::int64_t>(linear.index));
  // Entered before its inside, appended after it.
  DOCTEST_CHECK(all.records.front().op->name != "aten::linear");
  DOCTEST_CHECK(output(linear, "0").digest == output(addmm, "0").digest);
  DOCTEST_CHECK(input(all.only("aten::relu"), "self").producer == 0);
}

DOCTEST_TEST_CASE("arguments are recorded exactly") {
  const Trace sink = record(options_for(DumpDepth::kTop), [] {
    const at::Tensor a = at::zeros({2, 3}, at::kHalf);
    const at::Tensor b = at::ones({2, 3}, at::kHalf);
    at::cat({a, b}, 1);
    at::add(a, b, 0.1);
    at::sum(a, at::IntArrayRef({0, 1}), true, at::kDouble);
    a.to(at::kFloat, false, true, at::MemoryFormat::Contiguous);
    at::index(a, {c10::optional<at::Tensor>(), at::tensor(at::IntArrayRef({0, 2}), at::kLong)});
  });
  const core::OpRecord& zeros = sink.only("aten::zeros");
  DOCTEST_CHECK(text_of(zeros, "size") == "[2, 3]");
  DOCTEST_CHECK(text_of(zeros, "dtype") == "float16");
  DOCTEST_CHECK(text_of(zeros, "pin_memory") == "None");
  const core::OpRecord& cat = sink.only("aten::cat");
  DOCTEST_CHECK(text_of(cat, "tensors") == "[<tensor 0>, <tensor 1>]");
  DOCTEST_CHECK(input(cat, "tensors.1").producer == 1);
  DOCTEST_CHECK(cat.tensors.back().shape == std::vector<std::int64_t>{2, 6});
  const core::OpRecord& add = sink.only("aten::add");
  DOCTEST_CHECK(add.op->overload == "Tensor");
  DOCTEST_CHECK(std::get<double>(argument(add, "alpha").data) == 0.1);
  DOCTEST_CHECK(text_of(sink.only("aten::sum"), "dtype") == "float64");
  DOCTEST_CHECK(text_of(sink.only("aten::to"), "memory_format") == "contiguous_format");
  const core::OpRecord& index = sink.only("aten::index");
  DOCTEST_CHECK(find_tensor(index, "indices.1", core::TensorRole::kInput) != nullptr);
}

DOCTEST_TEST_CASE("include and exclude leave the record and drop the content") {
  CaptureOptions options = options_for(DumpDepth::kTop, core::DumpLevel::kTensor);
  options.exclude = {"aten::re*"};
  const at::Tensor x = at::ones({3});
  const Trace sink = record(options, [&] { at::neg(at::relu(x)); });
  DOCTEST_CHECK(sink.names() == "relu neg");
  DOCTEST_CHECK(output(sink.only("aten::relu"), "0").state == core::ContentState::kExcluded);
  const core::TensorRecord& self = input(sink.only("aten::neg"), "self");
  DOCTEST_CHECK(self.state == core::ContentState::kHashed);
  DOCTEST_CHECK(self.producer == 0);
  DOCTEST_CHECK(self.stored);

  options.exclude.clear();
  options.include = {"aten::neg"};
  const Trace included = record(options, [&] { at::neg(at::relu(x)); });
  DOCTEST_CHECK(output(included.only("aten::relu"), "0").state == core::ContentState::kExcluded);
  DOCTEST_CHECK(output(included.only("aten::neg"), "0").state == core::ContentState::kHashed);
}

class FixedSite final : public SiteProvider {
 public:
  std::shared_ptr<const core::CallSite> current_site() override { return site; }
  [[nodiscard]] std::optional<core::Phase> current_phase() const override { return phase; }
  [[nodiscard]] bool runs_model(std::uint32_t /*step*/) const override { return recorded; }
  [[nodiscard]] Reading reading() const override { return how; }
  std::shared_ptr<const core::CallSite> site;
  std::optional<core::Phase> phase;
  bool recorded = true;
  Reading how = Reading::kAll;
};

DOCTEST_TEST_CASE("contents are read as the front end says, and as whoever picked operators asks") {
  FixedSite sites;
  CaptureOptions options = options_for(DumpDepth::kTop, core::DumpLevel::kTensor);
  options.keep_ops = {{1, 1}, {3, 3}};
  MemorySink sink;
  Capture capture(options, sink, &sites);
  {
    const Capture::Scope scope(capture);
    for (const Reading how : {Reading::kAll, Reading::kKept, Reading::kKept, Reading::kNone}) {
      sites.how = how;
      at::ones({2});
    }
    sites.how = Reading::kValues;
    at::zeros({2});
  }
  DOCTEST_REQUIRE(sink.records.size() == 5);
  const auto state = [&](std::size_t op) { return output(sink.records[op], "0").state; };
  DOCTEST_CHECK(state(0) == core::ContentState::kHashed);
  DOCTEST_CHECK(state(1) == core::ContentState::kHashed);
  DOCTEST_CHECK(state(2) == core::ContentState::kExcluded);
  DOCTEST_CHECK(state(3) == core::ContentState::kExcluded);
  DOCTEST_CHECK(state(4) == core::ContentState::kHashed);
  DOCTEST_CHECK(output(sink.records[1], "0").stored);
  DOCTEST_CHECK(output(sink.records[4], "0").stored);
}

DOCTEST_TEST_CASE("what nobody recorded has written is of the record of values that says so") {
  FixedSite sites;
  MemorySink sink;
  Capture capture(top(), sink, &sites);
  const at::Tensor weight = at::ones({3});
  const at::Tensor other = at::ones({3});
  {
    const Capture::Scope scope(capture);
    weight.mul_(2);
    other.mul_(2);
    sites.recorded = false;
    weight.data_ptr<float>()[0] = 7;  // moves no counter of versions
    sites.recorded = true;
    const at::Tensor written = weight;
    capture.record_values(
        "repro_check::optimizer_step", {{"weight", weight}, {"other", other}}, {}, written);
    at::neg(weight);
    at::neg(other);
  }
  DOCTEST_CHECK(sink.names() == "mul_ mul_ check::optimizer_step neg neg");
  const core::OpRecord& step = sink.records[2];
  DOCTEST_CHECK(input(step, "weight").producer == core::kNoProducer);
  DOCTEST_CHECK(output(step, "weight").producer == 2);
  DOCTEST_CHECK(output(step, "other").producer == 1);
  DOCTEST_CHECK(output(step, "weight").digest == digest_of(weight));
  DOCTEST_CHECK(input(sink.records[3], "self").producer == 2);
  DOCTEST_CHECK(input(sink.records[3], "self").digest == digest_of(weight));
  DOCTEST_CHECK(input(sink.records[4], "self").producer == 1);
}

DOCTEST_TEST_CASE("a record of values keeps nothing of the one of its name before it") {
  MemorySink sink;
  Capture capture(top(), sink, nullptr);
  {
    const Capture::Scope scope(capture);
    capture.record_values("repro_check::batch", {{"a", at::ones({2})}, {"b", 3.0}}, {{"n", 1}});
    capture.record_values("repro_check::batch", {{"c", 4.0}});
  }
  const core::OpRecord& second = sink.records.back();
  DOCTEST_CHECK(second.tensors.empty());
  DOCTEST_REQUIRE(second.arguments.size() == 1);
  DOCTEST_CHECK(text_of(second, "c") == "4.0");
  DOCTEST_CHECK(second.results.size() == 1);
}

DOCTEST_TEST_CASE("the site is recorded, matched by patterns, and named in messages") {
  FixedSite sites;
  auto site = std::make_shared<core::CallSite>();
  site->module_path = "backbone.conv1";
  site->frames = {{"model.py", 40, "forward"}};
  sites.site = site;
  CaptureOptions options = options_for(DumpDepth::kTop);
  options.exclude = {"backbone.*"};
  MemorySink sink;
  Capture capture(options, sink, &sites);
  DOCTEST_CHECK(capture.last_operator().empty());
  {
    const Capture::Scope scope(capture);
    at::ones({2});
    sites.site = nullptr;
    at::ones({2});
  }
  DOCTEST_REQUIRE(sink.records.size() == 2);
  DOCTEST_CHECK(sink.records[0].site.get() == site.get());
  DOCTEST_CHECK(sink.records[0].tensors[0].state == core::ContentState::kExcluded);
  DOCTEST_CHECK(sink.records[1].tensors[0].state == core::ContentState::kHashed);
  DOCTEST_CHECK(capture.last_operator() == "op 1 aten::ones");
}

DOCTEST_TEST_CASE("step and phase are those of the moment") {
  FixedSite sites;
  MemorySink sink;
  Capture capture(options_for(DumpDepth::kTop), sink, &sites);
  const Capture::Scope scope(capture);
  at::ones({1});
  capture.set_step(2);
  sites.phase = core::Phase::kBackward;
  at::ones({1});
  DOCTEST_REQUIRE(sink.records.size() == 2);
  DOCTEST_CHECK(sink.records[0].step == 0);
  DOCTEST_CHECK(sink.records[0].phase == core::Phase::kForward);
  DOCTEST_CHECK(sink.records[1].step == 2);
  DOCTEST_CHECK(sink.records[1].phase == core::Phase::kBackward);
}

DOCTEST_TEST_CASE("an operator's exception passes through, and the operator can be named") {
  MemorySink sink;
  Capture capture(options_for(DumpDepth::kAll), sink, nullptr);
  const at::Tensor a = at::ones({2, 3});
  bool caught = false;
  try {
    const Capture::Scope scope(capture);
    at::relu(a);
    at::linear(a, at::ones({2, 2}));
  } catch (const c10::Error& error) {
    caught = std::string(error.what()).find("mat1 and mat2") != std::string::npos;
  }
  DOCTEST_CHECK(caught);
  capture.rethrow_failure();
  // The call it died in stays entered and never left, as a reader of the journal will see it.
  DOCTEST_CHECK(sink.entered.size() > sink.records.size());
  DOCTEST_CHECK(capture.last_operator().find("aten::linear") == std::string::npos);
  DOCTEST_CHECK(capture.last_operator().find("mm") != std::string::npos);
}

DOCTEST_TEST_CASE("an exception the program survives leaves a record without results") {
  MemorySink sink;
  Capture capture(options_for(DumpDepth::kTop), sink, nullptr);
  const at::Tensor a = at::ones({2, 3});
  {
    const Capture::Scope scope(capture);
    DOCTEST_CHECK_THROWS_AS(at::mm(a, a), c10::Error);
    at::relu(a);
  }
  DOCTEST_CHECK(sink.names() == "mm relu");
  DOCTEST_CHECK(sink.only("aten::mm").results.empty());
  DOCTEST_CHECK(sink.only("aten::mm").tensors.size() == 2);
}

DOCTEST_TEST_CASE("a failing sink fails the run, not the model") {
  MemorySink sink;
  sink.fail_at = 1;
  Capture capture(options_for(DumpDepth::kTop), sink, nullptr);
  at::Tensor result;
  {
    const Capture::Scope scope(capture);
    result = at::neg(at::relu(at::ones({2})));
  }
  DOCTEST_CHECK(result.sum().item<float>() == -2);
  DOCTEST_CHECK(sink.records.size() == 1);
  DOCTEST_CHECK(sink.failure.find("op 1 aten::relu: no space left") != std::string::npos);
  try {
    capture.rethrow_failure();
    DOCTEST_FAIL("the failure was swallowed");
  } catch (const core::Error& error) {
    DOCTEST_CHECK(error.kind() == core::ErrorKind::kIo);
    DOCTEST_CHECK(error.hint() == "free some");
  }
}

DOCTEST_TEST_CASE("threads have lanes of their own and share no nesting") {
  MemorySink sink;
  Capture capture(options_for(DumpDepth::kAll), sink, nullptr);
  const auto work = [&] {
    const Capture::Scope scope(capture);
    for (int i = 0; i < 50; ++i) at::linear(at::ones({2, 2}), at::ones({2, 2}));
  };
  at::ones({1});
  std::thread other(work);
  work();
  other.join();
  std::vector<std::uint64_t> indices;
  std::size_t lanes[2] = {0, 0};
  for (const core::OpRecord& record : sink.records) {
    indices.push_back(record.index);
    DOCTEST_REQUIRE(record.lane < 2);
    ++lanes[record.lane];
  }
  std::sort(indices.begin(), indices.end());
  for (std::size_t i = 0; i < indices.size(); ++i) DOCTEST_REQUIRE(indices[i] == i);
  DOCTEST_CHECK(lanes[0] == lanes[1]);
  for (const core::OpRecord& record : sink.records) {
    if (record.parent < 0) continue;
    const auto parent = std::find_if(
        sink.records.begin(), sink.records.end(), [&](const core::OpRecord& candidate) {
          return candidate.index == static_cast<std::uint64_t>(record.parent);
        });
    DOCTEST_REQUIRE(parent->lane == record.lane);
    DOCTEST_REQUIRE(parent->depth + 1 == record.depth);
  }
}

/// Runs `work` to its end on another thread, with the state that LibTorch's pool would give it.
template <typename Work>
void launch(Work work) {
  const at::ThreadLocalState state;
  std::thread([&] {
    const at::ThreadLocalStateGuard guard(state);
    work();
  }).join();
}

DOCTEST_TEST_CASE("a step is of the lane that makes it and of those that it was forked from") {
  MemorySink sink;
  Capture capture(options_for(DumpDepth::kTop), sink, nullptr);
  const at::Tensor x = at::ones({2});
  const auto on_thread = [&](std::optional<std::uint32_t> lane, const auto& work) {
    std::thread([&] {
      const Capture::Scope scope(capture, lane);
      work();
    }).join();
  };
  {
    const Capture::Scope scope(capture);
    capture.set_step(1);
    const auto helper = capture.fork_lane();
    const auto trainer = capture.fork_lane();
    capture.set_step(2);
    on_thread(helper, [&] { at::sin(x); });
    on_thread(trainer, [&] {
      at::cos(x);
      capture.set_step(3);
      at::tan(x);
    });
    at::neg(x);
  }
  capture.rethrow_failure();
  std::vector<std::string> calls;
  for (const core::OpRecord& record : sink.records) {
    calls.push_back(record.op->name + " " + std::to_string(record.step));
  }
  DOCTEST_CHECK(calls == std::vector<std::string>{
                             "aten::sin 1", "aten::cos 1", "aten::tan 3", "aten::neg 3"});
}

DOCTEST_TEST_CASE("a lane is what was forked where, whichever thread goes on with it") {
  MemorySink sink;
  Capture capture(options_for(DumpDepth::kTop), sink, nullptr);
  const Capture::Scope scope(capture);
  const at::Tensor x = at::ones({2});
  launch([&] { at::relu(x); });
  begin_fork();
  at::sin(x);  // while the fork is launched: the compiler's
  launch([&] {
    DOCTEST_CHECK_FALSE(place_here());
    go_on_at(7);
    DOCTEST_CHECK(place_here() == 7);
    at::cos(x);
    leave_thread();
    launch([&] {
      go_on_at(8);
      at::tan(x);
    });
    DOCTEST_CHECK(place_of_lane() == 8);
    at::exp(x);
  });
  end_fork();
  at::tanh(x);
  std::vector<std::string> calls;
  for (const core::OpRecord& record : sink.records) {
    calls.push_back(record.op->name + " " + core::lane_text(record.lane));
  }
  DOCTEST_CHECK(calls == std::vector<std::string>{"aten::ones main",
                                                  "aten::relu pool of main",
                                                  "aten::cos main.0",
                                                  "aten::tan main.0",
                                                  "aten::exp pool of main.0",
                                                  "aten::tanh main"});
}

DOCTEST_TEST_CASE(
    "what the thread of a device runs of a backward pass is of the lane that waits for it") {
  class InBackward final : public SiteProvider {
   public:
    std::shared_ptr<const core::CallSite> current_site() override { return nullptr; }
    [[nodiscard]] std::optional<int> backward_device() const override {
      return device < 0 ? std::nullopt : std::optional(device);
    }
    int device = -1;
  } sites;
  MemorySink sink;
  Capture capture(options_for(DumpDepth::kTop), sink, &sites);
  const Capture::Scope scope(capture);
  const at::Tensor x = at::ones({2});
  for (const int device : {-1, 1, 0, 1}) {
    sites.device = device;
    launch([&] { at::relu(x); });
  }
  std::vector<std::string> lanes;
  for (const core::OpRecord& record : sink.records) lanes.push_back(core::lane_text(record.lane));
  DOCTEST_CHECK(lanes ==
                std::vector<std::string>{"main", "pool of main", "main", "pool of main", "main"});
}

DOCTEST_TEST_CASE("records of another process have their place among those of this one") {
  MemorySink theirs;
  {
    Capture capture(options_for(DumpDepth::kAll, core::DumpLevel::kTensor), theirs, nullptr);
    const Capture::Scope scope(capture);
    at::linear(at::ones({2, 3}), at::ones({4, 3}));
  }
  std::ranges::sort(theirs.records, {}, &core::OpRecord::index);
  MemorySink sink;
  CaptureOptions options = options_for(DumpDepth::kTop);
  options.keep_ops = {{4, 5}};
  Capture capture(options, sink, nullptr);
  const Capture::Scope scope(capture);
  capture.set_step(2);
  at::zeros({1});
  std::unordered_map<std::int64_t, std::int64_t> indices;
  const std::vector<std::byte> bytes(24, std::byte{7});
  const auto read = [&](const core::ContentKey& key) {
    return core::content_size(key) == bytes.size() ? std::optional(std::span(bytes)) : std::nullopt;
  };
  ForeignRecords foreign{theirs.records, core::worker_lane(1), 1000, &indices, read, ""};
  capture.adopt(foreign);
  at::zeros({1});
  const std::size_t count = theirs.records.size();
  DOCTEST_REQUIRE(sink.records.size() == count + 2);
  DOCTEST_CHECK(sink.records.back().index == count + 1);
  DOCTEST_CHECK(capture.counts().operators == count + 2);
  for (std::size_t i = 0; i < count; ++i) {
    const core::OpRecord& before = theirs.records[i];
    const core::OpRecord& record = sink.records[i + 1];
    DOCTEST_CHECK(record.op == before.op);
    DOCTEST_CHECK(record.index == before.index + 1);
    DOCTEST_CHECK(record.parent == (before.parent < 0 ? -1 : before.parent + 1));
    DOCTEST_CHECK(record.lane == core::worker_lane(1));
    DOCTEST_CHECK(record.step == 2);
    for (std::size_t j = 0; j < record.tensors.size(); ++j) {
      const std::int64_t producer = before.tensors[j].producer;
      DOCTEST_CHECK(record.tensors[j].producer == (producer < 0 ? producer : producer + 1));
      DOCTEST_CHECK(record.tensors[j].storage == before.tensors[j].storage + 1000);
      const bool kept =
          record.index == 4 && core::content_size(record.tensors[j].content_key()) == bytes.size();
      if (before.tensors[j].stored) DOCTEST_CHECK(record.tensors[j].stored == kept);
    }
  }
  // What failed there has failed.
  ForeignRecords failed{{}, core::worker_lane(1), 1000, &indices, read, "no space"};
  capture.adopt(failed);
  DOCTEST_CHECK(sink.failure.find("worker 1: no space") != std::string::npos);
  DOCTEST_CHECK_THROWS_AS(capture.rethrow_failure(), core::Error);
}

DOCTEST_TEST_CASE("nothing is recorded outside a scope, nor by two captures at once") {
  MemorySink sink;
  Capture capture(options_for(DumpDepth::kTop), sink, nullptr);
  at::ones({1});
  {
    const Capture::Scope scope(capture);
    const Capture::Scope again(capture);
    MemorySink other_sink;
    Capture other(options_for(DumpDepth::kTop), other_sink, nullptr);
    DOCTEST_CHECK_THROWS_AS(Capture::Scope{other}, core::Error);
    at::ones({1});
  }
  at::ones({1});
  DOCTEST_CHECK(sink.records.size() == 1);
  DOCTEST_CHECK(capture.counts().operators == 1);
  DOCTEST_CHECK(capture.counts().tensors == 1);
}

}  // namespace
}  // namespace repro_check::capture
