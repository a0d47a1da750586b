// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/engine/host_rng.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "core/digest/digest.h"
#include "dumpers/capture/generators/generator_watch.h"
#include "dumpers/capture/tensors/tensor_recorder.h"
#include "dumpers/capture/torch/torch_compat.h"

namespace repro_check::capture {
namespace {

/// Floating-point targets of any width get the same numbers: drawn as float32, then cast.
c10::ScalarType host_type(c10::ScalarType type) {
  if (c10::isComplexType(type)) return at::kComplexFloat;
  return c10::isFloatingType(type) ? at::kFloat : type;
}

at::TensorOptions host_options(c10::ScalarType type) {
  return at::TensorOptions().dtype(type).device(at::kCPU);
}

bool is_movable(const at::Tensor& tensor) {
  return form_of(tensor) == TensorForm::kStrided && !tensor.is_quantized() && !tensor.is_meta() &&
         tensor.numel() > 0;
}

/// One call being moved: its arguments by name.
class Draw {
 public:
  Draw(const c10::OperatorHandle& op,
       const OperatorPlan& plan,
       torch::jit::Stack& stack,
       at::Generator generator)
      : op_(op), plan_(plan), stack_(stack), generator_(std::move(generator)) {}

  bool carry_out() {
    switch (plan_.host_draw) {
      case HostDraw::kNone:
        return false;
      case HostDraw::kSampler:
        return carry_out_sampler();
      case HostDraw::kNativeDropout:
        return carry_out_native_dropout();
      default:
        return carry_out_factory();
    }
  }

 private:
  /// Null when the overload has no such argument, or None was given.
  const c10::IValue* argument(std::string_view name) {
    const int position = plan_.find(name);
    if (position < 0) return nullptr;
    const c10::IValue& value = arguments_of(plan_, stack_)[position];
    return value.isNone() ? nullptr : &value;
  }

  void finish(std::vector<at::Tensor> results) {
    stack_.resize(stack_.size() - plan_.arguments.size());
    for (at::Tensor& result : results) stack_.emplace_back(std::move(result));
  }

  /// The tensor the factory would return, unfilled; undefined when it is not to be moved.
  at::Tensor make_target() {
    if (const c10::IValue* self = argument("self")) {
      const at::Tensor& like = self->toTensor();
      if (!is_movable(like)) return {};
      if (const c10::IValue* out = argument("out")) return resized(out->toTensor(), like.sizes());
      const c10::IValue* format = argument("memory_format");
      return at::empty_like(like,
                            options(like.options()),
                            format != nullptr
                                ? c10::optional<c10::MemoryFormat>(format->toMemoryFormat())
                                : c10::optional<c10::MemoryFormat>());
    }
    std::vector<std::int64_t> size;
    if (const c10::IValue* sizes = argument("size")) {
      size = sizes->toIntVector();
    } else if (const c10::IValue* n = argument("n")) {
      size = {n->toInt()};
    }
    if (const c10::IValue* out = argument("out")) return resized(out->toTensor(), size);
    const bool integers =
        plan_.host_draw == HostDraw::kIntegers || plan_.host_draw == HostDraw::kPermutation;
    const c10::ScalarType type =
        integers ? at::kLong : c10::typeMetaToScalarType(c10::get_default_dtype());
    return at::empty(size, options(at::TensorOptions().dtype(type)));
  }

  at::TensorOptions options(at::TensorOptions base) {
    if (const c10::IValue* type = argument("dtype")) base = base.dtype(type->toScalarType());
    if (const c10::IValue* layout = argument("layout")) base = base.layout(layout->toLayout());
    if (const c10::IValue* device = argument("device")) base = base.device(device->toDevice());
    if (const c10::IValue* pin = argument("pin_memory")) base = base.pinned_memory(pin->toBool());
    return base.requires_grad(false);
  }

  static at::Tensor resized(at::Tensor out, at::IntArrayRef size) {
    if (out.sizes() != size) out.resize_(size);
    return out;
  }

  double number(std::string_view name, double otherwise) {
    const c10::IValue* value = argument(name);
    return value != nullptr ? value->toScalar().toDouble() : otherwise;
  }

  /// Undefined when the bounds are tensors.
  at::Tensor draw_integers(const at::Tensor& target) {
    const c10::IValue* low = argument("low");
    const c10::IValue* high = argument("high");
    if (high == nullptr || !high->isInt() || (low != nullptr && !low->isInt())) return {};
    const bool rounded = !c10::isIntegralType(target.scalar_type(), /*includeBool=*/true);
    at::Tensor host =
        at::empty(target.sizes(), host_options(rounded ? at::kLong : target.scalar_type()));
    return host.random_(low != nullptr ? low->toInt() : 0, high->toInt(), generator_);
  }

  bool carry_out_factory() {
    at::Tensor target = make_target();
    if (!is_movable(target)) return false;
    at::Tensor host;
    switch (plan_.host_draw) {
      case HostDraw::kUniform:
        host = at::empty(target.sizes(), host_options(host_type(target.scalar_type())));
        host.uniform_(0, 1, generator_);
        break;
      case HostDraw::kNormal:
        host = at::empty(target.sizes(), host_options(host_type(target.scalar_type())));
        host.normal_(number("mean", 0), number("std", 1), generator_);
        break;
      case HostDraw::kIntegers:
        host = draw_integers(target);
        break;
      default:
        host = at::randperm(target.numel(), generator_, host_options(at::kLong));
        break;
    }
    if (!host.defined()) return false;
    target.copy_(host);
    finish({target});
    return true;
  }

  bool carry_out_native_dropout() {
    const at::Tensor input = argument("input")->toTensor();
    const c10::IValue* train = argument("train");
    if (argument("out0") != nullptr || !is_movable(input)) return false;
    if (train != nullptr && !train->toBool()) return false;
    const double p = number("p", 0);
    at::Tensor host = at::empty(input.sizes(), host_options(at::kFloat));
    host.bernoulli_(1 - p, generator_);
    const at::Tensor mask = at::empty_like(input, input.options().dtype(at::kBool)).copy_(host);
    const double scale = p == 1 ? 0 : 1 / (1 - p);
    finish({input.mul(mask).mul(scale), mask});
    return true;
  }

  /// Where the result goes; empty when the operator returns a tensor of its own.
  [[nodiscard]] std::optional<std::size_t> written_argument() const {
    for (std::size_t i = 0; i < plan_.arguments.size(); ++i) {
      if (plan_.arguments[i].written) return i;
    }
    return std::nullopt;
  }

  /// Calls the sampler itself on host copies of what it was given.
  bool carry_out_sampler() {
    const c10::IValue* arguments = arguments_of(plan_, stack_);
    const std::optional<std::size_t> written = written_argument();
    const bool in_place = written && plan_.arguments[*written].name == "self";
    // random_() fills the whole range of its dtype: another dtype would be another distribution.
    const bool own_type = plan_.info->name == "aten::random_" || plan_.info->name == "aten::random";
    at::Tensor first;
    torch::jit::Stack call;
    for (std::size_t i = 0; i < plan_.arguments.size(); ++i) {
      if (static_cast<int>(i) == plan_.generator_argument) {
        call.emplace_back(generator_);
        continue;
      }
      if (!arguments[i].isTensor()) {
        call.push_back(arguments[i]);
        continue;
      }
      const at::Tensor& tensor = arguments[i].toTensor();
      const bool target = written == i;
      if (!is_movable(tensor) && !(target && !in_place)) return false;
      // Its result carries a gradient that a moved draw would lose.
      if (!written && tensor.requires_grad() && at::GradMode::is_enabled()) return false;
      if (!first.defined()) first = tensor;
      call.emplace_back(host_argument(tensor, target, in_place, own_type));
    }
    if (!first.defined()) return false;
    at::Tensor host;
    {
      const EngineCalls guard;
      op_.callBoxed(&call);
      host = call.back().toTensor();
    }
    if (written) {
      at::Tensor target = arguments_of(plan_, stack_)[*written].toTensor();
      if (!in_place) target = resized(target, host.sizes());
      target.copy_(host);
      finish({target});
    } else {
      finish({returned(host, first)});
    }
    return true;
  }

  static at::Tensor host_argument(const at::Tensor& tensor,
                                  bool target,
                                  bool in_place,
                                  bool own_type) {
    const EngineCalls guard;
    const c10::ScalarType type = own_type ? tensor.scalar_type() : host_type(tensor.scalar_type());
    if (!target) return tensor.to(host_options(type)).contiguous();
    if (in_place) return at::empty(tensor.sizes(), host_options(type));
    return at::empty({0}, host_options(type));
  }

  /// The host's numbers as the operator itself would have returned them.
  static at::Tensor returned(const at::Tensor& host, const at::Tensor& like) {
    const bool cast =
        c10::isFloatingType(host.scalar_type()) && c10::isFloatingType(like.scalar_type());
    const at::TensorOptions options =
        like.options().dtype(cast ? like.scalar_type() : host.scalar_type()).requires_grad(false);
    at::Tensor result = host.sizes() == like.sizes() ? at::empty_like(like, options)
                                                     : at::empty(host.sizes(), options);
    return result.copy_(host);
  }

  const c10::OperatorHandle& op_;
  const OperatorPlan& plan_;
  torch::jit::Stack& stack_;
  at::Generator generator_;
};

/// LibTorch's CPU generator is filled from 32 bits.
std::uint64_t seed_at(const GeneratorPlace& place) {
  const std::array<std::uint64_t, 3> parts = {place.seed, 0, place.draws};
  constexpr std::uint64_t kLow = 0xffffffff;
  return core::digest_leaf(std::as_bytes(std::span(parts))).low & kLow;
}

}  // namespace

std::optional<HostRng::Drawn> HostRng::draw(const c10::OperatorHandle& op,
                                            const OperatorPlan& plan,
                                            torch::jit::Stack& stack,
                                            const at::Generator& generator,
                                            bool of_process) {
  // One draw may be many there.
  if (inside_transforms()) return std::nullopt;
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::optional<GeneratorPlace> place = places_.find(generator, of_process);
  if (!place) return std::nullopt;
  Drawn drawn{{}, seed_at(*place)};
  const at::Generator host = at::detail::createCPUGenerator(drawn.seed);
  GeneratorSnapshot before;
  take_snapshot(&host, before);
  if (!Draw(op, plan, stack, host).carry_out()) return std::nullopt;
  places_.move_on(generator, of_process);
  const std::optional<core::GeneratorUse> moved = movement_since(before).use;
  drawn.use.device = "host";
  drawn.use.seed = place->seed;
  drawn.use.position_before = place->draws;
  drawn.use.position_after = place->draws + 1;
  drawn.use.drawn = moved ? moved->drawn : 0;
  return drawn;
}

bool HostRng::has_moved(const at::Generator& generator) {
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  GeneratorSnapshot now;
  take_snapshot(&generator, now);
  return !lock || now.busy || places_.was_left_at(now);
}

}  // namespace repro_check::capture
