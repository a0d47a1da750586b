// SPDX-License-Identifier: Apache-2.0
#define DOCTEST_CONFIG_NO_SHORT_MACRO_NAMES
#include "dumpers/torchscript/inputs.h"

#include <ATen/Functions.h>
#include <doctest/doctest.h>
#include <torch/csrc/jit/frontend/function_schema_parser.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/tensor/npy.h"
#include "fixtures.h"
#include "tests/support/files.h"

namespace repro_check::torchscript {
namespace {

using configs::Distribution;
using configs::InputSpec;
using configs::ValueInput;
using test::contains;
using test::generated;
using test::value_of;
using test_support::TempDirectory;

const Hdf5Reader kNoHdf5 = [](const std::filesystem::path&, const std::string&) {
  return core::HostTensor{};
};

/// Builds the inputs of `forward(Any self, <arguments>) -> Any`.
std::vector<c10::IValue> build(const std::string& arguments,
                               configs::CallSpec call,
                               InputContext context = {}) {
  const auto schema = torch::jit::parseSchema("forward(Any self, " + arguments + ") -> Any");
  for (std::size_t i = 0; i < call.size(); ++i) call[i].pointer = "/inputs/" + std::to_string(i);
  if (context.hdf5 == nullptr) context.hdf5 = &kNoHdf5;
  return build_inputs(schema, c10::IValue(0), call, "/inputs", context);
}

core::Error failure(const std::string& arguments, const configs::CallSpec& call) {
  try {
    build(arguments, call);
  } catch (const core::Error& error) {
    DOCTEST_CHECK(error.kind() == core::ErrorKind::kUsage);
    DOCTEST_CHECK_FALSE(error.hint().empty());
    return error;
  }
  throw std::runtime_error("the inputs were accepted");
}

using Kind = configs::ContainerInput::Kind;

configs::ContainerInput container(Kind kind, std::vector<InputSpec> items) {
  return {kind, std::move(items)};
}

InputSpec named(std::string name, InputSpec input) {
  input.name = std::move(name);
  return input;
}

template <typename Source>
InputSpec with(Source source) {
  InputSpec input;
  input.source = std::move(source);
  return input;
}

InputSpec number(std::int64_t value) { return value_of({value}); }

DOCTEST_TEST_CASE("inputs go by position, by name, and by default") {
  const auto values = build(
      "Tensor x, float scale, int n=3, str mode=\"mean\"",
      {generated({2}), named("mode", value_of({std::string("sum")})), named("scale", number(2))});
  DOCTEST_REQUIRE(values.size() == 4);
  DOCTEST_CHECK(values[0].isTensor());
  DOCTEST_CHECK(values[1].toDouble() == 2);
  DOCTEST_CHECK(values[2].toInt() == 3);
  DOCTEST_CHECK(values[3].toStringRef() == "sum");
}

DOCTEST_TEST_CASE("every kind of mistake names place, argument and what is wanted") {
  const std::string schema = "Tensor tokens, Tensor mask, int n=3";
  DOCTEST_CHECK(std::string(failure(schema, {generated({2})}).what()) ==
                "/inputs: no input for argument \"mask\" of type Tensor");
  DOCTEST_CHECK(contains(failure(schema, {generated({2}), named("maks", generated({2}))}).what(),
                         "/inputs/1: the method has no argument \"maks\"; did you mean \"mask\"?"));
  DOCTEST_CHECK(contains(failure(schema, {generated({2}), named("tokens", generated({2}))}).what(),
                         "/inputs/1: argument \"tokens\" is given twice, first at /inputs/0"));
  DOCTEST_CHECK(
      contains(failure(schema, {generated({2}), generated({2}), number(1), number(2)}).what(),
               "/inputs/3: one input too many; 4 are given, and the method takes 3"));
  DOCTEST_CHECK(contains(failure(schema, {generated({2}), number(4)}).what(),
                         "argument \"mask\" wants Tensor, but is given the integer 4"));
  DOCTEST_CHECK(contains(failure(schema, {generated({2}), generated({2}), value_of({0.5})}).what(),
                         "argument \"n\" wants int, but is given the number 0.5"));
  DOCTEST_CHECK(contains(failure("int n", {generated({2})}).what(), "is given a tensor"));
  DOCTEST_CHECK(contains(failure("bool flag", {number(1)}).what(), "wants bool"));
  DOCTEST_CHECK(contains(failure("Device d", {value_of({std::string("gpu")})}).what(),
                         "\"gpu\" is no device"));
}

DOCTEST_TEST_CASE("values become what the schema asks for") {
  DOCTEST_CHECK(build("Tensor? mask", {value_of({nullptr})})[0].isNone());
  DOCTEST_CHECK(build("Tensor? mask", {generated({2})})[0].isTensor());
  DOCTEST_CHECK(build("bool flag", {value_of({true})})[0].toBool());
  DOCTEST_CHECK(build("Device d", {value_of({std::string("cpu")})})[0].toDevice().is_cpu());
  DOCTEST_CHECK(build("float x", {value_of({INFINITY})})[0].toDouble() == INFINITY);
  DOCTEST_CHECK(
      contains(failure("float x", {number((std::int64_t{1} << 53U) + 1)}).what(), "wants float"));
  DOCTEST_CHECK(build("Any x", {number(5)})[0].toInt() == 5);
}

DOCTEST_TEST_CASE("lists, tuples and dicts nest") {
  const auto list =
      build("Tensor[] xs", {with(container(Kind::kList, {generated({2}), generated({3})}))});
  DOCTEST_CHECK(list[0].toTensorList().size() == 2);
  DOCTEST_CHECK(build("int[] xs", {with(container(Kind::kList, {}))})[0].toIntList().empty());

  const auto tuple =
      build("(Tensor, int) pair", {with(container(Kind::kTuple, {generated({2}), number(7)}))});
  DOCTEST_CHECK(tuple[0].toTupleRef().elements()[1].toInt() == 7);

  const auto entries = container(Kind::kDict, {named("mask", generated({2}))});
  const auto dict = build("Dict(str, Tensor) batch", {with(entries)});
  DOCTEST_CHECK(dict[0].toGenericDict().at("mask").isTensor());
  const auto by_number = build("Dict(int, Tensor) batch",
                               {with(container(Kind::kDict, {named("4", generated({2}))}))});
  DOCTEST_CHECK(by_number[0].toGenericDict().contains(4));
  DOCTEST_CHECK(contains(failure("Dict(int, Tensor) batch", {with(entries)}).what(),
                         "\"mask\" is no key of type int"));
  DOCTEST_CHECK(contains(failure("(Tensor, int) pair", {with(container(Kind::kTuple, {}))}).what(),
                         "is given a tuple of 0"));
  DOCTEST_CHECK(
      contains(failure("int[] xs", {with(container(Kind::kList, {value_of({0.5})}))}).what(),
               "wants int, but is given the number 0.5"));
}

DOCTEST_TEST_CASE("floating inputs are cast to the run's dtype, others are not") {
  InputContext context;
  context.dtype = at::kHalf;
  configs::CallSpec call = {generated({2}), generated({2}, Distribution::kRandint)};
  auto& integers = std::get<configs::GeneratedInput>(call[1].source);
  integers.dtype = core::Dtype::kInt64;
  integers.high = 10;
  const auto values = build("Tensor x, Tensor y", call, context);
  DOCTEST_CHECK((values[0].toTensor().scalar_type() == at::kHalf));
  DOCTEST_CHECK((values[1].toTensor().scalar_type() == at::kLong));
}

DOCTEST_TEST_CASE("tensors of nested inputs are named") {
  const std::string arguments = "Tensor tokens, Tensor[] states, Dict(str, Tensor) batch";
  const auto schema = torch::jit::parseSchema("forward(Any self, " + arguments + ") -> Any");
  const auto values = build(arguments,
                            {generated({2}),
                             with(container(Kind::kList, {generated({2}), generated({2})})),
                             with(container(Kind::kDict, {named("mask", generated({2}))}))});
  std::vector<std::string> names;
  for (const auto& [name, tensor] : named_input_tensors(schema, values)) names.push_back(name);
  DOCTEST_CHECK(names == std::vector<std::string>{"tokens", "states.0", "states.1", "batch.mask"});
}

DOCTEST_TEST_CASE("npy and hdf5 tensors come as they are") {
  const TempDirectory dir;
  core::HostTensor host{core::Dtype::kInt32, {2, 3}, std::vector<std::byte>(24)};
  for (std::int32_t i = 0; i < 6; ++i) {
    std::memcpy(host.bytes.data() + 4 * static_cast<std::size_t>(i), &i, 4);
  }
  core::write_npy(dir / "x.npy", host.view());
  const Hdf5Reader reader = [&](const std::filesystem::path& file, const std::string& dataset) {
    DOCTEST_CHECK(file == "x.h5");
    DOCTEST_CHECK(dataset == "/x");
    return host;
  };
  InputContext context;
  context.hdf5 = &reader;
  const auto values =
      build("Tensor x, Tensor y",
            {with(configs::FileInput{configs::FileInput::Kind::kNpy, dir / "x.npy"}),
             with(configs::FileInput{configs::FileInput::Kind::kHdf5, "x.h5", "/x"})},
            context);
  const at::Tensor expected = at::arange(6, at::kInt).reshape({2, 3});
  DOCTEST_CHECK(values[0].toTensor().equal(expected));
  DOCTEST_CHECK(values[1].toTensor().equal(expected));
  DOCTEST_CHECK(
      contains(failure("Tensor x",
                       {with(configs::FileInput{configs::FileInput::Kind::kNpy, dir / "no.npy"})})
                   .what(),
               "/inputs/0: "));
}

void save_value(const std::filesystem::path& file, const c10::IValue& value) {
  const std::vector<char> bytes = torch::jit::pickle_save(value);
  test_support::write_file(file, std::string(bytes.begin(), bytes.end()));
}

DOCTEST_TEST_CASE("a saved tensor is read, anything else that was saved is refused") {
  const TempDirectory dir;
  const at::Tensor tensor = at::arange(6, at::kBFloat16).reshape({2, 3}).t();
  save_value(dir / "tensor.pt", tensor);
  const auto values = build(
      "Tensor x", {with(configs::FileInput{configs::FileInput::Kind::kTorch, dir / "tensor.pt"})});
  DOCTEST_CHECK(values[0].toTensor().equal(tensor));
  DOCTEST_CHECK(values[0].toTensor().strides() == tensor.strides());

  c10::Dict<std::string, at::Tensor> weights;
  weights.insert("w", tensor);
  save_value(dir / "dict.pt", weights);
  DOCTEST_CHECK(contains(
      failure("Tensor x",
              {with(configs::FileInput{configs::FileInput::Kind::kTorch, dir / "dict.pt"})})
          .what(),
      "not a tensor"));
  test::make_linear("Linear", 1).save((dir / "module.pt").string());
  DOCTEST_CHECK(contains(
      failure("Tensor x",
              {with(configs::FileInput{configs::FileInput::Kind::kTorch, dir / "module.pt"})})
          .what(),
      "not a tensor written by torch.save but a TorchScript module"));
  test_support::write_file(dir / "text.pt", "hello");
  DOCTEST_CHECK(contains(
      failure("Tensor x",
              {with(configs::FileInput{configs::FileInput::Kind::kTorch, dir / "text.pt"})})
          .what(),
      "a text file"));
}

at::Tensor make(Distribution distribution, core::Dtype dtype, double low, double high) {
  configs::GeneratedInput input;
  input.distribution = distribution;
  input.shape = {1000};
  input.dtype = dtype;
  input.seed = 5;
  input.low = low;
  input.high = high;
  return generate_tensor(input, "/inputs/0");
}

DOCTEST_TEST_CASE("generated tensors keep to their bounds in every dtype") {
  for (const core::Dtype dtype : {core::Dtype::kFloat16,
                                  core::Dtype::kBFloat16,
                                  core::Dtype::kFloat32,
                                  core::Dtype::kFloat64}) {
    const at::Tensor values = make(Distribution::kUniform, dtype, 1, 1.5).to(at::kDouble);
    DOCTEST_CHECK(values.ge(1).all().item<bool>());
    DOCTEST_CHECK(values.lt(1.5).all().item<bool>());
  }
  const at::Tensor integers = make(Distribution::kRandint, core::Dtype::kInt8, -128, 128);
  DOCTEST_CHECK(integers.min().item<int>() == -128);
  DOCTEST_CHECK(integers.max().item<int>() == 127);
  DOCTEST_CHECK(
      (make(Distribution::kRandint, core::Dtype::kBool, 0, 2).scalar_type() == at::kBool));
  DOCTEST_CHECK(make(Distribution::kNormal, core::Dtype::kComplex64, 0, 1).is_complex());
  DOCTEST_CHECK(make(Distribution::kArange, core::Dtype::kInt64, 5, 0)[999].item<int>() == 1004);
}

DOCTEST_TEST_CASE("a float16 tensor holds the float64 numbers, rounded") {
  const at::Tensor exact = make(Distribution::kNormal, core::Dtype::kFloat64, 0, 1);
  const at::Tensor half = make(Distribution::kNormal, core::Dtype::kFloat16, 0, 1);
  DOCTEST_CHECK(half.equal(exact.to(at::kFloat).to(at::kHalf)));
}

DOCTEST_TEST_CASE("generated inputs that make no sense are refused") {
  using core::Dtype;
  DOCTEST_CHECK_THROWS_AS(make(Distribution::kUniform, Dtype::kFloat32, 1, 1), core::Error);
  DOCTEST_CHECK_THROWS_AS(make(Distribution::kRandint, Dtype::kInt64, 0.5, 3), core::Error);
  DOCTEST_CHECK_THROWS_AS(make(Distribution::kRandint, Dtype::kUInt8, 0, 257), core::Error);
  DOCTEST_CHECK_THROWS_AS(make(Distribution::kArange, Dtype::kInt8, 0, 0), core::Error);
  DOCTEST_CHECK_THROWS_AS(make(Distribution::kZeros, Dtype::kQInt8, 0, 0), core::Error);
  configs::GeneratedInput huge;
  huge.shape = {std::int64_t{1} << 40U, std::int64_t{1} << 40U};
  DOCTEST_CHECK_THROWS_AS(generate_tensor(huge, "/inputs/0"), core::Error);
}

}  // namespace
}  // namespace repro_check::torchscript
