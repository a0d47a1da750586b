// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/engine/operator_plan.h"

#include <ATen/core/enum_tag.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/text/text.h"
#include "core/trace/program_records.h"
#include "dumpers/capture/engine/values.h"
#include "dumpers/capture/generators/generator_watch.h"

namespace repro_check::capture {

namespace {

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](std::string_view prefix) {
    return text.substr(0, prefix.size()) == prefix;
  });
}

template <class List>
bool is_one_of(std::string_view text, const List& list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

/// The type inside `Optional[...]`, else the type itself.
c10::TypePtr element_of_optional(const c10::TypePtr& type) {
  if (type->kind() != c10::TypeKind::OptionalType) return type;
  return type->containedTypes().front();
}

IntegerMeaning meaning_of(const c10::Argument& argument) {
  switch (element_of_optional(argument.real_type())->kind()) {
    case c10::TypeKind::ScalarTypeType:
      return IntegerMeaning::kScalarType;
    case c10::TypeKind::LayoutType:
      return IntegerMeaning::kLayout;
    case c10::TypeKind::MemoryFormatType:
      return IntegerMeaning::kMemoryFormat;
    default:
      return IntegerMeaning::kNumber;
  }
}

bool is_of(const c10::Argument& argument, std::initializer_list<c10::TypeKind> kinds) {
  const c10::TypeKind kind = element_of_optional(argument.type())->kind();
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

/// docs/DECISIONS.md, dropout: by the operator's name and the argument's name.
void find_doors(std::string_view base, const c10::FunctionSchema& schema, OperatorPlan& plan) {
  if (base.size() >= 9 && base.substr(base.size() - 9) == "_backward") return;
  const bool dropout = base.find("dropout") != std::string_view::npos;
  const bool has_p = plan.find("p") >= 0;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    const std::string& name = argument.name();
    const bool number = is_of(argument, {c10::TypeKind::FloatType, c10::TypeKind::NumberType});
    if (dropout && has_p && (name == "train" || name == "training") &&
        is_of(argument, {c10::TypeKind::BoolType})) {
      plan.doors.push_back({DoorKind::kTrainFlag, i});
    } else if (number && (name == "dropout" || name == "dropout_p" || name == "dropout_prob")) {
      plan.doors.push_back({DoorKind::kDropProbability, i});
    } else if (number && (name == "keep_prob" || (base == "_fused_dropout" && name == "p"))) {
      plan.doors.push_back({DoorKind::kKeepProbability, i});
    }
  }
}

/// Batch and instance norm update their running statistics without saying so in the schema.
void find_running_stats(std::string_view base, OperatorPlan& plan) {
  if (base.find("backward") != std::string_view::npos) return;
  for (std::size_t i = 0; i < plan.arguments.size(); ++i) {
    const std::string& name = plan.arguments[i].name;
    if (name == "running_mean" || name == "running_var") plan.running_stats.push_back(i);
    if (name == "training" || name == "train" || name == "use_input_stats") {
      plan.training_flags.push_back(i);
    }
  }
}

StorageEffect effect_of(std::string_view base, const c10::OperatorHandle& op) {
  constexpr std::array<std::string_view, 4> kResizing = {
      "resize_", "resize_as_", "resize", "_resize_output_"};
  if (is_one_of(base, kResizing)) return StorageEffect::kResize;
  if (core::hands_out_memory(base)) return StorageEffect::kFresh;
  // Older releases do not tag it: what it writes is which storage the tensor has.
  if (base == "set_") return StorageEffect::kMetadata;
  return op.hasTag(at::Tag::inplace_view) ? StorageEffect::kMetadata : StorageEffect::kOrdinary;
}

/// Samplers that write into what they are given or return a tensor shaped by their arguments.
constexpr std::array<std::string_view, 22> kSamplers = {
    "bernoulli",        "bernoulli_",      "cauchy",
    "cauchy_",          "exponential",     "exponential_",
    "geometric",        "geometric_",      "log_normal",
    "log_normal_",      "normal",          "normal_",
    "random",           "random_",         "uniform",
    "uniform_",         "multinomial",     "poisson",
    "binomial",         "_standard_gamma", "_sample_dirichlet",
    "normal_functional"};

HostDraw host_draw_of(std::string_view name, const OperatorPlan& plan) {
  if (name.substr(0, 6) != "aten::" || plan.info->overload.find("names") != std::string::npos) {
    return HostDraw::kNone;
  }
  const std::string_view base = core::base_name(name);
  if (base == "rand" || base == "rand_like") return HostDraw::kUniform;
  if (base == "randn" || base == "randn_like") return HostDraw::kNormal;
  if (base == "randint" || base == "randint_like") return HostDraw::kIntegers;
  if (base == "randperm") return HostDraw::kPermutation;
  if (base == "native_dropout") return HostDraw::kNativeDropout;
  if (base == "normal" && plan.find("size") >= 0) return HostDraw::kNormal;
  if (is_one_of(base, kSamplers) && plan.generator_argument >= 0) return HostDraw::kSampler;
  return HostDraw::kNone;
}

/// Operators that draw though no tag says so (docs/DECISIONS.md, draws).
bool draws_untagged(std::string_view base, const OperatorPlan& plan) {
  if (plan.generator_argument >= 0) return true;
  if (starts_with_any(base, {"quantized_lstm", "quantized_gru"})) return true;
  return std::any_of(plan.doors.begin(), plan.doors.end(), [](const Door& door) {
    return door.kind != DoorKind::kTrainFlag;
  });
}

bool matches(const std::vector<std::string>& patterns, const OperatorPlan& plan) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return core::glob_match(pattern, plan.info->name) || core::glob_match(pattern, plan.full_name);
  });
}

/// What newer releases call the arguments of exchanges, which have no names in LibTorch 1.13.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kExchangeArguments{{
    {"c10d::allgather_", "output_tensors|input_tensors|process_group|timeout"},
    {"c10d::allreduce_", "tensors|process_group|reduce_op|timeout"},
    {"c10d::alltoall_", "output_tensors|input_tensors|process_group|timeout"},
    {"c10d::barrier", "process_group|device_ids|timeout"},
    {"c10d::broadcast_", "tensors|process_group|root_rank|root_tensor|timeout"},
    {"c10d::gather_", "output_tensors|input_tensors|process_group|root_rank|timeout"},
    {"c10d::recv_", "tensors|process_group|src|tag"},
    {"c10d::reduce_", "tensors|process_group|reduce_op|root_rank|root_tensor|timeout"},
    {"c10d::reduce_scatter_", "output_tensors|input_tensors|process_group|reduce_op|timeout"},
    {"c10d::scatter_", "output_tensors|input_tensors|process_group|root_rank|timeout"},
    {"c10d::send", "tensors|process_group|dst|tag"},
}};

std::string name_of(const c10::FunctionSchema& schema, std::size_t place) {
  const std::string& name = schema.arguments()[place].name();
  if (!name.starts_with('_')) return name;
  const auto known = std::ranges::find(
      kExchangeArguments, schema.name(), [](const auto& entry) { return entry.first; });
  return known == kExchangeArguments.end() ? name
                                           : std::string(core::word_at(known->second, place));
}

/// Results that are work memory for the backward pass, of which kernels fill what that reads.
constexpr std::array<std::pair<std::string_view, std::size_t>, 1> kPartialResults{
    {{"aten::_ctc_loss", 1}}};

bool is_partial(const c10::FunctionSchema& schema, std::size_t place) {
  return std::ranges::find(kPartialResults, std::pair(std::string_view(schema.name()), place)) !=
         kPartialResults.end();
}

void add_arguments(const c10::FunctionSchema& schema, OperatorPlan& plan) {
  for (const c10::Argument& argument : schema.arguments()) {
    const bool written = is_written(argument);
    plan.written_arguments = plan.written_arguments || written;
    plan.arguments.push_back(
        {name_of(schema, plan.arguments.size()), meaning_of(argument), written});
    if (is_of(argument, {c10::TypeKind::GeneratorType})) {
      plan.generator_argument = static_cast<int>(plan.arguments.size()) - 1;
    }
  }
  for (const c10::Argument& result : schema.returns()) {
    plan.results.push_back({plan.is_launch ? result.name() : std::to_string(plan.results.size()),
                            result.alias_info() != nullptr,
                            is_written(result),
                            is_partial(schema, plan.results.size())});
    plan.view = plan.results.back().aliases && !plan.written_arguments;
    plan.packs = plan.packs || !packed_class_name(*result.type()).empty();
  }
}

/// Of exchanges the schema says nothing of what they write: outputs, and of those that return no
/// tensor what they are given, unless they send it.
bool is_filled(std::string_view name, bool returns_tensors) {
  return (name.starts_with("output") && !name.ends_with("sizes")) ||
         (name == "tensors" && !returns_tensors);
}

bool is_of_groups(const c10::FunctionSchema& schema) {
  return starts_with_any(schema.name(), {"c10d::", "_c10d_functional", "_dtensor::"});
}

/// By the group that it is given: c10d's is an object, that of the functional ones its name.
void find_exchange(const c10::FunctionSchema& schema, OperatorPlan& plan) {
  if (!is_of_groups(schema)) return;
  plan.waits = schema.name() == kWaitTensor;
  plan.group_argument = std::max(plan.find("process_group"), plan.find("group_name"));
  // A batch of messages makes each of them by itself.
  if (plan.group_argument < 0 || plan.find("op_list") >= 0) return;
  plan.exchange = plan.find("tag") >= 0 ? Exchange::kMessage : Exchange::kCollective;
  if (plan.find("dst") >= 0) return;
  const bool returns_tensors =
      std::any_of(schema.returns().begin(), schema.returns().end(), [](const auto& result) {
        const c10::TypeKind kind = result.type()->kind();
        return kind == c10::TypeKind::TensorType || kind == c10::TypeKind::ListType;
      });
  for (ArgumentPlan& argument : plan.arguments) {
    argument.written = argument.written || is_filled(argument.name, returns_tensors);
    argument.unread = schema.name().find("barrier") != std::string::npos;
  }
}

/// FSDP puts what this rank holds at its place among what is going to be gathered there, and its
/// schema says nothing of that.
void find_gathering(const c10::FunctionSchema& schema, OperatorPlan& plan) {
  plan.shows_written = schema.name() == "fsdp::all_gather_copy_in";
  if (!plan.shows_written) return;
  const int gathered = plan.find("all_gather_output");  // older releases make it themselves
  if (gathered >= 0) plan.arguments[static_cast<std::size_t>(gathered)].unread = true;
}

}  // namespace

int OperatorPlan::find(std::string_view name) const noexcept {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

namespace {

/// Whether an operator is none of LibTorch's own.
bool is_custom(const std::string& name) {
  static constexpr std::array<std::string_view, 20> kOwn{
      "aten",      "prim",     "prims",    "quantized",        "quantized_decomposed",
      "mkl",       "mkldnn",   "onednn",   "mkldnn_prepacked", "xnnpack",
      "prepacked", "sparse",   "inductor", "profiler",         "rngprims",
      "c10d",      "symm_mem", "fsdp",     "triton",           "repro_check"};
  const std::string_view space = std::string_view(name).substr(0, name.find("::"));
  return std::ranges::find(kOwn, space) == kOwn.end() && !space.starts_with('_');
}

}  // namespace

OperatorPlans::OperatorPlans(std::vector<std::string> include, std::vector<std::string> exclude)
    : include_(std::move(include)), exclude_(std::move(exclude)) {}

OperatorPlan& OperatorPlans::find(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  std::unique_ptr<OperatorPlan>& plan = plans_[&schema];
  // An operator may have been unloaded and another put at its address.
  if (plan && plan->info->name == schema.name() && plan->info->overload == schema.overload_name()) {
    return *plan;
  }
  auto fresh = std::make_unique<OperatorPlan>();
  const std::string_view base = core::base_name(schema.name());
  fresh->is_launch = schema.name().starts_with(core::kLaunched);
  add_arguments(schema, *fresh);
  find_doors(base, schema, *fresh);
  find_running_stats(base, *fresh);
  auto info = std::make_shared<core::OperatorInfo>();
  info->name = schema.name();
  info->overload = schema.overload_name();
  info->seeded = op.hasTag(at::Tag::nondeterministic_seeded) || draws_untagged(base, *fresh);
  for (ArgumentPlan& argument : fresh->arguments) {
    argument.unkept = !core::reads_values(*info, argument.name);
  }
  fresh->full_name = info->full_name();
  fresh->info = std::move(info);
  fresh->effect = effect_of(base, op);
  fresh->picks = schema.name().starts_with("aten::") && picks_elements(base);  // not c10d::scatter_
  fresh->is_marker = schema.name().starts_with("profiler::");
  fresh->is_custom = is_custom(schema.name());
  find_exchange(schema, *fresh);
  find_gathering(schema, *fresh);
  // as_strided_ and its like are written as in-place operators, and touch no element either.
  for (ArgumentPlan& argument : fresh->arguments) {
    argument.unread = argument.unread || argument.unkept || fresh->is_launch;
  }
  fresh->lifts = schema.name() == "aten::lift_fresh";
  fresh->view = (fresh->view && !fresh->lifts) || fresh->effect == StorageEffect::kMetadata;
  fresh->host_draw = host_draw_of(schema.name(), *fresh);
  fresh->composite = op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
  fresh->matches_include = include_.empty() || matches(include_, *fresh);
  fresh->matches_exclude = matches(exclude_, *fresh);
  plan = std::move(fresh);
  return *plan;
}

bool is_exchange(const c10::FunctionSchema& schema) {
  if (!is_of_groups(schema)) return false;
  OperatorPlan plan;
  add_arguments(schema, plan);
  find_exchange(schema, plan);
  return plan.exchange != Exchange::kNone;
}

bool OperatorPlans::any_matches(const std::string& pattern) const {
  return std::any_of(plans_.begin(), plans_.end(), [&](const auto& entry) {
    return matches({pattern}, *entry.second);
  });
}

namespace {

constexpr const char* kReason = "disable_dropout";

/// None stands for true: `train` of native_dropout is optional.
bool close_flag(c10::IValue& value, std::string& from) {
  if (value.isNone()) {
    from = core::to_text({std::monostate{}});
  } else if (value.isBool() && value.toBool()) {
    from = core::to_text({true});
  } else {
    return false;
  }
  value = c10::IValue(false);
  return true;
}

bool close_probability(c10::IValue& value, double closed, std::string& from) {
  double open = closed;
  if (value.isDouble()) {
    open = value.toDouble();
  } else if (value.isInt()) {
    open = static_cast<double>(value.toInt());
  }
  if (open == closed) return false;
  from = core::to_text({open});
  value = c10::IValue(closed);
  return true;
}

}  // namespace

void close_doors(const OperatorPlan& plan,
                 torch::jit::Stack& stack,
                 std::vector<core::Substitution>& noted) {
  c10::IValue* arguments = arguments_of(plan, stack);
  for (const Door& door : plan.doors) {
    c10::IValue& value = arguments[door.argument];
    const std::string& name = plan.arguments[door.argument].name;
    std::string from;
    if (door.kind == DoorKind::kTrainFlag) {
      if (close_flag(value, from)) {
        noted.push_back({name, from, core::to_text({false}), kReason});
      }
    } else {
      const double closed = door.kind == DoorKind::kKeepProbability ? 1.0 : 0.0;
      if (close_probability(value, closed, from)) {
        noted.push_back({name, from, core::to_text({closed}), kReason});
      }
    }
  }
}

const at::Generator* generator_of(const OperatorPlan& plan,
                                  const c10::IValue* arguments,
                                  at::Generator& given) {
  if (plan.generator_argument >= 0) {
    const c10::IValue& argument = arguments[plan.generator_argument];
    if (argument.isGenerator()) {
      given = argument.toGenerator();
      return &given;
    }
  }
  if (!plan.info->seeded) return default_generator(c10::kCPU);
  // Of `rand_like` and its like that of the result.
  const int device = plan.find("device");
  if (device >= 0 && arguments[device].isDevice()) {
    return default_generator(arguments[device].toDevice());
  }
  for (std::size_t i = 0; i < plan.arguments.size(); ++i) {
    const c10::IValue& argument = arguments[i];
    if (argument.isTensor() && argument.toTensor().defined()) {
      return default_generator(argument.toTensor().device());
    }
  }
  return default_generator(c10::kCPU);
}

}  // namespace repro_check::capture
