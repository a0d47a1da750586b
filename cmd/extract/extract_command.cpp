// SPDX-License-Identifier: Apache-2.0
// `extract`: a stand-alone reproducer of one recorded operator, in Python or in C++.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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
#include <variant>
#include <vector>

#include "cmd/options/command.h"
#include "cmd/options/command_line.h"
#include "cmd/render/json_form.h"
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

/// How each language writes what a reproducer is made of, in formats of fmt.
const Json& spellings() {
  static const Json texts = Json::parse(builtin_text("extract/spellings.json"));
  return texts;
}

template <typename... Arguments>
std::string in(Language language, const char* what, const Arguments&... arguments) {
  const auto& format =
      spellings().at(what).at(static_cast<std::size_t>(language)).get_ref<const std::string&>();
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

std::string dtype_literal(Language language, core::Dtype dtype) {
  const bool is_cpp = language == Language::kCpp;
  return in(language, "dtype", is_cpp ? core::row_of(dtype).torch : core::dtype_name(dtype));
}

std::string number_literal(Language language, double value) {
  if (std::isnan(value)) return in(language, "not a number");
  if (std::isinf(value)) return in(language, "infinity", value > 0 ? "" : "-");
  const std::string text = fmt::format("{}", value);
  const bool is_whole = text.find_first_of(".e") == std::string::npos;
  return in(language, "double", text + (is_whole && language == Language::kPython ? ".0" : ""));
}

std::string symbol_literal(Language language, const std::string& name) {
  const auto dtype = core::parse_dtype(name);
  const bool is_dtype = dtype && core::dtype_name(*dtype) == name;
  if (language == Language::kPython) {
    // Names of layouts and memory formats have a `_`, but for one; those of devices have none.
    const bool known = is_dtype || name == "strided" || name.find('_') != std::string::npos;
    return in(language, known ? "symbol" : "device", known ? name : string_literal(name));
  }
  const Json& enumerators = spellings().at("enumerators");
  if (enumerators.contains(name)) {
    return in(language, "symbol", enumerators.at(name).get<std::string>());
  }
  return is_dtype ? in(language, "symbol", dtype_literal(language, *dtype))
                  : in(language, "device", string_literal(name));
}

/// An argument in the words of a language.
std::string value_literal(const core::OpRecord& op, const core::Value& value, Language language) {
  return std::visit(
      [&](const auto& data) -> std::string {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, bool>) {
          return in(language, "truth", in(language, data ? "yes" : "no"));
        } else if constexpr (std::is_same_v<T, std::int64_t>) {
          return in(language, "integer", data);
        } else if constexpr (std::is_same_v<T, double>) {
          return in(language, "real", number_literal(language, data));
        } else if constexpr (std::is_same_v<T, std::complex<double>>) {
          return in(language,
                    "complex",
                    number_literal(language, data.real()),
                    number_literal(language, data.imag()));
        } else if constexpr (std::is_same_v<T, std::string>) {
          return in(language, "text", string_literal(data));
        } else if constexpr (std::is_same_v<T, core::Symbol>) {
          return symbol_literal(language, data.name);
        } else if constexpr (std::is_same_v<T, core::TensorSlot>) {
          const core::TensorRecord& tensor = op.tensors.at(data.index);
          const bool undefined = tensor.state == core::ContentState::kUndefined;
          return undefined ? in(language, "undefined")
                           : in(language, "tensor", string_literal(tensor.slot));
        } else if constexpr (std::is_same_v<T, core::ValueList>) {
          std::vector<std::string> items;
          for (const core::Value& item : data.items) {
            items.push_back(value_literal(op, item, language));
          }
          return in(language, "list", fmt::join(items, ", "));
        } else {
          return in(language, "none");
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
               "storage",
               string_literal(reproducer.files[i]),
               dtype_literal(language, storage.dtype),
               device == "cpu" ? "" : in(language, "move", string_literal(device)));
    for (const std::uint32_t member : storage.tensors) {
      const core::TensorRecord& tensor = reproducer.op.tensors[member];
      const bool empty = core::element_count(tensor.shape) == 0;
      text += in(language,
                 "view",
                 string_literal(tensor.slot),
                 in(language, "sizes", fmt::join(tensor.shape, ", ")),
                 in(language, "sizes", fmt::join(tensor.strides, ", ")),
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
      text += in(language, "threads", setting.used);
    }
    if (setting.name == "deterministic_algorithms" && setting.used != "off") {
      text += in(language, "strict", in(language, setting.used == "warn" ? "yes" : "no"));
    }
  }
  for (const auto& [name, word] : core::call_modes(reproducer.op.modes)) {
    const auto dtype = core::parse_dtype(word);
    if (!dtype) continue;
    if (name == core::kDefaultDtypeMode) {
      text += in(language, "default dtype", dtype_literal(language, *dtype));
    } else {
      const std::string_view device = name.substr(std::min(name.find('.') + 1, name.size()));
      text += in(language, "autocast", string_literal(device), dtype_literal(language, *dtype));
    }
  }
  return text;
}

/// Empty when nothing was drawn.
std::string seed_statements(const Reproducer& reproducer, Language language) {
  const auto& use = reproducer.op.generator;
  if (!use) return "";
  std::string text = in(language, "seed", use->seed);
  if (!reproducer.drawn) {
    return text + in(language, "unplaced", core::printable(use->device), use->position_before);
  }
  return *reproducer.drawn > 0 ? text + in(language, "skip", *reproducer.drawn) : text;
}

std::string expected_statements(const Reproducer& reproducer, Language language) {
  std::string text;
  for (const ExpectedOutput& output : reproducer.outputs) {
    text += in(language,
               output.file.empty() ? "unstored" : "expected",
               string_literal(output.tensor->slot),
               string_literal(output.file),
               dtype_literal(language, output.tensor->dtype));
  }
  return text;
}

/// What the run was recorded with, as comments.
std::string fact_comments(const Reproducer& reproducer, Language language) {
  std::string text;
  for (const core::EnvironmentFact& fact : reproducer.manifest.environment) {
    if (fact.name != "libtorch.version" && fact.name != "cpu.model") continue;
    text += in(language, "fact", fact.name, core::printable(fact.value));
  }
  return text;
}

std::string variable_statements(const Reproducer& reproducer, Language language) {
  constexpr std::string_view kPrefix = "env.";
  std::string text;
  for (const core::Setting& setting : reproducer.manifest.settings) {
    if (!setting.name.starts_with(kPrefix) || setting.used == "unset") continue;
    const std::string name = setting.name.substr(kPrefix.size());
    text += in(language,
               "variable",
               string_literal(name),
               string_literal(setting.used),
               core::printable(name),
               core::printable(setting.used));
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

/// Settings of the run that Python can make.
std::string python_switches(const core::RunManifest& manifest) {
  const Json& switches = spellings().at("switches");
  std::string text;
  for (const core::Setting& setting : manifest.settings) {
    const bool on = setting.used == "on";
    if (!switches.contains(setting.name) || (!on && setting.used != "off")) continue;
    const auto format = switches.at(setting.name).get<std::string>();
    text += fmt::format(fmt::runtime(format), on ? "True" : "False");
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

/// A program of cmd/extract with its parts, `@tensors@`, in their places. What they are made of may
/// come from a file, and is not looked through again.
std::string filled(std::string_view program, const std::map<std::string_view, std::string>& parts) {
  std::string out;
  for (std::size_t at = program.find('@'); at != std::string_view::npos; at = program.find('@')) {
    const std::size_t end = program.find('@', at + 1);
    out.append(program.substr(0, at)).append(parts.at(program.substr(at + 1, end - at - 1)));
    program.remove_prefix(end + 1);
  }
  return out.append(program);
}

/// A C++ program for LibTorch, with the CMake file it needs in its first comment; or one that needs
/// torch and numpy alone. It exits 0 when every call gives the recorded result, else 1.
std::string program_of(const Reproducer& reproducer, Language language) {
  const core::OperatorInfo& op = *reproducer.op.op;
  const bool is_python = language == Language::kPython;
  const std::size_t colons = op.name.find("::");
  const bool has_library = colons != std::string::npos;
  const std::string place = place_text(reproducer.op.site.get());
  const std::string seed = seed_statements(reproducer, language);
  return filled(
      builtin_text(is_python ? "extract/program.py" : "extract/program.cpp"),
      {{"operator", core::printable(op.full_name())},
       {"called", place.empty() ? "" : ": it was called in " + place},
       {"facts", fact_comments(reproducer, language)},
       {"place", core::printable(reproducer.data)},
       {"script", core::printable(reproducer.script)},
       {"environment", variable_statements(reproducer, language)},
       {"data", string_literal(reproducer.data + (is_python ? "" : "/"))},
       {"library", string_literal(has_library ? op.name.substr(0, colons) : "aten")},
       {"name", string_literal(is_python && has_library ? op.name.substr(colons + 2) : op.name)},
       {"overload", string_literal(is_python && op.overload.empty() ? "default" : op.overload)},
       {"tensors", tensor_statements(reproducer, language)},
       {"arguments", is_python ? python_arguments(reproducer) : cpp_arguments(reproducer)},
       {"settings", setting_statements(reproducer, language)},
       {"switches", python_switches(reproducer.manifest)},
       {"seed", seed.empty() ? in(language, "nothing drawn") : seed},
       {"slots", joined(reproducer.result_slots, ", ", string_literal)},
       {"expected", expected_statements(reproducer, language)}});
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
  const bool is_python = output.extension() == ".py";
  write_file(output, program_of(reproducer, is_python ? Language::kPython : Language::kCpp));
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
