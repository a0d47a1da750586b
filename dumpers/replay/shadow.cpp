// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/shadow.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <exception>

#include "core/error.h"
#include "core/text/text.h"
#include "core/trace/program_records.h"
#include "core/trace/record_names.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::replay {
namespace {

bool has_numbers(const core::TensorRecord& tensor) {
  return core::is_floating(tensor.dtype) || core::is_complex(tensor.dtype) ||
         core::is_quantised(tensor.dtype);
}

/// Whether the operator drew random numbers, here or on the host.
bool draws(const core::OpRecord& record) {
  return record.generator.has_value() ||
         std::ranges::any_of(record.substitutions,
                             [](const auto& change) { return change.argument == "rng"; });
}

bool is_shared(const core::OpRecord& record, const core::TensorRecord& output) {
  return output.storage >= 0 &&
         std::ranges::any_of(record.tensors, [&](const core::TensorRecord& tensor) {
           return core::is_input(tensor) && tensor.storage == output.storage;
         });
}

/// Whether it only shows its arguments.
bool is_view(const core::OpRecord& record, const RecordedOperator& op) {
  if (op.plan().effect != capture::StorageEffect::kOrdinary || op.plan().lifts) return false;
  const std::vector<bool> written = op.written_tensors(record);
  bool shows = false;
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    const core::TensorRecord& tensor = record.tensors[i];
    if (written[i]) return false;
    if (!core::is_output(tensor) || tensor.state == core::ContentState::kUndefined) continue;
    if (!is_shared(record, tensor)) return false;
    if (tensor.producer == static_cast<std::int64_t>(record.index)) return false;
    shows = true;
  }
  return shows;
}

/// Adds the tensors of a result at the places where the record has them.
void place_results(const core::Value& recorded, const c10::IValue& value, CallTensors& tensors) {
  if (const auto* slot = std::get_if<core::TensorSlot>(&recorded.data)) {
    if (value.isTensor() && slot->index < tensors.size()) tensors[slot->index] = value.toTensor();
    return;
  }
  const auto* list = std::get_if<core::ValueList>(&recorded.data);
  if (list == nullptr) return;
  std::vector<c10::IValue> items;
  if (value.isTuple()) {
    for (const c10::IValue& item : value.toTupleRef().elements()) items.push_back(item);
  } else if (value.isList()) {
    for (const c10::IValue& item : value.toListRef()) items.push_back(item);
  }
  for (std::size_t i = 0; i < std::min(items.size(), list->items.size()); ++i) {
    place_results(list->items[i], items[i], tensors);
  }
}

const core::TensorRecord* output_of(const core::OpRecord& record, std::size_t result) {
  if (result >= record.results.size()) return nullptr;
  const auto* slot = std::get_if<core::TensorSlot>(&record.results[result].data);
  return slot == nullptr ? nullptr : &record.tensors.at(slot->index);
}

/// Dropout with the recorded mask, of kernels that draw it and apply it at once. Empty where the
/// call is no such one.
std::optional<CallTensors> with_recorded_mask(const core::OpRecord& record,
                                              const CallTensors& tensors) {
  const std::string_view base = core::base_name(record.op->name);
  const bool keeps = base == "_fused_dropout";
  if (!draws(record) || !(keeps || base == "native_dropout")) return std::nullopt;
  const core::Value* p = core::find_argument(record, "p");
  const auto* given = p == nullptr ? nullptr : std::get_if<double>(&p->data);
  if (given == nullptr || record.results.size() != 2 || record.tensors.empty()) return std::nullopt;
  const auto* made = std::get_if<core::TensorSlot>(&record.results[0].data);
  const auto* mask = std::get_if<core::TensorSlot>(&record.results[1].data);
  if (made == nullptr || mask == nullptr || !tensors[mask->index].defined()) return std::nullopt;
  CallTensors results(record.tensors.size());
  const double kept = keeps ? *given : 1 - *given;
  const at::Tensor factor = tensors[mask->index].to(at::kDouble).mul(kept == 0 ? 0 : 1 / kept);
  results[made->index] = tensors[0].mul(factor);
  return results;
}

bool has_recorded_mask(const core::OpRecord& record) {
  const std::string_view base = core::base_name(record.op->name);
  return draws(record) && (base == "native_dropout" || base == "_fused_dropout") &&
         output_of(record, 1) != nullptr;
}

/// Of a call that writes in place what it writes may not be lent.
void own_written(const core::OpRecord& record,
                 const std::vector<bool>& written,
                 ShadowMemory& memory) {
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    if (written[i] && is_widened(record.tensors[i])) memory.own(storage_of(record, i));
  }
}

/// Puts results where the record shows them, and notes what was written.
void take_results(const core::OpRecord& record,
                  const std::vector<bool>& written,
                  const CallTensors& inputs,
                  const CallTensors& results,
                  ShadowMemory& memory) {
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    if (written[i] && is_widened(record.tensors[i])) {
      memory.wrote(record.tensors[i], storage_of(record, i));
    }
  }
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    const core::TensorRecord& tensor = record.tensors[i];
    if (!core::is_output(tensor)) continue;
    const std::int64_t storage = storage_of(record, i);
    if (!is_widened(tensor)) {
      // The same memory shown as integers.
      if (tensor.producer == static_cast<std::int64_t>(record.index)) memory.forget(storage);
      continue;
    }
    if (results[i].defined()) {
      const bool shares = std::ranges::any_of(inputs, [&](const at::Tensor& input) {
        return input.defined() && input.is_alias_of(results[i]);
      });
      const bool in_place = shares && is_shared(record, tensor);
      if (!in_place) memory.put(tensor, storage, results[i]);
    }
  }
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    if (core::is_output(record.tensors[i]) && is_widened(record.tensors[i])) {
      memory.saw(record.tensors[i], storage_of(record, i));
    }
  }
}

}  // namespace

CallTensors arguments_in_float64(const core::DumpSource& dump,
                                 const core::OpRecord& record,
                                 const std::function<at::Tensor(std::size_t)>& view) {
  CallTensors tensors(record.tensors.size());
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    const core::TensorRecord& tensor = record.tensors[i];
    const bool mask = has_recorded_mask(record) && core::is_output(tensor) && !has_numbers(tensor);
    if (!(core::is_input(tensor) || mask)) continue;
    if (tensor.state == core::ContentState::kUndefined) continue;
    if (is_widened(tensor)) {
      tensors[i] = view(i);
      const bool complex = core::is_complex(tensor.dtype);
      if (complex && tensor.state == core::ContentState::kHashed) {
        tensors[i] = as_read(tensors[i], recorded_values(dump, tensor));
      }
    } else if (has_numbers(tensor) || tensor.layout != "strided") {
      cannot(fmt::format("{} is a {} tensor of {}",
                         core::printable(tensor.slot),
                         core::printable(tensor.layout),
                         core::dtype_name(tensor.dtype)),
             "");
    } else if (tensor.state == core::ContentState::kUninitialised) {
      tensors[i] = at::zeros(tensor.shape, at::TensorOptions().dtype(type_of(tensor)));
    } else {
      tensors[i] = recorded_values(dump, tensor);
    }
  }
  return tensors;
}

CallTensors call_in_float64(const core::OpRecord& record,
                            const RecordedOperator& op,
                            const CallTensors& tensors) {
  if (auto masked = with_recorded_mask(record, tensors)) return std::move(*masked);
  ArgumentSource source;
  source.options.float64 = true;
  source.options.device = c10::kCPU;
  source.tensor = [&](std::uint32_t index) { return tensors.at(index); };
  torch::jit::Stack stack = op.arguments(record, source);
  try {
    op.call(stack);
  } catch (const std::exception& error) {
    throw core::run_failed(capture::reason_of(error));
  }
  CallTensors results(record.tensors.size());
  for (std::size_t i = 0; i < std::min(stack.size(), record.results.size()); ++i) {
    place_results(record.results[i], stack[i], results);
  }
  return results;
}

void Shadow::cut(std::uint64_t op, const std::string& why) { cuts_.push_back({op, why}); }

bool Shadow::is_inside_executed(std::uint64_t op) const {
  for (std::int64_t around = tree_.parent(op); around >= 0;) {
    const auto index = static_cast<std::uint64_t>(around);
    if (executed_.contains(index)) return true;
    around = tree_.parent(index);
  }
  return false;
}

void Shadow::run(const Observer& observer) {
  const capture::CallModesPin modes(kFloat64Modes);
  const capture::UnheardWarnings unheard;
  const at::NoGradGuard no_grad;
  for (std::uint64_t op = 0; op < tree_.size(); ++op) {
    {
      const capture::EngineCalls below_autograd;
      step(op, observer);
      while (!open_.empty() && tree_.last_inside(open_.back().op) == op) {
        const Open open = std::move(open_.back());
        open_.pop_back();
        close(open, observer);
      }
      if (observer.behind) observer.behind(op, memory_);
      if (observer.end && op + 1 == tree_.size()) observer.end(memory_);
    }
    for (const std::int64_t storage : tree_.last_used_by(op)) memory_.forget(storage);
  }
}

void Shadow::step(std::uint64_t op, const Observer& observer) {
  if (is_inside_executed(op)) return;
  core::OpRecord record = dump_.op(op);
  record.index = op;
  if (!record.op) return cut(op, "the call was never finished");
  if (core::is_named_values(record)) {
    if (record.op->name == core::kWrittenRecord) keep_recorded(record, observer);
    return;
  }
  std::optional<RecordedOperator> known;
  try {
    known.emplace(plans_, record);
  } catch (const core::Error& error) {
    if (tree_.has_children(op)) return;
    keep_recorded(record, observer);
    return cut(op, error.what());
  }
  const bool is_outermost = !known->plan().composite && !draws(record) && !tree_.escapes(op);
  if (tree_.has_children(op) && !is_outermost) {
    open_.push_back({op, ""});
    return;
  }
  execute(record, *known, observer);
}

bool Shadow::reads_computed(const core::OpRecord& record) const {
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    const core::TensorRecord& tensor = record.tensors[i];
    if (core::is_input(tensor) && memory_.is_computed(storage_of(record, i)) &&
        core::reads_values(*record.op, tensor.slot)) {
      return true;
    }
  }
  return false;
}

void Shadow::keep_draw(const core::OpRecord& record, const Observer& observer) {
  ++counts_.draws;
  // Of a sampler in place the argument is only where the numbers go.
  const std::string_view base = core::base_name(record.op->name);
  const bool makes_numbers = std::ranges::any_of(
      record.tensors, [](const auto& each) { return core::is_output(each) && has_numbers(each); });
  if (makes_numbers && !base.ends_with('_') && base != "bernoulli" && reads_computed(record)) {
    cut(record.index, "it makes random numbers of computed values");
  }
  keep_recorded(record, observer);
}

void Shadow::close(const Open& open, const Observer& observer) {
  if (executed_.contains(open.op) || is_inside_executed(open.op)) return;
  core::OpRecord record = dump_.op(open.op);
  record.index = open.op;
  bool is_made = true;
  for (std::size_t i = 0; i < record.tensors.size() && is_made; ++i) {
    const core::TensorRecord& tensor = record.tensors[i];
    if (!core::is_output(tensor) || !is_widened(tensor)) continue;
    if (tensor.state != core::ContentState::kHashed) continue;
    const std::int64_t storage = storage_of(record, i);
    is_made = memory_.holds(tensor, storage) && !memory_.has_changed(tensor, storage);
  }
  if (is_made) return;
  std::erase_if(cuts_, [&](const ShadowCut& inner) { return inner.op > open.op; });
  if (draws(record)) return keep_draw(record, observer);
  if (execute_around(open.op, observer)) return;
  keep_recorded(record, observer);
  cut(open.op, open.why.empty() ? "the calls inside of it do not make its result" : open.why);
}

void Shadow::keep_recorded(const core::OpRecord& record, const Observer& observer) {
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    const core::TensorRecord& tensor = record.tensors[i];
    if (!core::is_output(tensor)) continue;
    if (is_widened(tensor)) {
      memory_.put_recorded(tensor, storage_of(record, i));
    } else {
      memory_.forget(storage_of(record, i));
    }
  }
  if (observer.lends && observer.lends(record.index)) lent_.push_back({record.index, false, {}});
  if (observer.after) observer.after(record, memory_, false);
}

void Shadow::forget_shown(const core::OpRecord& record) {
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    const core::TensorRecord& tensor = record.tensors[i];
    const bool wrote = tensor.producer == static_cast<std::int64_t>(record.index);
    if (core::is_output(tensor) && wrote) memory_.forget(storage_of(record, i));
  }
}

/// A view shows the memory that is there.
void Shadow::look_through(const core::OpRecord& record) {
  if (tree_.has_children(record.index)) executed_.insert(record.index);
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    const core::TensorRecord& tensor = record.tensors[i];
    if (!is_widened(tensor)) continue;
    if (core::is_input(tensor)) took(record, tensor, memory_.follow(tensor, storage_of(record, i)));
    memory_.saw(tensor, storage_of(record, i));
  }
}

void Shadow::execute(const core::OpRecord& record,
                     const RecordedOperator& op,
                     const Observer& observer) {
  const capture::StorageEffect effect = op.plan().effect;
  if (effect == capture::StorageEffect::kFresh) {
    if (tree_.has_children(record.index)) executed_.insert(record.index);
    return;
  }
  if (effect != capture::StorageEffect::kOrdinary || op.plan().is_marker) return;
  if (op.plan().lifts) return keep_recorded(record, {});
  if (is_view(record, op)) return look_through(record);
  bool has_floats = false;
  bool has_outputs = false;
  for (const core::TensorRecord& tensor : record.tensors) {
    has_floats = has_floats || has_numbers(tensor);
    has_outputs = has_outputs || core::is_output(tensor);
  }
  if (!has_floats) return forget_shown(record);
  if (!has_outputs) {
    if (!record.results.empty() && reads_computed(record)) ++counts_.numbers_read;
    return;
  }
  if (draws(record) && !has_recorded_mask(record)) return keep_draw(record, observer);
  std::string why;
  if (try_execute(record, op, observer, why) == Tried::kDone) {
    if (tree_.has_children(record.index)) executed_.insert(record.index);
    return;
  }
  if (tree_.has_children(record.index)) {
    open_.push_back({record.index, why});
    return;
  }
  if (execute_around(record.index, observer)) return;
  keep_recorded(record, observer);
  cut(record.index, why);
}

bool Shadow::execute_around(std::uint64_t op, const Observer& observer) {
  for (std::int64_t around = tree_.parent(op); around >= 0;) {
    const auto outer = static_cast<std::uint64_t>(around);
    const bool changed = std::ranges::any_of(written_, [&](const auto& write) {
      return write.first > outer && tree_.first_use(write.second) < outer;
    });
    if (changed) return false;
    core::OpRecord instead = dump_.op(outer);
    instead.index = outer;
    std::string ignored;
    try {
      const RecordedOperator known(plans_, instead);
      if (!draws(instead) && try_execute(instead, known, observer, ignored) == Tried::kDone) {
        executed_.insert(outer);
        return true;
      }
    } catch (const core::Error&) {  // it cannot stand in either
    }
    around = tree_.parent(outer);
  }
  return false;
}

void Shadow::fill_inputs(const core::OpRecord& record) {
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    const core::TensorRecord& tensor = record.tensors[i];
    if (!core::is_input(tensor) || !is_widened(tensor)) continue;
    if (!core::reads_values(*record.op, tensor.slot)) continue;
    took(record, tensor, memory_.fill(tensor, storage_of(record, i)));
  }
}

/// The inputs that were computed.
void Shadow::lend(const core::OpRecord& record) {
  Lent lent{record.index, true, {}};
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    const core::TensorRecord& tensor = record.tensors[i];
    if (!core::is_input(tensor) || !is_widened(tensor)) continue;
    const std::int64_t storage = storage_of(record, i);
    if (!memory_.is_computed(storage)) continue;
    static_cast<void>(memory_.view(tensor, storage));
    lent.memory[storage] = memory_.lend(storage);
  }
  lent_.push_back(std::move(lent));
}

Shadow::Tried Shadow::try_execute(const core::OpRecord& record,
                                  const RecordedOperator& op,
                                  const Observer& observer,
                                  std::string& why) {
  why.clear();
  const std::vector<bool> written = op.written_tensors(record);
  try {
    fill_inputs(record);
    if (observer.before) observer.before(record, memory_);
    if (observer.lends && observer.lends(record.index)) lend(record);
    own_written(record, written, memory_);
    const CallTensors inputs = arguments_in_float64(dump_, record, [&](std::size_t i) {
      return memory_.view(record.tensors[i], storage_of(record, i));
    });
    const CallTensors results = call_in_float64(record, op, inputs);
    count_decisions(record, results);
    take_results(record, written, inputs, results, memory_);
  } catch (const core::Error& error) {
    const bool expected = error.kind() == core::ErrorKind::kRunFailed ||
                          error.kind() == core::ErrorKind::kNotComparable;
    if (!expected) throw;
    why = error.what();
  } catch (const c10::Error& error) {  // results of another shape, or in memory that overlaps
    why = capture::reason_of(error);
  }
  if (!why.empty()) {
    if (!lent_.empty() && lent_.back().op == record.index) lent_.pop_back();
    return Tried::kRefused;
  }
  ++counts_.executed;
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    if (written[i]) written_.emplace_back(record.index, storage_of(record, i));
  }
  if (tree_.parent(record.index) < 0) written_.clear();
  if (observer.after) observer.after(record, memory_, true);
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    if (storage_of(record, i) < 0) memory_.forget(storage_of(record, i));
  }
  return Tried::kDone;
}

void Shadow::took(const core::OpRecord& record,
                  const core::TensorRecord& tensor,
                  ShadowMemory::Filled filled) {
  if (filled == ShadowMemory::Filled::kOutside) ++counts_.outside;
  if (filled != ShadowMemory::Filled::kCut) return;
  cut(record.index,
      fmt::format("{} was written outside of the recorded operators",
                  core::printable(tensor.slot)));
}

void Shadow::count_decisions(const core::OpRecord& record, const CallTensors& results) {
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    const core::TensorRecord& tensor = record.tensors[i];
    if (!core::is_output(tensor) || has_numbers(tensor) || !results[i].defined()) continue;
    const bool there =
        tensor.state == core::ContentState::kHashed && dump_.has_content(tensor.content_key());
    if (!there || results[i].sizes() != at::IntArrayRef(tensor.shape)) continue;
    const at::Tensor recorded = recorded_values(dump_, tensor);
    counts_.decisions +=
        static_cast<std::uint64_t>(results[i].ne(recorded).sum().item<std::int64_t>());
  }
}

}  // namespace repro_check::replay
