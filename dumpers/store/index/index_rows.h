// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace repro_check::store {

// The packed index, as docs/DUMP_FORMAT.md has it. Members stand in order of size, so that there is
// no padding and a row in memory is a row in the file. A change here is a change of the format: the
// listing in tests/dumpers/store/ fails until kDumpFormatMajor or kDumpFormatMinor follows.

inline constexpr std::uint32_t kNoRow = 0xffffffff;

struct OpRow {
  std::int64_t parent = -1;
  std::uint64_t wall_ns = 0;
  std::uint64_t values_begin = 0;  ///< arguments, then results
  std::uint64_t tensors_begin = 0;
  std::uint64_t substitutions_begin = 0;
  std::int64_t generator = -1;  ///< row of `generators`
  std::uint32_t op = kNoRow;    ///< row of `operators`
  std::uint32_t site = kNoRow;  ///< row of `sites`
  std::uint32_t depth = 0;
  std::uint32_t phase = 0;
  std::uint32_t step = 0;
  std::uint32_t rank = 0;
  std::uint32_t lane = 0;
  std::uint32_t argument_rows = 0;  ///< of `values`
  std::uint32_t result_rows = 0;    ///< of `values`, behind those
  std::uint32_t tensor_count = 0;
  std::uint32_t substitution_count = 0;
  std::uint32_t reserved = 0;
};

/// One value in preorder: a list is followed by its items, one level deeper.
struct ValueRow {
  std::int64_t integer = 0;  ///< number, truth, text, tensor slot or count of items, by `kind`
  double real = 0;
  double imaginary = 0;
  std::uint32_t name = kNoRow;  ///< text: the argument's name; arguments only
  std::uint16_t kind = 0;       ///< alternative of core::Value
  std::uint16_t level = 0;
};

struct TensorRow {
  std::uint64_t digest_high = 0;
  std::uint64_t digest_low = 0;
  std::int64_t storage_offset = 0;
  std::int64_t storage = -1;
  std::int64_t producer = -1;
  std::int64_t stats = -1;  ///< row of `stats`
  std::uint64_t shape_begin = 0;
  std::uint64_t strides_begin = 0;
  std::uint32_t shape_count = 0;
  std::uint32_t strides_count = 0;
  std::uint32_t slot = 0;
  std::uint32_t device = 0;
  std::uint32_t layout = 0;
  std::uint32_t attributes = 0;
  std::uint32_t name = 0;
  std::uint8_t role = 0;
  std::uint8_t state = 0;
  std::uint8_t dtype = 0;
  std::uint8_t flags = 0;  ///< kTensorRequiresGrad and what follows it
};

inline constexpr std::uint8_t kTensorRequiresGrad = 1;
inline constexpr std::uint8_t kTensorStored = 2;
inline constexpr std::uint8_t kTensorSteady = 4;  ///< core::InputWatch::kSteady
inline constexpr std::uint8_t kTensorMoved = 8;   ///< core::InputWatch::kMoved
/// NaN and infinities were counted: `non_finite` has a row where there are any. Since 1.3
inline constexpr std::uint8_t kTensorCounted = 16;

struct StatsRow {
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
};

/// NaN and infinities of a tensor without statistics that has some. Since 1.3
struct NonFiniteRow {
  std::uint64_t tensor = 0;  ///< row of `tensors`, ascending
  std::uint64_t nans = 0;
  std::uint64_t positive_infs = 0;
  std::uint64_t negative_infs = 0;
};

struct ContentRow {
  std::uint64_t digest_high = 0;
  std::uint64_t digest_low = 0;
  std::uint64_t shape_begin = 0;
  std::uint64_t bytes = 0;
  std::uint32_t shape_count = 0;
  std::uint32_t dtype = 0;
  /// Where in /packed; -1 = in a dataset of its own; -2 = in another dump, since 1.2. Since 1.1
  std::int64_t packed = -1;
};

/// A content of which only some elements are stored, as a content of one dimension. Since 1.2
struct SliceRow {
  std::uint64_t digest_high = 0;  ///< of the whole
  std::uint64_t digest_low = 0;
  std::uint64_t slice_high = 0;  ///< digest of the slice
  std::uint64_t slice_low = 0;
  std::uint64_t elements = 0;
  std::uint64_t stride = 1;
  std::uint64_t shape_begin = 0;  ///< of the whole
  std::uint32_t shape_count = 0;
  std::uint32_t dtype = 0;
};

struct GeneratorRow {
  std::uint64_t seed = 0;
  std::uint64_t position_before = 0;
  std::uint64_t position_after = 0;
  std::int64_t drawn = -1;
  std::uint32_t device = 0;
  std::uint32_t reserved = 0;
};

struct SubstitutionRow {
  std::uint32_t argument = 0;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint32_t reason = 0;
};

struct OperatorRow {
  std::uint32_t name = 0;
  std::uint32_t overload = 0;
  std::uint32_t seeded = 0;
};

struct SiteRow {
  std::uint32_t module_path = 0;
  std::uint32_t module_type = 0;
  std::uint32_t frames_begin = 0;
  std::uint32_t frame_count = 0;
};

struct FrameRow {
  std::uint32_t file = 0;
  std::uint32_t line = 0;
  std::uint32_t function = 0;
};

enum class Scalar : std::uint8_t { kUInt8, kUInt16, kUInt32, kUInt64, kInt64, kFloat64 };

/// One member of a row; a row with a single unnamed member is that scalar itself.
struct Member {
  const char* name;
  std::size_t offset;
  Scalar type;
  bool may_lack = false;  ///< an older minor version has shorter rows, without it
};

struct TableLayout {
  const char* name;
  std::size_t row_size;
  std::span<const Member> members;
};

/// `/packed`, beside the index: the bytes of small contents, one behind the other.
extern const TableLayout kPackedTable;

extern const TableLayout kOpsTable;
extern const TableLayout kValuesTable;
extern const TableLayout kTensorsTable;
extern const TableLayout kStatsTable;
extern const TableLayout kNonFiniteTable;  ///< missing where there are none
extern const TableLayout kContentsTable;
extern const TableLayout kSlicesTable;  ///< missing where there are none
extern const TableLayout kGeneratorsTable;
extern const TableLayout kSubstitutionsTable;
extern const TableLayout kOperatorsTable;
extern const TableLayout kSitesTable;
extern const TableLayout kFramesTable;
extern const TableLayout kDimsTable;         ///< std::int64_t: shapes and strides
extern const TableLayout kTextBytesTable;    ///< std::uint8_t: every text, one after the other
extern const TableLayout kTextOffsetsTable;  ///< std::uint64_t: where each begins, and the end

/// All of them, in ascending order of name.
std::span<const TableLayout* const> index_tables() noexcept;

}  // namespace repro_check::store
