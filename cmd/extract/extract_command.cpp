// SPDX-License-Identifier: Apache-2.0
// `extract`: a stand-alone reproducer of one recorded operator, in Python or in C++.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/render/text.h"
#include "cmd/terminal/builtin_texts.h"
#include "cmd/terminal/output.h"
#include "core/error.h"
#include "core/tensor/dtype.h"
#include "core/tensor/npy.h"
#include "core/tensor/tensor_record.h"
#include "core/text/text.h"
#include "core/trace/dump.h"
#include "core/trace/replay_inputs.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

/// One recorded output of the operator.
struct ExpectedOutput {
  const core::TensorRecord* tensor = nullptr;  ///< borrowed from Reproducer::op
  std::string file;                            ///< empty = its values are not stored
};

/// What a stand-alone reproducer is made of.
struct Reproducer {
  core::OpRecord op;
  core::RunManifest manifest;
  std::vector<core::InputStorage> storages;
  std::vector<std::string> files;  ///< by storage, below `data`
  std::vector<ExpectedOutput> outputs;
  std::vector<std::string> result_slots;  ///< of the tensors among the results, in order
  std::string script;                     ///< file name of the reproducer
  std::string data;                       ///< name of the directory beside it
  std::optional<std::uint64_t> drawn;     ///< 32-bit numbers drawn since the seed; if known
};

enum class Language { kPython, kCpp };

/// The same in both languages of reproducers, in formats of fmt.
struct Spelling {
  std::string_view python;
  std::string_view cpp;
};
constexpr Spelling kYes{"True", "true"};
constexpr Spelling kNo{"False", "false"};
constexpr Spelling kNotANumber{"float(\"nan\")", "double(NAN)"};
constexpr Spelling kInfinity{"float(\"{}inf\")", "double({}INFINITY)"};
constexpr Spelling kDouble{"{}", "double({})"};
constexpr Spelling kTruth{"{}", "Given({})"};  ///< of one of the first two
constexpr Spelling kInteger{"{}", "Given(int64_t({}LL))"};
constexpr Spelling kReal{"{}", "Given({})"};
constexpr Spelling kComplex{"complex({}, {})", "Given(c10::complex<double>({}, {}))"};
constexpr Spelling kText{"{}", "Given(std::string({}))"};
constexpr Spelling kTensor{"tensors[{}]", "Given(tensors.at({}))"};  ///< of the literal of its slot
constexpr Spelling kUndefined{"None", "Given(at::Tensor())"};
constexpr Spelling kList{"[{}]", "Given::list({{{}}})"};  ///< of items with commas
/// A generator too: the default one stands in.
constexpr Spelling kNone{"None", "Given(c10::IValue())"};
constexpr Spelling kDtype{"torch.{}", "c10::ScalarType::{}"};
/// From a file, with its dtype and what follows.
constexpr Spelling kStorage{"    storage = load({}, {}){}\n", "  storage = load({}, {}){};\n"};
constexpr Spelling kMove{".to({})", ".to(c10::Device(std::string({})))"};  ///< that follows
/// Of a storage by slot, with sizes, strides and offset.
constexpr Spelling kView{"    tensors[{}] = storage.as_strided({}, {}, {})\n",
                         "  tensors[{}] = storage.as_strided({}, {}, {});\n"};
constexpr Spelling kSizes{"[{}]", "{{{}}}"};  ///< of numbers with commas
constexpr Spelling kThreads{"torch.set_num_threads({})\n", "  at::set_num_threads({});\n"};
/// Deterministic algorithms, whether they only warn.
constexpr Spelling kStrict{"torch.use_deterministic_algorithms(True, warn_only={})\n",
                           "  at::globalContext().setDeterministicAlgorithms(true, {});\n"};
/// Of a kind of device and a dtype.
constexpr Spelling kAutocast{
    "torch.autocast({}, dtype={}).__enter__()\n",
    "  at::autocast::set_autocast_enabled(c10::Device(std::string({0})).type(), true);\n"
    "  at::autocast::set_autocast_dtype(c10::Device(std::string({0})).type(), {1});\n"};
constexpr Spelling kDefaultDtype{"torch.set_default_dtype({})\n",
                                 "  c10::set_default_dtype(c10::scalarTypeToTypeMeta({}));\n"};
constexpr Spelling kSeed{"    torch.manual_seed({})\n", "  at::manual_seed({}ULL);\n"};
/// So many numbers that were drawn since the seed.
constexpr Spelling kSkip{
    "    torch.empty({}, dtype=torch.uint8).random_()  # drawn before the call\n",
    "  at::empty({{{}}}, at::kByte).random_();  // drawn before the call\n"};
/// Output, by slot, file and dtype.
constexpr Spelling kExpected{"    {}: ({}, {}),\n", "    {{{}, {{{}, {}}}}},\n"};
constexpr Spelling kUnstored{"    {}: None,\n", ""};  ///< one without a file
/// Of a device, at an offset.
constexpr Spelling kUnplaced{"    # the generator of {} stood at offset {}\n",
                             "  // the generator of {} stood at offset {}\n"};

template <typename... Arguments>
std::string in(Language language, const Spelling& phrase, const Arguments&... arguments) {
  const std::string_view format = language == Language::kCpp ? phrase.cpp : phrase.python;
  return fmt::format(fmt::runtime(format), arguments...);
}

/// A literal in Python and in C++ alike: nothing but plain characters goes through as it is, since
/// names come from a file, and escapes end after three digits, whatever follows.
std::string string_literal(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte >= 0x20 && byte <= 0x7e && c != '"' && c != '\\' && c != '?';
    literal += plain ? std::string(1, c) : fmt::format("\\{:03o}", byte);
  }
  return literal + "\"";
}

/// The slots of the results, with commas.
std::string slot_literals(const Reproducer& reproducer) {
  return joined(reproducer.result_slots, ", ", string_literal);
}

std::string dtype_literal(Language language, core::Dtype dtype) {
  const bool is_cpp = language == Language::kCpp;
  return in(language, kDtype, is_cpp ? core::row_of(dtype).torch : core::dtype_name(dtype));
}

std::string number_literal(Language language, double value) {
  if (std::isnan(value)) return in(language, kNotANumber);
  if (std::isinf(value)) return in(language, kInfinity, value > 0 ? "" : "-");
  const std::string text = fmt::format("{}", value);
  const bool is_whole = text.find_first_of(".e") == std::string::npos;
  return in(language, kDouble, text + (is_whole && language == Language::kPython ? ".0" : ""));
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
    return "Given(static_cast<int64_t>(" + dtype_literal(Language::kCpp, *dtype) + "))";
  }
  return "Given(c10::Device(std::string(" + string_literal(name) + ")))";
}

std::string python_symbol(const std::string& name) {
  // Names of layouts and memory formats have a `_`, but for one; those of devices have none.
  const auto dtype = core::parse_dtype(name);
  const bool known = (dtype && core::dtype_name(*dtype) == name) || name == "strided" ||
                     name.find('_') != std::string::npos;
  return known ? "torch." + name : "torch.device(" + string_literal(name) + ")";
}

/// An argument in the words of a language.
std::string value_literal(const core::OpRecord& op, const core::Value& value, Language language) {
  return std::visit(
      [&](const auto& data) -> std::string {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, bool>) {
          return in(language, kTruth, in(language, data ? kYes : kNo));
        } else if constexpr (std::is_same_v<T, std::int64_t>) {
          return in(language, kInteger, data);
        } else if constexpr (std::is_same_v<T, double>) {
          return in(language, kReal, number_literal(language, data));
        } else if constexpr (std::is_same_v<T, std::complex<double>>) {
          return in(language,
                    kComplex,
                    number_literal(language, data.real()),
                    number_literal(language, data.imag()));
        } else if constexpr (std::is_same_v<T, std::string>) {
          return in(language, kText, string_literal(data));
        } else if constexpr (std::is_same_v<T, core::Symbol>) {
          return language == Language::kCpp ? cpp_symbol(data.name) : python_symbol(data.name);
        } else if constexpr (std::is_same_v<T, core::TensorSlot>) {
          const core::TensorRecord& tensor = op.tensors.at(data.index);
          const bool undefined = tensor.state == core::ContentState::kUndefined;
          return undefined ? in(language, kUndefined)
                           : in(language, kTensor, string_literal(tensor.slot));
        } else if constexpr (std::is_same_v<T, core::ValueList>) {
          std::vector<std::string> items;
          for (const core::Value& item : data.items) {
            items.push_back(value_literal(op, item, language));
          }
          return in(language, kList, fmt::join(items, ", "));
        } else {
          return in(language, kNone);
        }
      },
      value.data);
}

// Statements, one a line.

std::string tensor_statements(const Reproducer& reproducer, Language language) {
  std::string text;
  for (std::size_t i = 0; i < reproducer.storages.size(); ++i) {
    const core::InputStorage& storage = reproducer.storages[i];
    const std::string& device = reproducer.op.tensors.at(storage.tensors.front()).device;
    text += in(language,
               kStorage,
               string_literal(reproducer.files[i]),
               dtype_literal(language, storage.dtype),
               device == "cpu" ? "" : in(language, kMove, string_literal(device)));
    for (const std::uint32_t member : storage.tensors) {
      const core::TensorRecord& tensor = reproducer.op.tensors[member];
      const bool empty = core::element_count(tensor.shape) == 0;
      text += in(language,
                 kView,
                 string_literal(tensor.slot),
                 in(language, kSizes, fmt::join(tensor.shape, ", ")),
                 in(language, kSizes, fmt::join(tensor.strides, ", ")),
                 empty ? 0 : tensor.storage_offset - storage.first);
    }
  }
  return text;
}

std::string setting_statements(const Reproducer& reproducer, Language language) {
  std::string text;
  for (const core::Setting& setting : reproducer.manifest.settings) {
    const bool number =
        !setting.used.empty() && setting.used.find_first_not_of("0123456789") == std::string::npos;
    if (setting.name == "threads.intra_op" && number) {
      text += in(language, kThreads, setting.used);
    }
    if (setting.name == "deterministic_algorithms" && setting.used != "off") {
      text += in(language, kStrict, in(language, setting.used == "warn" ? kYes : kNo));
    }
  }
  for (const auto& [name, word] : core::call_modes(reproducer.op.modes)) {
    const auto dtype = core::parse_dtype(word);
    if (!dtype) continue;
    if (name == core::kDefaultDtypeMode) {
      text += in(language, kDefaultDtype, dtype_literal(language, *dtype));
    } else {
      const std::string_view device = name.substr(std::min(name.find('.') + 1, name.size()));
      text += in(language, kAutocast, string_literal(device), dtype_literal(language, *dtype));
    }
  }
  return text;
}

/// Empty when nothing was drawn.
std::string seed_statements(const Reproducer& reproducer, Language language) {
  const auto& use = reproducer.op.generator;
  if (!use) return "";
  std::string text = in(language, kSeed, use->seed);
  if (!reproducer.drawn) {
    return text + in(language, kUnplaced, core::printable(use->device), use->position_before);
  }
  return *reproducer.drawn > 0 ? text + in(language, kSkip, *reproducer.drawn) : text;
}

std::string expected_statements(const Reproducer& reproducer, Language language) {
  std::string text;
  for (const ExpectedOutput& output : reproducer.outputs) {
    text += in(language,
               output.file.empty() ? kUnstored : kExpected,
               string_literal(output.tensor->slot),
               string_literal(output.file),
               dtype_literal(language, output.tensor->dtype));
  }
  return text;
}

/// What the run was recorded with, as comments.
std::string fact_comments(const Reproducer& reproducer, std::string_view comment) {
  std::string text;
  for (const core::EnvironmentFact& fact : reproducer.manifest.environment) {
    if (fact.name != "libtorch.version" && fact.name != "cpu.model") continue;
    text += fmt::format("{} {}: {}\n", comment, fact.name, core::printable(fact.value));
  }
  return text;
}

/// What the program includes, in its order.
constexpr std::string_view kCppHeaders =
    "ATen/ATen.h ATen/Parallel.h ATen/autocast_mode.h ATen/core/dispatch/Dispatcher.h "
    "ATen/core/jit_type.h "
    "c10/core/InferenceMode.h cmath cstdint cstdio cstdlib cstring fstream iterator map string "
    "vector ";

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
                        value_literal(reproducer.op, argument.value, Language::kCpp));
  }
  return text;
}

/// Settings of the run that Python can make, by the recorder's names; {} is on or off.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kPythonSwitches{
    {{"cudnn.benchmark", "torch.backends.cudnn.benchmark = {}"},
     {"cudnn.deterministic", "torch.backends.cudnn.deterministic = {}"},
     {"tf32.cublas", "torch.backends.cuda.matmul.allow_tf32 = {}"},
     {"tf32.cudnn", "torch.backends.cudnn.allow_tf32 = {}"},
     {"flush_denormal", "torch.set_flush_denormal({})"},
     {"deterministic_fill_uninitialized_memory",
      "torch.utils.deterministic.fill_uninitialized_memory = {}"}}};

std::string python_switches(const core::RunManifest& manifest) {
  std::string text;
  for (const core::Setting& setting : manifest.settings) {
    const auto known = std::ranges::find(kPythonSwitches,
                                         std::string_view(setting.name),
                                         &decltype(kPythonSwitches)::value_type::first);
    const bool on = setting.used == "on";
    if (known == kPythonSwitches.end() || (!on && setting.used != "off")) continue;
    text += fmt::format(fmt::runtime(known->second), on ? "True" : "False") + "\n";
  }
  return text;
}

std::string python_environment(const core::RunManifest& manifest) {
  constexpr std::string_view kPrefix = "env.";
  std::string text;
  for (const core::Setting& setting : manifest.settings) {
    if (!setting.name.starts_with(kPrefix) || setting.used == "unset") continue;
    text += fmt::format("os.environ[{}] = {}\n",
                        string_literal(setting.name.substr(kPrefix.size())),
                        string_literal(setting.used));
  }
  return text;
}

/// `self` goes by position, since a method's own first argument has that name; the others by name.
std::string python_arguments(const Reproducer& reproducer) {
  std::string positional;
  std::string named;
  for (const core::Argument& argument : reproducer.op.arguments) {
    const std::string value = value_literal(reproducer.op, argument.value, Language::kPython);
    if (argument.name == "self" && named.empty()) {
      positional = value;
    } else {
      named += fmt::format("        {}: {},\n", string_literal(argument.name), value);
    }
  }
  return fmt::format("    return [{}], {{{}{}}}\n",
                     positional,
                     named.empty() ? "" : "\n" + named,
                     named.empty() ? "" : "    ");
}

/// A C++ program for LibTorch, with the CMake file it needs in its first comment.
std::string cpp_reproducer(const Reproducer& reproducer) {
  const core::OperatorInfo& op = *reproducer.op.op;
  std::string text = cpp_header(reproducer);
  text += "\nstatic const std::string kData = " + string_literal(reproducer.data + "/") +
          ";\nstatic const char* const kOperator = " + string_literal(op.name) +
          ";\nstatic const char* const kOverload = " + string_literal(op.overload) + ";\n";
  text += builtin_text("extract/helpers.cpp");
  text +=
      "\nstatic std::map<std::string, at::Tensor> make_tensors() {\n"
      "  std::map<std::string, at::Tensor> tensors;\n  at::Tensor storage;\n" +
      tensor_statements(reproducer, Language::kCpp) +
      "  return tensors;\n}\n"
      "\nstatic std::map<std::string, Given> make_arguments(\n"
      "    const std::map<std::string, at::Tensor>& tensors) {\n"
      "  static_cast<void>(tensors);\n  std::map<std::string, Given> arguments;\n" +
      cpp_arguments(reproducer) + "  return arguments;\n}\n\nstatic void settings() {\n" +
      setting_statements(reproducer, Language::kCpp) + "}\n\nstatic void seed() {\n" +
      seed_statements(reproducer, Language::kCpp) +
      "}\n\nstatic const std::vector<std::string> kResultSlots{" + slot_literals(reproducer) +
      "};\n"
      "static const std::map<std::string, std::pair<std::string, c10::ScalarType>> "
      "kExpected{\n" +
      expected_statements(reproducer, Language::kCpp) + "};\n";
  return text + std::string(builtin_text("extract/main.cpp"));
}

/// Needs torch and numpy alone; exits 0 when every call gives the recorded result, else 1.
std::string python_reproducer(const Reproducer& reproducer) {
  const core::OperatorInfo& op = *reproducer.op.op;
  const std::size_t colons = op.name.find("::");
  const std::string library = colons == std::string::npos ? "aten" : op.name.substr(0, colons);
  const std::string name = colons == std::string::npos ? op.name : op.name.substr(colons + 2);
  const std::string place = place_text(reproducer.op.site.get());
  const std::string seeds = seed_statements(reproducer, Language::kPython);
  std::string text = fmt::format("#!/usr/bin/env python3\n# {}, by itself{}.\n",
                                 core::printable(op.full_name()),
                                 place.empty() ? "" : ": it was called in " + place);
  text += fact_comments(reproducer, "#");
  text += fmt::format(
      "#\n# Needs torch and numpy, and {}/ beside it. Usage: {} [CALLS]\n"
      "# Exit code 0: every call gave the recorded result; 1: not.\n"
      "import hashlib\nimport os\nimport pathlib\nimport sys\n\n",
      core::printable(reproducer.data),
      core::printable(reproducer.script));
  text += python_environment(reproducer.manifest) + "\nimport numpy\nimport torch\n\n";
  text += setting_statements(reproducer, Language::kPython) + python_switches(reproducer.manifest);
  text += "torch.set_grad_enabled(False)\n";
  text += fmt::format("OPERATOR = getattr(getattr(getattr(torch.ops, {}), {}), {})\n",
                      string_literal(library),
                      string_literal(name),
                      string_literal(op.overload.empty() ? "default" : op.overload));
  text += "DATA_NAME = " + string_literal(reproducer.data) + "\n";
  text += builtin_text("extract/load.py");
  text += "\ndef make_tensors():\n    tensors = {}\n" +
          tensor_statements(reproducer, Language::kPython) +
          "    return tensors\n\n\ndef make_arguments(tensors):\n" + python_arguments(reproducer) +
          "\n\ndef seed():\n" + (seeds.empty() ? "    pass  # nothing was drawn\n" : seeds) +
          "\n\nRESULT_SLOTS = [" + slot_literals(reproducer) + "]\nEXPECTED = {\n" +
          expected_statements(reproducer, Language::kPython) + "}\n";
  return text + std::string(builtin_text("extract/main.py"));
}

void collect_slots(const core::Value& value,
                   const core::OpRecord& op,
                   std::vector<std::string>& slots) {
  if (const auto* slot = std::get_if<core::TensorSlot>(&value.data)) {
    slots.push_back(op.tensors.at(slot->index).slot);
  }
  if (const auto* list = std::get_if<core::ValueList>(&value.data)) {
    for (const core::Value& item : list->items) collect_slots(item, op, slots);
  }
}

/// 32-bit numbers that earlier operators drew since the generator was seeded: back from the
/// operator's own position, from call to call. It ends where nobody recorded how the generator got
/// there, which is the seed unless something outside the operators drew.
std::uint64_t drawn_before(const core::DumpSource& dump, const core::OpRecord& op) {
  std::map<std::uint64_t, core::GeneratorUse> by_end;
  for (std::uint64_t i = 0; i < op.index; ++i) {
    const auto use = dump.op(i).generator;
    if (!use || use->device != op.generator->device || use->seed != op.generator->seed) continue;
    if (use->drawn > 0) by_end.insert_or_assign(use->position_after, *use);
  }
  std::uint64_t drawn = 0;
  std::uint64_t position = op.generator->position_before;
  for (std::size_t steps = 0; steps <= by_end.size(); ++steps) {
    const auto found = by_end.find(position);
    if (found == by_end.end()) break;
    drawn += static_cast<std::uint64_t>(found->second.drawn);
    position = found->second.position_before;
  }
  return drawn;
}

struct Writer {
  std::filesystem::path directory;
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;

  /// Dtypes that NumPy lacks are stored as bytes.
  void tensor(const std::string& name,
              core::Dtype dtype,
              const std::vector<std::int64_t>& shape,
              const std::vector<std::byte>& content) {
    const std::vector<std::int64_t> flat{static_cast<std::int64_t>(content.size())};
    const bool known = !core::row_of(dtype).numpy.empty();
    core::write_npy(directory / name,
                    {known ? dtype : core::Dtype::kUInt8, known ? shape : flat, content});
    ++files;
    bytes += content.size();
  }
};

bool is_packed(const core::Value& value) {
  const auto* list = std::get_if<core::ValueList>(&value.data);
  if (list == nullptr || list->items.empty()) return false;
  const auto* name = std::get_if<core::Symbol>(&list->items.front().data);
  return name != nullptr && name->name.starts_with("__torch__.");
}

/// What a program of its own would have to make first is left to `replay`.
void require_dense(const core::OpRecord& op) {
  const auto refuse = [&](const std::string& name, const char* what) {
    throw core::not_comparable(
        fmt::format("op {} {}: argument {} {}: no program is written for it",
                    op.index,
                    core::printable(op.op->full_name()),
                    core::printable(name),
                    what),
        fmt::format("`repro-check replay DUMP --op {}` makes it and calls the operator again",
                    op.index));
  };
  for (const core::Argument& argument : op.arguments) {
    if (is_packed(argument.value)) refuse(argument.name, "holds packed weights");
  }
  for (const core::TensorRecord& tensor : op.tensors) {
    if (tensor.role != core::TensorRole::kInput) continue;
    if (core::is_quantised(tensor.dtype)) refuse(tensor.slot, "is quantised");
    if (core::is_composed(tensor)) refuse(tensor.slot, "is sparse or nested");
  }
}

void make_directory(const std::filesystem::path& directory, bool force) {
  std::error_code error;
  if (std::filesystem::exists(directory, error) && !force) {
    throw core::usage_error(directory.string() + " exists already",
                            "replace what is in it with --force, or choose another name with -o");
  }
  std::filesystem::create_directories(directory, error);
  if (error) {
    throw core::io_error("cannot create " + directory.string() + ": " + error.message());
  }
}

/// Writes the program and, beside it, a directory of .npy files.
/// @return the line that says so
std::string extract(const core::DumpSource& dump,
                    std::uint64_t op,
                    const std::filesystem::path& output,
                    bool force) {
  Reproducer reproducer;
  reproducer.op = core::require_replayable(dump, op);
  require_dense(reproducer.op);
  reproducer.storages = core::input_storages(dump, reproducer.op);
  reproducer.manifest = dump.manifest();
  reproducer.script = output.filename().string();
  reproducer.data = output.stem().string() + ".data";
  const std::filesystem::path directory = output.parent_path() / reproducer.data;
  make_directory(directory, force);
  Writer writer{directory};
  for (std::size_t i = 0; i < reproducer.storages.size(); ++i) {
    const core::InputStorage& storage = reproducer.storages[i];
    reproducer.files.push_back(fmt::format("input{}.npy", i));
    writer.tensor(reproducer.files.back(),
                  storage.dtype,
                  {storage.count},
                  core::read_input_storage(dump, reproducer.op, storage));
  }
  std::vector<std::byte> content;
  for (const core::TensorRecord& tensor : reproducer.op.tensors) {
    if (tensor.role != core::TensorRole::kOutput) continue;
    ExpectedOutput& expected = reproducer.outputs.emplace_back();
    expected.tensor = &tensor;
    const bool stored = tensor.state == core::ContentState::kHashed && tensor.layout == "strided" &&
                        !core::is_quantised(tensor.dtype) && dump.has_content(tensor.content_key());
    if (!stored) continue;
    expected.file = fmt::format("output{}.npy", reproducer.outputs.size() - 1);
    dump.read_content(tensor.content_key(), content);
    writer.tensor(expected.file, tensor.dtype, tensor.shape, content);
  }
  for (const core::Value& result : reproducer.op.results) {
    collect_slots(result, reproducer.op, reproducer.result_slots);
  }
  if (reproducer.op.generator && reproducer.op.generator->device == "cpu") {
    reproducer.drawn = drawn_before(dump, reproducer.op);
  }
  const bool python = output.extension() == ".py";
  write_file(output, python ? python_reproducer(reproducer) : cpp_reproducer(reproducer));
  return fmt::format("EXTRACTED op {}: {}, with {} in {} ({})\n",
                     op,
                     escape_name(output.string()),
                     format_count(writer.files, "tensor"),
                     escape_name(directory.string()),
                     format_bytes(writer.bytes));
}

class ExtractCommand final : public Command {
 public:
  ExtractCommand()
      : Command({"extract", "Write a stand-alone reproducer of one recorded operator"}) {}

  core::ExitCode run(const GlobalOptions& /*globals*/) override {
    const std::filesystem::path out = out_;
    if (out.extension() != ".py" && out.extension() != ".cpp") {
      throw core::usage_error("-o " + out_ + ": neither Python nor C++",
                              "end the name in .py or .cpp");
    }
    require_writable(out);
    if (!force_ && std::filesystem::exists(out)) {
      throw core::usage_error(out_ + " exists already",
                              "replace it with --force, or choose another name with -o");
    }
    const auto dump = store::open_named(dump_, {references_.begin(), references_.end()});
    write_stdout(extract(*dump, op_, out, force_));
    return core::ExitCode::kReproducible;
  }

 private:
  std::string dump_ = value(&dump_, "dump DUMP", {.takes = Takes::kDump, .required = true});
  std::uint64_t op_ = value(&op_, "--op INDEX", {.required = true}, 0);
  std::string out_ =
      value(&out_, "-o,--out FILE.py|FILE.cpp", {.takes = Takes::kFile, .required = true});
  bool force_ = flag(&force_, "--force");
  std::vector<std::string> references_ = references(&references_);
};

}  // namespace

std::unique_ptr<Command> extract_command() { return std::make_unique<ExtractCommand>(); }

}  // namespace repro_check::cmd
