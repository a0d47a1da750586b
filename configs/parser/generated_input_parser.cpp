// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

#include "configs/parser/input_parser.h"
#include "configs/parser/keys.h"
#include "core/tensor/dtype.h"

namespace repro_check::configs::detail {
namespace {

using core::Dtype;

constexpr std::int64_t kMostBytes = std::int64_t{1} << 40U;
constexpr std::size_t kMostDimensions = 64;
/// Up to here every integer is a double, which is what GeneratedInput keeps the bounds in.
constexpr std::int64_t kLargestExact = std::int64_t{1} << 53U;

constexpr auto kPlainKeys = std::to_array<std::string_view>({"shape", "dtype"});
constexpr auto kArangeKeys = std::to_array<std::string_view>({"shape", "dtype", "low"});
constexpr auto kNormalKeys =
    std::to_array<std::string_view>({"shape", "dtype", "seed", "mean", "std"});
constexpr auto kRangeKeys =
    std::to_array<std::string_view>({"shape", "dtype", "seed", "low", "high"});

/// Those that take a seed.
bool is_random(Distribution distribution) {
  return distribution == Distribution::kNormal || distribution == Distribution::kUniform ||
         distribution == Distribution::kRandint;
}

/// Those that draw from low to high.
bool is_ranged(Distribution distribution) {
  return distribution == Distribution::kUniform || distribution == Distribution::kRandint;
}

/// Those whose numbers are whole unless a dtype says otherwise, as in torch.
bool counts_in_integers(Distribution distribution) {
  return distribution == Distribution::kArange || distribution == Distribution::kRandint;
}

/// Why `dtype` does not suit, or null.
const char* unsuited(Distribution distribution, Dtype dtype) {
  if (core::is_quantised(dtype) || dtype == Dtype::kFloat4E2M1FNX2 ||
      dtype == Dtype::kFloat8E8M0FNU) {
    return "cannot be generated; give the tensor as a file";
  }
  const bool plain_number = core::is_floating(dtype) || core::is_integral(dtype);
  switch (distribution) {
    case Distribution::kZeros:
    case Distribution::kOnes:
      return nullptr;
    case Distribution::kArange:
      return plain_number ? nullptr : "arange takes an integer or floating dtype";
    case Distribution::kNormal:
    case Distribution::kUniform:
      return core::is_floating(dtype) || core::is_complex(dtype)
                 ? nullptr
                 : "normal and uniform take a floating or complex dtype";
    case Distribution::kRandint:
      return plain_number || dtype == Dtype::kBool
                 ? nullptr
                 : "randint takes an integer, bool or floating dtype";
  }
  return nullptr;
}

/// @return whether every size was read
bool read_shape(const Node& node, std::vector<std::int64_t>& shape, Problems& problems) {
  if (!node.json->is_array()) {
    report_unexpected(node, "a list of sizes, [] for a single number", problems);
    return false;
  }
  if (node.json->size() > kMostDimensions) {
    problems.add(node.pointer, fmt::format("expected at most {} sizes", kMostDimensions));
    return false;
  }
  bool good = true;
  for (std::size_t i = 0; i < node.json->size(); ++i) {
    const auto size =
        read_integer(node.item(i), {0, std::numeric_limits<std::int64_t>::max(), ""}, problems);
    good = good && size.has_value();
    shape.push_back(size.value_or(0));
  }
  return good;
}

/// The bytes of the tensor; empty when there are more than kMostBytes.
std::optional<std::int64_t> bounded_bytes(const GeneratedInput& input) {
  auto bytes = static_cast<std::int64_t>(core::element_size(input.dtype));
  bool empty = false;
  for (const std::int64_t size : input.shape) {
    empty = empty || size == 0;
    // The other sizes count even beside a 0: LibTorch multiplies them for the strides.
    if (size > 0 && (__builtin_mul_overflow(bytes, size, &bytes) || bytes > kMostBytes)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : bytes;
}

/// Whether an integer dtype holds `value`; true for dtypes that are none.
bool holds(Dtype dtype, double value) {
  if (dtype == Dtype::kBool) return value >= 0 && value <= 1;
  if (!core::is_integral(dtype)) return true;
  const bool is_signed = dtype >= Dtype::kInt8;
  const int bits = static_cast<int>(core::element_size(dtype)) * 8 - (is_signed ? 1 : 0);
  return value < std::ldexp(1.0, bits) && value >= (is_signed ? -std::ldexp(1.0, bits) : 0.0);
}

/// `low` and `high` as far as they are given.
bool read_bounds(const ObjectReader& object, GeneratedInput& input, Problems& problems) {
  bool good = true;
  const bool whole =
      input.distribution == Distribution::kRandint ||
      (input.distribution == Distribution::kArange && core::is_integral(input.dtype));
  const auto read = [&](std::string_view key, double& into) {
    const auto node = object.find(key);
    if (!node) return;
    if (whole) {
      const auto value =
          read_integer(*node,
                       {-kLargestExact, kLargestExact, "beyond 2^53 not every integer can be kept"},
                       problems);
      good = good && value.has_value();
      assign(value, into);
    } else {
      const auto value = read_number(*node, problems);
      good = good && value.has_value();
      assign(value, into);
    }
  };
  const bool ranged = is_ranged(input.distribution);
  if (ranged || input.distribution == Distribution::kArange) read("low", input.low);
  if (ranged) read("high", input.high);
  return good;
}

/// Whether the range is one, and fits: a number that wraps round in its dtype would be another
/// input than the one described.
void check_bounds(const ObjectReader& object, const GeneratedInput& input, Problems& problems) {
  if (is_ranged(input.distribution) && !(input.low < input.high)) {
    problems.add(object.has("high") ? child_pointer(object.pointer(), "high") : object.pointer(),
                 fmt::format("expected low < high, got low {} and high {}", input.low, input.high));
    return;
  }
  double last = input.high - 1;
  if (input.distribution == Distribution::kArange) {
    double count = 1;
    for (const std::int64_t size : input.shape) count *= static_cast<double>(size);
    last = count > 0 ? input.low + count - 1 : input.low;
  } else if (input.distribution != Distribution::kRandint) {
    return;
  }
  if (!holds(input.dtype, input.low) || !holds(input.dtype, last)) {
    problems.add(object.pointer(),
                 fmt::format("{} does not hold the numbers from {} to {}; take a wider dtype",
                             core::dtype_name(input.dtype),
                             input.low,
                             last));
  }
}

/// A std of 0 is taken: it gives the mean everywhere.
void read_moments(const ObjectReader& object, GeneratedInput& input, Problems& problems) {
  if (input.distribution != Distribution::kNormal) return;
  if (const auto node = object.find("mean")) assign(read_number(*node, problems), input.mean);
  if (const auto node = object.find("std")) {
    const auto value = read_number(*node, problems);
    if (value && !(*value >= 0)) report_unexpected(*node, "a number of 0 or more", problems);
    assign(value, input.std);
  }
}

/// @return whether there is a dtype to go on with
bool read_dtype(const ObjectReader& object, GeneratedInput& input, Problems& problems) {
  input.dtype = counts_in_integers(input.distribution) ? Dtype::kInt64 : Dtype::kFloat32;
  const auto node = object.find("dtype");
  if (!node) return true;
  const auto dtype = node->json->is_string()
                         ? core::parse_dtype(node->json->get_ref<const std::string&>())
                         : std::nullopt;
  if (!dtype) {
    report_unexpected(*node, "a dtype such as float32, bfloat16, int64 or bool", problems);
    return false;
  }
  if (const char* why = unsuited(input.distribution, *dtype)) {
    problems.add(node->pointer, fmt::format("{}: {}", core::dtype_name(*dtype), why));
    return false;
  }
  input.dtype = *dtype;
  return true;
}

}  // namespace

std::span<const std::string_view> generate_keys(const Json& distribution) noexcept {
  const auto* const name = distribution.get_ptr<const std::string*>();
  if (name == nullptr) return kGenerateKeys;
  if (*name == "zeros" || *name == "ones") return kPlainKeys;
  if (*name == "arange") return kArangeKeys;
  if (*name == "normal") return kNormalKeys;
  if (*name == "uniform" || *name == "randint") return kRangeKeys;
  return kGenerateKeys;
}

std::optional<std::uint64_t> read_seed(const Node& node, Problems& problems) {
  const auto seed = read_integer(node,
                                 {0,
                                  std::numeric_limits<std::uint32_t>::max(),
                                  "LibTorch's CPU generator uses the low 32 bits only, so a larger "
                                  "seed would repeat the numbers of a smaller one"},
                                 problems);
  if (!seed) return std::nullopt;
  return static_cast<std::uint64_t>(*seed);
}

std::optional<GeneratedInput> read_generated(const ObjectReader& object,
                                             std::uint64_t default_seed,
                                             Problems& problems) {
  const auto kind = object.find("generate");
  const auto distribution = read_choice(*kind, kDistributions, problems);
  if (!distribution) return std::nullopt;
  GeneratedInput input;
  input.distribution = *distribution;
  if (is_random(*distribution)) {
    input.seed = default_seed;
    if (const auto node = object.find("seed")) assign(read_seed(*node, problems), input.seed);
  }
  const bool typed = read_dtype(object, input, problems);
  const auto shape = object.find("shape");
  if (!shape) object.report_missing("shape", ", such as \"shape\": [2, 16]", problems);
  const bool shaped = shape && read_shape(*shape, input.shape, problems);
  if (typed && shaped && !bounded_bytes(input)) {
    problems.add(shape->pointer, "expected a tensor of at most 2^40 bytes");
    return std::nullopt;
  }
  read_moments(object, input, problems);
  // What the bounds mean depends on dtype and shape, so a mistake there is told first and alone.
  const bool bounded = typed && read_bounds(object, input, problems);
  if (*distribution == Distribution::kRandint && !object.has("high")) {
    object.report_missing("high", ": randint draws from low to high - 1", problems);
  } else if (bounded && shaped) {
    check_bounds(object, input, problems);
  }
  return input;
}

}  // namespace repro_check::configs::detail
