// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/replay/replayed_call.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "core/error.h"
#include "core/trace/replay_inputs.h"
#include "dumpers/capture/engine/value_builder.h"
#include "dumpers/capture/generators/generator_restore.h"
#include "dumpers/capture/generators/generator_watch.h"

namespace repro_check::capture {
namespace {

constexpr const char* kOwnRecorder = "use the recorder that made the dump: --recorder";

void for_each_tensor(const core::Value& value, const auto& each) {
  if (const auto* slot = std::get_if<core::TensorSlot>(&value.data)) each(slot->index);
  if (const auto* list = std::get_if<core::ValueList>(&value.data)) {
    for (const core::Value& item : list->items) for_each_tensor(item, each);
  }
}

/// The generator that operators draw from unless they are handed one.
at::Generator default_of(const at::Generator& generator) {
  return *default_generator(generator.device());
}

class Collector final : public TensorVisitor {
 public:
  explicit Collector(std::vector<std::pair<std::string, at::Tensor>>& into) : into_(into) {}

  std::uint32_t visit(const at::Tensor& tensor, const std::string& slot) override {
    into_.emplace_back(slot, tensor);
    return static_cast<std::uint32_t>(into_.size() - 1);
  }

 private:
  std::vector<std::pair<std::string, at::Tensor>>& into_;
};

[[noreturn]] void rethrow_as_failure(const core::OpRecord& record, const std::exception& error) {
  std::string text = error.what();
  if (const auto* torch = dynamic_cast<const c10::Error*>(&error)) {
    text = torch->what_without_backtrace();
  }
  throw core::Error(
      core::ErrorKind::kRunFailed,
      fmt::format(
          "op {} {}: {}", record.index, record.op->full_name(), text.substr(0, text.find('\n'))),
      "");
}

}  // namespace

ReplayedCall::ReplayedCall(const core::DumpSource& dump,
                           std::uint64_t op,
                           const RebuildOptions& options)
    : options_(options) {
  record_ = core::require_replayable(dump, op);
  find_operator();
  for (const core::Substitution& change : record_.substitutions) {
    if (change.argument != "rng") continue;
    throw_not_replayable(
        fmt::format("op {} was not executed: its numbers were drawn on the host (rng: host)", op),
        "record with \"rng\": \"device\" to replay it");
  }
  tensors_.emplace(dump, record_, written_tensors(), options_);
  if (!record_.generator) return;
  if (options_.device && options_.device->str() != c10::Device(record_.generator->device).str()) {
    throw_not_replayable(fmt::format("op {} drew random numbers on {}: {} draws others",
                                     op,
                                     record_.generator->device,
                                     options_.device->str()),
                         "replay it where it was recorded");
  }
  generator_ = restore_generator(dump, record_);
  start_ = generator_.get_state();
}

std::vector<std::string> ReplayedCall::notes() const {
  std::vector<std::string> notes;
  for (const core::TensorRecord& tensor : record_.tensors) {
    if (tensor.role != core::TensorRole::kInput) continue;
    if (tensor.state != core::ContentState::kUninitialised) continue;
    notes.push_back(fmt::format(
        "argument {} was memory nobody had written: here it is filled with NaN, integers with 0",
        tensor.slot));
  }
  return notes;
}

void ReplayedCall::find_operator() {
  // Not std::optional in every release.
  const auto found =
      c10::Dispatcher::singleton().findSchema({record_.op->name, record_.op->overload});
  if (!found.has_value()) {
    throw_not_replayable(fmt::format("this recorder has no operator {}", record_.op->full_name()),
                         kOwnRecorder);
  }
  op_ = *found;
  plan_ = &plans_.find(*op_);
  for (const core::Argument& argument : record_.arguments) {
    if (plan_->find(argument.name) >= 0) continue;
    throw_not_replayable(
        fmt::format(
            "{} takes no argument `{}` in this LibTorch", record_.op->full_name(), argument.name),
        kOwnRecorder);
  }
}

const core::Value* ReplayedCall::recorded(const std::string& name) const {
  const auto found = std::ranges::find(record_.arguments, name, &core::Argument::name);
  return found == record_.arguments.end() ? nullptr : &found->value;
}

std::vector<bool> ReplayedCall::written_tensors() const {
  std::vector<bool> written(record_.tensors.size(), false);
  for (std::size_t i = 0; i < plan_->arguments.size(); ++i) {
    const bool statistic = std::ranges::find(plan_->running_stats, i) != plan_->running_stats.end();
    const core::Value* value = recorded(plan_->arguments[i].name);
    if (value == nullptr || !(plan_->arguments[i].written || statistic)) continue;
    for_each_tensor(*value, [&](std::uint32_t index) {
      const std::string part = record_.tensors.at(index).slot + '.';
      do {
        written[index] = true;
      } while (++index < written.size() && record_.tensors[index].slot.starts_with(part));
    });
  }
  return written;
}

torch::jit::Stack ReplayedCall::arguments() const {
  const at::Generator drawn_from = generator_.defined() ? default_of(generator_) : at::Generator();
  torch::jit::Stack stack;
  const auto& schema = op_->schema().arguments();
  for (std::size_t i = 0; i < schema.size(); ++i) {
    const core::Value* value = recorded(schema[i].name());
    if (value != nullptr) {
      stack.push_back(rebuild_value(*value,
                                    schema[i].type(),
                                    plan_->arguments[i].meaning,
                                    *tensors_,
                                    drawn_from.defined() ? &drawn_from : nullptr,
                                    options_));
    } else if (schema[i].default_value()) {
      stack.push_back(*schema[i].default_value());
    } else {
      throw_not_replayable(
          fmt::format("{} needs an argument `{}` in this LibTorch, and the record has none",
                      record_.op->full_name(),
                      schema[i].name()),
          kOwnRecorder);
    }
  }
  return stack;
}

CallResults ReplayedCall::run() {
  tensors_->restart();
  torch::jit::Stack stack = arguments();
  const torch::jit::Stack given = stack;
  at::Tensor found;
  if (generator_.defined()) {
    at::Generator generator = default_of(generator_);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    found = generator.get_state();
    generator.set_state(start_);
  }
  try {
    op_->callBoxed(&stack);
  } catch (const std::exception& error) {
    rethrow_as_failure(record_, error);
  }
  if (generator_.defined()) {
    at::Generator generator = default_of(generator_);
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.set_state(found);
  }
  return results_of(stack, given);
}

CallResults ReplayedCall::results_of(const torch::jit::Stack& stack,
                                     const torch::jit::Stack& given) const {
  CallResults results;
  Collector collector(results.tensors);
  results.values.resize(plan_->results.size());
  for (std::size_t i = 0; i < plan_->results.size(); ++i) {
    build_value(stack[stack.size() - plan_->results.size() + i],
                IntegerMeaning::kNumber,
                plan_->results[i].slot,
                collector,
                results.values[i]);
  }
  if (plan_->effect == StorageEffect::kMetadata) return results;
  std::vector<const c10::TensorImpl*> returned;
  for (const auto& [slot, tensor] : results.tensors) {
    returned.push_back(tensor.unsafeGetTensorImpl());
  }
  // As the recorder has it: statistics count as written only in training.
  for (std::size_t i = 0; i < plan_->arguments.size(); ++i) {
    const bool statistic =
        std::ranges::find(plan_->running_stats, i) != plan_->running_stats.end() &&
        (plan_->training_flags.empty() ||
         std::ranges::any_of(plan_->training_flags, [&](std::size_t flag) {
           return given[flag].isBool() && given[flag].toBool();
         }));
    if (!plan_->arguments[i].written && !statistic) continue;
    std::vector<std::pair<std::string, at::Tensor>> written;
    Collector of_argument(written);
    core::Value unused;
    build_value(
        given[i], plan_->arguments[i].meaning, plan_->arguments[i].name, of_argument, unused);
    for (auto& [slot, tensor] : written) {
      if (!tensor.defined()) continue;
      if (std::ranges::find(returned, tensor.unsafeGetTensorImpl()) != returned.end()) continue;
      results.tensors.emplace_back(std::move(slot), std::move(tensor));
    }
  }
  return results;
}

}  // namespace repro_check::capture
