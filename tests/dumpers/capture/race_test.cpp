// SPDX-License-Identifier: Apache-2.0
// Tensors that somebody writes after they were digested: before the operator runs, or while they
// are stored.
#include <ATen/ATen.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

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

  void enter(const core::OpHead& call) override { trace.entered.push_back(call.index); }
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

/// Stores what it is handed, half by half. Somebody else writes the tensor of one content before
/// the first half, or between the two.
class RacedStore final : public core::DumpSink {
 public:
  enum class When { kBefore, kBetween };

  RacedStore(core::Digest at, When when, at::Tensor victim)
      : at_(at), when_(when), victim_(std::move(victim)) {}

  void enter(const core::OpHead& /*call*/) override {}
  [[nodiscard]] bool has_content(const core::ContentKey& key) const override {
    return trace.contents.contains(key);
  }
  using core::DumpSink::put_content;
  bool put_content(const core::ContentKey& key, const core::ContentBytes& bytes) override {
    std::vector<std::byte> copy(bytes.size());
    const std::span<std::byte> all(copy);
    const std::size_t half = bytes.size() / 16 * 8;
    if (when_ == When::kBefore) {
      race(key);
      bytes.read(0, all);
    } else {
      bytes.read(0, all.first(half));
      race(key);
      bytes.read(half, all.subspan(half));
    }
    trace.contents.emplace(core::key_of_read(key, bytes), std::move(copy));
    return true;
  }
  void append(const core::OpRecord& record) override { trace.records.push_back(record); }
  void fail(const std::string& message) override { trace.failure = message; }

  Trace trace;

 private:
  /// Past autograd and the dispatcher, so that no version counter tells.
  void race(const core::ContentKey& key) {
    if (key.digest != at_) return;
    std::thread([this] {
      auto* bytes = static_cast<std::byte*>(victim_.data_ptr());
      std::fill_n(bytes, victim_.nbytes(), std::byte{7});
    }).join();
  }

  core::Digest at_;
  When when_;
  at::Tensor victim_;
};

/// The first bytes of `left` and then those of `right`, as a race half way through leaves them.
at::Tensor half_and_half(const at::Tensor& left, const at::Tensor& right) {
  const auto half = static_cast<std::int64_t>(left.nbytes() / 16 * 8 / left.itemsize());
  return at::cat({left.flatten().slice(0, 0, half), right.flatten().slice(0, half)});
}

Trace record_raced(RacedStore::When when, const at::Tensor& x) {
  RacedStore sink(digest_of(x), when, x);
  Capture capture(options_for(core::DumpDepth::kTop, core::DumpLevel::kTensor), sink, nullptr);
  {
    const Capture::Scope scope(capture);
    at::neg(x);
    at::abs(x);
  }
  capture.rethrow_failure();
  sink.trace.warnings = capture.warnings();
  return std::move(sink.trace);
}

DOCTEST_TEST_CASE("what is stored has its own digest, whoever writes the tensor meanwhile") {
  for (const std::int64_t elements : {4, 5000, 900'000}) {
    const at::Tensor before = at::arange(elements, at::kFloat);
    at::Tensor after = at::empty({elements});
    std::fill_n(static_cast<std::byte*>(after.data_ptr()), after.nbytes(), std::byte{7});
    for (const auto when : {RacedStore::When::kBefore, RacedStore::When::kBetween}) {
      DOCTEST_CAPTURE(elements);
      const Trace trace = record_raced(when, before.clone());
      for (const auto& [key, bytes] : trace.contents) {
        DOCTEST_CHECK(core::digest_bytes(bytes) == key.digest);
      }
      const core::TensorRecord& raced = input(trace.only("aten::neg"), "self");
      const bool whole = when == RacedStore::When::kBefore;
      DOCTEST_CHECK(raced.digest == digest_of(whole ? after : half_and_half(before, after)));
      DOCTEST_CHECK(raced.stored);
      DOCTEST_CHECK(raced.watch == InputWatch::kMoved);
      DOCTEST_REQUIRE(trace.warnings.size() == 1);
      DOCTEST_CHECK(trace.warnings[0] ==
                    "race on a tensor in use: op 0 aten::neg: self was written by another thread "
                    "while it was stored");
      // The digest known of it is forgotten: no version counter says that it is another by now.
      const core::TensorRecord& later = input(trace.only("aten::abs"), "self");
      DOCTEST_CHECK(later.digest == digest_of(after));
      DOCTEST_CHECK(later.watch == InputWatch::kSteady);
      DOCTEST_CHECK(output(trace.only("aten::abs"), "0").watch == InputWatch::kNotWatched);
    }
  }
}

DOCTEST_TEST_CASE("a result that is written while it is stored is marked as well") {
  const at::Tensor out = at::zeros({3});
  RacedStore sink(digest_of(at::full({3}, -1.0F)), RacedStore::When::kBefore, out);
  Capture capture(options_for(core::DumpDepth::kTop, core::DumpLevel::kTensor), sink, nullptr);
  {
    const Capture::Scope scope(capture);
    at::Tensor into = out;
    at::neg_out(into, at::ones({3}));
  }
  capture.rethrow_failure();
  const core::TensorRecord& raced = output(sink.trace.only("aten::neg"), "0");
  DOCTEST_CHECK(raced.watch == InputWatch::kMoved);
  DOCTEST_CHECK(raced.digest == digest_of(out));
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
