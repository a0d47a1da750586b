// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <string_view>
#include <utility>

#include "cmd/extract/extract.h"
#include "cmd/extract/extract_literal.h"
#include "cmd/render/text.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_view.h"
#include "core/text/printable.h"

namespace repro_check::cmd {
namespace {

/// A C++ string literal; octal escapes end after three digits, whatever follows.
std::string string_literal(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e || c == '"' || c == '\\' || c == '?') {
      literal += fmt::format("\\{:03o}", byte);
    } else {
      literal += c;
    }
  }
  return literal + "\"";
}

std::string number(double value) {
  if (std::isnan(value)) return "double(NAN)";
  if (std::isinf(value)) return value > 0 ? "double(INFINITY)" : "double(-INFINITY)";
  return fmt::format("double({})", value);
}

/// LibTorch's own words for element types.
constexpr std::array<std::pair<core::Dtype, std::string_view>, 19> kScalarTypes{{
    {core::Dtype::kBool, "Bool"},
    {core::Dtype::kUInt8, "Byte"},
    {core::Dtype::kUInt16, "UInt16"},
    {core::Dtype::kUInt32, "UInt32"},
    {core::Dtype::kUInt64, "UInt64"},
    {core::Dtype::kInt8, "Char"},
    {core::Dtype::kInt16, "Short"},
    {core::Dtype::kInt32, "Int"},
    {core::Dtype::kInt64, "Long"},
    {core::Dtype::kFloat16, "Half"},
    {core::Dtype::kBFloat16, "BFloat16"},
    {core::Dtype::kFloat32, "Float"},
    {core::Dtype::kFloat64, "Double"},
    {core::Dtype::kFloat8E4M3FN, "Float8_e4m3fn"},
    {core::Dtype::kFloat8E5M2, "Float8_e5m2"},
    {core::Dtype::kFloat8E4M3FNUZ, "Float8_e4m3fnuz"},
    {core::Dtype::kFloat8E5M2FNUZ, "Float8_e5m2fnuz"},
    {core::Dtype::kComplex64, "ComplexFloat"},
    {core::Dtype::kComplex128, "ComplexDouble"},
}};

std::string scalar_type(core::Dtype dtype) {
  for (const auto& [known, word] : kScalarTypes) {
    if (known == dtype) return fmt::format("c10::ScalarType::{}", word);
  }
  return "c10::ScalarType::Undefined";
}

constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kEnumerators{
    {{"contiguous_format", "c10::MemoryFormat::Contiguous"},
     {"preserve_format", "c10::MemoryFormat::Preserve"},
     {"channels_last", "c10::MemoryFormat::ChannelsLast"},
     {"channels_last_3d", "c10::MemoryFormat::ChannelsLast3d"},
     {"strided", "c10::Layout::Strided"},
     {"sparse_coo", "c10::Layout::Sparse"}}};

std::string symbol(const std::string& name) {
  for (const auto& [known, word] : kEnumerators) {
    if (known == name) return fmt::format("static_cast<int64_t>({})", word);
  }
  const auto dtype = core::parse_dtype(name);
  if (dtype && core::dtype_name(*dtype) == name) {
    return "static_cast<int64_t>(" + scalar_type(*dtype) + ")";
  }
  return "c10::Device(std::string(" + string_literal(name) + "))";
}

std::string given(const std::string& value) { return "Given(" + value + ")"; }

constexpr LiteralDialect kCpp{
    .truth = [](bool value) { return given(value ? "true" : "false"); },
    .integer = [](std::int64_t value) { return given(fmt::format("int64_t({}LL)", value)); },
    .real = [](double value) { return given(number(value)); },
    .complex =
        [](std::complex<double> value) {
          return given("c10::complex<double>(" + number(value.real()) + ", " +
                       number(value.imag()) + ")");
        },
    .text =
        [](const std::string& value) {
          return given("std::string(" + string_literal(value) + ")");
        },
    .symbol = [](const std::string& name) { return given(symbol(name)); },
    .tensor =
        [](const core::TensorRecord& tensor) {
          return given(tensor.state == core::ContentState::kUndefined
                           ? "at::Tensor()"
                           : "tensors.at(" + string_literal(tensor.slot) + ")");
        },
    .list = [](const std::string& items) { return "Given::list({" + items + "})"; },
    .none = "Given(c10::IValue())"};

std::string braces(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t n : numbers) text += fmt::format("{}{}", text.empty() ? "" : ", ", n);
  return "{" + text + "}";
}

/// What the program includes, in its order.
constexpr std::array<std::string_view, 15> kHeaders{"ATen/ATen.h",
                                                    "ATen/Parallel.h",
                                                    "ATen/core/dispatch/Dispatcher.h",
                                                    "ATen/core/jit_type.h",
                                                    "c10/core/InferenceMode.h",
                                                    "cmath",
                                                    "cstdint",
                                                    "cstdio",
                                                    "cstdlib",
                                                    "cstring",
                                                    "fstream",
                                                    "iterator",
                                                    "map",
                                                    "string",
                                                    "vector"};

constexpr std::string_view kHelpers = R"(
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

constexpr std::string_view kMain = R"(
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

std::string header(const Reproducer& reproducer) {
  std::string text =
      fmt::format("// {}, by itself.\n", core::printable(reproducer.op.op->full_name()));
  for (const core::EnvironmentFact& fact : reproducer.manifest.environment) {
    if (fact.name != "libtorch.version" && fact.name != "cpu.model") continue;
    text += fmt::format("// {}: {}\n", fact.name, core::printable(fact.value));
  }
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
  return text;
}

std::string tensors(const Reproducer& reproducer) {
  std::string text =
      "\nstatic std::map<std::string, at::Tensor> make_tensors() {\n"
      "  std::map<std::string, at::Tensor> tensors;\n  at::Tensor storage;\n";
  for (std::size_t i = 0; i < reproducer.storages.size(); ++i) {
    const core::InputStorage& storage = reproducer.storages[i];
    const std::string& device = reproducer.op.tensors.at(storage.tensors.front()).device;
    text += fmt::format(
        "  storage = load({}, {}){};\n",
        string_literal(reproducer.files[i]),
        scalar_type(storage.dtype),
        device == "cpu" ? "" : ".to(c10::Device(std::string(" + string_literal(device) + ")))");
    for (const std::uint32_t member : storage.tensors) {
      const core::TensorRecord& tensor = reproducer.op.tensors[member];
      const bool empty = core::element_count(tensor.shape) == 0;
      text += fmt::format("  tensors[{}] = storage.as_strided({}, {}, {});\n",
                          string_literal(tensor.slot),
                          braces(tensor.shape),
                          braces(tensor.strides),
                          empty ? 0 : tensor.storage_offset - storage.first);
    }
  }
  return text + "  return tensors;\n}\n";
}

std::string arguments(const Reproducer& reproducer) {
  std::string text =
      "\nstatic std::map<std::string, Given> make_arguments(\n"
      "    const std::map<std::string, at::Tensor>& tensors) {\n"
      "  static_cast<void>(tensors);\n  std::map<std::string, Given> arguments;\n";
  for (const core::Argument& argument : reproducer.op.arguments) {
    text += fmt::format("  arguments.emplace({}, {});\n",
                        string_literal(argument.name),
                        literal(reproducer.op, argument.value, kCpp));
  }
  return text + "  return arguments;\n}\n";
}

std::string settings(const Reproducer& reproducer) {
  std::string text = "\nstatic void settings() {\n";
  for (const core::Setting& setting : reproducer.manifest.settings) {
    const bool digits =
        !setting.used.empty() && setting.used.find_first_not_of("0123456789") == std::string::npos;
    if (setting.name == "threads.intra_op" && digits) {
      text += "  at::set_num_threads(" + setting.used + ");\n";
    }
    if (setting.name == "deterministic_algorithms" && setting.used != "off") {
      text += fmt::format("  at::globalContext().setDeterministicAlgorithms(true, {});\n",
                          setting.used == "warn" ? "true" : "false");
    }
  }
  text += "}\n\nstatic void seed() {\n";
  const auto& use = reproducer.op.generator;
  if (use) text += fmt::format("  at::manual_seed({}ULL);\n", use->seed);
  if (use && reproducer.drawn.value_or(0) > 0) {
    text += fmt::format("  at::empty({{{}}}, at::kByte).random_();  // drawn before the call\n",
                        *reproducer.drawn);
  }
  return text + "}\n";
}

std::string expected(const Reproducer& reproducer) {
  std::string slots;
  for (const std::string& slot : reproducer.result_slots) {
    slots += (slots.empty() ? "" : ", ") + string_literal(slot);
  }
  std::string text = "\nstatic const std::vector<std::string> kResultSlots{" + slots + "};\n" +
                     "static const std::map<std::string, std::pair<std::string, c10::ScalarType>> "
                     "kExpected{\n";
  for (const ExpectedOutput& output : reproducer.outputs) {
    if (output.file.empty()) continue;
    text += fmt::format("    {{{}, {{{}, {}}}}},\n",
                        string_literal(output.slot),
                        string_literal(output.file),
                        scalar_type(output.tensor->dtype));
  }
  return text + "};\n";
}

}  // namespace

std::string cpp_reproducer(const Reproducer& reproducer) {
  const core::OperatorInfo& op = *reproducer.op.op;
  std::string text = header(reproducer);
  for (const std::string_view name : kHeaders) text += fmt::format("#include <{}>\n", name);
  text += "\nstatic const std::string kData = " + string_literal(reproducer.data + "/") +
          ";\nstatic const char* const kOperator = " + string_literal(op.name) +
          ";\nstatic const char* const kOverload = " + string_literal(op.overload) + ";\n";
  text += kHelpers;
  text += tensors(reproducer) + arguments(reproducer) + settings(reproducer) + expected(reproducer);
  return text + std::string(kMain);
}

}  // namespace repro_check::cmd
