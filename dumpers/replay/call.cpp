// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/call.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "core/error.h"
#include "core/trace/replay_inputs.h"
#include "dumpers/capture/generators/generator_watch.h"
#include "dumpers/replay/generator_restore.h"

namespace repro_check::replay {
namespace {

void for_each_tensor(const core::Value& value, const auto& each) {
  if (const auto* slot = std::get_if<core::TensorSlot>(&value.data)) each(slot->index);
  if (const auto* list = std::get_if<core::ValueList>(&value.data)) {
    for (const core::Value& item : list->items) for_each_tensor(item, each);
  }
}

/// Moves a generator for as long as it lives.
class MovedGenerator {
 public:
  /// @param generator  may be undefined
  MovedGenerator(at::Generator generator, const at::Tensor& state)
      : generator_(std::move(generator)) {
    if (!generator_.defined()) return;
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    found_ = generator_.get_state();
    generator_.set_state(state);
  }
  MovedGenerator(const MovedGenerator&) = delete;
  MovedGenerator& operator=(const MovedGenerator&) = delete;
  MovedGenerator(MovedGenerator&&) = delete;
  MovedGenerator& operator=(MovedGenerator&&) = delete;
  ~MovedGenerator() {
    if (!generator_.defined()) return;
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_state(found_);
  }

 private:
  at::Generator generator_;
  at::Tensor found_;
};

capture::CaptureOptions whole_call() {
  capture::CaptureOptions options;
  options.level = core::DumpLevel::kTensor;
  options.depth = core::DumpDepth::kTop;
  return options;
}

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

bool CallSink::has_content(const core::ContentKey& key) const {
  return contents_.contains(key) || dump_.has_content(key);
}

bool CallSink::put_content(const core::ContentKey& key, const core::ContentBytes& bytes) {
  std::vector<std::byte> content(bytes.size());
  bytes.read(0, content);
  contents_.insert_or_assign(core::key_of_read(key, bytes), std::move(content));
  return true;
}

void CallSink::clear() {
  record_ = {};
  contents_.clear();
}

void CallSink::read(const core::ContentKey& key, std::vector<std::byte>& into) const {
  const auto found = contents_.find(key);
  if (found == contents_.end()) return dump_.read_content(key, into);
  into = found->second;
}

Call::Call(const core::DumpSource& dump, std::uint64_t op, const RebuildOptions& options)
    : record_(core::require_replayable(dump, op)),
      sink_(dump),
      capture_(whole_call(), sink_, nullptr) {
  find_operator();
  for (const core::Substitution& change : record_.substitutions) {
    if (change.argument != "rng") continue;
    cannot(
        fmt::format("op {} was not executed: its numbers were drawn on the host (rng: host)", op),
        "record with \"rng\": \"device\" to replay it");
  }
  arguments_.emplace(dump, record_, written_tensors(), options);
  if (!record_.generator) return;
  if (options.device && options.device->str() != c10::Device(record_.generator->device).str()) {
    cannot(fmt::format("op {} drew random numbers on {}: {} draws others",
                       op,
                       record_.generator->device,
                       options.device->str()),
           "replay it where it was recorded");
  }
  const at::Generator restored = restore_generator(dump, record_);
  start_ = restored.get_state();
  generator_ = *capture::default_generator(restored.device());
}

std::vector<std::string> Call::notes() const {
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

void Call::find_operator() {
  // Not std::optional in every release.
  const auto found =
      c10::Dispatcher::singleton().findSchema({record_.op->name, record_.op->overload});
  if (!found.has_value()) {
    cannot(fmt::format("this recorder has no operator {}", record_.op->full_name()), kOwnRecorder);
  }
  op_ = *found;
  plan_ = &plans_.find(*op_);
  for (const core::Argument& argument : record_.arguments) {
    if (plan_->find(argument.name) >= 0) continue;
    cannot(
        fmt::format(
            "{} takes no argument `{}` in this LibTorch", record_.op->full_name(), argument.name),
        kOwnRecorder);
  }
}

const core::Value* Call::recorded(const std::string& name) const {
  const auto found = std::ranges::find(record_.arguments, name, &core::Argument::name);
  return found == record_.arguments.end() ? nullptr : &found->value;
}

std::vector<bool> Call::written_tensors() const {
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

torch::jit::Stack Call::arguments() const {
  torch::jit::Stack stack;
  const auto& schema = op_->schema().arguments();
  for (std::size_t i = 0; i < schema.size(); ++i) {
    if (const core::Value* value = recorded(schema[i].name())) {
      stack.push_back(
          arguments_->value(*value, schema[i].type(), plan_->arguments[i].meaning, generator_));
    } else if (schema[i].default_value()) {
      stack.push_back(*schema[i].default_value());
    } else {
      cannot(fmt::format("{} needs an argument `{}` in this LibTorch, and the record has none",
                         record_.op->full_name(),
                         schema[i].name()),
             kOwnRecorder);
    }
  }
  return stack;
}

const CallSink& Call::run() {
  arguments_->restart();
  sink_.clear();
  torch::jit::Stack stack = arguments();
  {
    const MovedGenerator moved(generator_, start_);
    const capture::Capture::Scope scope(capture_);
    try {
      op_->callBoxed(&stack);
    } catch (const std::exception& error) {
      rethrow_as_failure(record_, error);
    }
  }
  capture_.rethrow_failure();
  return sink_;
}

}  // namespace repro_check::replay
