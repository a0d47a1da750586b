// SPDX-License-Identifier: Apache-2.0
#include "cmd/extract/extract.h"

#include <fmt/format.h>

#include <map>
#include <system_error>
#include <utility>
#include <variant>

#include "cmd/extract/reproducer.h"
#include "cmd/terminal/output.h"
#include "core/error.h"
#include "core/tensor/npy.h"
#include "core/text/printable.h"

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

class Writer {
 public:
  explicit Writer(std::filesystem::path directory) : directory_(std::move(directory)) {}

  void tensor(const std::string& name,
              core::Dtype dtype,
              const std::vector<std::int64_t>& shape,
              const std::vector<std::byte>& bytes) {
    const std::vector<std::int64_t> flat{static_cast<std::int64_t>(bytes.size())};
    if (core::has_npy_dtype(dtype)) {
      core::write_npy(directory_ / name, {dtype, shape, bytes});
    } else {
      core::write_npy(directory_ / name, {core::Dtype::kUInt8, flat, bytes});
    }
    ++files_;
    bytes_ += bytes.size();
  }

  [[nodiscard]] std::uint64_t files() const noexcept { return files_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::filesystem::path directory_;
  std::uint64_t files_ = 0;
  std::uint64_t bytes_ = 0;
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

}  // namespace

Extraction extract(const core::DumpSource& dump,
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
  Writer writer(directory);
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
  return {output, directory, writer.files(), writer.bytes()};
}

}  // namespace repro_check::cmd
