// SPDX-License-Identifier: Apache-2.0
// Every way in which dropout comes that a CPU can reach. With the doors closed two seeds
// give the same bits; with them open they do not (which shows that the test can fail).
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <functional>
#include <tuple>

#include "tests/dumpers/capture/recording.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::capture {
namespace {

using core::DumpDepth;
using ModelBody = std::function<at::Tensor()>;

struct Run {
  at::Tensor result;
  Trace sink;
  CaptureCounts counts;
};

Run run(DumpDepth depth, bool disable, std::uint64_t seed, const ModelBody& body) {
  CaptureOptions options = options_for(depth);
  options.disable_dropout = disable;
  Run run;
  MemorySink sink;
  Capture capture(options, sink, nullptr);
  at::manual_seed(seed);
  {
    const Capture::Scope scope(capture);
    run.result = body();
  }
  capture.rethrow_failure();
  run.sink = std::move(static_cast<Trace&>(sink));
  run.counts = capture.counts();
  return run;
}

/// The door `argument` of `op` is closed at every depth, and noted.
void check_door(const ModelBody& body, const std::string& op, const std::string& argument) {
  for (const DumpDepth depth : {DumpDepth::kTop, DumpDepth::kLeaf, DumpDepth::kAll}) {
    DOCTEST_CAPTURE(op);
    DOCTEST_CAPTURE(static_cast<int>(depth));
    const Run open_a = run(depth, false, 1, body);
    const Run open_b = run(depth, false, 2, body);
    DOCTEST_CHECK_FALSE(same_bits(open_a.result, open_b.result));
    DOCTEST_CHECK(open_a.counts.substitutions == 0);
    DOCTEST_CHECK(open_a.counts.drawing_operators > 0);

    const Run closed_a = run(depth, true, 1, body);
    const Run closed_b = run(depth, true, 2, body);
    DOCTEST_CHECK(same_bits(closed_a.result, closed_b.result));
    DOCTEST_CHECK(closed_a.counts.drawing_operators == 0);
    const core::OpRecord& record = closed_a.sink.only(op);
    DOCTEST_REQUIRE(!record.substitutions.empty());
    DOCTEST_CHECK(record.substitutions[0].argument == argument);
    DOCTEST_CHECK(record.substitutions[0].reason == "disable_dropout");
    DOCTEST_CHECK(record.substitutions[0].from != record.substitutions[0].to);
    // The record shows what the operator was given.
    DOCTEST_CHECK(text_of(record, argument) == record.substitutions[0].to);
  }
}

DOCTEST_TEST_CASE("the dropout family is closed by its training flag") {
  const at::Tensor x = at::arange(1, 513, at::kFloat).reshape({2, 4, 64});
  check_door([&] { return at::dropout(x, 0.5, true); }, "aten::dropout", "train");
  check_door([&] { return at::feature_dropout(x, 0.5, true); }, "aten::feature_dropout", "train");
  check_door([&] { return at::alpha_dropout(x, 0.5, true); }, "aten::alpha_dropout", "train");
  check_door([&] { return at::feature_alpha_dropout(x, 0.5, true); },
             "aten::feature_alpha_dropout",
             "train");
  check_door([&] { return std::get<0>(at::native_dropout(x, 0.5, true)); },
             "aten::native_dropout",
             "train");
}

DOCTEST_TEST_CASE("in-place forms are closed too") {
  const at::Tensor x = at::arange(1, 513, at::kFloat).reshape({2, 4, 64});
  const auto in_place = [&](at::Tensor& (*op)(at::Tensor&, double, bool)) {
    return [&x, op] {
      at::Tensor copy = x.clone();
      return op(copy, 0.5, true);
    };
  };
  check_door(in_place(&at::dropout_), "aten::dropout_", "train");
  check_door(in_place(&at::feature_dropout_), "aten::feature_dropout_", "train");
  check_door(in_place(&at::alpha_dropout_), "aten::alpha_dropout_", "train");
  check_door(in_place(&at::feature_alpha_dropout_), "aten::feature_alpha_dropout_", "train");
}

DOCTEST_TEST_CASE("a closed dropout returns its input, bit for bit, and keeps p") {
  const at::Tensor x = at::tensor({NAN, -0.0F, 1e-41F, 3.0F});
  const Run closed = run(DumpDepth::kTop, true, 1, [&] { return at::dropout(x, 0.25, true); });
  DOCTEST_CHECK(closed.result.is_same(x));
  const core::OpRecord& record = closed.sink.only("aten::dropout");
  DOCTEST_CHECK(text_of(record, "p") == "0.25");
  DOCTEST_CHECK(record.substitutions[0].from == "True");
  DOCTEST_CHECK(record.substitutions[0].to == "False");
  // An invalid model still fails.
  DOCTEST_CHECK_THROWS_AS(run(DumpDepth::kTop, true, 1, [&] { return at::dropout(x, -0.1, true); }),
                          c10::Error);
}

DOCTEST_TEST_CASE("native_dropout without a training flag is closed as well") {
  const at::Tensor x = at::ones({64});
  const Run closed = run(DumpDepth::kTop, true, 1, [&] {
    return std::get<0>(at::native_dropout(x, 0.5, c10::optional<bool>()));
  });
  DOCTEST_CHECK(same_bits(closed.result, x));
  DOCTEST_CHECK(closed.sink.only("aten::native_dropout").substitutions[0].from == "None");
}

struct Recurrent {
  Recurrent(int gates) {
    at::manual_seed(11);
    for (int layer = 0; layer < 2; ++layer) {
      weights.push_back(at::randn({gates * 8, 8}));
      weights.push_back(at::randn({gates * 8, 8}));
      weights.push_back(at::randn({gates * 8}));
      weights.push_back(at::randn({gates * 8}));
    }
    x = at::randn({5, 3, 8});
    h = at::randn({2, 3, 8});
    c = at::randn({2, 3, 8});
  }
  std::vector<at::Tensor> weights;
  at::Tensor x, h, c;
};

DOCTEST_TEST_CASE("dropout between the layers of an LSTM and a GRU is closed") {
  const Recurrent lstm(4);
  check_door(
      [&] {
        return std::get<0>(
            at::lstm(lstm.x, {lstm.h, lstm.c}, lstm.weights, true, 2, 0.5, true, false, false));
      },
      "aten::lstm",
      "dropout");
  const Recurrent gru(3);
  check_door(
      [&] {
        return std::get<0>(at::gru(gru.x, gru.h, gru.weights, true, 2, 0.5, true, false, false));
      },
      "aten::gru",
      "dropout");
  const Recurrent plain(1);
  check_door(
      [&] {
        return std::get<0>(
            at::rnn_tanh(plain.x, plain.h, plain.weights, true, 2, 0.5, true, false, false));
      },
      "aten::rnn_tanh",
      "dropout");
}

/// Calls an operator by name with its defaults, so that one source serves releases that lack it.
bool has_operator(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchema({name, overload}).has_value();
}

at::Tensor attention(const char* name, const at::Tensor& q) {
  const c10::OperatorHandle op = *c10::Dispatcher::singleton().findSchema({name, ""});
  torch::jit::Stack stack;
  for (const c10::Argument& argument : op.schema().arguments()) {
    if (stack.size() < 3) {
      stack.emplace_back(q);
    } else if (argument.name() == "dropout_p") {
      stack.emplace_back(0.5);
    } else if (argument.default_value()) {
      stack.push_back(*argument.default_value());
    } else {
      stack.emplace_back();
    }
  }
  op.callBoxed(&stack);
  return stack[stack.size() - op.schema().returns().size()].toTensor();
}

DOCTEST_TEST_CASE("attention dropout is closed") {
  at::manual_seed(3);
  const at::Tensor q = at::randn({2, 2, 8, 16});
  int found = 0;
  for (const char* name : {"aten::scaled_dot_product_attention",
                           "aten::_scaled_dot_product_attention",
                           "aten::_scaled_dot_product_attention_math"}) {
    if (!has_operator(name, "")) continue;
    ++found;
    const auto body = [&] { return attention(name, q); };
    const Run open_a = run(DumpDepth::kTop, false, 1, body);
    const Run open_b = run(DumpDepth::kTop, false, 2, body);
    DOCTEST_CHECK_FALSE(same_bits(open_a.result, open_b.result));
    const Run closed_a = run(DumpDepth::kTop, true, 1, body);
    const Run closed_b = run(DumpDepth::kTop, true, 2, body);
    DOCTEST_CHECK(same_bits(closed_a.result, closed_b.result));
    DOCTEST_CHECK(closed_a.counts.drawing_operators == 0);
    DOCTEST_CHECK(closed_a.sink.only(name).substitutions[0].argument == "dropout_p");
  }
  DOCTEST_CHECK(found > 0);
}

DOCTEST_TEST_CASE("a door inside an operator that is recorded whole is closed and noted on it") {
  // Up to 2.4 LSTM's inner dropout stands behind its own argument; a transposed copy of the door is
  // a custom operator, which no rule by name could know.
  static const auto* library = [] {
    auto* defined =
        new torch::Library(torch::Library::DEF, "repro_check_test", {}, __FILE__, __LINE__);
    defined->def("wrapped(Tensor x) -> Tensor");
    defined->impl("wrapped",
                  c10::DispatchKey::CPU,
                  torch::CppFunction::makeFromUnboxedFunction(
                      +[](const at::Tensor& x) { return at::dropout(x, 0.5, true).mul(2); }));
    return defined;
  }();
  DOCTEST_REQUIRE(library != nullptr);
  const at::Tensor x = at::ones({256});
  const auto body = [&] {
    return c10::Dispatcher::singleton()
        .findSchemaOrThrow("repro_check_test::wrapped", "")
        .typed<at::Tensor(const at::Tensor&)>()
        .call(x);
  };
  for (const DumpDepth depth : {DumpDepth::kTop, DumpDepth::kLeaf}) {
    DOCTEST_CHECK_FALSE(
        same_bits(run(depth, false, 1, body).result, run(depth, false, 2, body).result));
    const Run closed = run(depth, true, 1, body);
    DOCTEST_CHECK(same_bits(closed.result, at::full({256}, 2.0F)));
    DOCTEST_REQUIRE(closed.sink.records.size() == 1);
    DOCTEST_REQUIRE(closed.sink.records[0].substitutions.size() == 1);
    DOCTEST_CHECK(closed.sink.records[0].substitutions[0].argument == "aten::dropout(train)");
  }
}

DOCTEST_TEST_CASE("probabilities that are not dropout's are left alone") {
  const at::Tensor x = at::full({64}, 0.5F);
  const Run closed = run(DumpDepth::kTop, true, 1, [&] {
    at::cdist(at::ones({2, 3}), at::zeros({2, 3}), 2.0);
    at::Tensor y = at::empty({64});
    y.geometric_(0.5);
    y.bernoulli_(0.5);
    at::bernoulli(x, 0.5);
    return at::rrelu(x.neg(), 0.1, 0.3, true);
  });
  DOCTEST_CHECK(closed.counts.substitutions == 0);
  // Not silenced, but counted: two samplers in place, one functional, rrelu.
  DOCTEST_CHECK(closed.counts.drawing_operators == 4);
}

}  // namespace
}  // namespace repro_check::capture
