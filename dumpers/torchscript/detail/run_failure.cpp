// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/detail/run_failure.h"

#include <fmt/format.h>

#include <string>

#include "core/trace/op_record.h"
#include "dumpers/torchscript/detail/exception_text.h"

namespace repro_check::torchscript {
namespace {

std::string place_text(const core::CallSite& site) {
  std::string text = site.module_path;
  if (const core::SourceFrame* frame = core::display_frame(site)) {
    if (!text.empty()) text += ", ";
    text += frame->file + ":" + std::to_string(frame->line);
  }
  return text.empty() ? "the model" : text;
}

/// `op 57 aten::conv2d (backbone.conv1, model.py:40): <reason>` for an operator; what TorchScript
/// does by itself, `raise` or an index into a list, has no op index.
std::string message_for(const std::string& reason,
                        const capture::Capture& capture,
                        MethodRunner& runner) {
  const std::string last = capture.last_operator();
  const auto between = runner.place_between_operators();
  if (between) {
    return place_text(*between) + ": " + reason +
           (last.empty() ? " (before the first operator)" : " (after " + last + ")");
  }
  return (last.empty() ? "before the first operator" : last) + ": " + reason;
}

std::string hint_for(const std::exception& error, const std::optional<core::Dtype>& cast) {
  if (is_determinism_refusal(error)) {
    return "LibTorch has no deterministic kernel for this operator: replace it in the model, or "
           "record with \"determinism\": \"warn\", which runs it and reports the warning";
  }
  if (is_out_of_memory(error)) {
    return "memory ran out: use smaller inputs or a narrower dtype, or free memory on the device";
  }
  if (full_text(error).find("on the same device") != std::string::npos) {
    return "a tensor of the model stayed on the device that it was traced or saved on: trace the "
           "model on the device it is to run on, or make that tensor a buffer";
  }
  if (is_removed_call(error)) return kRemovedCallHint;
  if (cast) {
    return fmt::format(
        "\"dtype\" had cast inputs, parameters and buffers to {}, and neither what the model makes "
        "itself nor constants of its graph: see whether it runs without \"dtype\", or cast it "
        "before it is saved",
        core::dtype_name(*cast));
  }
  return "the model raised this itself: compare the inputs with what it expects at that place";
}

}  // namespace

core::Error run_failure(const std::exception& error,
                        const capture::Capture& capture,
                        MethodRunner& runner,
                        const std::optional<core::Dtype>& cast) {
  const std::string prefix = is_out_of_memory(error) ? "out of memory: " : "";
  return {core::ErrorKind::kRunFailed,
          message_for(prefix + first_useful_line(error), capture, runner),
          hint_for(error, cast)};
}

}  // namespace repro_check::torchscript
