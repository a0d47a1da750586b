// SPDX-License-Identifier: Apache-2.0
// Who wrote what: in-place operators, views, aliases, reused memory, uninitialised content.
#include <torch/library.h>

#include <algorithm>
#include <set>
#include <vector>

#include "dumpers/capture/tensors/storage_table.h"
#include "tests/dumpers/capture/recording.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::capture {
namespace {

using core::ContentState;
using core::DumpDepth;
using core::DumpLevel;

DOCTEST_TEST_CASE("an in-place operator's input is the value before, its output the value after") {
  const at::Tensor x = at::ones({4});
  const core::Digest before = digest_of(x);
  const Trace sink = record(options_for(DumpDepth::kTop, DumpLevel::kTensor), [&] {
    at::Tensor y = x;
    y.add_(1);
    y.mul(2);
  });
  const core::OpRecord& add = sink.only("aten::add_");
  DOCTEST_CHECK(input(add, "self").digest == before);
  DOCTEST_CHECK(output(add, "0").digest == digest_of(at::full({4}, 2.0F)));
  DOCTEST_CHECK(input(add, "self").storage == output(add, "0").storage);
  DOCTEST_CHECK(output(add, "0").producer == 0);
  DOCTEST_CHECK(input(sink.only("aten::mul"), "self").producer == 0);
  DOCTEST_CHECK(input(sink.only("aten::mul"), "self").digest == output(add, "0").digest);
  // Both values are kept although the memory holds only one of them.
  DOCTEST_CHECK(sink.contents.count(input(add, "self").content_key()) == 1);
}

DOCTEST_TEST_CASE("views share their storage and keep its producer") {
  const Trace sink = record(top(), [] {
    const at::Tensor x = at::ones({2, 3});
    const at::Tensor v = x.view({3, 2});
    const at::Tensor t = x.t();
    x.fill_(5);
    at::neg(v);
    at::neg(t);
  });
  const core::TensorRecord& made = output(sink.only("aten::ones"), "0");
  const core::TensorRecord& view = output(sink.only("aten::view"), "0");
  DOCTEST_CHECK(view.storage == made.storage);
  DOCTEST_CHECK(view.producer == 0);
  DOCTEST_CHECK(view.digest == made.digest);
  const auto negs = sink.all("aten::neg");
  DOCTEST_CHECK(input(*negs[0], "self").producer == 3);
  DOCTEST_CHECK(input(*negs[0], "self").digest == digest_of(at::full({3, 2}, 5.0F)));
  DOCTEST_CHECK(input(*negs[1], "self").digest == digest_of(at::full({3, 2}, 5.0F)));
}

DOCTEST_TEST_CASE("what a dead storage has left in the heap goes soon, new ones or not") {
  StorageTable table;
  std::vector<at::Tensor> tensors;
  const auto ask_for = [&](std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      if (i == tensors.size()) tensors.push_back(at::ones({1}));
      table.find(tensors[i].storage());
    }
  };
  ask_for(41);
  DOCTEST_CHECK(table.size() == 41);
  tensors.pop_back();
  ask_for(40);
  DOCTEST_CHECK(table.size() == 40);
  ask_for(300);
  tensors.clear();
  ask_for(1);
  DOCTEST_CHECK(table.size() == 1);
}

DOCTEST_TEST_CASE("a write through detach and data is seen, for every alias") {
  const at::Tensor x = at::ones({4});
  const Trace sink = record(top(), [&] {
    at::neg(x);
    x.detach().add_(1);
    at::neg(x);
    x.data().add_(1);
    at::neg(x);
  });
  const auto negs = sink.all("aten::neg");
  DOCTEST_REQUIRE(negs.size() == 3);
  for (std::size_t i = 0; i < negs.size(); ++i) {
    DOCTEST_CHECK(input(*negs[i], "self").digest ==
                  digest_of(at::full({4}, static_cast<float>(i + 1))));
  }
}

DOCTEST_TEST_CASE("inference tensors, which have no version, are followed too") {
  const c10::InferenceMode inference;
  const Trace sink = record(top(), [] {
    at::Tensor x = at::ones({4});
    at::neg(x);
    x.add_(1);
    at::neg(x);
  });
  const auto negs = sink.all("aten::neg");
  DOCTEST_CHECK(input(*negs[0], "self").digest == digest_of(at::ones({4})));
  DOCTEST_CHECK(input(*negs[1], "self").digest == digest_of(at::full({4}, 2.0F)));
}

DOCTEST_TEST_CASE("an out argument and a list written in place have outputs") {
  const at::Tensor a = at::ones({3});
  const at::Tensor b = at::ones({3});
  const Trace sink = record(top(), [&] {
    at::Tensor out = at::empty({3});
    at::add_out(out, a, b);
    at::_foreach_add_({a, b}, 1);
  });
  const core::OpRecord& add = sink.only("aten::add");
  DOCTEST_CHECK(input(add, "out").state == ContentState::kUninitialised);
  DOCTEST_CHECK(output(add, "0").digest == digest_of(at::full({3}, 2.0F)));
  const core::OpRecord& each = sink.only("aten::_foreach_add_");
  DOCTEST_CHECK(input(each, "self.1").digest == digest_of(at::ones({3})));
  DOCTEST_CHECK(output(each, "self.1").digest == digest_of(at::full({3}, 2.0F)));
}

DOCTEST_TEST_CASE("what an operator hands back may have been written where nobody looks") {
  static const auto* library = [] {
    auto* defined =
        new torch::Library(torch::Library::DEF, "repro_check_silent", {}, __FILE__, __LINE__);
    defined->def("poke(Tensor x) -> Tensor");
    defined->impl("poke",
                  c10::DispatchKey::CPU,
                  torch::CppFunction::makeFromUnboxedFunction(+[](const at::Tensor& x) {
                    x.data_ptr<float>()[0] = 5;
                    return x;
                  }));
    return defined;
  }();
  DOCTEST_REQUIRE(library != nullptr);
  for (const bool excluded : {false, true}) {
    const at::Tensor x = at::zeros({3});
    CaptureOptions options = top();
    if (excluded) options.exclude = {"repro_check_silent::poke"};
    const Trace sink = record(options, [&] {
      at::neg(x);
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("repro_check_silent::poke", "")
          .typed<at::Tensor(const at::Tensor&)>()
          .call(x);
      at::abs(x);
    });
    DOCTEST_CHECK(input(sink.only("aten::neg"), "self").digest == digest_of(at::zeros({3})));
    DOCTEST_CHECK(input(sink.only("aten::abs"), "self").digest == digest_of(x));
  }
}

DOCTEST_TEST_CASE("running statistics, which the schema does not call written, are") {
  const at::Tensor x = at::randn({4, 2, 3});
  const at::Tensor mean = at::zeros({2});
  const at::Tensor variance = at::ones({2});
  const core::Digest before = digest_of(mean);
  for (const DumpDepth depth : {DumpDepth::kTop, DumpDepth::kLeaf, DumpDepth::kAll}) {
    mean.zero_();
    const Trace sink = record(options_for(depth), [&] {
      for (int i = 0; i < 2; ++i) {
        at::batch_norm(x, {}, {}, mean, variance, true, 0.1, 1e-5, false);
      }
      at::batch_norm(x, {}, {}, mean, variance, false, 0.1, 1e-5, false);
    });
    std::vector<const core::OpRecord*> norms = sink.all("aten::batch_norm");
    if (norms.empty()) norms = sink.all("aten::native_batch_norm");
    if (norms.empty()) norms = sink.all("aten::_native_batch_norm_legit");
    DOCTEST_REQUIRE(norms.size() == 3);
    DOCTEST_CHECK(input(*norms[0], "running_mean").digest == before);
    DOCTEST_CHECK(input(*norms[1], "running_mean").digest ==
                  output(*norms[0], "running_mean").digest);
    DOCTEST_CHECK(input(*norms[1], "running_mean").digest != before);
    DOCTEST_CHECK(input(*norms[2], "running_mean").digest == digest_of(mean));
    DOCTEST_CHECK(find_tensor(*norms[2], "running_mean", core::TensorRole::kOutput) == nullptr);
  }
}

DOCTEST_TEST_CASE("an input handed back untouched keeps its producer and name") {
  const at::Tensor x = at::ones({4});
  MemorySink sink;
  Capture capture(top(), sink, nullptr);
  capture.name_tensor(x, "input:x");
  {
    const Capture::Scope scope(capture);
    at::Tensor y = at::dropout(x, 0.5, false);
    at::neg(y);
    y.add_(1);
    at::neg(y);
  }
  DOCTEST_CHECK(output(sink.only("aten::dropout"), "0").producer == core::kNoProducer);
  const auto negs = sink.all("aten::neg");
  DOCTEST_CHECK(input(*negs[0], "self").name == "input:x");
  DOCTEST_CHECK(input(sink.only("aten::add_"), "self").name == "input:x");
  DOCTEST_CHECK(output(sink.only("aten::add_"), "0").name.empty());
  DOCTEST_CHECK(input(*negs[1], "self").name.empty());
}

DOCTEST_TEST_CASE("describing remembers the digest for the first operator that reads it") {
  const at::Tensor x = at::arange(100'000, at::kFloat);
  MemorySink sink;
  Capture capture(options_for(DumpDepth::kTop, DumpLevel::kTensor), sink, nullptr);
  DOCTEST_CHECK(capture.describe(x, "x").at(0).digest == digest_of(x));
  DOCTEST_CHECK(sink.contents.empty());
  const std::uint64_t hashed = capture.counts().hashed_bytes;
  {
    const Capture::Scope scope(capture);
    at::sum(x);
  }
  DOCTEST_CHECK(capture.counts().hashed_bytes == hashed + sizeof(float));
  DOCTEST_CHECK(input(sink.only("aten::sum"), "self").stored);
  DOCTEST_CHECK(sink.contents.size() == 2);
}

DOCTEST_TEST_CASE("each of a hundred views of one storage is read once") {
  const at::Tensor bucket = at::arange(100'000, at::kFloat);
  const std::vector<at::Tensor> views = bucket.split(1000);
  MemorySink sink;
  Capture capture(options_for(DumpDepth::kTop, DumpLevel::kDigest), sink, nullptr);
  for (const at::Tensor& view : views) capture.describe(view, "view");
  const std::uint64_t hashed = capture.counts().hashed_bytes;
  {
    const Capture::Scope scope(capture);
    for (const at::Tensor& view : views) at::sum(view);
  }
  DOCTEST_CHECK(capture.counts().hashed_bytes == hashed + views.size() * sizeof(float));
}

DOCTEST_TEST_CASE("a loop over the rows of a large tensor is recorded right") {
  const at::Tensor large = at::arange(3000, at::kFloat).view({1000, 3});
  const Trace sink = record(top(), [&] {
    for (int i = 0; i < 2000; ++i) at::sum(large.select(0, i % 1000));
  });
  const auto sums = sink.all("aten::sum");
  DOCTEST_REQUIRE(sums.size() == 2000);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i % 1000);
    DOCTEST_REQUIRE(input(*sums[i], "self").digest == digest_of(large.select(0, row)));
  }
}

DOCTEST_TEST_CASE("memory that comes back at the same address is hashed anew") {
  // Each fits where the one before was, small allocations taken from there meanwhile included.
  constexpr std::int64_t kElements = 1 << 20;
  constexpr std::int64_t kLess = 1 << 12;
  std::set<const void*> addresses;
  std::vector<core::Digest> expected;
  const Trace sink = record(top(), [&] {
    for (int i = 0; i < 20; ++i) {
      const at::Tensor x = at::full({kElements - i * kLess}, static_cast<float>(i));
      addresses.insert(x.data_ptr());
      expected.push_back(digest_of(x));
      at::sum(x);
    }
  });
  const auto sums = sink.all("aten::sum");
  DOCTEST_REQUIRE(sums.size() == expected.size());
#ifndef __SANITIZE_ADDRESS__  // which keeps freed memory from being handed out again
  DOCTEST_CHECK(addresses.size() < expected.size());  // else nothing was reused
#endif
  std::set<std::int64_t> numbers;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    DOCTEST_REQUIRE(input(*sums[i], "self").digest == expected[i]);
    numbers.insert(input(*sums[i], "self").storage);
  }
  DOCTEST_CHECK(numbers.size() == expected.size());
}

DOCTEST_TEST_CASE("recording keeps no memory alive") {
  std::vector<float> memory(16, 1.0F);
  bool released = false;
  MemorySink sink;
  Capture capture(options_for(DumpDepth::kAll, DumpLevel::kTensor), sink, nullptr);
  const Capture::Scope scope(capture);
  {
    at::Tensor x = at::from_blob(memory.data(), {16}, [&](void*) { released = true; });
    capture.name_tensor(x, "input:x");
    x.add_(1);
    at::linear(x.view({4, 4}), x.view({4, 4}));
  }
  DOCTEST_CHECK(released);
}

DOCTEST_TEST_CASE(
    "what was changed behind the engine's back is found where inputs are hashed anew") {
  const at::Tensor x = at::ones({4});
  const auto body = [&] {
    at::neg(x);
    static_cast<float*>(x.data_ptr())[0] += 1;
    at::neg(x);
  };
  const Trace trusting = record(top(), body);
  DOCTEST_CHECK(input(trusting.records[0], "self").digest ==
                input(trusting.records[1], "self").digest);

  CaptureOptions verifying = top();
  verifying.verify_inputs = true;
  CaptureOptions picking = options_for(DumpDepth::kTop, DumpLevel::kTensor);
  picking.keep_ops = {{1, 1}};
  for (const CaptureOptions& options : {verifying, picking}) {
    MemorySink sink;
    Capture capture(options, sink, nullptr);
    {
      const Capture::Scope scope(capture);
      body();
    }
    DOCTEST_CHECK(input(sink.records[1], "self").digest == digest_of(x));
    DOCTEST_CHECK(capture.counts().stale_inputs == 1);
    DOCTEST_REQUIRE(capture.warnings().size() == 1);
    DOCTEST_CHECK(capture.warnings()[0].find("op 1 aten::neg: argument self") == 0);
  }
}

DOCTEST_TEST_CASE("who asks for the form of memory alone does not take it for written") {
  CaptureOptions options = top();
  options.unseen_writes = true;
  const Trace sink = record(options, [] {
    const at::Tensor x = at::empty({1000});
    at::_has_compatible_shallow_copy_type(x, at::ones({1}));  // as Module.to_empty() does
    at::zeros_like(x);
    x.detach();
    at::neg(x);
  });
  for (const char* form : {"aten::_has_compatible_shallow_copy_type", "aten::zeros_like"}) {
    DOCTEST_CHECK(input(sink.only(form), "self").state == ContentState::kUninitialised);
  }
  DOCTEST_CHECK(output(sink.only("aten::detach"), "0").state == ContentState::kUninitialised);
  DOCTEST_CHECK(input(sink.only("aten::neg"), "self").state == ContentState::kHashed);
}

DOCTEST_TEST_CASE("what is lifted has been filled, and is read there") {
  CaptureOptions options = top();
  options.unseen_writes = true;
  const Trace sink = record(options, [] {
    const at::Tensor x = at::empty({3});  // as `torch.tensor` makes it
    std::fill_n(static_cast<float*>(x.data_ptr()), 3, 1.0F);
    at::lift_fresh(x).detach();
  });
  DOCTEST_CHECK(input(sink.only("aten::lift_fresh"), "self").digest == digest_of(at::ones({3})));
  const core::TensorRecord& shown = input(sink.only("aten::detach"), "self");
  DOCTEST_CHECK(shown.producer == static_cast<std::int64_t>(sink.only("aten::lift_fresh").index));
  DOCTEST_CHECK(shown.digest == digest_of(at::ones({3})));
}

DOCTEST_TEST_CASE("what is written past all operators may hold what no record tells") {
  MemorySink sink;
  CaptureOptions options = top();
  options.unseen_writes = true;
  Capture capture(options, sink, nullptr);
  const Capture::Scope scope(capture);
  const at::Tensor made = at::empty({3});
  const at::Tensor computed = at::ones({3});
  const at::Tensor shared = at::zeros({3});
  capture.note_shared(shared);
  DOCTEST_CHECK(capture.may_hold_untold(made));
  DOCTEST_CHECK(capture.may_hold_untold(shared));
  DOCTEST_CHECK(!capture.may_hold_untold(computed));
  at::neg(made);
  DOCTEST_CHECK(!capture.may_hold_untold(made));
}

DOCTEST_TEST_CASE("weights packed from memory that nobody has written are not written either") {
  CaptureOptions options = top();
  options.unseen_writes = true;
  const Trace sink = record(options, [] {
    const at::Tensor fresh = at::_empty_affine_quantized({4, 3}, at::kQInt8, 1, 0);
    const auto prepack =
        c10::Dispatcher::singleton().findSchemaOrThrow("quantized::linear_prepack", "");
    for (const at::Tensor& weight :
         {fresh, at::quantize_per_tensor(at::ones({4, 3}), 0.5, 0, at::kQInt8)}) {
      torch::jit::Stack stack{weight, at::zeros({4})};
      prepack.callBoxed(stack);
    }
  });
  const auto packed = sink.all("quantized::linear_prepack");
  DOCTEST_REQUIRE(packed.size() == 2);
  DOCTEST_CHECK(input(*packed[0], "W").state == ContentState::kUninitialised);
  DOCTEST_CHECK(output(*packed[0], "0.weight").state == ContentState::kUninitialised);
  DOCTEST_CHECK(input(*packed[1], "W").state == ContentState::kHashed);
  DOCTEST_CHECK(output(*packed[1], "0.weight").state == ContentState::kHashed);
}

DOCTEST_TEST_CASE("what a tensor is made to show was not its content before") {
  CaptureOptions options = options_for(core::DumpDepth::kTop, core::DumpLevel::kTensor);
  options.unseen_writes = true;
  const Trace sink = record(options, [] {
    const at::Tensor batch = at::ones({32});
    at::empty({}, at::kFloat).set_(batch.storage());  // as a loader's `elem.new(storage)` does
    at::neg(batch);
  });
  DOCTEST_CHECK(input(sink.only("aten::set_"), "self").state == ContentState::kUninitialised);
  DOCTEST_CHECK(input(sink.only("aten::neg"), "self").digest == digest_of(at::ones({32})));
}

DOCTEST_TEST_CASE("what empty returns is uninitialised until an operator writes it") {
  const Trace sink = record(top(), [] {
    at::Tensor x = at::empty({1000});
    at::neg(x);
    const at::Tensor view = x.view({10, 100});
    x.fill_(1);
    at::neg(view);
    at::Tensor grown = at::ones({2});
    grown.resize_({500});
    at::neg(grown);
    at::Tensor shrunk = at::ones({4});
    shrunk.resize_({2});
    at::neg(shrunk);
    at::empty_like(x).normal_();
    x.new_empty({3});
    at::empty_strided({2, 2}, {2, 1});
  });
  DOCTEST_CHECK(output(sink.only("aten::empty"), "0").state == ContentState::kUninitialised);
  const auto negs = sink.all("aten::neg");
  DOCTEST_REQUIRE(negs.size() == 4);
  DOCTEST_CHECK(input(*negs[0], "self").state == ContentState::kUninitialised);
  DOCTEST_CHECK(output(*negs[0], "0").state == ContentState::kHashed);
  DOCTEST_CHECK(output(sink.only("aten::view"), "0").state == ContentState::kUninitialised);
  const core::OpRecord& fill = sink.only("aten::fill_");
  DOCTEST_CHECK(input(fill, "self").state == ContentState::kUninitialised);
  DOCTEST_CHECK(output(fill, "0").state == ContentState::kHashed);
  DOCTEST_CHECK(input(*negs[1], "self").digest == digest_of(at::ones({10, 100})));
  DOCTEST_CHECK(input(*negs[2], "self").state == ContentState::kUninitialised);
  DOCTEST_CHECK(input(*negs[3], "self").state == ContentState::kHashed);
  DOCTEST_CHECK(input(sink.only("aten::normal_"), "self").state == ContentState::kUninitialised);
  DOCTEST_CHECK(output(sink.only("aten::new_empty"), "0").state == ContentState::kUninitialised);
  DOCTEST_CHECK(output(sink.only("aten::empty_strided"), "0").state ==
                ContentState::kUninitialised);
}

DOCTEST_TEST_CASE("fresh memory that was filled without an operator is content") {
  const Trace sink = record(top(), [] {
    at::Tensor small = at::empty({3}, at::kLong);
    for (int i = 0; i < 3; ++i) static_cast<std::int64_t*>(small.data_ptr())[i] = 40 + i;
    at::neg(small);
  });
  const core::TensorRecord& self = input(sink.only("aten::neg"), "self");
  DOCTEST_CHECK(self.state == ContentState::kHashed);
  DOCTEST_CHECK(self.digest == digest_of(at::tensor({40, 41, 42}, at::kLong)));
}

DOCTEST_TEST_CASE("at every depth two equal runs have equal digests, fresh memory included") {
  const at::Tensor x = at::randn({8, 16});
  const at::Tensor w = at::randn({16});
  for (const DumpDepth depth : {DumpDepth::kTop, DumpDepth::kLeaf, DumpDepth::kAll}) {
    const auto body = [&] {
      // Leaves garbage of its own in the allocator.
      at::layer_norm(x, {16}, w, w);
      at::conv2d(at::ones({1, 1, 8, 8}), at::ones({1, 1, 3, 3}));
      at::dropout(x, 0.5, true).sum();
      at::sort(x);
    };
    at::manual_seed(7);
    const Trace first = record(options_for(depth), body);
    const at::Tensor disturb = at::randn({4096});
    at::manual_seed(7);
    const Trace second = record(options_for(depth), body);
    DOCTEST_REQUIRE(first.records.size() == second.records.size());
    for (std::size_t i = 0; i < first.records.size(); ++i) {
      const core::OpRecord& a = first.records[i];
      const core::OpRecord& b = second.records[i];
      DOCTEST_REQUIRE(a.tensors.size() == b.tensors.size());
      for (std::size_t k = 0; k < a.tensors.size(); ++k) {
        DOCTEST_CHECK_MESSAGE(
            a.tensors[k].digest == b.tensors[k].digest, a.op->full_name(), " ", a.tensors[k].slot);
        DOCTEST_CHECK(a.tensors[k].state == b.tensors[k].state);
        DOCTEST_CHECK(a.tensors[k].storage == b.tensors[k].storage);
        DOCTEST_CHECK(a.tensors[k].producer == b.tensors[k].producer);
      }
    }
  }
}

DOCTEST_TEST_CASE("memory for a result is read where its bytes are kept, and else by nobody") {
  const at::Tensor x = at::ones({4});
  for (const core::DumpLevel level : {core::DumpLevel::kDigest, core::DumpLevel::kTensor}) {
    at::Tensor memory = at::full({4}, 5.0);
    const Trace trace = record(options_for(core::DumpDepth::kTop, level), [&] {
      at::mul_out(memory, x, x);
      at::neg(memory);
    });
    const core::OpRecord& made = trace.only("aten::mul");
    const bool kept = level == core::DumpLevel::kTensor;
    DOCTEST_CHECK((input(made, "out").state == core::ContentState::kHashed) == kept);
    DOCTEST_CHECK((input(made, "out").state == core::ContentState::kExcluded) == !kept);
    DOCTEST_CHECK(output(made, "0").digest == digest_of(x));
    DOCTEST_CHECK(input(trace.only("aten::neg"), "self").digest == digest_of(x));
  }
}

}  // namespace
}  // namespace repro_check::capture
