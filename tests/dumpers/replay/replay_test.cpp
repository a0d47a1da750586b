// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/replay.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <tuple>
#include <utility>

#include "core/error.h"
#include "dumpers/capture/settings/determinism.h"
#include "dumpers/capture/torch/call_modes.h"
#include "tests/dumpers/capture/recording.h"
#include "tests/dumpers/capture/trace_source.h"

#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include <doctest/doctest.h>

namespace repro_check::replay {
namespace {

using capture::Capture;
using capture::digest_of;
using capture::input;
using capture::MemorySink;
using capture::options_for;
using capture::record;
using capture::same_bits;
using capture::Trace;
using capture::TraceSource;
using capture::WarningCollector;

/// An operator that gives another result at every third call.
at::Tensor moody(const at::Tensor& x) {
  static std::atomic<int> calls = 0;
  return x + (calls++ % 3 == 2 ? 1 : 0);
}

/// One whose result tells how many threads there were.
at::Tensor count_threads(const at::Tensor& x) {
  return x + static_cast<double>(at::get_num_threads());
}

/// Weights whose packing takes no float64, and whose unpacking is deprecated.
struct Picky : torch::CustomClassHolder {
  explicit Picky(at::Tensor packed) : weight(std::move(packed)) {}

  at::Tensor weight;
};

using PickyState = std::tuple<at::Tensor, std::int64_t>;

c10::intrusive_ptr<Picky> pack_picky(const PickyState& state) {
  TORCH_CHECK(std::get<0>(state).scalar_type() == at::kFloat, "Unsupported data type");
  return c10::make_intrusive<Picky>(std::get<0>(state));
}

/// In the namespace of those classes that the recorder unpacks.
const auto kPickyClass = torch::class_<Picky>("quantized", "ReproCheckPicky")
                             .def_pickle(
                                 [](const c10::intrusive_ptr<Picky>& self) -> PickyState {
                                   TORCH_WARN("Picky is deprecated");
                                   return {self->weight, 1};
                                 },
                                 [](const PickyState& state) { return pack_picky(state); });

at::Tensor multiply_picky(const at::Tensor& x, const c10::intrusive_ptr<Picky>& packed) {
  return x * packed->weight;
}

TORCH_LIBRARY_FRAGMENT(repro_check_replay_test, m) {
  m.def("multiply_picky", &multiply_picky);
  m.def("moody(Tensor x) -> Tensor", &moody);
  m.def("count_threads(Tensor x) -> Tensor", &count_threads);
}

at::Tensor call_custom(const char* name, const at::Tensor& x) {
  return c10::Dispatcher::singleton()
      .findSchemaOrThrow(name, "")
      .typed<at::Tensor(const at::Tensor&)>()
      .call(x);
}

TraceSource record_values(const std::function<void()>& body,
                          core::DumpDepth depth = core::DumpDepth::kTop) {
  return TraceSource(record(options_for(depth, core::DumpLevel::kTensor), body));
}

Request request_for(TraceSource& source, const std::string& name, unsigned calls = 4) {
  Request request;
  request.op = source.trace().all(name).back()->index;
  request.calls = calls;
  return request;
}

/// Whether one result came out of every call, and it was the recorded one.
bool repeats(TraceSource& source, const std::string& name) {
  const Outcome outcome = replay(source, request_for(source, name));
  bool good = !outcome.rounds.empty();
  for (const Round& round : outcome.rounds) {
    good = good && round.results.size() == 1 && round.results[0].as_recorded == true;
  }
  return good;
}

core::ErrorKind error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const core::Error& error) {
    return error.kind();
  }
  throw std::runtime_error("nothing was thrown");
}

DOCTEST_TEST_CASE("arguments of every kind come back as they were recorded") {
  at::manual_seed(1);
  const at::Tensor x = at::randn({6, 8});
  const at::Tensor w = at::randn({5, 8});
  TraceSource source = record_values([&] {
    at::linear(x, w, {});
    at::cat({x.t(), w.t()}, 1);
    at::sum(x, {0}, true, at::kDouble);
    at::add(x.narrow(1, 2, 3), x.narrow(1, 3, 3), 0.5);
    at::index(x, {at::arange(0, 4, 2), at::Tensor()});
    at::clamp(x, -1, c10::nullopt);
    at::full({2}, 3, at::TensorOptions().dtype(at::kHalf));
    at::mul(x.to(at::kBFloat16), x.expand({6, 8}).select(0, 0).expand({6, 8}).to(at::kBFloat16));
    x.t().contiguous();
    at::split(x, 2);
    at::max(x, 1);
  });
  for (const char* name : {"aten::linear",
                           "aten::cat",
                           "aten::sum",
                           "aten::add",
                           "aten::index",
                           "aten::clamp",
                           "aten::full",
                           "aten::mul",
                           "aten::contiguous",
                           "aten::split",
                           "aten::max"}) {
    DOCTEST_CAPTURE(name);
    DOCTEST_CHECK(repeats(source, name));
  }
}

DOCTEST_TEST_CASE("a tensor beside its lazy conjugate comes back as it was recorded") {
  const at::Tensor y = at::fft_fft(at::randn({4, 4}));
  TraceSource source = record_values([&] {
    at::matmul(y, y.mH());
    at::mul(y, y.conj());
    at::sub(at::imag(y), at::imag(y.conj()));
    y.clone().mul_(y);
    at::Tensor written = y.clone();
    written.add_(written.conj());
  });
  for (const char* name : {"aten::matmul", "aten::mul", "aten::sub", "aten::mul_"}) {
    DOCTEST_CAPTURE(name);
    DOCTEST_CHECK(repeats(source, name));
  }
  DOCTEST_CHECK(error_of([&] { replay(source, request_for(source, "aten::add_")); }) ==
                core::ErrorKind::kNotComparable);
}

DOCTEST_TEST_CASE("arguments that are written begin each call as recorded") {
  TraceSource source = record_values([] {
    at::Tensor x = at::arange(12, at::kFloat).view({3, 4});
    x.t().select(0, 1).add_(x.select(1, 1));
    at::Tensor out = at::zeros({4});
    at::sum_out(out, x, {0});
    at::batch_norm(x, {}, {}, out, at::ones({4}), true, 0.5, 1e-5, false);
  });
  DOCTEST_CHECK(repeats(source, "aten::add_"));
  DOCTEST_CHECK(repeats(source, "aten::sum"));
  DOCTEST_CHECK(repeats(source, "aten::batch_norm"));
}

DOCTEST_TEST_CASE("draws are those of the record, wherever the generator stood") {
  at::manual_seed(7);
  TraceSource source = record_values([] {
    at::rand({700});
    at::randn({3});
    at::randn({1});
    at::dropout(at::ones({100}), 0.5, true);
    at::rand({2});
    at::randperm(9);
    at::bernoulli(at::full({50}, 0.5F));
  });
  for (const char* name :
       {"aten::rand", "aten::randn", "aten::dropout", "aten::randperm", "aten::bernoulli"}) {
    DOCTEST_CAPTURE(name);
    DOCTEST_CHECK(repeats(source, name));
  }
  at::manual_seed(7);
  const at::Tensor before = at::rand({4});
  at::manual_seed(7);
  replay(source, request_for(source, "aten::bernoulli"));
  DOCTEST_CHECK(same_bits(before, at::rand({4})));
}

DOCTEST_TEST_CASE("a position nobody recorded the way to is refused") {
  at::manual_seed(7);
  at::normal(0.0, 1.0, {3});
  at::rand({5});
  TraceSource source = record_values([] { at::rand({4}); });
  source.trace().records[0].generator->position_before ^= 1;
  DOCTEST_CHECK(error_of([&] { replay(source, request_for(source, "aten::rand")); }) ==
                core::ErrorKind::kNotComparable);
}

DOCTEST_TEST_CASE("an operator that does not repeat is seen, call by call") {
  TraceSource source =
      record_values([] { call_custom("repro_check_replay_test::moody", at::ones({2})); });
  const Outcome outcome = replay(source, request_for(source, "repro_check_replay_test::moody", 9));
  const Round& round = outcome.rounds.at(0);
  DOCTEST_REQUIRE(round.results.size() == 2);
  DOCTEST_CHECK(round.sequence == std::vector<unsigned>{0, 1, 0, 0, 1, 0, 0, 1, 0});
  DOCTEST_CHECK(round.results[0].calls == 6);
  DOCTEST_CHECK(round.results[0].as_recorded == true);
  DOCTEST_CHECK(round.results[1].first == 1);
  DOCTEST_CHECK(round.results[1].as_recorded == false);
  DOCTEST_CHECK(round.results[1].to_recorded.at(0).max_abs == 1);
  DOCTEST_CHECK(round.results[1].to_recorded.at(0).differing == 2);
  DOCTEST_CHECK(round.results[0].to_recorded.at(0).differing == 0);
}

DOCTEST_TEST_CASE("thread counts are tried one after the other and put back") {
  const int found = at::get_num_threads();
  at::set_num_threads(2);
  TraceSource source =
      record_values([] { call_custom("repro_check_replay_test::count_threads", at::zeros({1})); });
  Request request = request_for(source, "repro_check_replay_test::count_threads");
  request.threads = {1, 2, 3};
  const Outcome outcome = replay(source, request);
  DOCTEST_CHECK(at::get_num_threads() == 2);
  at::set_num_threads(found);
  DOCTEST_REQUIRE(outcome.rounds.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    DOCTEST_CHECK(outcome.rounds[i].threads == static_cast<int>(i) + 1);
    DOCTEST_CHECK(outcome.rounds[i].results.at(0).as_recorded == (i == 1));
  }
}

DOCTEST_TEST_CASE("a call is made again under its autocast and its default dtype") {
  const at::Tensor x = at::arange(4, at::kFloat).div(3).reshape({2, 2});
  TraceSource source = record_values([&] {
    at::mm(x, x);
    {
      const capture::CallModesPin modes("autocast.cpu=bfloat16");
      at::matmul(x, x);
    }
    const capture::CallModesPin modes("default_dtype=float64");
    at::arange(3).div(at::full({1}, 3, at::kLong));
  });
  DOCTEST_CHECK(source.trace().only("aten::mm").modes.empty());
  DOCTEST_CHECK(source.trace().only("aten::matmul").modes == "autocast.cpu=bfloat16");
  DOCTEST_CHECK(source.trace().only("aten::div").modes == "default_dtype=float64");
  for (const char* name : {"aten::mm", "aten::matmul", "aten::div"}) {
    DOCTEST_CAPTURE(name);
    const Outcome outcome = replay(source, request_for(source, name, 3));
    DOCTEST_REQUIRE(outcome.rounds[0].results.size() == 1);
    DOCTEST_CHECK(outcome.rounds[0].results[0].as_recorded == true);
    DOCTEST_CHECK(capture::read_call_modes().empty());
  }
  source.trace().records[source.trace().only("aten::mm").index].modes = "autocast.toaster=float32";
  DOCTEST_CHECK(error_of([&] { replay(source, request_for(source, "aten::mm")); }) ==
                core::ErrorKind::kNotComparable);
}

DOCTEST_TEST_CASE("the distance from float64 is exact on small numbers") {
  // 1 + 2^-25 twice: float32 rounds each sum to 1, float64 does not.
  TraceSource source = record_values(
      [] { at::add(at::ones({2}), at::full({2}, std::ldexp(1.0, -25), at::kFloat)); });
  const ReferenceDistance distance =
      distance_to_float64(source, source.trace().only("aten::add").index);
  DOCTEST_REQUIRE(distance.outputs.size() == 1);
  DOCTEST_CHECK(distance.problem.empty());
  DOCTEST_CHECK(distance.outputs[0].rmse == std::ldexp(1.0, -25));
  DOCTEST_CHECK(distance.outputs[0].max_abs == std::ldexp(1.0, -25));
  DOCTEST_CHECK(distance.outputs[0].differing == 2);

  TraceSource draws = record_values([] { at::rand({2}); });
  DOCTEST_CHECK_FALSE(distance_to_float64(draws, 0).problem.empty());
}

DOCTEST_TEST_CASE("what a record does not hold is refused by name") {
  TraceSource digests(record(options_for(core::DumpDepth::kTop, core::DumpLevel::kDigest),
                             [] { at::neg(at::ones({2})); }));
  DOCTEST_CHECK(error_of([&] { replay(digests, request_for(digests, "aten::neg")); }) ==
                core::ErrorKind::kNotComparable);
  TraceSource fresh = record_values([] { at::empty({2}); });
  DOCTEST_CHECK(error_of([&] { replay(fresh, request_for(fresh, "aten::empty")); }) ==
                core::ErrorKind::kNotComparable);
  TraceSource packed = record_values([] { at::relu(at::eye(2).to_mkldnn()); });
  DOCTEST_CHECK(error_of([&] { replay(packed, request_for(packed, "aten::relu")); }) ==
                core::ErrorKind::kNotComparable);
  TraceSource good = record_values([] { at::neg(at::ones({2})); });
  Request request = request_for(good, "aten::neg");
  request.op = 99;
  DOCTEST_CHECK(error_of([&] { replay(good, request); }) == core::ErrorKind::kNotComparable);
  request = request_for(good, "aten::neg");
  request.device = "cuda:7";
  DOCTEST_CHECK(error_of([&] { replay(good, request); }) == core::ErrorKind::kUsage);
  const core::OpRecord& record = good.trace().only("aten::neg");
  auto renamed = std::make_shared<core::OperatorInfo>(*record.op);
  core::OpRecord& there = good.trace().records[record.index];
  for (core::TensorRecord& tensor : there.tensors) tensor.device = "cuda:7";
  request.device.clear();
  DOCTEST_CHECK(error_of([&] { replay(good, request); }) == core::ErrorKind::kNotComparable);
  request.device = "cpu";
  DOCTEST_CHECK(replay(good, request).rounds[0].results[0].as_recorded == true);
  DOCTEST_CHECK(distance_to_float64(good, request.op).problem.empty());
  renamed->name = "aten::no_such_operator";
  good.trace().records[record.index].op = renamed;
  request.device.clear();
  DOCTEST_CHECK(error_of([&] { replay(good, request); }) == core::ErrorKind::kNotComparable);
}

/// The last result of an operator whose arguments no C++ type has.
c10::IValue call_boxed(const char* name, torch::jit::Stack stack, const char* overload = "") {
  c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).callBoxed(&stack);
  return stack.back();
}

at::Tensor quantised_weight(at::IntArrayRef sizes) {
  at::manual_seed(5);
  const at::Tensor scales = at::full({sizes[0]}, 0.25, at::kDouble);
  return at::quantize_per_channel(
      at::randn(sizes), scales, at::zeros({sizes[0]}, at::kLong), 0, at::kQInt8);
}

DOCTEST_TEST_CASE("sparse, nested and quantised tensors are made again from their parts") {
  at::manual_seed(3);
  const at::Tensor x = at::randn({4, 4});
  TraceSource source = record_values([&] {
    at::mm(x.to_sparse(), x);
    at::neg(x.relu().to_sparse());
    at::mul(x.to_sparse_csr(), 2.0);
    const at::Tensor nested = at::_nested_tensor_from_tensor_list({x, x.narrow(0, 0, 2)});
    at::gelu(nested);
    const at::Tensor tensor = at::quantize_per_tensor(x, 0.1, 3, at::kQUInt8);
    at::dequantize(tensor);
    at::relu(tensor);
    at::dequantize(quantised_weight({3, 4}));
  });
  for (const char* name :
       {"aten::mm", "aten::neg", "aten::mul", "aten::gelu", "aten::dequantize", "aten::relu"}) {
    DOCTEST_CAPTURE(name);
    DOCTEST_CHECK(repeats(source, name));
  }
}

DOCTEST_TEST_CASE("packed weights are unpacked, named and packed again") {
  const at::Tensor weight = quantised_weight({3, 4});
  const at::Tensor bias = at::randn({3});
  const c10::IValue packed = call_boxed("quantized::linear_prepack", {weight, bias});
  const c10::List<std::int64_t> ones({1, 1});
  const c10::IValue conv = call_boxed(
      "quantized::conv2d_prepack",
      {quantised_weight({2, 2, 3, 3}), at::randn({2}), ones, ones, ones, std::int64_t{1}});
  const at::Tensor x = at::randn({2, 4});
  const at::Tensor image = at::quantize_per_tensor(at::randn({1, 2, 6, 6}), 0.1, 3, at::kQUInt8);
  MemorySink sink;
  Capture capture(options_for(core::DumpDepth::kTop, core::DumpLevel::kTensor), sink, nullptr);
  for (const auto& [name, tensor] : capture.unpack(packed, "fc")) {
    capture.name_tensor(tensor, "state:" + name);
  }
  DOCTEST_CHECK(capture.unpack(x, "x").size() == 1);
  {
    const Capture::Scope scope(capture);
    call_boxed("quantized::linear_dynamic", {x, packed, true});
    call_boxed("quantized::conv2d", {image, conv, 0.5, std::int64_t{3}}, "new");
    call_boxed("quantized::linear_dynamic", {x, packed, true});
  }
  capture.rethrow_failure();
  TraceSource source(std::move(static_cast<Trace&>(sink)));
  const core::OpRecord& linear = *source.trace().all("quantized::linear_dynamic").back();
  const core::TensorRecord& recorded = input(linear, "W_prepack.weight");
  DOCTEST_CHECK(recorded.state == core::ContentState::kHashed);
  DOCTEST_CHECK(recorded.digest == digest_of(weight.int_repr()));
  DOCTEST_CHECK(recorded.name == "state:fc.weight");
  DOCTEST_CHECK(input(linear, "W_prepack.bias").name == "state:fc.bias");
  DOCTEST_CHECK(input(linear, "W_prepack.weight.scales").name == "state:fc.weight");
  DOCTEST_CHECK(
      input(*source.trace().all("quantized::linear_dynamic").front(), "W_prepack.weight").storage ==
      recorded.storage);
  DOCTEST_CHECK(repeats(source, "quantized::linear_dynamic"));
  DOCTEST_CHECK(repeats(source, "quantized::conv2d"));
}

DOCTEST_TEST_CASE("weights that float64 cannot be packed of are replayed without that distance") {
  const c10::IValue packed = pack_picky({at::full({3}, 2.0F), 1});
  TraceSource source = record_values([&] {
    call_boxed("repro_check_replay_test::multiply_picky", {at::ones({3}), packed});
  });
  const char* name = "repro_check_replay_test::multiply_picky";
  DOCTEST_CHECK(repeats(source, name));
  const ReferenceDistance distance = distance_to_float64(source, source.trace().only(name).index);
  DOCTEST_CHECK(distance.outputs.empty());
  DOCTEST_CHECK(distance.problem.find("cannot be packed again") != std::string::npos);
}

DOCTEST_TEST_CASE("what unpacking warns of is not said of the model") {
  const c10::IValue packed = pack_picky({at::full({3}, 2.0F), 1});
  const WarningCollector collector;
  const TraceSource source = record_values([&] {
    call_boxed("repro_check_replay_test::multiply_picky", {at::ones({3}), packed});
  });
  DOCTEST_CHECK(collector.warnings().empty());
  TORCH_WARN("heard again");
  DOCTEST_CHECK(collector.warnings().size() == 1);
}

DOCTEST_TEST_CASE("memory that nobody wrote may be written by the operator") {
  TraceSource source = record_values([] {
    at::Tensor x = at::empty({3});
    x.fill_(2);
  });
  DOCTEST_CHECK(repeats(source, "aten::fill_"));
  DOCTEST_CHECK(replay(source, request_for(source, "aten::fill_")).notes.size() == 1);
}

}  // namespace
}  // namespace repro_check::replay
