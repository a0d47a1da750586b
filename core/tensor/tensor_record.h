// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/digest/digest.h"
#include "core/tensor/dtype.h"

namespace repro_check::core {

/// Borrowed tensor content: contiguous, row-major, little-endian, conj and neg bits resolved.
/// Valid only as long as whoever lent the two spans says.
struct TensorView {
  Dtype dtype = Dtype::kUnknown;
  std::span<const std::int64_t> shape;
  std::span<const std::byte> bytes;  ///< element_count(shape) * element_size(dtype) of them
};

/// Product of the sizes; 1 for a 0-d shape.
/// @throws Error{kDumpDamaged} on a negative size or a product beyond 2^63-1
std::int64_t element_count(std::span<const std::int64_t> shape);

/// The index of the element at a flat row-major position.
/// @param flat  below element_count(shape)
std::vector<std::int64_t> unravel(std::uint64_t flat, std::span<const std::int64_t> shape);

enum class TensorRole : std::uint8_t { kInput = 0, kOutput = 1 };

/// What is known of a tensor's content. Stored in dumps: append only.
enum class ContentState : std::uint8_t {
  kHashed = 0,  ///< `digest` holds
  kUninitialised =
      1,           ///< memory nobody has written since `aten::empty*`: no digest, never compared
  kNone = 2,       ///< there are no values (meta), or they cannot be read (opaque)
  kUndefined = 3,  ///< an undefined tensor: equal to undefined only
  kComposite = 4,  ///< sparse, nested: the values are in the records that follow, `<slot>.values`
  kExcluded = 5,   ///< left out by dump.include / dump.exclude or a limit, or read by nobody
};

/// `hashed`, `uninitialised`, ...: as JSON output and the fixtures of the tests spell it.
std::string_view content_state_name(ContentState state) noexcept;

/// In the attributes of a tensor whose values a class of the program's keeps, and no operator that
/// was recorded has shown; behind it the name of the class. Without it, before version 1.4 and of
/// views and mere shapes: `opaque`.
inline constexpr std::string_view kOpaqueOf = "opaque of ";

/// Whether an input was written by somebody else between its digest and the call, as its version
/// counter tells; or an input or output between its digest and its storing, as the bytes tell.
enum class InputWatch : std::uint8_t {
  kNotWatched = 0,  ///< outputs, what has no digest, inference tensors: they have no counter
  kSteady = 1,      ///< the digest is of what the operator was called with
  kMoved = 2,       ///< it was written in between: the operator may have read something else
};

/// Identity of stored content: what the dump keeps once.
struct ContentKey {
  Dtype dtype = Dtype::kUnknown;
  std::vector<std::int64_t> shape;
  Digest digest;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads the default
  auto operator<=>(const ContentKey&) const = default;
};

/// `digest-dtype-2x3`, the name of the content's dataset; a 0-d shape is written `scalar`.
std::string content_name(const ContentKey& key);

/// Bytes of a content whose key has been checked: its shape has no negative sizes, and the product
/// fits.
std::uint64_t content_size(const ContentKey& key);

/// Which contents are stored as some of their elements, and which elements those are: the ones at
/// the row-major positions 0, stride, 2 * stride and so on.
struct SliceRule {
  std::uint64_t elements = 0;          ///< so many at most; not 0
  std::uint64_t stride = 1;            ///< not 0
  std::optional<std::uint64_t> above;  ///< contents of more bytes; empty = of more than `elements`
  bool operator==(const SliceRule&) const = default;
};

/// The elements that are stored of a content, which is not stored whole.
struct ContentSlice {
  std::uint64_t elements = 0;
  std::uint64_t stride = 1;
  Digest digest;  ///< of those elements
  bool operator==(const ContentSlice&) const = default;
};

/// How many of `total` elements stand at the positions 0, stride and so on.
/// @param stride  not 0
constexpr std::uint64_t slice_length(std::uint64_t total, std::uint64_t stride) noexcept {
  return total == 0 ? 0 : (total - 1) / stride + 1;
}

/// Whether a content of `total` elements can have such a slice.
constexpr bool is_slice_of(const ContentSlice& slice, std::uint64_t total) noexcept {
  return slice.elements != 0 && slice.stride != 0 &&
         slice.elements <= slice_length(total, slice.stride) && slice.elements < total;
}

/// What a slice is stored as: a content of one dimension.
ContentKey slice_key(const ContentKey& whole, const ContentSlice& slice);

/// `the first 8 of 4096 elements`, `8 of 4096 elements, one in 512 from the first on`
std::string describe_slice(const ContentSlice& slice, std::uint64_t total);

/// Summary of the values, in float64, over the tensor's own elements. mean, std and l2 over finite
/// elements only; null (NaN) where there are none. std is the population's.
struct TensorStats {
  double min = 0;
  double max = 0;
  double mean = 0;
  double std = 0;
  double l2 = 0;
  std::uint64_t zeros = 0;
  std::uint64_t nans = 0;
  std::uint64_t positive_infs = 0;
  std::uint64_t negative_infs = 0;
  std::uint64_t subnormals = 0;

  bool operator==(const TensorStats&) const = default;
};

/// How many elements of a content are NaN or infinite; of complex ones each part counts.
struct NonFinite {
  std::uint64_t nans = 0;
  std::uint64_t positive_infs = 0;
  std::uint64_t negative_infs = 0;

  [[nodiscard]] std::uint64_t infs() const noexcept { return positive_infs + negative_infs; }
  [[nodiscard]] bool any() const noexcept { return nans + infs() != 0; }
  NonFinite& operator+=(const NonFinite& other) noexcept;
  bool operator==(const NonFinite&) const = default;
};

inline constexpr std::int64_t kNoProducer = -1;

/// One tensor argument or result of one operator call.
struct TensorRecord {
  TensorRole role = TensorRole::kInput;
  std::string slot;  ///< argument name, `tensors.3` in a list; outputs `0`, `1`
  Dtype dtype = Dtype::kUnknown;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;  ///< in elements; empty where the layout has none
  std::int64_t storage_offset = 0;    ///< in elements
  std::string device;                 ///< `cpu`, `cuda:0`
  std::string layout = "strided";     ///< `sparse_coo`, `sparse_csr`, `nested`, `quantised`, ...
  std::string attributes;             ///< exact quantiser or sparse parameters, as text
  bool requires_grad = false;
  ContentState state = ContentState::kNone;
  Digest digest;        ///< of the content before the call for inputs, after it for outputs
  bool stored = false;  ///< the dump holds the bytes, under content_key()
  InputWatch watch = InputWatch::kNotWatched;
  /// Which storage of the trace, numbered by first appearance; -1 where there is none. Two records
  /// with one number alias each other.
  std::int64_t storage = -1;
  /// Op index of the last operator that wrote this storage before the call; kNoProducer when no
  /// operator of the trace did. For outputs, the record's own op or, for an untouched alias, as for
  /// inputs.
  std::int64_t producer = kNoProducer;
  /// `state:encoder.3.weight`, `input:tokens`, or empty: whose storage this is, if the front end
  /// named it and no operator has written it since.
  std::string name;
  std::optional<TensorStats> stats;
  /// Where they were counted and nothing else was: with `stats` they stand there. To be asked by
  /// non_finite().
  std::optional<NonFinite> counted;

  /// NaN and infinities, from wherever they are known; empty where nobody counted.
  [[nodiscard]] std::optional<NonFinite> non_finite() const noexcept;
  [[nodiscard]] ContentKey content_key() const { return {dtype, shape, digest}; }
};

inline bool is_input(const TensorRecord& tensor) noexcept {
  return tensor.role == TensorRole::kInput;
}
inline bool is_output(const TensorRecord& tensor) noexcept {
  return tensor.role == TensorRole::kOutput;
}

}  // namespace repro_check::core
