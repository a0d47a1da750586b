// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/torchscript_run.h"

#include <torch/script.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <sstream>
#include <stop_token>
#include <thread>
#include <utility>

#include "configs/parser/config_parser.h"
#include "core/digest/digest.h"
#include "core/text/text.h"
#include "dumpers/capture/engine/capture.h"
#include "dumpers/capture/engine/values.h"
#include "dumpers/capture/settings/determinism.h"
#include "dumpers/capture/settings/environment.h"
#include "dumpers/model_file/model_file.h"
#include "dumpers/torchscript/failures.h"
#include "dumpers/torchscript/inputs.h"
#include "dumpers/torchscript/method_runner.h"
#include "dumpers/torchscript/model.h"

namespace repro_check::torchscript {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kFreeMemory = "free some, or take a smaller model";

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What the variables ask for is checked against LibTorch as it came up, before any of it is
/// pinned.
capture::PinRequest checked_request(const configs::RunSpec& run) {
  capture::check_variables();
  return {run.determinism, run.grad, run.threads, run.interop_threads, run.settings};
}

std::string inputs_pointer(const configs::RunSpec& run, std::size_t call) {
  return run.calls.size() == 1 ? "/inputs" : "/calls/" + std::to_string(call) + "/inputs";
}

std::string name_in_call(const std::string& name, std::size_t call) {
  return call == 0 ? name : name + "@" + std::to_string(call + 1);
}

using Variables = std::map<std::string, std::optional<std::string>>;

/// Where weights come from that are not those of the model's file.
std::vector<core::EnvironmentFact> facts_of_weights(const configs::ModelSpec& model) {
  if (!model.weights_from) return {};
  std::string names;
  for (const std::string& name : model.weights) names += (names.empty() ? "" : ", ") + name;
  return {{"model.weights_path", model.weights_from->string()},
          {"model.weights_digest", core::to_hex(core::digest_file(*model.weights_from))},
          {"model.weights", names.empty() ? "all" : names}};
}

/// The mode that was asked for, and the one that the modules say they are in.
std::vector<core::EnvironmentFact> facts_of_mode(const configs::ModelSpec& spec,
                                                 const LoadedModel& model) {
  return {{std::string(core::kModelMode), std::string(configs::name_of(spec.mode))},
          {std::string(core::kModelTraining), training_flags(model.module)}};
}

std::string form_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << describe_tensor(tensor);
  if (tensor.layout() == at::kStrided) text << ", strides " << tensor.strides();
  return text.str();
}

/// The elements in row-major order, as a dense tensor of the host.
at::Tensor on_host(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.is_quantized() ? tensor.int_repr() : tensor;
  const at::Tensor dense = plain.layout() == at::kStrided ? plain : plain.to_dense();
  return dense.resolve_conj().resolve_neg().to(at::kCPU).contiguous();
}

ReturnedValue of_tensor(const at::Tensor& tensor, const std::string& name) {
  if (!tensor.defined()) return {name, "undefined tensor", {}};
  if (tensor.is_meta()) return {name, form_of(tensor) + " meta", {}};
  const at::Tensor host = on_host(tensor.detach());
  const auto* bytes = static_cast<const std::byte*>(host.data_ptr());
  return {name, form_of(tensor), core::digest_bytes({bytes, host.nbytes()})};
}

ReturnedValue of_scalar(const c10::IValue& value, const std::string& name) {
  std::ostringstream text;
  if (value.isDouble()) {
    text << std::hexfloat << value.toDouble();  // shows every bit
  } else {
    text << value;
  }
  return {name, value.tagKind(), core::digest_bytes(text.str())};
}

/// Adds every tensor and every other value inside `value`, in a fixed order.
/// @param call  0-based
void add_returned_values(const c10::IValue& value,
                         std::size_t call,
                         std::vector<ReturnedValue>& into) {
  const at::NoGradGuard unseen;
  capture::for_each_returned(value, [&](const std::string& path, const c10::IValue& leaf) {
    const std::string name = name_in_call(path, call);
    into.push_back(leaf.isTensor() ? of_tensor(leaf.toTensor(), name) : of_scalar(leaf, name));
  });
}

/// Calls a function about ten times a second from a thread of its own, until it is stopped.
/// @param report  must not throw; where it is empty there is no thread
std::jthread report_regularly(std::function<void()> report) {
  if (!report) return {};
  return std::jthread([report = std::move(report)](const std::stop_token& stop) {
    constexpr std::chrono::milliseconds kInterval(100);
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    while (!wake.wait_for(lock, stop, kInterval, [&] { return stop.stop_requested(); })) report();
  });
}

class PreparedRun final : public TorchScriptRun {
 public:
  PreparedRun(const configs::RunSpec& run, const Hdf5Reader& hdf5)
      : run_(run),
        pin_(checked_request(run)),
        executor_(run.optimize_executor),
        device_(parse_device(run.device)),
        facts_(load_extensions(run.extensions)),
        model_(load_model(run, device_)),
        model_digest_(core::digest_file(run.model.path)),
        method_(find_method(model_.module, run.model.method, run.model.path)) {
    if (model_.is_exported && run.optimize_executor) {
      throw usage_error(
          "/optimize_executor: an exported program never goes through the executor of "
          "TorchScript",
          "leave the key out");
    }
    for (const auto& facts : {facts_of_weights(run.model), facts_of_mode(run.model, model_)}) {
      facts_.insert(facts_.end(), facts.begin(), facts.end());
    }
    build_calls(hdf5);
    // Last, since it is not cheap: a mistake in the inputs is told before.
    runner_ = std::make_unique<MethodRunner>(
        model_.module, method_, run_.optimize_executor, model_.is_exported);
    load_seconds_ = seconds_since(start_);
  }

  core::RunManifest record(
      core::DumpSink& sink,
      const std::function<void(const capture::CaptureCounts&)>& progress) override {
    return translated("recording", kFreeMemory, [&] { return record_calls(sink, progress); });
  }

  void run_bare() override {
    translated("running the model", kFreeMemory, [&] {
      std::vector<core::Setting> generators;
      capture::seed_generators(run_.seed.value_or(0), generators);
      for (std::size_t call = 0; call < calls_.size(); ++call) {
        keep(run_model(std::move(calls_[call])), call);
      }
    });
  }

 private:
  core::RunManifest record_calls(
      core::DumpSink& sink, const std::function<void(const capture::CaptureCounts&)>& progress) {
    capture::Capture capture(
        {run_.dump, run_.disable_dropout, run_.rng, /*unseen_writes=*/false}, sink, runner_.get());
    core::RunManifest manifest = describe_run();
    name_tensors(capture, manifest);
    // Loading draws nothing, but what comes before the first operator must not decide what it
    // draws.
    std::vector<core::Setting> generators;
    capture::seed_generators(run_.seed.value_or(0), generators);
    describe_surroundings(std::move(generators), manifest);
    summarise(capture.counts(), manifest.trace);
    sink.begin(manifest);

    const Clock::time_point begin = Clock::now();
    run_calls(capture, progress);
    manifest.seconds = seconds_since(begin);

    manifest.environment = environment();
    // Last, so that nothing it warms up is there before the model runs.
    for (auto& fact : capture::probe_numbers(run_.device)) {
      manifest.environment.push_back(std::move(fact));
    }
    manifest.warnings = model_.warnings;
    for (const auto& list : {runner_->warnings(run_), collector_.warnings()}) {
      manifest.warnings.insert(manifest.warnings.end(), list.begin(), list.end());
    }
    summarise(capture.counts(), manifest.trace);
    return manifest;
  }

  /// After the call, when nothing is recorded any more.
  void keep(const c10::IValue& result, std::size_t call) {
    if (keep_returned) add_returned_values(result, call, returned);
  }

  void build_calls(const Hdf5Reader& hdf5) {
    InputContext context;
    context.hdf5 = &hdf5;
    context.device = device_;
    if (run_.dtype) context.dtype = to_scalar_type(*run_.dtype);
    const c10::FunctionSchema& schema = method_.function().getSchema();
    for (std::size_t call = 0; call < run_.calls.size(); ++call) {
      try {
        calls_.push_back(build_inputs(schema,
                                      model_.module._ivalue(),
                                      run_.calls[call],
                                      inputs_pointer(run_, call),
                                      context));
      } catch (const core::Error&) {
        throw;
      } catch (const std::exception& error) {
        throw input_failure(error, call);
      }
    }
  }

  [[nodiscard]] core::Error input_failure(const std::exception& error, std::size_t call) const {
    const std::string where = inputs_pointer(run_, call) + ": the inputs cannot be made on " +
                              run_.device + ": " + first_useful_line(error);
    return {core::ErrorKind::kRunFailed,
            where,
            is_out_of_memory(error) ? "memory ran out: make the inputs smaller"
                                    : "check that dtype and device fit together"};
  }

  [[nodiscard]] core::RunManifest describe_run() const {
    core::RunManifest manifest;
    manifest.tool_version = REPRO_CHECK_VERSION;
    manifest.run_name = run_.name;
    manifest.created = core::utc_now();
    manifest.configuration = configs::to_json_text(run_);
    manifest.model_path = run_.model.path.string();
    manifest.model_method = run_.model.method;
    manifest.model_digest = model_digest_;
    manifest.seed = run_.seed.value_or(0);
    manifest.device = run_.device;
    manifest.determinism = core::name_of(run_.determinism);
    manifest.disable_dropout = run_.disable_dropout;
    manifest.rng = core::name_of(run_.rng);
    manifest.grad = core::name_of(run_.grad);
    manifest.load_seconds = load_seconds_;
    return manifest;
  }

  void describe_surroundings(std::vector<core::Setting> generators,
                             core::RunManifest& manifest) const {
    manifest.settings = pin_.settings();
    for (auto& setting : executor_.settings()) manifest.settings.push_back(std::move(setting));
    for (auto& setting : generators) manifest.settings.push_back(std::move(setting));
    capture::put_found(found, manifest.settings);
    manifest.environment = environment();
  }

  [[nodiscard]] std::vector<core::EnvironmentFact> environment() const {
    std::vector<core::EnvironmentFact> facts = capture::read_environment();
    facts.insert(facts.end(), facts_.begin(), facts_.end());
    return facts;
  }

  void name_tensors(capture::Capture& capture, core::RunManifest& manifest) {
    using Kind = core::NamedTensorKind;
    const c10::FunctionSchema& schema = method_.function().getSchema();
    for (std::size_t call = 0; call < calls_.size(); ++call) {
      for (const auto& [name, tensor] : named_input_tensors(schema, calls_[call])) {
        const std::string full = name_in_call(name, call);
        name_one(capture, tensor, Kind::kInput, "input:", full, manifest);
      }
    }
    for (const auto& parameter : model_.module.named_parameters()) {
      name_one(capture, parameter.value, Kind::kParameter, "state:", parameter.name, manifest);
    }
    for (const auto& buffer : model_.module.named_buffers()) {
      name_one(capture, buffer.value, Kind::kBuffer, "state:", buffer.name, manifest);
    }
    for (const auto& attribute : model_.module.named_attributes()) {
      if (!attribute.value.isObject() || attribute.value.isModule()) continue;
      for (const auto& [name, tensor] : capture.unpack(attribute.value, attribute.name)) {
        name_one(capture, tensor, Kind::kParameter, "state:", name, manifest);
      }
    }
  }

  static void name_one(capture::Capture& capture,
                       const at::Tensor& tensor,
                       core::NamedTensorKind kind,
                       const std::string& prefix,
                       const std::string& name,
                       core::RunManifest& manifest) {
    if (!tensor.defined()) return;
    capture.name_tensor(tensor, prefix + name);
    for (const core::TensorRecord& record : capture.describe(tensor, name)) {
      if (record.state != core::ContentState::kHashed) continue;
      manifest.named_tensors.push_back(
          {kind, record.slot, record.dtype, record.shape, record.digest});
    }
  }

  void run_calls(capture::Capture& capture,
                 const std::function<void(const capture::CaptureCounts&)>& progress) {
    std::function<void()> report;
    if (progress) report = [&] { progress(capture.counts()); };
    const std::jthread thread = report_regularly(std::move(report));
    for (std::size_t call = 0; call < calls_.size(); ++call) {
      capture.set_step(static_cast<std::uint32_t>(call));
      const c10::IValue result = run_call(capture, std::move(calls_[call]));
      capture.record_returned(result);
      keep(result, call);
    }
    capture.rethrow_failure();
    expect_included(capture);
  }

  /// What was asked for by a name that nothing has would be missing from every comparison.
  static void expect_included(const capture::Capture& capture) {
    const std::vector<std::string> unmatched = capture.unmatched_include();
    if (unmatched.empty()) return;
    throw usage_error(
        "/dump/include: \"" + unmatched.front() +
            "\" matches no operator and no module of the model",
        "`repro-check inspect DUMP --list` lists them; patterns match whole names, with "
        "* for any part");
  }

  /// Until the forks whose futures the model returns have ended too: they are part of the call.
  c10::IValue run_model(std::vector<c10::IValue> inputs) {
    c10::IValue result = runner_->run(std::move(inputs));
    capture::for_each_returned(result, [](const std::string&, const c10::IValue&) {});
    return result;
  }

  c10::IValue run_call(capture::Capture& capture, std::vector<c10::IValue> inputs) {
    try {
      const capture::Capture::Scope scope(capture);
      return run_model(std::move(inputs));
    } catch (const std::exception& error) {
      // What failed in the recording came through the interpreter and lost its type on the way.
      capture.rethrow_failure();
      throw run_failure(error, capture, *runner_, run_.dtype);
    }
  }

  void summarise(const capture::CaptureCounts& counts, core::TraceSummary& trace) const {
    trace.operators = counts.operators;
    trace.returned = counts.returned;
    trace.tensors = counts.tensors;
    trace.substitutions = counts.substitutions;
    trace.drawing_operators = counts.drawing_operators;
    trace.level = core::name_of(run_.dump.level);
    trace.depth = core::name_of(run_.dump.depth);
    trace.include = run_.dump.include;
    trace.exclude = run_.dump.exclude;
    if (run_.dump.level == core::DumpLevel::kTensor) trace.keep_ops = run_.dump.keep_ops;
    trace.digest_algorithm = core::kDigestAlgorithm;
  }

  const Clock::time_point start_ = Clock::now();
  configs::RunSpec run_;
  capture::WarningCollector collector_;
  capture::DeterminismPin pin_;
  ExecutorPin executor_;
  at::Device device_;
  std::vector<core::EnvironmentFact> facts_;  ///< of the model and of what was loaded for it
  LoadedModel model_;
  core::Digest model_digest_;
  torch::jit::Method method_;
  std::vector<std::vector<c10::IValue>> calls_;
  std::unique_ptr<MethodRunner> runner_;
  double load_seconds_ = 0;
};

}  // namespace

std::unique_ptr<TorchScriptRun> prepare_run(const configs::RunSpec& run, const Hdf5Reader& hdf5) {
  try {
    return translated(
        "preparing the run", kFreeMemory, [&] { return std::make_unique<PreparedRun>(run, hdf5); });
  } catch (const core::Error& error) {
    if (error.kind() == core::ErrorKind::kRunFailed) model_file::require_undamaged(run.model.path);
    throw;
  }
}

}  // namespace repro_check::torchscript
