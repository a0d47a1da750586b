// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/digest/digest.h"
#include "core/tensor/tensor_record.h"

namespace repro_check::journal {

// The rows of the packed index, as docs/DUMP_FORMAT.md has it; a journal holds the same. Members
// stand in order of size, so that there is no padding and a row in memory is a row in the file. A
// change here is a change of both formats: the listing in tests/dumpers/store/ fails until
// kDumpFormatMajor or kDumpFormatMinor follows, and the digest in tests/dumpers/journal/ until
// kJournalVersion does.

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
  std::uint32_t modes = 0;  ///< text; 0 in each dump before 1.4
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
  core::Digest digest;
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

/// NaN and infinities of a tensor without statistics that has some. Since 1.3
struct NonFiniteRow {
  std::uint64_t tensor = 0;  ///< row of `tensors`, ascending
  core::NonFinite counts;
};

struct ContentRow {
  core::Digest digest;
  std::uint64_t shape_begin = 0;
  std::uint64_t bytes = 0;
  std::uint32_t shape_count = 0;
  std::uint32_t dtype = 0;
  /// Where in /packed; -1 = in a dataset of its own; -2 = in another dump, since 1.2. Since 1.1
  std::int64_t packed = -1;
};

/// A content of which only some elements are stored, as a content of one dimension. Since 1.2
struct SliceRow {
  core::Digest digest;  ///< of the whole
  core::Digest slice;   ///< of the slice
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

/// A call of a block. Since 1.5
struct BlockLine {
  core::Digest in;  ///< zeros: nothing could be opened
  core::Digest out;
  std::uint32_t step = 0;
  std::uint32_t path = 0;
  std::uint32_t call = 0;
  std::uint16_t unopened = 0;  ///< at most 65,535 of them are counted
  std::uint8_t phase = 0;
  std::uint8_t flags = 0;  ///< kBlockTraining
};

inline constexpr std::uint8_t kBlockTraining = 1;

/// A parameter behind an optimizer's step. Since 1.5
struct ParameterLine {
  core::Digest digest;  ///< zeros: it moved while it was read
  std::uint32_t step = 0;
  std::uint32_t name = 0;
};

struct TableLayout {
  const char* name;
  std::size_t row_size;
  /// The members of a row, each `<name>:<type>` with the types of numpy, in order and without
  /// padding, and `t4` for the number of a text; `?` where an older minor version has shorter rows,
  /// without it. A type alone is that of rows that are a number. scripts/python-rows makes the
  /// layout of the Python package of it.
  std::string_view members;
  bool may_lack = false;  ///< dumps that have no rows of it lack the table
};

inline constexpr bool kInSomeDumps = true;

/// @param members  must be as long as a Row
template <typename Row>
consteval TableLayout table(const char* name, std::string_view members, bool may_lack = false) {
  std::size_t size = 0;
  for (std::size_t at = 0; at < members.size(); ++at) {
    const bool ends = at + 1 == members.size() || members[at + 1] == ' ' || members[at + 1] == '?';
    if (ends && members[at] >= '1' && members[at] <= '8') size += std::size_t(members[at] - '0');
  }
  if (size != sizeof(Row)) throw "the members are not those of the row";
  return {name, sizeof(Row), members, may_lack};
}

inline constexpr TableLayout kOpsTable = table<OpRow>(
    "ops",
    "parent:i8 wall_ns:u8 values_begin:u8 tensors_begin:u8 substitutions_begin:u8 generator:i8 "
    "op:u4 site:u4 depth:u4 phase:u4 step:u4 rank:u4 lane:u4 argument_rows:u4 result_rows:u4 "
    "tensor_count:u4 substitution_count:u4 modes:t4");
inline constexpr TableLayout kValuesTable =
    table<ValueRow>("values", "integer:i8 real:f8 imaginary:f8 name:u4 kind:u2 level:u2");
inline constexpr TableLayout kTensorsTable = table<TensorRow>(
    "tensors",
    "digest_high:u8 digest_low:u8 storage_offset:i8 storage:i8 producer:i8 stats:i8 shape_begin:u8 "
    "strides_begin:u8 shape_count:u4 strides_count:u4 slot:t4 device:t4 layout:t4 attributes:t4 "
    "name:t4 role:u1 state:u1 dtype:u1 flags:u1");
inline constexpr TableLayout kStatsTable = table<core::TensorStats>(
    "stats",
    "min:f8 max:f8 mean:f8 std:f8 l2:f8 zeros:u8 nans:u8 positive_infs:u8 negative_infs:u8 "
    "subnormals:u8");
inline constexpr TableLayout kNonFiniteTable = table<NonFiniteRow>(
    "non_finite", "tensor:u8 nans:u8 positive_infs:u8 negative_infs:u8", kInSomeDumps);
inline constexpr TableLayout kContentsTable = table<ContentRow>(
    "contents",
    "digest_high:u8 digest_low:u8 shape_begin:u8 bytes:u8 shape_count:u4 dtype:u4 packed:i8?");
inline constexpr TableLayout kSlicesTable = table<SliceRow>(
    "slices",
    "digest_high:u8 digest_low:u8 slice_high:u8 slice_low:u8 elements:u8 stride:u8 shape_begin:u8 "
    "shape_count:u4 dtype:u4",
    kInSomeDumps);
inline constexpr TableLayout kGeneratorsTable = table<GeneratorRow>(
    "generators", "seed:u8 position_before:u8 position_after:u8 drawn:i8 device:t4 reserved:u4");
inline constexpr TableLayout kSubstitutionsTable =
    table<SubstitutionRow>("substitutions", "argument:t4 from:t4 to:t4 reason:t4");
inline constexpr TableLayout kOperatorsTable =
    table<OperatorRow>("operators", "name:t4 overload:t4 seeded:u4");
inline constexpr TableLayout kSitesTable =
    table<SiteRow>("sites", "module_path:t4 module_type:t4 frames_begin:u4 frame_count:u4");
inline constexpr TableLayout kFramesTable =
    table<FrameRow>("frames", "file:t4 line:u4 function:t4");

inline constexpr TableLayout kBlocksTable = table<BlockLine>(
    "blocks",
    "in_high:u8 in_low:u8 out_high:u8 out_low:u8 step:u4 path:t4 call:u4 unopened:u2 phase:u1 "
    "flags:u1",
    kInSomeDumps);
inline constexpr TableLayout kParametersTable = table<ParameterLine>(
    "parameters", "digest_high:u8 digest_low:u8 step:u4 name:t4", kInSomeDumps);

inline constexpr TableLayout kDimsTable = table<std::int64_t>("dims", "i8");  // shapes and strides
/// Every text, one after the other, and where each begins, and the end.
inline constexpr TableLayout kTextBytesTable = table<std::uint8_t>("text_bytes", "u1");
inline constexpr TableLayout kTextOffsetsTable = table<std::uint64_t>("text_offsets", "u8");

/// The rows of one call. Where an OpRow or a TensorRow names rows of other tables, it counts from
/// the first of the call; so does NonFiniteRow::tensor.
struct CallRows {
  std::uint64_t index = 0;  ///< op index
  OpRow op;
  std::span<const ValueRow> values = {};
  std::span<const TensorRow> tensors = {};
  std::span<const core::TensorStats> stats = {};
  std::span<const NonFiniteRow> non_finite = {};
  std::span<const SubstitutionRow> substitutions = {};
  std::span<const GeneratorRow> generators = {};  ///< one, or none
};

/// How many rows there are of what is written call by call, and of what contents hold.
struct RowCounts {
  std::uint64_t ops = 0;
  std::uint64_t returned = 0;  ///< of those, what calls returned
  std::uint64_t values = 0;
  std::uint64_t tensors = 0;
  std::uint64_t stats = 0;
  std::uint64_t non_finite = 0;
  std::uint64_t substitutions = 0;
  std::uint64_t generators = 0;
  std::uint64_t blocks = 0;
  std::uint64_t parameters = 0;
  std::uint64_t inline_contents = 0;
  std::uint64_t inline_bytes = 0;
};

}  // namespace repro_check::journal
