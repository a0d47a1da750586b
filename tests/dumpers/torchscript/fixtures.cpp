// SPDX-License-Identifier: Apache-2.0
#include "fixtures.h"

#include <ATen/Functions.h>

namespace repro_check::test {

std::vector<std::string> MemorySink::places() const {
  std::vector<std::string> list;
  for (const core::OpRecord& record : records) {
    list.push_back(record.op->name + " " + (record.site ? record.site->module_path : "?"));
  }
  return list;
}

std::vector<std::string> MemorySink::results() const {
  std::vector<std::string> list;
  for (const core::OpRecord& record : records) {
    std::string text = record.op->full_name();
    for (const core::TensorRecord& tensor : record.tensors) {
      if (tensor.role == core::TensorRole::kOutput)
        text.append(" ").append(core::to_hex(tensor.digest));
    }
    list.push_back(text);
  }
  return list;
}

torch::jit::Module make_module(
    const std::string& type,
    const std::vector<std::pair<std::string, torch::jit::Module>>& children,
    const std::string& code) {
  torch::jit::Module module("__torch__." + type);
  module.register_attribute("training", c10::BoolType::get(), false);
  for (const auto& [name, child] : children) module.register_module(name, child);
  if (!code.empty()) module.define(code);
  return module;
}

torch::jit::Module make_linear(const std::string& type, double fill) {
  torch::jit::Module module("__torch__." + type);
  module.register_attribute("training", c10::BoolType::get(), false);
  module.register_parameter("weight", at::full({4, 4}, fill), false);
  module.register_parameter("bias", at::full({4}, 0.25), false);
  module.define(
      "def forward(self, x: Tensor) -> Tensor:\n"
      "  return torch.linear(x, self.weight, self.bias)\n");
  return module;
}

configs::RunSpec run_of(const std::filesystem::path& model) {
  configs::RunSpec run;
  run.name = "baseline";
  run.model.path = model;
  run.seed = 7;
  run.calls.emplace_back();
  return run;
}

configs::InputSpec generated(std::vector<std::int64_t> shape, configs::Distribution distribution) {
  configs::GeneratedInput input;
  input.distribution = distribution;
  input.shape = std::move(shape);
  input.seed = 3;
  configs::InputSpec spec;
  spec.pointer = "/inputs/0";
  spec.source = input;
  return spec;
}

configs::InputSpec value_of(configs::ValueInput value) {
  configs::InputSpec spec;
  spec.pointer = "/inputs/0";
  spec.source = std::move(value);
  return spec;
}

}  // namespace repro_check::test
