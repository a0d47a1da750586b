// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/detail/executor_pin.h"

#include <torch/csrc/jit/passes/autocast.h>
#include <torch/csrc/jit/passes/tensorexpr_fuser.h>
#include <torch/csrc/jit/python/update_graph_executor_opt.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <string>

namespace repro_check::torchscript {
namespace {

core::Setting setting(const char* name, bool found, bool used) {
  return {name, found ? "true" : "false", used ? "true" : "false"};
}

}  // namespace

ExecutorPin::State ExecutorPin::read() {
  return {torch::jit::getGraphExecutorOptimize(),
          torch::jit::getExecutorMode(),
          torch::jit::getProfilingMode(),
          torch::jit::tensorExprFuserEnabled(),
          torch::jit::autocastEnabled(),
          torch::jit::getNumProfiledRuns()};
}

ExecutorPin::ExecutorPin(bool optimize) : found_(read()), pinned_(!optimize) {
  if (!pinned_) return;
  torch::jit::setGraphExecutorOptimize(false);
  torch::jit::getProfilingMode() = false;
  torch::jit::setTensorExprFuserEnabled(false);
  torch::jit::setAutocastMode(false);
}

ExecutorPin::~ExecutorPin() {
  if (!pinned_) return;
  torch::jit::setGraphExecutorOptimize(found_.optimize);
  torch::jit::getProfilingMode() = found_.profiling;
  torch::jit::setTensorExprFuserEnabled(found_.fuser);
  torch::jit::setAutocastMode(found_.autocast);
}

std::vector<core::Setting> ExecutorPin::settings() const {
  const State now = read();
  return {setting("jit.optimize", found_.optimize, now.optimize),
          setting("jit.executor", found_.executor, now.executor),
          setting("jit.profiling", found_.profiling, now.profiling),
          {"jit.profiled_runs",
           std::to_string(found_.profiled_runs),
           std::to_string(now.profiled_runs)},
          setting("jit.tensorexpr_fuser", found_.fuser, now.fuser),
          setting("jit.autocast", found_.autocast, now.autocast)};
}

}  // namespace repro_check::torchscript
