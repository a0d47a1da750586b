// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/precision.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/tensor/masks.h"
#include "core/trace/program_records.h"
#include "dumpers/capture/torch/call_modes.h"
#include "dumpers/capture/torch/torch_compat.h"
#include "dumpers/replay/shadow.h"

namespace repro_check::replay {
namespace {

bool has_recorded_values(const core::DumpSource& dump, const core::TensorRecord& tensor) {
  return is_widened(tensor) && tensor.state == core::ContentState::kHashed &&
         core::element_count(tensor.shape) > 0 && dump.has_content(tensor.content_key());
}

/// The parts of complex numbers, and real ones as they are.
at::Tensor parts_of(const at::Tensor& tensor) {
  return tensor.is_complex() ? at::view_as_real(tensor.resolve_conj()) : tensor.resolve_neg();
}

/// recorded - exact, 0 where they are equal, as infinities are.
at::Tensor error_of(const at::Tensor& recorded, const at::Tensor& exact) {
  const at::Tensor one = parts_of(recorded);
  const at::Tensor other = parts_of(exact);
  const at::Tensor same = one.eq(other).logical_or(one.isnan().logical_and(other.isnan()));
  return at::where(same, at::zeros_like(other), one - other);
}

/// Relative L2 distance; inf where there is no number.
double relative(double apart, double size) {
  if (apart == 0) return 0;
  if (!std::isfinite(apart) || size == 0) return std::numeric_limits<double>::infinity();
  return apart / size;
}

/// L2 distances to float64 and sizes of rows along the last dimension, over its numbers.
struct RowDistances {
  at::Tensor apart;
  at::Tensor size;

  RowDistances(core::Dtype dtype, const at::Tensor& recorded, const at::Tensor& exact) {
    const at::Tensor values = parts_of(exact);
    const double mask = dtype == core::Dtype::kFloat16 ? core::kHalfMask : core::kMask;
    // A number where float64 has none counts.
    const at::Tensor left_out = values.abs().ge(mask);
    const std::int64_t parts = exact.is_complex() ? 2 : 1;
    const std::int64_t width = exact.dim() == 0 ? parts : exact.size(-1) * parts;
    const auto norms = [&](const at::Tensor& all) {
      return all.masked_fill(left_out, 0).reshape({-1, width}).norm(2, at::IntArrayRef{1});
    };
    apart = norms(error_of(recorded, exact));
    size = norms(values.nan_to_num(0.0));
  }

  [[nodiscard]] double relative_error() const {
    return relative(apart.norm().item<double>(), size.norm().item<double>());
  }
};

/// Relative L2 distance over the numbers of float64; inf where only one of the two has a number.
double relative_error(core::Dtype dtype, const at::Tensor& recorded, const at::Tensor& exact) {
  return RowDistances(dtype, recorded, exact).relative_error();
}

double digits_of(double relative) {
  if (relative == 0) return kAllDigits;
  return std::min(std::max(0.0, -std::log10(relative)), kAllDigits);
}

/// As ModuleOutput::row_digits.
std::vector<double> row_digits(const RowDistances& distances) {
  const auto rows = static_cast<std::uint64_t>(distances.apart.numel());
  if (rows < 2) return {};
  std::vector<double> groups(std::min(rows, kMostRowGroups), kAllDigits);
  const double* apart = distances.apart.data_ptr<double>();
  const double* size = distances.size.data_ptr<double>();
  for (std::uint64_t row = 0; row < rows; ++row) {
    double& worst = groups[row * groups.size() / rows];
    worst = std::min(worst, digits_of(relative(apart[row], size[row])));
  }
  return groups;
}

bool lacks_numbers(const at::Tensor& recorded, const at::Tensor& exact) {
  return parts_of(recorded)
      .isfinite()
      .logical_not()
      .logical_and(parts_of(exact).isfinite())
      .any()
      .item<bool>();
}

FarthestElement farthest_of(const at::Tensor& recorded, const at::Tensor& exact) {
  const at::Tensor error =
      at::nan_to_num(error_of(recorded, exact).abs(), std::numeric_limits<double>::max());
  FarthestElement farthest;
  const auto place = error.reshape({-1}).argmax().item<std::int64_t>();
  const std::int64_t parts = recorded.is_complex() ? 2 : 1;
  farthest.element = static_cast<std::uint64_t>(place / parts);
  farthest.recorded = parts_of(recorded).reshape({-1})[place].item<double>();
  farthest.float64 = parts_of(exact).reshape({-1})[place].item<double>();
  if (recorded.dim() > 1) {
    const at::Tensor rows = error.reshape({-1, recorded.size(-1) * parts});
    farthest.row = static_cast<std::uint64_t>(rows.square().sum({1}).argmax().item<std::int64_t>());
  }
  return farthest;
}

/// Outputs by which a call is judged: statistics that a norm returns beside its result are not.
std::vector<std::size_t> judged_outputs(const core::DumpSource& dump,
                                        const core::OpRecord& record) {
  std::vector<std::size_t> outputs;
  std::int64_t most = 0;
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    const core::TensorRecord& tensor = record.tensors[i];
    if (!core::is_output(tensor) || !has_recorded_values(dump, tensor)) continue;
    outputs.push_back(i);
    most = std::max(most, core::element_count(tensor.shape));
  }
  std::erase_if(outputs, [&](std::size_t i) {
    return core::element_count(record.tensors[i].shape) * 2 < most;
  });
  return outputs;
}

const core::TensorRecord* input_named(const core::OpRecord& record, std::string_view slot) {
  const auto found = std::ranges::find_if(record.tensors, [&](const auto& tensor) {
    return core::is_input(tensor) && tensor.slot == slot && !tensor.shape.empty();
  });
  return found == record.tensors.end() ? nullptr : &*found;
}

/// How many numbers one element of the result adds up; 0 where it adds up none.
std::uint64_t terms_of(const core::OpRecord& record) {
  const std::string_view base = core::base_name(record.op->name);
  const auto size = [](const core::TensorRecord* tensor, std::int64_t divided_by) {
    const std::int64_t count = tensor == nullptr ? 0 : core::element_count(tensor->shape);
    return static_cast<std::uint64_t>(divided_by > 0 ? count / divided_by : 0);
  };
  if (base.find("mm") != std::string_view::npos || base == "linear" || base == "matmul" ||
      base == "dot" || base == "mv") {
    for (const char* slot : {"mat1", "batch1", "self", "input"}) {
      const core::TensorRecord* matrix = input_named(record, slot);
      if (matrix == nullptr) continue;
      return static_cast<std::uint64_t>(std::max<std::int64_t>(matrix->shape.back(), 0));
    }
  }
  if (base.find("conv") != std::string_view::npos) {
    const core::TensorRecord* weight = input_named(record, "weight");
    return size(weight, weight == nullptr ? 0 : weight->shape.front());
  }
  for (const char* reduction : {"sum", "mean", "var", "std", "norm", "logsumexp"}) {
    if (base.find(reduction) == std::string_view::npos) continue;
    const core::TensorRecord* given = input_named(record, "self");
    const auto made = std::ranges::find_if(record.tensors, &core::is_output);
    if (given == nullptr || made == record.tensors.end()) continue;
    const std::int64_t results = core::element_count(made->shape);
    const std::uint64_t terms = size(given, results);
    return terms > 1 ? terms : 0;
  }
  return 0;
}

using Memory = std::map<std::int64_t, at::Tensor>;  ///< by storage

/// One call, made of memory whose gradients can be asked for.
struct Traced {
  Memory given;
  Memory changed;       ///< copies of it that the call wrote
  CallTensors results;  ///< those in place as well
};

/// Operators have no derivative by these: counts, and statistics that training only updates.
bool is_statistic(const core::OpRecord& record, std::int64_t storage) {
  constexpr std::array<std::string_view, 3> kStatistics{
      "running_mean", "running_var", "total_weight"};
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    if (storage_of(record, i) != storage || !core::is_input(record.tensors[i])) continue;
    if (std::ranges::find(kStatistics, record.tensors[i].slot) != kStatistics.end()) return true;
  }
  return false;
}

/// @param memory    unchanged
/// @param computed  storages whose gradients are asked for
/// @throws core::Error as arguments_in_float64() and call_in_float64()
Traced trace(const core::DumpSource& dump,
             const core::OpRecord& record,
             const RecordedOperator& op,
             const Memory& memory,
             const Memory& computed) {
  const at::AutoGradMode with_grad(true);
  const std::vector<bool> written = op.written_tensors(record);
  Traced traced;
  for (const auto& [storage, values] : memory) {
    const bool asked = computed.contains(storage) && !is_statistic(record, storage);
    traced.given[storage] = values.detach().requires_grad_(asked);
  }
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    const auto given = traced.given.find(storage_of(record, i));
    if (!written[i] || given == traced.given.end()) continue;
    traced.changed.try_emplace(given->first, given->second.clone());
  }
  const CallTensors inputs = arguments_in_float64(dump, record, [&](std::size_t i) {
    const std::int64_t storage = storage_of(record, i);
    const auto changed = traced.changed.find(storage);
    const bool is_changed = changed != traced.changed.end();
    return shown(is_changed ? changed->second : traced.given.at(storage), record.tensors[i]);
  });
  traced.results = call_in_float64(record, op, inputs);
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    const core::TensorRecord& tensor = record.tensors[i];
    if (!core::is_output(tensor) || !is_widened(tensor)) continue;
    const auto changed = traced.changed.find(storage_of(record, i));
    if (changed != traced.changed.end()) traced.results[i] = shown(changed->second, tensor);
  }
  return traced;
}

/// The recorded arguments of a call, as trace() takes them. @param wanted  storages
template <typename Wanted>
Memory recorded_memory(const core::DumpSource& dump,
                       const core::OpRecord& record,
                       const Wanted& wanted) {
  ShadowMemory memory(dump);
  Memory lent;
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    const core::TensorRecord& tensor = record.tensors[i];
    if (!core::is_input(tensor) || !is_widened(tensor)) continue;
    if (!wanted(storage_of(record, i))) continue;
    if (core::reads_values(*record.op, tensor.slot)) memory.fill(tensor, storage_of(record, i));
    static_cast<void>(memory.view(tensor, storage_of(record, i)));
  }
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    const std::int64_t storage = storage_of(record, i);
    if (const at::Tensor values = memory.lend(storage); values.defined()) lent[storage] = values;
  }
  return lent;
}

/// The gradient of the result's error with respect to what lies in memory, by storage, going back
/// from the result call by call.
class Gradients {
 public:
  void seed(const core::TensorRecord& tensor, std::int64_t storage, const at::Tensor& gradient) {
    const at::Tensor memory = room(storage, numbers_needed(tensor));
    without_repeats(parts_of_memory(memory, tensor), tensor).copy_(gradient);
  }

  /// Whether anything that the call wrote leads to the result.
  [[nodiscard]] bool concerns(const core::OpRecord& record) const {
    for (std::size_t i = 0; i < record.tensors.size(); ++i) {
      if (core::is_output(record.tensors[i]) && is_widened(record.tensors[i]) &&
          memory_.contains(storage_of(record, i))) {
        return true;
      }
    }
    return false;
  }

  /// With respect to what a tensor shows; undefined where nothing is known of it.
  [[nodiscard]] at::Tensor at(const core::OpRecord& record, std::size_t i) {
    const std::int64_t storage = storage_of(record, i);
    if (!memory_.contains(storage)) return {};
    return shown(room(storage, numbers_needed(record.tensors[i])), record.tensors[i]);
  }

  /// Takes the gradient of what a call replaced away.
  void replace(const core::OpRecord& record) {
    for (std::size_t i = 0; i < record.tensors.size(); ++i) {
      const core::TensorRecord& tensor = record.tensors[i];
      if (!core::is_output(tensor) || !is_widened(tensor)) continue;
      const auto found = memory_.find(storage_of(record, i));
      if (found == memory_.end()) continue;
      const at::Tensor replaced = room(found->first, numbers_needed(tensor));
      without_repeats(parts_of_memory(replaced, tensor), tensor).zero_();
    }
  }

  /// What of an executed call has a gradient.
  struct Differentiated {
    std::vector<at::Tensor> outputs;
    std::vector<at::Tensor> gradients;  ///< of them
    bool reads = false;                 ///< whether there is an input that one can flow to

    void add(const at::Tensor& output, const at::Tensor& gradient) {
      if (!output.defined() || !output.requires_grad() || !gradient.defined()) return;
      outputs.push_back(output);
      gradients.push_back(gradient.clone());
    }
  };

  Differentiated differentiated(const core::OpRecord& record, const Traced& traced) {
    Differentiated found;
    for (const auto& [storage, memory] : traced.changed) {
      if (!memory_.contains(storage)) continue;
      found.add(memory, room(storage, memory.numel()).slice(0, 0, memory.numel()));
    }
    for (std::size_t i = 0; i < record.tensors.size(); ++i) {
      const core::TensorRecord& tensor = record.tensors[i];
      if (!is_widened(tensor)) continue;
      if (core::is_input(tensor)) {
        found.reads = found.reads || (core::reads_values(*record.op, tensor.slot) &&
                                      traced.given.at(storage_of(record, i)).requires_grad());
      } else if (!traced.given.contains(storage_of(record, i))) {
        found.add(traced.results[i], at(record, i));
      }
    }
    return found;
  }

  /// Goes back over one executed call.
  /// @return whether the gradient could be carried over it
  bool carry(const core::OpRecord& record, const Traced& traced) {
    const Differentiated found = differentiated(record, traced);
    std::vector<at::Tensor> inputs;
    for (const auto& [storage, given] : traced.given) {
      if (given.requires_grad()) inputs.push_back(given);
    }
    std::vector<at::Tensor> carried(inputs.size());
    bool good = !(found.outputs.empty() && found.reads);
    if (!found.outputs.empty() && !inputs.empty()) {
      try {
        carried = torch::autograd::grad(found.outputs, inputs, found.gradients, false, false, true);
      } catch (const std::exception&) {
        good = false;
      }
    }
    forget_results(record);
    std::size_t place = 0;
    for (const auto& [storage, given] : traced.given) {
      if (traced.changed.contains(storage)) memory_.erase(storage);
      if (!given.requires_grad()) continue;
      const at::Tensor& gradient = carried[place++];
      if (!gradient.defined()) continue;
      room(storage, gradient.numel()).slice(0, 0, gradient.numel()).add_(gradient);
    }
    return good;
  }

  /// What a call made is no memory before it.
  void forget_results(const core::OpRecord& record) {
    for (std::size_t i = 0; i < record.tensors.size(); ++i) {
      if (!core::is_output(record.tensors[i])) continue;
      const bool given = std::ranges::any_of(record.tensors, [&](const auto& tensor) {
        return core::is_input(tensor) && tensor.storage == record.tensors[i].storage;
      });
      if (!given) memory_.erase(storage_of(record, i));
    }
  }

 private:
  static at::Tensor parts_of_memory(const at::Tensor& memory, const core::TensorRecord& tensor) {
    const at::Tensor view = shown(memory, tensor);
    return view.is_complex() ? at::view_as_real(view) : view;
  }

  at::Tensor room(std::int64_t storage, std::int64_t numbers) {
    at::Tensor& memory = memory_[storage];
    const auto options = at::TensorOptions().dtype(at::kDouble);
    if (!memory.defined()) memory = at::zeros({numbers}, options);
    const std::int64_t missing = numbers - memory.numel();
    if (missing > 0) memory = at::cat({memory, at::zeros({missing}, options)});
    return memory;
  }

  std::map<std::int64_t, at::Tensor> memory_;
};

/// What moves in the result when an output moves by `error`.
double along(const at::Tensor& gradient, const at::Tensor& error) {
  if (!gradient.defined()) return 0;
  return at::nan_to_num(parts_of(gradient) * error, 0.0, 0.0, 0.0).sum().item<double>();
}

/// Goes back from the result over all calls that lead to it, twice: with the derivatives where
/// float64 is, and with those where the recorded run was. The mean of the two is right up to the
/// third order of the errors.
class Shares {
 public:
  explicit Shares(const core::DumpSource& dump) : dump_(dump) {}

  void seed(const core::TensorRecord& tensor, std::int64_t storage, const at::Tensor& direction) {
    exact_.seed(tensor, storage, direction);
    recorded_.seed(tensor, storage, direction);
  }

  [[nodiscard]] bool concerns(const core::OpRecord& record) const {
    return exact_.concerns(record) || recorded_.concerns(record);
  }

  void replace(const core::OpRecord& record) {
    exact_.replace(record);
    recorded_.replace(record);
  }

  /// @return whether gradients could be carried over the call
  bool go_back(const core::OpRecord& record, const Lent& lent, CallPrecision& call) {
    const RecordedOperator op(plans_, record);
    const auto is_lent = [&](std::int64_t storage) { return lent.memory.contains(storage); };
    const std::optional<Memory> given =  // that is the same in both
        if_possible([&] { return recorded_memory(dump_, record, std::not_fn(is_lent)); });
    const auto trace_with = [&](Memory memory) {
      memory.insert(given->begin(), given->end());
      return trace(dump_, record, op, memory, lent.memory);
    };
    std::optional<Traced> of_exact;
    std::optional<Traced> of_recorded;
    if (given) {
      of_exact = if_possible([&] { return trace_with(lent.memory); });
      of_recorded =
          if_possible([&] { return trace_with(recorded_memory(dump_, record, is_lent)); });
    }
    measure(record, of_exact, of_recorded, call);
    const bool good = carry(record, of_exact, exact_);
    return carry(record, of_recorded, recorded_) && good;
  }

 private:
  template <typename Make>
  static auto if_possible(const Make& make) -> std::optional<decltype(make())> {
    try {
      return make();
    } catch (const core::Error& error) {
      const bool expected = error.kind() == core::ErrorKind::kRunFailed ||
                            error.kind() == core::ErrorKind::kNotComparable;
      if (!expected) throw;
      return std::nullopt;
    }
  }

  static bool carry(const core::OpRecord& record,
                    const std::optional<Traced>& traced,
                    Gradients& gradients) {
    if (traced) return gradients.carry(record, *traced);
    gradients.replace(record);
    return false;
  }

  void measure(const core::OpRecord& record,
               const std::optional<Traced>& of_exact,
               const std::optional<Traced>& of_recorded,
               CallPrecision& call) {
    const std::vector<std::size_t> judged = judged_outputs(dump_, record);
    for (std::size_t i = 0; i < record.tensors.size(); ++i) {
      const core::TensorRecord& tensor = record.tensors[i];
      if (!core::is_output(tensor) || !has_recorded_values(dump_, tensor)) continue;
      const at::Tensor recorded = recorded_values(dump_, tensor);
      const auto moves = [&](const std::optional<Traced>& traced) {
        if (!traced || !traced->results[i].defined()) return 0.0;
        const at::Tensor error = error_of(recorded, traced->results[i].detach());
        const double first = along(exact_.at(record, i), error);
        const double last = along(recorded_.at(record, i), error);
        return (first + last) / 2;
      };
      call.passes += moves(of_exact);
      call.moved += moves(of_recorded);
      if (!of_recorded || !of_recorded->results[i].defined()) continue;
      if (std::ranges::find(judged, i) == judged.end()) continue;
      const at::Tensor own = of_recorded->results[i].detach();
      const double digits = digits_of(relative_error(tensor.dtype, recorded, own));
      call.own_digits = std::min(call.own_digits.value_or(kAllDigits), digits);
      if (!call.farthest) call.farthest = farthest_of(recorded, own);
    }
  }

  const core::DumpSource& dump_;
  capture::OperatorPlans plans_{{}, {}};
  Gradients exact_;
  Gradients recorded_;
};

/// Digits of what lies in the shadow, measured once for each content.
class DigitsOfContents {
 public:
  /// @return digits, rows and their digits
  const ModuleOutput& of(const core::DumpSource& dump,
                         const core::OpRecord& record,
                         std::size_t i,
                         ShadowMemory& memory) {
    const core::TensorRecord& tensor = record.tensors[i];
    const std::int64_t storage = storage_of(record, i);
    auto& known = known_[storage];
    const auto found = known.find(tensor.digest);
    if (storage >= 0 && found != known.end()) return found->second;
    const at::Tensor recorded = recorded_values(dump, tensor);
    const at::Tensor exact = as_read(memory.view(tensor, storage), recorded);
    const RowDistances distances(tensor.dtype, recorded, exact);
    return known[tensor.digest] = {record.index,
                                   digits_of(distances.relative_error()),
                                   static_cast<std::uint64_t>(distances.apart.numel()),
                                   row_digits(distances)};
  }

  /// To be called where the memory was written.
  void forget(const core::OpRecord& record) {
    for (std::size_t i = 0; i < record.tensors.size(); ++i) {
      if (core::is_output(record.tensors[i])) known_.erase(storage_of(record, i));
    }
  }

 private:
  std::map<std::int64_t, std::map<core::Digest, ModuleOutput>> known_;
};

/// One question about one dump.
class Measurement {
 public:
  Measurement(const core::DumpSource& dump, const RecordedTensor& result)
      : dump_(dump),
        wanted_(record_of(result.op)),
        tensor_(wanted_.tensors.at(result.tensor)),
        storage_(storage_of(wanted_, result.tensor)) {
    if (has_recorded_values(dump, tensor_)) return;
    cannot("the dump does not hold the values of the result", "record with --level tensor");
  }

  PrecisionOutcome measure(bool keep_values) {
    const CallTree tree(dump_, wanted_.index + 1);
    leads_ = tree.leading_to(wanted_.index, storage_);
    Shadow shadow(dump_, tree);
    shadow.run(observer());
    outcome_.counts = shadow.counts();
    for (const ShadowCut& each : shadow.cuts()) {
      if (leads_[each.op]) outcome_.cuts.push_back(each);
    }
    for (auto& [module, output] : outputs_) outcome_.modules.push_back(std::move(output));
    std::ranges::sort(outcome_.modules, {}, &ModuleOutput::op);
    const at::Tensor recorded = recorded_values(dump_, tensor_);
    outcome_.relative_error = relative_error(tensor_.dtype, recorded, exact_);
    outcome_.digits = digits_of(outcome_.relative_error);
    outcome_.farthest = farthest_of(recorded, exact_);
    if (lacks_numbers(recorded, exact_)) outcome_.overflow = overflow_;
    if (keep_values) {
      const at::Tensor flat = parts_of(exact_).contiguous();
      const double* first = flat.data_ptr<double>();
      outcome_.values.assign(first, first + flat.numel());
    }
    share_out(error_of(recorded, exact_), shadow.take_lent());
    return std::move(outcome_);
  }

 private:
  [[nodiscard]] core::OpRecord record_of(std::uint64_t op) const {
    core::OpRecord record = dump_.op(op);
    record.index = op;
    return record;
  }

  Shadow::Observer observer() {
    Shadow::Observer observer;
    observer.lends = [this](std::uint64_t op) { return leads_[op]; };
    observer.before = [this](const core::OpRecord& record, ShadowMemory& memory) {
      if (leads_[record.index]) measure_inputs(record, memory);
    };
    observer.after = [this](const core::OpRecord& record, ShadowMemory& memory, bool executed) {
      digits_.forget(record);
      if (executed && leads_[record.index]) measure_outputs(record, memory);
    };
    observer.end = [this](ShadowMemory& memory) {
      if (!memory.is_computed(storage_)) {
        cannot("no recorded operator computed the result", "record the whole program");
      }
      exact_ = memory.view(tensor_, storage_).clone();
    };
    return observer;
  }

  void measure_inputs(const core::OpRecord& record, ShadowMemory& memory) {
    CallPrecision& call = outcome_.calls.emplace_back();
    call.op = record.index;
    call.terms = terms_of(record);
    for (std::size_t i = 0; i < record.tensors.size(); ++i) {
      const core::TensorRecord& input = record.tensors[i];
      const bool counts = core::is_input(input) && has_recorded_values(dump_, input) &&
                          core::reads_values(*record.op, input.slot) &&
                          memory.is_computed(storage_of(record, i));
      if (!counts) continue;
      const double found = digits_.of(dump_, record, i, memory).digits;
      call.digits_in = std::min(call.digits_in.value_or(kAllDigits), found);
    }
  }

  void measure_outputs(const core::OpRecord& record, ShadowMemory& memory) {
    CallPrecision& call = outcome_.calls.back();
    bool is_first = true;
    for (const std::size_t i : judged_outputs(dump_, record)) {
      const ModuleOutput& output = digits_.of(dump_, record, i, memory);
      const double found = output.digits;
      if (std::exchange(is_first, false)) keep_output(record, output);
      call.digits_out = std::min(call.digits_out.value_or(kAllDigits), found);
      if (!overflow_ && found == 0 &&
          lacks_numbers(recorded_values(dump_, record.tensors[i]),
                        memory.view(record.tensors[i], storage_of(record, i)))) {
        overflow_ = record.index;
      }
    }
  }

  void keep_output(const core::OpRecord& record, const ModuleOutput& output) {
    const bool is_forward = record.phase == core::Phase::kForward ||
                            record.phase == core::Phase::kLoss ||
                            record.phase == core::Phase::kEval;
    if (!is_forward || !record.site || record.site->module_path.empty()) return;
    ModuleOutput& kept = outputs_[{record.site->module_path, record.step}];
    kept = output;
    kept.op = record.index;
  }

  /// Of an exact result there is nothing to share, and of one that is not finite nobody can.
  void share_out(const at::Tensor& error, std::vector<Lent> lent) {
    const auto size = error.norm().item<double>();
    if (!std::isfinite(size) || size == 0) return;
    const capture::CallModesPin modes(kFloat64Modes);
    const capture::UnheardWarnings unheard;
    Shares shares(dump_);
    shares.seed(tensor_, storage_, error / (size * size));
    for (; !lent.empty(); lent.pop_back()) {
      const Lent& last = lent.back();
      const core::OpRecord record = record_of(last.op);
      if (!shares.concerns(record)) continue;
      if (!last.executed) {
        shares.replace(record);
        continue;
      }
      const auto call = std::ranges::find(outcome_.calls, last.op, &CallPrecision::op);
      if (!shares.go_back(record, last, *call)) {
        const std::string name = record.op->full_name();
        if (std::ranges::find(outcome_.underived, name) == outcome_.underived.end()) {
          outcome_.underived.push_back(name);
        }
      }
      outcome_.explained += call->moved;
    }
  }

  const core::DumpSource& dump_;
  core::OpRecord wanted_;
  const core::TensorRecord& tensor_;
  std::int64_t storage_;
  std::vector<bool> leads_;
  PrecisionOutcome outcome_;
  std::map<std::pair<std::string, std::uint32_t>, ModuleOutput> outputs_;  ///< by step
  DigitsOfContents digits_;
  at::Tensor exact_;
  std::optional<std::uint64_t> overflow_;
};

}  // namespace

PrecisionOutcome measure_precision(const core::DumpSource& dump, const RecordedTensor& result) {
  return Measurement(dump, result).measure(result.values);
}

}  // namespace repro_check::replay
