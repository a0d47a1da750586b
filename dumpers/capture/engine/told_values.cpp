// SPDX-License-Identifier: Apache-2.0
// Values that the program tells of, and what it returned: records without an operator.
#include "core/trace/program_records.h"
#include "dumpers/capture/engine/pending.h"
#include "dumpers/capture/tensors/storage_table.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {

void Capture::record_returned(const c10::IValue& value) {
  NamedValues values;
  for_each_returned(value, [&](const std::string& path, const c10::IValue& leaf) {
    values.emplace_back(path, leaf);
  });
  append_values(std::string(core::kReturnedOperator), {values, {}, {}}, {}, core::kMainLane);
  flush();
}

void Capture::record_values(const std::string& name,
                            const NamedValues& values,
                            const NamedValues& follows,
                            at::TensorList written,
                            bool keep_bytes) {
  append_values(name, {values, follows, written, keep_bytes}, place(), lane_number());
}

void Capture::append_values(const std::string& name,
                            const ToldValues& told,
                            const Place& place,
                            std::uint32_t lane) {
  if (failed_.load(std::memory_order_relaxed)) return;
  const c10::impl::ExcludeDispatchKeyGuard unseen(kCaptureKey);
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    append_raised();
    core::OpRecord& record = value_records_[name];
    if (!record.op) {
      record.op = std::make_shared<core::OperatorInfo>(core::OperatorInfo{name, "", false});
    }
    number(record, place, lane);
    note_last(record, false);
    sink_->enter(record);
    Arrivals arrivals;
    fill_values(told, record, arrivals);
    if (is_settled(arrivals)) {
      write(record, arrivals);
    } else {
      keep(std::make_unique<PendingRecord>(record, std::move(arrivals)));
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

void Capture::fill_values(const ToldValues& told, core::OpRecord& record, Arrivals& arrivals) {
  const NamedValues& values = told.values;
  RecordList tensors(record.tensors);
  const auto each_written = [&](const auto& tell) {
    for (const at::Tensor& tensor : told.written) {
      for_each_storage(
          tensor, [&](const c10::Storage& storage) { tell(tensors_.storages().find(storage)); });
    }
  };
  each_written([](StorageEntry& entry) { entry.written_by(core::kNoProducer); });
  std::vector<at::Tensor> ahead;
  for (const auto& [path, value] : values) {
    if (value.isTensor()) ahead.push_back(value.toTensor());
  }
  tensors_.read_ahead(ahead);
  RecordingOrder order;
  order.beside = true;
  order.keep_bytes = told.keep_bytes;
  const auto add = [&](const at::Tensor& tensor, const std::string& slot) {
    const std::size_t index = tensors_.add(tensor, slot, order, tensors);
    if (!core::is_returned(record)) tensors_.note_number(tensor, index, tensors);
    return static_cast<std::uint32_t>(index);
  };
  const auto build = [&](const c10::IValue& value, const std::string& path, core::Value& into) {
    build_value(value, IntegerMeaning::kNumber, path, packed_, std::ref(add), into);
  };
  record.arguments.resize(values.size() + told.follows.size());
  auto argument = record.arguments.begin();
  for (const NamedValues* part : {&values, &told.follows}) {
    for (const auto& [path, value] : *part) {
      argument->name = path;
      build(value, path, (argument++)->value);
    }
  }
  // As an input it is what it was to every operator; what came out of the program is a value,
  // whoever wrote it.
  order.role = core::TensorRole::kOutput;
  order.hands_out = true;
  each_written(
      [&](StorageEntry& entry) { entry.set_writer(static_cast<std::int64_t>(record.index)); });
  record.results.resize(values.size());
  auto result = record.results.begin();
  for (const auto& [path, value] : values) build(value, path, *result++);
  tensors.finish();
  arrivals = std::move(tensors.arrivals);
  note_raced(record);
  note_unordered(&record);
}

}  // namespace repro_check::capture
