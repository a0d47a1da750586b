// SPDX-License-Identifier: Apache-2.0
// repro-check-training-dump DIRECTORY OPERATORS: makes the dump of a training that never ran, of
// about so many operators: transformer layers forward and backward, a batch, a loss and a step of
// an optimizer each 1,000 operators.
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/digest/digest.h"
#include "core/trace/op_record.h"
#include "core/trace/program_records.h"
#include "core/trace/record_names.h"
#include "dumpers/store/dump_writer.h"

namespace {

namespace core = repro_check::core;
namespace store = repro_check::store;

constexpr std::uint32_t kLayers = 50;
constexpr std::uint32_t kWidth = 64;

class Training {
 public:
  explicit Training(const std::filesystem::path& dump)
      : writer_(dump, {.browse = store::DumpWriterOptions::Browse::kNever}) {}

  void write(std::uint64_t operators) {
    for (; count_ < operators; ++step_) {
      batch();
      forward();
      number(core::kLossRecord, core::Phase::kLoss);
      backward();
      stepped();
    }
    core::RunManifest manifest;
    manifest.model_method = core::kProgramMethod;
    manifest.trace.operators = count_;
    manifest.trace.tensors = tensors_;
    manifest.trace.level = "digest";
    manifest.trace.digest_algorithm = core::kDigestAlgorithm;
    writer_.finish(manifest);
  }

 private:
  void begin(std::string_view name, core::Phase phase, std::uint32_t layer) {
    record_ = {};
    record_.index = count_;
    record_.op = operator_of(name);
    record_.site = site_of(layer);
    record_.phase = phase;
    record_.step = step_;
  }

  /// @param moment  which content the storage has: 0 for the same in each step
  void add(std::string slot,
           core::TensorRole role,
           std::int64_t storage,
           std::uint64_t moment,
           std::int64_t producer) {
    core::TensorRecord tensor;
    tensor.role = role;
    tensor.dtype = core::Dtype::kFloat32;
    tensor.shape = {kWidth, kWidth};
    tensor.strides = {kWidth, 1};
    tensor.device = "cpu";
    tensor.storage = storage;
    tensor.producer = producer;
    tensor.digest = {static_cast<std::uint64_t>(storage) + 1, moment};
    const core::Value value{core::TensorSlot{static_cast<std::uint32_t>(record_.tensors.size())}};
    if (role == core::TensorRole::kInput) {
      record_.arguments.push_back({slot, value});
    } else {
      record_.results.push_back(value);
    }
    tensor.slot = std::move(slot);
    record_.tensors.push_back(std::move(tensor));
  }

  void end() {
    tensors_ += record_.tensors.size();
    writer_.enter(record_);
    writer_.append(record_);
    ++count_;
  }

  /// An operator of a layer, that reads what the one before it made.
  void call(std::string_view name, core::Phase phase, std::uint32_t layer, bool weighs) {
    begin(name, phase, layer);
    add("input", core::TensorRole::kInput, last_, step_, static_cast<std::int64_t>(count_) - 1);
    if (weighs) {
      add("weight", core::TensorRole::kInput, layer + 1, step_, written_);
      add("bias", core::TensorRole::kInput, kLayers + layer + 1, step_, written_);
    }
    if (name == "aten::dropout") {
      record_.arguments.push_back({"train", core::Value{true}});
      record_.generator = core::GeneratorUse{};
    }
    last_ = static_cast<std::int64_t>(1'000 + (count_ % 5'000));
    add("0", core::TensorRole::kOutput, last_, step_, static_cast<std::int64_t>(count_));
    end();
  }

  void forward() {
    for (std::uint32_t layer = 0; layer < kLayers; ++layer) {
      for (const std::string_view name : {"aten::layer_norm",
                                          "aten::linear",
                                          "aten::scaled_dot_product_attention",
                                          "aten::linear",
                                          "aten::dropout",
                                          "aten::add",
                                          "aten::gelu"}) {
        call(name, core::Phase::kForward, layer, name == "aten::linear");
      }
    }
  }

  void backward() {
    for (std::uint32_t layer = kLayers; layer-- > 0;) {
      for (int i = 0; i < 13; ++i) {
        call(i % 3 == 0 ? "aten::mm" : "aten::mul", core::Phase::kBackward, layer, false);
      }
    }
  }

  void batch() {
    begin(core::kOrderRecord, core::Phase::kData, 0);
    core::ValueList samples;
    for (std::int64_t i = 0; i < 32; ++i) samples.items.push_back(core::Value{32 * step_ + i});
    for (const auto name : {core::kOrderLoader, core::kOrderEpoch, core::kOrderWorkers}) {
      record_.arguments.push_back({std::string(name), core::Value{std::int64_t{0}}});
    }
    record_.arguments.push_back(
        {std::string(core::kOrderSamples), core::Value{std::move(samples)}});
    end();
    number(core::kBatchRecord, core::Phase::kData);
  }

  void number(std::string_view name, core::Phase phase) {
    begin(name, phase, 0);
    add("0", core::TensorRole::kOutput, 7'000, step_ + 1, static_cast<std::int64_t>(count_));
    end();
  }

  void stepped() {
    begin(core::kStepRecord, core::Phase::kOptimizer, 0);
    record_.arguments.push_back({"lr[0]", core::Value{0.1}});
    record_.arguments.push_back({std::string(core::kGradientNorm), core::Value{1.0}});
    written_ = static_cast<std::int64_t>(count_);
    for (std::uint32_t i = 0; i < 2 * kLayers; ++i) {
      for (const auto prefix :
           {core::kGradientPrefix, core::kStatePrefix, core::kParameterPrefix}) {
        const bool is_own = prefix == core::kParameterPrefix;
        add(fmt::format("{}layers.{}.weight", prefix, i),
            core::TensorRole::kOutput,
            is_own ? i + 1 : 8'000 + i,
            step_ + 1,
            written_);
      }
    }
    end();
  }

  std::shared_ptr<const core::OperatorInfo> operator_of(std::string_view name) {
    auto& known = operators_[std::string(name)];
    if (!known) {
      known = std::make_shared<core::OperatorInfo>(
          core::OperatorInfo{std::string(name), "", name == "aten::dropout"});
    }
    return known;
  }

  std::shared_ptr<const core::CallSite> site_of(std::uint32_t layer) {
    auto& known = sites_[layer];
    if (!known) {
      auto site = std::make_shared<core::CallSite>();
      site->module_path = fmt::format("layers.{}", layer);
      site->module_type = "Layer";
      site->frames = {{"model.py", layer + 1, "forward"}};
      known = std::move(site);
    }
    return known;
  }

  store::DumpWriter writer_;
  std::unordered_map<std::string, std::shared_ptr<const core::OperatorInfo>> operators_;
  std::unordered_map<std::uint32_t, std::shared_ptr<const core::CallSite>> sites_;
  core::OpRecord record_;
  std::uint64_t count_ = 0;
  std::uint64_t tensors_ = 0;
  std::uint32_t step_ = 0;
  std::int64_t last_ = 1'000;
  std::int64_t written_ = -1;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fputs("usage: repro-check-training-dump DIRECTORY OPERATORS\n", stderr);
    return 2;
  }
  try {
    Training(argv[1]).write(std::strtoull(argv[2], nullptr, 10));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "repro-check-training-dump: %s\n", error.what());
    return 1;
  }
  return 0;
}
