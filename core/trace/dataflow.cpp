// SPDX-License-Identifier: Apache-2.0
#include "core/trace/dataflow.h"

#include <algorithm>
#include <utility>

namespace repro_check::core {
namespace {

constexpr std::string_view kInputPrefix = "input:";
constexpr std::string_view kStatePrefix = "state:";

bool wrote(const OpRecord& op, const TensorRecord& output) noexcept {
  return output.producer >= 0 && std::cmp_equal(output.producer, op.index);
}

}  // namespace

TensorSource named_source(std::string_view name) noexcept {
  if (name.starts_with(kInputPrefix)) {
    return {SourceKind::kInput, 0, name.substr(kInputPrefix.size())};
  }
  if (name.starts_with(kStatePrefix)) {
    return {SourceKind::kState, 0, name.substr(kStatePrefix.size())};
  }
  return {};
}

TensorSource tensor_source(const TensorRecord& tensor) noexcept {
  if (tensor.producer < 0) return named_source(tensor.name);
  return {SourceKind::kOperator, static_cast<std::uint64_t>(tensor.producer), {}};
}

bool is_same_view(const TensorRecord& one, const TensorRecord& other) noexcept {
  return one.dtype == other.dtype && one.storage_offset == other.storage_offset &&
         one.shape == other.shape && one.strides == other.strides;
}

const TensorRecord* written_output(const OpRecord& producer,
                                   const TensorRecord& argument) noexcept {
  if (argument.storage < 0) return nullptr;
  const TensorRecord* found = nullptr;
  for (const TensorRecord& output : producer.tensors) {
    if (!is_output(output) || output.storage != argument.storage || !wrote(producer, output)) {
      continue;
    }
    if (is_same_view(output, argument)) return &output;
    if (found == nullptr) found = &output;
  }
  return found;
}

const TensorRecord* read_output(const OpRecord& op, const TensorRecord& argument) noexcept {
  if (std::cmp_equal(argument.producer, op.index)) return written_output(op, argument);
  if (argument.storage < 0) return nullptr;
  const auto found = std::ranges::find_if(op.tensors, [&](const TensorRecord& output) {
    return is_output(output) && output.storage == argument.storage &&
           output.producer == argument.producer && is_same_view(output, argument);
  });
  return found == op.tensors.end() ? nullptr : &*found;
}

void for_each_reader(const DumpSource& dump, const OpRecord& op, const EachReader& each) {
  if (std::ranges::none_of(op.tensors, is_output)) return;
  for (std::uint64_t index = op.index + 1; index < dump.op_count(); ++index) {
    const OpRecord reader = dump.op(index);
    for (const TensorRecord& argument : reader.tensors) {
      if (is_output(argument)) continue;
      const TensorRecord* output = read_output(op, argument);
      if (output != nullptr) each(reader, argument, *output);
    }
  }
}

}  // namespace repro_check::core
