// SPDX-License-Identifier: Apache-2.0
#include "dumpers/torchscript/inputs.h"

#include <ATen/Functions.h>
#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <torch/version.h>

#include <algorithm>
#include <cfenv>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <type_traits>
#include <variant>

#include "core/error.h"
#include "core/system/pinned.h"
#include "core/tensor/npy.h"
#include "dumpers/capture/settings/environment.h"
#include "dumpers/capture/torch/torch_compat.h"
#include "dumpers/model_file/model_file.h"
#include "dumpers/torchscript/failures.h"
#include "dumpers/torchscript/random_numbers.h"

namespace repro_check::torchscript {

namespace {

std::string device_names() {
  std::string list = "cpu";
  for (const c10::Device& device : capture::present_devices()) list += ", " + device.str();
  return list;
}

}  // namespace

std::optional<at::ScalarType> to_scalar_type(core::Dtype dtype) noexcept {
  // No input of a model is made of these.
  const bool is_packed =
      dtype == core::Dtype::kFloat8E8M0FNU || dtype == core::Dtype::kFloat4E2M1FNX2;
  if (is_packed || core::is_quantised(dtype)) return std::nullopt;
  return capture::scalar_type_of(dtype);
}

at::Device parse_device(const std::string& text) {
  std::optional<at::Device> device;
  std::string reason;
  try {
    device = at::Device(text);
    if (device->type() != c10::DeviceType::Meta) {
      // The only question that every backend answers alike is whether it can hold a number.
      at::empty({1}, at::TensorOptions().device(*device)).fill_(0);
      return *device;
    }
    reason = "meta tensors hold no values, so there is nothing to record";
  } catch (const std::exception& error) {
    reason = first_useful_line(error);
  }
  const std::string problem = device ? " is not available: " : " is not a device: ";
  throw usage_error("device \"" + text + "\"" + problem + reason,
                    "devices of this recorder: " + device_names());
}

namespace {

using configs::Distribution;
using configs::GeneratedInput;

constexpr double kInt64Bound = 0x1p63;

std::int64_t count_elements(const GeneratedInput& input, const std::string& where) {
  std::int64_t count = 1;
  bool overflow = false;
  bool empty = false;
  for (const std::int64_t size : input.shape) {
    if (size < 0)
      throw usage_error(where + ": a shape has no negative sizes", "give sizes of 0 and more");
    empty = empty || size == 0;
    overflow = overflow || __builtin_mul_overflow(count, size, &count);
  }
  if (empty) return 0;
  const std::size_t width = core::element_size(input.dtype);
  std::int64_t bytes = 0;
  if (overflow || __builtin_mul_overflow(count, static_cast<std::int64_t>(width), &bytes)) {
    throw usage_error(where + ": the shape has too many elements", "make it smaller");
  }
  return count;
}

double checked(double value, const std::string& where, const char* name) {
  if (!std::isfinite(value)) {
    throw usage_error(where + ": " + name + " must be a finite number", "give a number");
  }
  return value;
}

/// An integer that a double of the configuration holds exactly.
std::int64_t whole(double value, const std::string& where, const char* name) {
  if (std::floor(value) != value || value < -kInt64Bound || value >= kInt64Bound) {
    throw usage_error(where + ": " + name + " must be a whole number of 64 bits",
                      "give an integer, or use \"uniform\"");
  }
  return static_cast<std::int64_t>(value);
}

/// Largest value of an integer dtype; empty for the others.
std::optional<std::pair<double, double>> integer_range(core::Dtype dtype) {
  if (!core::is_integral(dtype)) return std::nullopt;
  const auto bits = static_cast<int>(core::element_size(dtype) * 8);
  const bool is_signed = core::dtype_name(dtype).front() == 'i';
  return is_signed ? std::pair{-std::ldexp(1, bits - 1), std::ldexp(1, bits - 1)}
                   : std::pair{0.0, std::ldexp(1, bits)};
}

void check_range(core::Dtype dtype, double first, double end, const std::string& where) {
  const auto range = integer_range(dtype);
  if (range && (first < range->first || end > range->second)) {
    throw usage_error(where + ": values from " + std::to_string(static_cast<std::int64_t>(first)) +
                          " do not fit " + std::string(core::dtype_name(dtype)),
                      "narrow low and high, or take a wider dtype");
  }
}

at::Tensor make_integers(const GeneratedInput& input,
                         std::int64_t count,
                         const std::string& where) {
  at::Tensor values = at::empty({count}, at::kLong);
  auto* data = values.data_ptr<std::int64_t>();
  const std::int64_t low = whole(input.low, where, "low");
  if (input.distribution == Distribution::kArange) {
    check_range(input.dtype, input.low, input.low + static_cast<double>(count), where);
    for (std::int64_t i = 0; i < count; ++i) data[i] = low + i;
    return values;
  }
  const std::int64_t high = whole(input.high, where, "high");
  if (low >= high)
    throw usage_error(where + ": low must be below high", "high itself is never drawn");
  check_range(input.dtype, input.low, input.high, where);
  RandomNumbers random(input.seed);
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  for (std::int64_t i = 0; i < count; ++i) {
    data[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + random.below(range));
  }
  return values;
}

at::Tensor make_reals(const GeneratedInput& input, std::int64_t count, const std::string& where) {
  at::Tensor values = at::empty({count}, at::kDouble);
  auto* data = values.data_ptr<double>();
  RandomNumbers random(input.seed);
  if (input.distribution == Distribution::kNormal) {
    const double mean = checked(input.mean, where, "mean");
    const double std = checked(input.std, where, "std");
    for (std::int64_t i = 0; i < count; ++i) data[i] = mean + std * random.normal();
    return values;
  }
  const double low = checked(input.low, where, "low");
  const double width = checked(checked(input.high, where, "high") - low, where, "high - low");
  if (input.distribution == Distribution::kArange) {
    for (std::int64_t i = 0; i < count; ++i) data[i] = low + static_cast<double>(i);
    return values;
  }
  if (width <= 0)
    throw usage_error(where + ": low must be below high", "high itself is never drawn");
  for (std::int64_t i = 0; i < count; ++i) data[i] = low + width * random.uniform();
  return values;
}

/// Arithmetic as the machine has it of itself, whatever the run flushes: one configuration gives
/// one input under every setting.
class PlainArithmetic : core::Pinned {
 public:
  PlainArithmetic() {
    std::fegetenv(&kept_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~PlainArithmetic() { std::fesetenv(&kept_); }

 private:
  std::fenv_t kept_{};
};

/// Rounding to a short dtype may reach the upper bound, which is promised never to appear.
void keep_below_high(at::Tensor& values, const GeneratedInput& input) {
  if (input.distribution != Distribution::kUniform || !values.is_floating_point()) return;
  values.masked_fill_(values.to(at::kDouble).ge(input.high), input.low);
}

}  // namespace

at::Tensor generate_tensor(const GeneratedInput& input, const std::string& where) {
  const PlainArithmetic plain;
  const auto type = to_scalar_type(input.dtype);
  if (!type) {
    throw usage_error(where + ": dtype " + std::string(core::dtype_name(input.dtype)) +
                          " cannot be generated under LibTorch " TORCH_VERSION,
                      "take another dtype, or give the tensor as a file");
  }
  const std::int64_t count = count_elements(input, where);
  const Distribution kind = input.distribution;
  const bool constant = kind == Distribution::kZeros || kind == Distribution::kOnes;
  if (constant) {
    const double value = kind == Distribution::kOnes ? 1 : 0;
    return at::full({}, value, at::kDouble).to(*type).expand(input.shape).contiguous();
  }
  const bool integers = kind == Distribution::kRandint ||
                        (kind == Distribution::kArange && core::is_integral(input.dtype));
  const bool complex = core::is_complex(input.dtype);
  const std::int64_t drawn = complex ? 2 * count : count;
  at::Tensor values =
      integers ? make_integers(input, drawn, where) : make_reals(input, drawn, where);
  if (complex) {
    values = at::view_as_complex(values.to(at::kDouble).reshape({count, 2}));
  } else if (core::element_size(input.dtype) < 4) {
    // Through float32 on every path: some releases round a float64 to 16 bits in two steps.
    values = integers ? values : values.to(at::kFloat);
  }
  values = values.to(*type).reshape(input.shape);
  keep_below_high(values, input);
  return values;
}

namespace {

const std::string kSaveHint =
    "save the tensor alone, in Python: torch.save(tensor.detach().cpu(), path); or as .npy";

/// What a reader of ours complains about, with the place in the configuration in front.
template <typename Read>
auto at_pointer(const std::string& pointer, Read&& read) {
  try {
    return read();
  } catch (const core::Error& error) {
    throw core::Error(error.kind(), pointer + ": " + error.what(), error.hint());
  }
}

/// A tensor of its own on the CPU.
at::Tensor to_tensor(const core::HostTensor& host, const std::string& what) {
  const auto type = to_scalar_type(host.dtype);
  if (!type) {
    throw usage_error(what + ": dtype " + std::string(core::dtype_name(host.dtype)) +
                          " cannot be given to a model under LibTorch " TORCH_VERSION,
                      "convert the tensor, or use a recorder built against a newer LibTorch");
  }
  at::Tensor tensor = at::empty(host.shape, at::TensorOptions().dtype(*type));
  if (!host.bytes.empty()) std::memcpy(tensor.data_ptr(), host.bytes.data(), host.bytes.size());
  return tensor;
}

std::vector<char> read_all(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) throw usage_error(file.string() + ": cannot be read", "check its permissions");
  return bytes;
}

at::Tensor read_saved(const std::filesystem::path& file) {
  const model_file::FileKind kind = model_file::identify_file(file);
  if (kind != model_file::FileKind::kSavedObject) {
    throw usage_error(file.string() + ": not a tensor written by torch.save but " +
                          std::string(model_file::describe_kind(kind)),
                      kSaveHint);
  }
  c10::IValue value;
  try {
    value = torch::jit::pickle_load(read_all(file));
  } catch (const std::exception& error) {
    throw usage_error(
        file.string() + ": does not hold a single plain tensor (" + first_useful_line(error) + ")",
        kSaveHint);
  }
  if (!value.isTensor()) {
    throw usage_error(file.string() + ": holds a " + value.type()->str() + ", not a tensor",
                      kSaveHint);
  }
  const at::Tensor tensor = value.toTensor();
  if (tensor.layout() != c10::kStrided || !tensor.device().is_cpu()) {
    throw usage_error(file.string() + ": holds a tensor that is not a dense one on the CPU",
                      kSaveHint);
  }
  // A copy of its own, in the same strides: they can decide which kernel runs.
  return tensor.detach().clone();
}

}  // namespace

std::optional<at::Tensor> read_tensor(const configs::InputSpec& input, const Hdf5Reader& hdf5) {
  const std::string& pointer = input.pointer;
  if (const auto* generated = std::get_if<configs::GeneratedInput>(&input.source)) {
    return generate_tensor(*generated, pointer);
  }
  if (const auto* file = std::get_if<configs::FileInput>(&input.source)) {
    using Kind = configs::FileInput::Kind;
    return at_pointer(pointer, [&] {
      if (file->kind == Kind::kTorch) return read_saved(file->path);
      if (file->kind == Kind::kNpy)
        return to_tensor(core::read_npy(file->path), file->path.string());
      if (!hdf5) throw usage_error("HDF5 files cannot be read here", "give the tensor as .npy");
      return to_tensor(hdf5(file->path, file->dataset), file->path.string());
    });
  }
  return std::nullopt;
}

namespace {

using configs::InputSpec;

std::vector<std::string> argument_names(const c10::FunctionSchema& schema) {
  std::vector<std::string> names;
  for (std::size_t i = 1; i < schema.arguments().size(); ++i) {
    names.push_back(schema.arguments()[i].name());
  }
  return names;
}

std::string signature(const c10::FunctionSchema& schema) {
  std::string text = schema.name() + "(";
  for (std::size_t i = 1; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    text += (i == 1 ? "" : ", ") + argument.name() + ": " + argument.type()->repr_str();
    if (argument.default_value()) text += " = ...";
  }
  return text + ")";
}

/// Which input goes to which argument: named ones by name, the others in order to those left over
/// before them, as in a Python call.
std::vector<const InputSpec*> assign(const c10::FunctionSchema& schema,
                                     const configs::CallSpec& call) {
  const std::vector<std::string> names = argument_names(schema);
  std::vector<const InputSpec*> given(names.size(), nullptr);
  std::size_t next = 0;
  for (const InputSpec& input : call) {
    std::size_t at = next++;
    if (!input.name.empty()) {
      at = static_cast<std::size_t>(std::ranges::find(names, input.name) - names.begin());
      if (at == names.size()) {
        throw usage_error(input.pointer + ": the method has no argument \"" + input.name + "\"" +
                              suggest(input.name, names),
                          "it is " + signature(schema));
      }
    } else if (at >= names.size()) {
      throw usage_error(input.pointer + ": one input too many; " + std::to_string(call.size()) +
                            " are given, and the method takes " + std::to_string(names.size()),
                        "it is " + signature(schema));
    }
    if (given[at] != nullptr) {
      throw usage_error(input.pointer + ": argument \"" + names[at] +
                            "\" is given twice, first at " + given[at]->pointer,
                        "leave one of them out");
    }
    given[at] = &input;
  }
  return given;
}

void collect(const std::string& name,
             const c10::IValue& value,
             std::vector<std::pair<std::string, at::Tensor>>& into) {
  if (value.isTensor()) {
    if (value.toTensor().defined()) into.emplace_back(name, value.toTensor());
  } else if (value.isList()) {
    std::size_t i = 0;
    for (const c10::IValue& item : value.toListRef()) {
      collect(name + "." + std::to_string(i++), item, into);
    }
  } else if (value.isTuple()) {
    std::size_t i = 0;
    for (const c10::IValue& item : value.toTupleRef().elements()) {
      collect(name + "." + std::to_string(i++), item, into);
    }
  } else if (value.isGenericDict()) {
    for (const auto& entry : value.toGenericDict()) {
      const c10::IValue& key = entry.key();
      const std::string part = '.' + (key.isString() ? key.toStringRef() : c10::str(key));
      collect(name + part, entry.value(), into);
    }
  }
}

using c10::TypeKind;

constexpr std::int64_t kExactInDouble = std::int64_t{1} << 53U;

std::string describe(const configs::ValueInput& value) {
  struct Visitor {
    std::string operator()(std::nullptr_t) const { return "null"; }
    std::string operator()(bool b) const { return b ? "the bool true" : "the bool false"; }
    std::string operator()(std::int64_t i) const { return "the integer " + std::to_string(i); }
    std::string operator()(double d) const { return "the number " + std::to_string(d); }
    std::string operator()(const std::string& s) const {
      return "the string \"" + s.substr(0, 60) + "\"";
    }
  };
  return std::visit(Visitor{}, value.value);
}

std::string describe(const InputSpec& input) {
  if (const auto* value = std::get_if<configs::ValueInput>(&input.source)) return describe(*value);
  if (const auto* container = std::get_if<configs::ContainerInput>(&input.source)) {
    if (container->kind == configs::ContainerInput::Kind::kDict) return "a dict";
    const bool is_list = container->kind == configs::ContainerInput::Kind::kList;
    return (is_list ? "a list of " : "a tuple of ") + std::to_string(container->items.size());
  }
  return "a tensor";
}

/// How an input of this type is written in a configuration.
std::string how_to_give(const c10::Type& type) {
  switch (type.kind()) {
    case TypeKind::TensorType:
      return R"(give a tensor: {"generate": "normal", "shape": [2, 3]}, or "npy", "torch", "hdf5")";
    case TypeKind::IntType:
      return R"(give a whole number: {"value": 3})";
    case TypeKind::FloatType:
      return R"(give a number: {"value": 0.5})";
    case TypeKind::BoolType:
      return R"(give {"value": true} or {"value": false})";
    case TypeKind::StringType:
      return R"(give a string: {"value": "mean"})";
    case TypeKind::DeviceObjType:
      return R"(give a device: {"value": "cpu"})";
    case TypeKind::ListType:
      return R"(give {"list": [...]} with one input an element)";
    case TypeKind::TupleType:
      return R"(give {"tuple": [...]} with one input an element)";
    case TypeKind::DictType:
      return R"(give {"dict": {"key": ...}} with one input an entry)";
    case TypeKind::OptionalType:
      return R"(give {"value": null} for None, or else: )" +
             how_to_give(*type.castRaw<c10::OptionalType>()->getElementType());
    default:
      return "TorchScript builds values of this type itself: wrap the model in one whose method "
             "takes tensors, numbers and strings";
  }
}

/// Makes a value of the type a schema asks for: an integer where a float is wanted, a string for a
/// device, null for None, a list for List[...].
class Converter {
 public:
  /// @param argument  its name, for messages
  Converter(const std::string& argument, const InputContext& context)
      : argument_(argument), context_(context) {}

  [[nodiscard]] c10::IValue convert(const InputSpec& input, const c10::TypePtr& type) const {
    if (const auto* optional = type->castRaw<c10::OptionalType>()) {
      return is_null(input) ? c10::IValue() : convert(input, optional->getElementType());
    }
    if (type->kind() == TypeKind::UnionType) return convert_union(input, type);
    if (auto tensor = read_tensor(input, *context_.hdf5)) {
      if (!is_any(type) && type->kind() != TypeKind::TensorType) throw mismatch(input, *type);
      return place(*tensor);
    }
    if (const auto* container = std::get_if<configs::ContainerInput>(&input.source)) {
      using Kind = configs::ContainerInput::Kind;
      if (container->kind == Kind::kList) return convert_list(input, container->items, type);
      if (container->kind == Kind::kTuple) return convert_tuple(input, container->items, type);
      return convert_dict(input, container->items, type);
    }
    return convert_value(input, type);
  }

 private:
  /// What the configuration says is what an argument of type Any gets, and what is inside it.
  static bool is_any(const c10::TypePtr& type) { return type->kind() == TypeKind::AnyType; }

  [[nodiscard]] core::Error mismatch(const InputSpec& input, const c10::Type& type) const {
    return {core::ErrorKind::kUsage,
            input.pointer + ": argument \"" + argument_ + "\" wants " + type.repr_str() +
                ", but is given " + describe(input),
            how_to_give(type)};
  }

  static bool is_null(const InputSpec& input) {
    const auto* value = std::get_if<configs::ValueInput>(&input.source);
    return value != nullptr && std::holds_alternative<std::nullptr_t>(value->value);
  }

  [[nodiscard]] at::Tensor place(const at::Tensor& tensor) const {
    const bool cast = context_.dtype && tensor.is_floating_point();
    return tensor.to(context_.device, cast ? *context_.dtype : tensor.scalar_type());
  }

  [[nodiscard]] c10::IValue convert_union(const InputSpec& input, const c10::TypePtr& type) const {
    for (const c10::TypePtr& member : type->containedTypes()) {
      try {
        return convert(input, member);
      } catch (const core::Error&) {
        continue;  // the next member may take it
      }
    }
    throw mismatch(input, *type);
  }

  static c10::IValue as_is(const configs::ValueInput& value) {
    return std::visit(
        [](const auto& v) -> c10::IValue {
          if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::nullptr_t>)
            return {};
          else
            return v;
        },
        value.value);
  }

  [[nodiscard]] c10::IValue convert_list(const InputSpec& input,
                                         const std::vector<InputSpec>& list,
                                         const c10::TypePtr& type) const {
    const auto* wanted = type->castRaw<c10::ListType>();
    if (wanted == nullptr && !is_any(type)) throw mismatch(input, *type);
    const c10::TypePtr element = wanted == nullptr ? type : wanted->getElementType();
    c10::impl::GenericList items(element);
    for (const InputSpec& item : list) items.push_back(convert(item, element));
    return items;
  }

  [[nodiscard]] c10::IValue convert_tuple(const InputSpec& input,
                                          const std::vector<InputSpec>& tuple,
                                          const c10::TypePtr& type) const {
    const auto wanted = type->cast<c10::TupleType>();
    const bool fits = wanted && wanted->elements().size() == tuple.size();
    if (!fits && !is_any(type)) throw mismatch(input, *type);
    std::vector<c10::IValue> items;
    for (std::size_t i = 0; i < tuple.size(); ++i) {
      items.push_back(convert(tuple[i], wanted ? wanted->elements()[i] : type));
    }
    return wanted && wanted->schema() ? c10::ivalue::Tuple::createNamed(std::move(items), wanted)
                                      : c10::ivalue::Tuple::create(std::move(items));
  }

  [[nodiscard]] c10::IValue convert_dict(const InputSpec& input,
                                         const std::vector<InputSpec>& dict,
                                         const c10::TypePtr& type) const {
    const auto* wanted = type->castRaw<c10::DictType>();
    if (wanted == nullptr && !is_any(type)) throw mismatch(input, *type);
    const c10::TypePtr name = wanted == nullptr ? c10::StringType::get() : wanted->getKeyType();
    const c10::TypePtr entry = wanted == nullptr ? type : wanted->getValueType();
    c10::impl::GenericDict entries(name, entry);
    for (const InputSpec& item : dict) {
      entries.insert(convert_key(input, item.name, *name), convert(item, entry));
    }
    return entries;
  }

  [[nodiscard]] c10::IValue convert_key(const InputSpec& input,
                                        const std::string& key,
                                        const c10::Type& type) const {
    if (type.kind() == TypeKind::StringType) return key;
    std::int64_t number = 0;
    const char* end = key.data() + key.size();
    const auto parsed = std::from_chars(key.data(), end, number);
    const bool whole = parsed.ec == std::errc{} && parsed.ptr == end;
    if (type.kind() == TypeKind::IntType && whole) return number;
    throw usage_error(input.pointer + ": argument \"" + argument_ + "\": \"" + key +
                          "\" is no key of type " + type.repr_str(),
                      "keys are strings, or whole numbers written as strings");
  }

  [[nodiscard]] c10::IValue convert_value(const InputSpec& input, const c10::TypePtr& type) const {
    if (is_any(type)) return as_is(std::get<configs::ValueInput>(input.source));
    const auto& value = std::get<configs::ValueInput>(input.source).value;
    const auto* integer = std::get_if<std::int64_t>(&value);
    const auto* real = std::get_if<double>(&value);
    const auto* text = std::get_if<std::string>(&value);
    switch (type->kind()) {
      case TypeKind::NoneType:
        if (is_null(input)) return {};
        break;
      case TypeKind::BoolType:
        if (const auto* b = std::get_if<bool>(&value)) return *b;
        break;
      case TypeKind::IntType:
        if (integer != nullptr) return *integer;
        break;
      case TypeKind::FloatType:
        if (real != nullptr) return *real;
        // TorchScript takes an int for a float; one that would change its value is a mistake.
        if (integer != nullptr && *integer <= kExactInDouble && *integer >= -kExactInDouble) {
          return static_cast<double>(*integer);
        }
        break;
      case TypeKind::ComplexType:
        if (real != nullptr) return c10::complex<double>(*real, 0);
        if (integer != nullptr) return c10::complex<double>(static_cast<double>(*integer), 0);
        break;
      case TypeKind::NumberType:
        if (real != nullptr) return *real;
        if (integer != nullptr) return *integer;
        break;
      case TypeKind::StringType:
        if (text != nullptr) return *text;
        break;
      case TypeKind::DeviceObjType:
        if (text != nullptr) return convert_device(input, *text);
        break;
      default:
        break;
    }
    throw mismatch(input, *type);
  }

  [[nodiscard]] c10::IValue convert_device(const InputSpec& input, const std::string& text) const {
    try {
      return at::Device(text);
    } catch (const std::exception& error) {
      throw usage_error(input.pointer + ": argument \"" + argument_ + "\": \"" + text +
                            "\" is no device: " + first_useful_line(error),
                        R"(give {"value": "cpu"} or {"value": "cuda:0"})");
    }
  }

  const std::string& argument_;
  const InputContext& context_;
};

}  // namespace

std::vector<c10::IValue> build_inputs(const c10::FunctionSchema& schema,
                                      const c10::IValue& self,
                                      const configs::CallSpec& call,
                                      const std::string& pointer,
                                      const InputContext& context) {
  const std::vector<const InputSpec*> given = assign(schema, call);
  std::vector<c10::IValue> values;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i + 1];
    if (given[i] != nullptr) {
      const Converter converter(argument.name(), context);
      values.push_back(converter.convert(*given[i], argument.type()));
    } else if (argument.default_value()) {
      values.push_back(*argument.default_value());
    } else {
      throw usage_error(pointer + ": no input for argument \"" + argument.name() + "\" of type " +
                            argument.type()->repr_str(),
                        "the method is " + signature(schema) +
                            "; `repro-check init` writes an input for "
                            "each argument");
    }
  }
  // The last word is LibTorch's own: a type that we converted wrongly must not reach the model.
  try {
    std::vector<c10::IValue> checked{self};
    checked.insert(checked.end(), values.begin(), values.end());
    schema.checkAndNormalizeInputs(checked);
  } catch (const std::exception& error) {
    throw usage_error(pointer + ": " + first_useful_line(error),
                      "the method is " + signature(schema));
  }
  return values;
}

std::vector<std::pair<std::string, at::Tensor>> named_input_tensors(
    const c10::FunctionSchema& schema, const std::vector<c10::IValue>& inputs) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    collect(schema.arguments()[i + 1].name(), inputs[i], tensors);
  }
  return tensors;
}

}  // namespace repro_check::torchscript
