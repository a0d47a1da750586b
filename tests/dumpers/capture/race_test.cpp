// SPDX-License-Identifier: Apache-2.0
// Arguments that somebody writes after they were digested and before the operator runs.
#include <ATen/ATen.h>

#include <functional>
#include <utility>

#include "tests/dumpers/capture/recording.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::capture {
namespace {

using core::InputWatch;

/// Does something between the digests of two arguments: when the bytes of one are handed over.
class Interruption final : public core::DumpSink {
 public:
  Interruption(core::Digest at, std::function<void()> act) : at_(at), act_(std::move(act)) {}

  void enter(const core::OpEntry& entry) override { trace.entered.push_back(entry.index); }
  [[nodiscard]] bool has_content(const core::ContentKey& /*key*/) const override { return false; }
  using core::DumpSink::put_content;
  bool put_content(const core::ContentKey& key, const core::ContentBytes& /*bytes*/) override {
    if (key.digest == at_) act_();
    return true;
  }
  void append(const core::OpRecord& record) override { trace.records.push_back(record); }
  void fail(const std::string& message) override { trace.failure = message; }

  Trace trace;

 private:
  core::Digest at_;
  std::function<void()> act_;
};

/// The operator that adds `first` and `second`, where `act` happens when the latter is stored.
core::OpRecord add_with(const at::Tensor& first,
                        const at::Tensor& second,
                        std::function<void()> act) {
  Interruption sink(digest_of(second), std::move(act));
  Capture capture(options_for(core::DumpDepth::kTop, core::DumpLevel::kTensor), sink, nullptr);
  {
    const Capture::Scope scope(capture);
    at::add(first, second);
  }
  capture.rethrow_failure();
  return sink.trace.only("aten::add");
}

DOCTEST_TEST_CASE("an argument that is written before the operator runs is marked") {
  at::Tensor x = at::ones({4});
  const at::Tensor y = at::full({4}, 2.0F);
  const core::Digest before = digest_of(x);
  const core::OpRecord add = add_with(x, y, [&] { x.add_(1); });
  DOCTEST_CHECK(input(add, "self").watch == InputWatch::kMoved);
  DOCTEST_CHECK(input(add, "self").digest == before);
  DOCTEST_CHECK(input(add, "other").watch == InputWatch::kSteady);
  DOCTEST_CHECK(output(add, "0").watch == InputWatch::kNotWatched);
  // What it was computed of is what was there last.
  DOCTEST_CHECK(output(add, "0").digest == digest_of(at::full({4}, 4.0F)));
}

DOCTEST_TEST_CASE("a write through another view of it is seen as well") {
  const at::Tensor x = at::ones({4});
  const core::OpRecord add = add_with(x, at::full({4}, 2.0F), [&] {
    x.view({2, 2}).select(0, 1).fill_(9);
  });
  DOCTEST_CHECK(input(add, "self").watch == InputWatch::kMoved);
}

DOCTEST_TEST_CASE("what nobody writes stands still, the argument of an in-place operator too") {
  const at::Tensor x = at::ones({4});
  const core::OpRecord add = add_with(x, at::full({4}, 2.0F), [] {});
  DOCTEST_CHECK(input(add, "self").watch == InputWatch::kSteady);
  const Trace trace = record(options_for(core::DumpDepth::kTop), [&] {
    at::Tensor own = x;
    own.mul_(2);
    own.mul_(2);
  });
  for (const core::OpRecord* mul : trace.all("aten::mul_")) {
    DOCTEST_CHECK(input(*mul, "self").watch == InputWatch::kSteady);
  }
}

DOCTEST_TEST_CASE("tensors without a version counter are not watched") {
  const c10::InferenceMode inference;
  const at::Tensor x = at::ones({4});
  const core::OpRecord add = add_with(x, at::full({4}, 2.0F), [] {});
  DOCTEST_CHECK(input(add, "self").watch == InputWatch::kNotWatched);
}

}  // namespace
}  // namespace repro_check::capture
