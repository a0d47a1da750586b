// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/engine/exchanges.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string_view>
#include <vector>

#include "core/tensor/dtype.h"
#include "core/trace/program_records.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {

namespace {

/// `float32 [244], int64 [2, 3]`, of all arguments.
std::string tensors_text(const OperatorPlan& plan, const c10::IValue* arguments) {
  std::string text;
  const auto add = [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    text += fmt::format("{}{} [{}]",
                        text.empty() ? "" : ", ",
                        core::dtype_name(dtype_of(tensor.scalar_type())),
                        fmt::join(tensor.sizes(), ", "));
  };
  for (std::size_t i = 0; i < plan.arguments.size(); ++i) {
    if (arguments[i].isTensor()) add(arguments[i].toTensor());
    if (!arguments[i].isTensorList()) continue;
    for (const at::Tensor& tensor : arguments[i].toTensorVector()) add(tensor);
  }
  return text;
}

/// Elements for each rank of a group; empty where the parts are equal.
/// @param splits  argument that counts them in rows of `tensor`
std::vector<std::int64_t> elements_of(const OperatorPlan& plan,
                                      const c10::IValue* arguments,
                                      std::string_view splits,
                                      std::string_view tensor) {
  const int at = plan.find(tensor);
  if (at < 0 || !arguments[at].isTensor()) return {};
  const at::Tensor& whole = arguments[at].toTensor();
  std::int64_t row = 1;
  for (std::int64_t axis = 1; axis < whole.dim(); ++axis) row *= whole.size(axis);
  std::vector<std::int64_t> elements = arguments[plan.find(splits)].toIntVector();
  for (std::int64_t& each : elements) each *= row;
  return elements;
}

std::vector<std::int64_t> elements_of(const c10::IValue& tensors) {
  std::vector<std::int64_t> elements;
  for (const at::Tensor& tensor : tensors.toTensorVector()) elements.push_back(tensor.numel());
  return elements;
}

/// What a rank sends to each and receives from each; nothing where the operator does not say.
std::optional<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>> splits_of(
    const OperatorPlan& plan, const c10::IValue* arguments) {
  const auto is_list = [&](std::string_view name) {
    const int at = plan.find(name);
    return at >= 0 && (arguments[at].isIntList() || arguments[at].isTensorList());
  };
  if (is_list("output_split_sizes") && is_list("input_split_sizes")) {
    const std::string_view output = plan.find("output") >= 0 ? "output" : "input";
    return std::pair(elements_of(plan, arguments, "input_split_sizes", "input"),
                     elements_of(plan, arguments, "output_split_sizes", output));
  }
  if (is_list("output_tensors") && is_list("input_tensors") &&
      plan.info->name.find("alltoall") != std::string::npos) {
    return std::pair(elements_of(arguments[plan.find("input_tensors")]),
                     elements_of(arguments[plan.find("output_tensors")]));
  }
  return std::nullopt;
}

/// Functional collectives have it as a word.
std::string reduce_op_of(const c10::IValue& value) {
  return value.isString() ? value.toStringRef() : reduce_op_name(value);
}

}  // namespace

void Exchanges::name_group(const void* group, const std::string& name) {
  if (group != nullptr) groups_[group] = name;
}

std::string Exchanges::group_of(const c10::IValue& group) const {
  if (group.isString()) return group.toStringRef();
  if (!group.isObject() || group.toObjectRef().slots().size() != 1) return {};
  const c10::IValue& held = group.toObjectRef().getSlot(0);
  if (!held.isCapsule()) return {};
  const auto found = groups_.find(held.toCapsule().get());
  return found == groups_.end() ? std::string() : found->second;
}

EnteredExchange Exchanges::enter(const OperatorPlan& plan, const c10::IValue* arguments) {
  EnteredExchange entered;
  const auto say = [&](NamedValues& into, std::string_view name, c10::IValue value) {
    into.emplace_back(std::string(name), std::move(value));
  };
  const auto say_number = [&](std::string_view name, std::string_view argument) {
    const int at = plan.find(argument);
    if (at >= 0 && arguments[at].isInt()) say(entered.values, name, arguments[at].toInt());
  };
  say(entered.values, core::kCollectiveName, plan.info->name);
  say(entered.values, core::kCollectiveTensors, tensors_text(plan, arguments));
  const std::string group = group_of(arguments[plan.group_argument]);
  if (!group.empty()) say(entered.values, core::kCollectiveGroup, group);
  if (plan.exchange == Exchange::kMessage) {
    say_number(core::kMessageTo, "dst");
    say_number(core::kMessageFrom, "src");
    say_number(core::kMessageTag, "tag");
  } else {
    say_number(core::kCollectiveRoot, "root_rank");
    say_number(core::kCollectiveRoot, "src");
    const int at = plan.find("reduce_op");
    const std::string reduce_op = at < 0 ? std::string() : reduce_op_of(arguments[at]);
    if (!reduce_op.empty()) say(entered.values, core::kCollectiveReduceOp, reduce_op);
    if (const auto splits = splits_of(plan, arguments)) {
      say(entered.values, core::kCollectiveSends, splits->first);
      say(entered.values, core::kCollectiveReceives, splits->second);
    }
  }
  say(entered.follows, core::kCollectiveSequence, ++entered_[{group, plan.exchange}]);
  return entered;
}

}  // namespace repro_check::capture
