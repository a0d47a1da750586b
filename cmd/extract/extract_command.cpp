// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

#include "cmd/extract/reproducer.h"
#include "cmd/options/command_line.h"
#include "cmd/render/text.h"
#include "cmd/terminal/command.h"
#include "cmd/terminal/output.h"
#include "core/error.h"
#include "core/tensor/dtype_table.h"
#include "core/tensor/npy.h"
#include "core/text/printable.h"
#include "dumpers/store/dump_reader.h"

namespace repro_check::cmd {
namespace {

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
    throw core::Error(
        core::ErrorKind::kNotComparable,
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
    throw core::Error(core::ErrorKind::kUsage,
                      directory.string() + " exists already",
                      "replace what is in it with --force, or choose another name with -o");
  }
  std::filesystem::create_directories(directory, error);
  if (error) {
    throw core::Error(core::ErrorKind::kIo,
                      "cannot create " + directory.string() + ": " + error.message());
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
  reproducer.storages = core::input_storages(reproducer.op);
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
      : Command({"extract",
                 "Write a stand-alone reproducer of one recorded operator",
                 {"repro-check extract repro-check-out/baseline --op 41 -o repro.py",
                  "repro-check extract repro-check-out/baseline --op 41 -o repro.cpp"}}) {}

  void define(Options& options) override {
    options.value(
        "dump", "DUMP", &dump_, "Dump that holds the operator's inputs", {.required = true});
    options.value("--op", "INDEX", &op_, "Which operator", {.required = true});
    options.value("-o,--out",
                  "FILE.py|FILE.cpp",
                  &out_,
                  "Program to write; its tensors go to a directory beside it",
                  {.required = true});
    options.flag("--force", &force_, "Replace what is there");
    options.references(references_);
  }

  core::ExitCode run(const GlobalOptions& /*globals*/) override {
    const std::filesystem::path out = out_;
    if (out.extension() != ".py" && out.extension() != ".cpp") {
      throw core::Error(core::ErrorKind::kUsage,
                        "-o " + out_ + ": neither Python nor C++",
                        "end the name in .py or .cpp");
    }
    require_writable(out);
    if (!force_ && std::filesystem::exists(out)) {
      throw core::Error(core::ErrorKind::kUsage,
                        out_ + " exists already",
                        "replace it with --force, or choose another name with -o");
    }
    const auto dump = store::open_dump(dump_, {references_.begin(), references_.end()});
    write_stdout(extract(*dump, op_, out, force_));
    return core::ExitCode::kReproducible;
  }

 private:
  std::string dump_;
  std::uint64_t op_ = 0;
  std::string out_;
  bool force_ = false;
  std::vector<std::string> references_;
};

}  // namespace

std::unique_ptr<Command> extract_command() { return std::make_unique<ExtractCommand>(); }

}  // namespace repro_check::cmd
