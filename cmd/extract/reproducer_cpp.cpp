// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "cmd/extract/reproducer.h"
#include "core/tensor/dtype_table.h"
#include "core/text/printable.h"

namespace repro_check::cmd {
namespace {

std::string cpp_number(double value) {
  if (std::isnan(value)) return "double(NAN)";
  if (std::isinf(value)) return value > 0 ? "double(INFINITY)" : "double(-INFINITY)";
  return fmt::format("double({})", value);
}

std::string cpp_scalar_type(core::Dtype dtype) {
  return fmt::format("c10::ScalarType::{}", core::row_of(dtype).torch);
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kCppEnumerators{
    {{"contiguous_format", "c10::MemoryFormat::Contiguous"},
     {"preserve_format", "c10::MemoryFormat::Preserve"},
     {"channels_last", "c10::MemoryFormat::ChannelsLast"},
     {"channels_last_3d", "c10::MemoryFormat::ChannelsLast3d"},
     {"strided", "c10::Layout::Strided"},
     {"sparse_coo", "c10::Layout::Sparse"}}};

std::string cpp_symbol(const std::string& name) {
  for (const auto& [known, word] : kCppEnumerators) {
    if (known == name) return fmt::format("Given(static_cast<int64_t>({}))", word);
  }
  const auto dtype = core::parse_dtype(name);
  if (dtype && core::dtype_name(*dtype) == name) {
    return "Given(static_cast<int64_t>(" + cpp_scalar_type(*dtype) + "))";
  }
  return "Given(c10::Device(std::string(" + string_literal(name) + ")))";
}

constexpr ReproducerDialect kCpp{
    .yes = "true",
    .no = "false",
    .truth = "Given({})",
    .integer = "Given(int64_t({}LL))",
    .real = [](double value) { return "Given(" + cpp_number(value) + ")"; },
    .complex =
        [](double real, double imaginary) {
          return "Given(c10::complex<double>(" + cpp_number(real) + ", " + cpp_number(imaginary) +
                 "))";
        },
    .text = "Given(std::string({}))",
    .symbol = cpp_symbol,
    .tensor = "Given(tensors.at({}))",
    .undefined = "Given(at::Tensor())",
    .list = "Given::list({{{}}})",
    .none = "Given(c10::IValue())",
    .dtype = cpp_scalar_type,
    .storage = "  storage = load({}, {}){};\n",
    .move = ".to(c10::Device(std::string({})))",
    .view = "  tensors[{}] = storage.as_strided({}, {}, {});\n",
    .sizes = "{{{}}}",
    .threads = "  at::set_num_threads({});\n",
    .strict = "  at::globalContext().setDeterministicAlgorithms(true, {});\n",
    .seed = "  at::manual_seed({}ULL);\n",
    .skip = "  at::empty({{{}}}, at::kByte).random_();  // drawn before the call\n",
    .expected = "    {{{}, {{{}, {}}}}},\n",
    .unstored = "",
    .unplaced = "  // the generator of {} stood at offset {}\n"};

/// What the program includes, in its order.
constexpr std::string_view kCppHeaders =
    "ATen/ATen.h ATen/Parallel.h ATen/core/dispatch/Dispatcher.h ATen/core/jit_type.h "
    "c10/core/InferenceMode.h cmath cstdint cstdio cstdlib cstring fstream iterator map string "
    "vector ";

constexpr std::string_view kCppHelpers = R"(
// An argument before the schema has said what it is a list of.
struct Given {
  explicit Given(c10::IValue v) : value(std::move(v)) {}
  static Given list(std::vector<Given> items) {
    Given given{c10::IValue()};
    given.is_list = true;
    given.items = std::move(items);
    return given;
  }
  c10::IValue as(const c10::TypePtr& type) const {
    if (auto optional = type->cast<c10::OptionalType>()) {
      return value.isNone() && !is_list ? value : as(optional->getElementType());
    }
    if (!is_list) return value;
    const auto element = type->expect<c10::ListType>()->getElementType();
    c10::impl::GenericList out(element);
    for (const Given& item : items) out.push_back(item.as(element));
    return out;
  }
  c10::IValue value;
  bool is_list = false;
  std::vector<Given> items;
};

// The elements of a .npy file, version 1, in one dimension.
static at::Tensor load(const std::string& name, c10::ScalarType type) {
  std::ifstream in(kData + name, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  TORCH_CHECK(text.size() >= 10, kData + name, ": no .npy file");
  const size_t begin = 10 + static_cast<unsigned char>(text[8]) +
                       256 * static_cast<size_t>(static_cast<unsigned char>(text[9]));
  const auto count = static_cast<int64_t>((text.size() - begin) / c10::elementSize(type));
  at::Tensor tensor = at::empty({count}, at::TensorOptions().dtype(type));
  if (count > 0) std::memcpy(tensor.data_ptr(), text.data() + begin, tensor.nbytes());
  return tensor;
}
)";

constexpr std::string_view kCppMain = R"(
static void flatten(const c10::IValue& value, std::vector<at::Tensor>& into) {
  if (value.isTensor()) into.push_back(value.toTensor());
  if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) flatten(item, into);
  }
}

static bool same_bits(const at::Tensor& left, const at::Tensor& right) {
  const at::Tensor a = left.detach().to(at::kCPU).contiguous();
  return a.nbytes() == right.nbytes() &&
         (a.nbytes() == 0 || std::memcmp(a.data_ptr(), right.data_ptr(), a.nbytes()) == 0);
}

static std::map<std::string, at::Tensor> call_once(const c10::OperatorHandle& op) {
  std::map<std::string, at::Tensor> tensors = make_tensors();
  const std::map<std::string, Given> arguments = make_arguments(tensors);
  std::vector<c10::IValue> stack;
  for (const c10::Argument& argument : op.schema().arguments()) {
    const auto found = arguments.find(argument.name());
    stack.push_back(found == arguments.end() ? *argument.default_value()
                                             : found->second.as(argument.type()));
  }
  seed();
  op.callBoxed(&stack);
  std::vector<at::Tensor> results;
  for (const c10::IValue& value : stack) flatten(value, results);
  for (size_t i = 0; i < results.size() && i < kResultSlots.size(); ++i) {
    tensors[kResultSlots[i]] = results[i];
  }
  return tensors;
}

int main(int argc, char** argv) {
  const int calls = argc > 1 ? std::atoi(argv[1]) : 20;
  c10::InferenceMode no_gradients;
  settings();
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(kOperator, kOverload);
  int wrong = 0;
  for (int call = 0; call < calls; ++call) {
    const auto tensors = call_once(op);
    for (const auto& [slot, file] : kExpected) {
      const at::Tensor recorded = load(file.first, file.second);
      const at::Tensor& got = tensors.at(slot);
      if (same_bits(got, recorded)) continue;
      ++wrong;
      const auto type = got.is_complex() ? at::kComplexDouble : at::kDouble;
      const at::Tensor gap = (got.cpu().to(type).reshape({-1}) - recorded.to(type)).abs();
      std::printf("call %d output %s: not as recorded, max difference %.9g\n",
                  call,
                  slot.c_str(),
                  gap.max().item<double>());
    }
  }
  std::printf("%d calls; outputs that are not as recorded: %d\n", calls, wrong);
  return wrong == 0 ? 0 : 1;
}
)";

std::string cpp_header(const Reproducer& reproducer) {
  std::string text =
      fmt::format("// {}, by itself.\n", core::printable(reproducer.op.op->full_name()));
  text += fact_comments(reproducer, "//");
  text += fmt::format(
      "// Run it where {0}/ is: PROGRAM [CALLS]. Exit code 0: as recorded; 1: not. "
      "CMakeLists.txt:\n"
      "//   cmake_minimum_required(VERSION 3.18)\n"
      "//   project(reproducer CXX)\n"
      "//   set(CMAKE_CXX_STANDARD 20)\n"
      "//   find_package(Torch REQUIRED)  # -DCMAKE_PREFIX_PATH=<LibTorch>\n"
      "//   add_executable(reproducer {1})\n"
      "//   target_link_libraries(reproducer ${{TORCH_LIBRARIES}})\n",
      core::printable(reproducer.data),
      core::printable(reproducer.script));
  for (const core::Setting& setting : reproducer.manifest.settings) {
    if (!setting.name.starts_with("env.") || setting.used == "unset") continue;
    text += fmt::format("// set in the environment: {}={}\n",
                        core::printable(setting.name.substr(4)),
                        core::printable(setting.used));
  }
  for (std::string_view rest = kCppHeaders; !rest.empty(); rest.remove_prefix(rest.find(' ') + 1)) {
    text += fmt::format("#include <{}>\n", rest.substr(0, rest.find(' ')));
  }
  return text;
}

std::string cpp_arguments(const Reproducer& reproducer) {
  std::string text;
  for (const core::Argument& argument : reproducer.op.arguments) {
    text += fmt::format("  arguments.emplace({}, {});\n",
                        string_literal(argument.name),
                        value_literal(reproducer.op, argument.value, kCpp));
  }
  return text;
}

}  // namespace

std::string cpp_reproducer(const Reproducer& reproducer) {
  const core::OperatorInfo& op = *reproducer.op.op;
  std::string text = cpp_header(reproducer);
  text += "\nstatic const std::string kData = " + string_literal(reproducer.data + "/") +
          ";\nstatic const char* const kOperator = " + string_literal(op.name) +
          ";\nstatic const char* const kOverload = " + string_literal(op.overload) + ";\n";
  text += kCppHelpers;
  text +=
      "\nstatic std::map<std::string, at::Tensor> make_tensors() {\n"
      "  std::map<std::string, at::Tensor> tensors;\n  at::Tensor storage;\n" +
      tensor_statements(reproducer, kCpp) +
      "  return tensors;\n}\n"
      "\nstatic std::map<std::string, Given> make_arguments(\n"
      "    const std::map<std::string, at::Tensor>& tensors) {\n"
      "  static_cast<void>(tensors);\n  std::map<std::string, Given> arguments;\n" +
      cpp_arguments(reproducer) + "  return arguments;\n}\n\nstatic void settings() {\n" +
      setting_statements(reproducer, kCpp) + "}\n\nstatic void seed() {\n" +
      seed_statements(reproducer, kCpp) +
      "}\n\nstatic const std::vector<std::string> kResultSlots{" + slot_literals(reproducer) +
      "};\n"
      "static const std::map<std::string, std::pair<std::string, c10::ScalarType>> "
      "kExpected{\n" +
      expected_statements(reproducer, kCpp) + "};\n";
  return text + std::string(kCppMain);
}

}  // namespace repro_check::cmd
