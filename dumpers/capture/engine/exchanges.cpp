// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/engine/exchanges.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <initializer_list>
#include <string_view>

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
  }
  say(entered.follows, core::kCollectiveSequence, ++entered_[{group, plan.exchange}]);
  return entered;
}

}  // namespace repro_check::capture
