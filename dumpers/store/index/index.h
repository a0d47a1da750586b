// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/digest/digest.h"
#include "core/system/memory.h"
#include "core/tensor/content.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/op_record.h"
#include "dumpers/store/contents/content_writer.h"
#include "dumpers/store/file/hdf5.h"
#include "dumpers/store/file/trace_file.h"

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

struct TableLayout {
  const char* name;
  std::size_t row_size;
  /// The members of a row, each `<name>:<type>` with the types of numpy, in order and without
  /// padding; `?` where an older minor version has shorter rows, without it. A type alone is that
  /// of rows that are a number.
  std::string_view members;
};

/// One member of a row.
struct Member {
  std::string name;  ///< empty = the row itself
  std::size_t offset = 0;
  core::Dtype type = core::Dtype::kUnknown;
  bool may_lack = false;
};
std::vector<Member> members_of(const TableLayout& layout);

/// @param members  must be as long as a Row
template <typename Row>
consteval TableLayout table(const char* name, std::string_view members) {
  std::size_t size = 0;
  for (std::size_t at = 0; at < members.size(); ++at) {
    const bool ends = at + 1 == members.size() || members[at + 1] == ' ' || members[at + 1] == '?';
    if (ends && members[at] >= '1' && members[at] <= '8') size += std::size_t(members[at] - '0');
  }
  if (size != sizeof(Row)) throw "the members are not those of the row";
  return {name, sizeof(Row), members};
}

/// `/packed`, beside the index: the bytes of small contents, one behind the other.
inline constexpr TableLayout kPackedTable = table<std::uint8_t>("packed", "u1");

inline constexpr TableLayout kOpsTable = table<OpRow>(
    "ops",
    "parent:i8 wall_ns:u8 values_begin:u8 tensors_begin:u8 substitutions_begin:u8 generator:i8 "
    "op:u4 site:u4 depth:u4 phase:u4 step:u4 rank:u4 lane:u4 argument_rows:u4 result_rows:u4 "
    "tensor_count:u4 substitution_count:u4 reserved:u4");
inline constexpr TableLayout kValuesTable =
    table<ValueRow>("values", "integer:i8 real:f8 imaginary:f8 name:u4 kind:u2 level:u2");
inline constexpr TableLayout kTensorsTable = table<TensorRow>(
    "tensors",
    "digest_high:u8 digest_low:u8 storage_offset:i8 storage:i8 producer:i8 stats:i8 shape_begin:u8 "
    "strides_begin:u8 shape_count:u4 strides_count:u4 slot:u4 device:u4 layout:u4 attributes:u4 "
    "name:u4 role:u1 state:u1 dtype:u1 flags:u1");
inline constexpr TableLayout kStatsTable = table<core::TensorStats>(
    "stats",
    "min:f8 max:f8 mean:f8 std:f8 l2:f8 zeros:u8 nans:u8 positive_infs:u8 negative_infs:u8 "
    "subnormals:u8");
inline constexpr TableLayout kNonFiniteTable = table<NonFiniteRow>(  // missing where there are none
    "non_finite",
    "tensor:u8 nans:u8 positive_infs:u8 negative_infs:u8");
inline constexpr TableLayout kContentsTable = table<ContentRow>(
    "contents",
    "digest_high:u8 digest_low:u8 shape_begin:u8 bytes:u8 shape_count:u4 dtype:u4 packed:i8?");
inline constexpr TableLayout kSlicesTable = table<SliceRow>(  // missing where there are none
    "slices",
    "digest_high:u8 digest_low:u8 slice_high:u8 slice_low:u8 elements:u8 stride:u8 shape_begin:u8 "
    "shape_count:u4 dtype:u4");
inline constexpr TableLayout kGeneratorsTable = table<GeneratorRow>(
    "generators", "seed:u8 position_before:u8 position_after:u8 drawn:i8 device:u4 reserved:u4");
inline constexpr TableLayout kSubstitutionsTable =
    table<SubstitutionRow>("substitutions", "argument:u4 from:u4 to:u4 reason:u4");
inline constexpr TableLayout kOperatorsTable =
    table<OperatorRow>("operators", "name:u4 overload:u4 seeded:u4");
inline constexpr TableLayout kSitesTable =
    table<SiteRow>("sites", "module_path:u4 module_type:u4 frames_begin:u4 frame_count:u4");
inline constexpr TableLayout kFramesTable =
    table<FrameRow>("frames", "file:u4 line:u4 function:u4");
inline constexpr TableLayout kDimsTable = table<std::int64_t>("dims", "i8");  // shapes and strides
/// Every text, one after the other, and where each begins, and the end.
inline constexpr TableLayout kTextBytesTable = table<std::uint8_t>("text_bytes", "u1");
inline constexpr TableLayout kTextOffsetsTable = table<std::uint64_t>("text_offsets", "u8");

/// What the index digest covers of one dataset of /index.
struct TableDigest {
  std::string name;
  std::uint64_t rows = 0;
  std::uint64_t row_size = 0;
  core::Digest digest;  ///< core::digest_bytes of its raw bytes
};

/// Digest of the whole index: of the text with one line `name rows row_size digest` a dataset, in
/// ascending byte order of name.
core::Digest index_digest(std::vector<TableDigest> tables);

/// The HDF5 type of a row.
TypeHandle row_type(const TableLayout& layout, const Blame& blame);

/// Writes one table of the index, front to back. The number of rows is given first, because a
/// contiguous dataset cannot grow, and only such a one is read without trusting a chunk index.
class TableWriter {
 public:
  TableWriter(hid_t group, const TableLayout& layout, std::uint64_t rows, Blame blame);

  /// @param rows  whole rows
  void append(std::span<const std::byte> rows);

  template <typename Row>
  void append_row(const Row& row) {
    append(std::as_bytes(std::span<const Row, 1>(&row, 1)));
  }

  /// Rows appended so far.
  [[nodiscard]] std::uint64_t written() const noexcept { return flushed_ + pending_rows(); }

  /// @throws core::Error{kInternal} when fewer rows came than were announced
  TableDigest finish();

 private:
  [[nodiscard]] std::uint64_t pending_rows() const noexcept {
    return pending_.size() / layout_.row_size;
  }
  void flush();

  const TableLayout& layout_;
  std::uint64_t rows_;
  Blame blame_;
  TypeHandle type_;
  DatasetHandle dataset_;
  std::vector<std::byte> pending_;
  std::uint64_t flushed_ = 0;
  core::DigestStream hasher_;
};

/// Rows of one dataset of /index, read in blocks as they are asked for. A dump of a later minor
/// version may have longer rows, of which the known members come first; one of an earlier version
/// shorter ones, and what they lack keeps its default.
class TableReader {
 public:
  /// Any dataset of one dimension; row(i) is for those with a layout of ours.
  TableReader(const TraceFile& file, hid_t group, const std::string& name);

  /// @throws core::Error{kDumpDamaged} when the rows are not laid out so
  void expect_layout(const TableLayout& layout) const;

  [[nodiscard]] std::uint64_t rows() const noexcept { return rows_; }

  /// @throws core::Error{kDumpDamaged} when there is no such row
  template <typename Row>
  [[nodiscard]] Row row(std::uint64_t index) const {
    static_assert(std::is_trivially_copyable_v<Row>);
    Row value{};
    std::memcpy(&value, row_bytes(index), std::min<std::uint64_t>(sizeof(Row), row_size_));
    return value;
  }

  /// @throws core::Error{kDumpDamaged} unless rows [begin, begin + count) exist
  void expect_range(std::uint64_t begin, std::uint64_t count, const char* whose) const;

  /// Every row at once, for tables of scalars.
  template <typename Scalar>
  [[nodiscard]] core::LargeVector<Scalar> all() const {
    core::LargeVector<Scalar> values(rows_);
    file_.read(extent_, 0, std::as_writable_bytes(std::span<Scalar>(values)));
    return values;
  }

  /// Reads the whole table through.
  [[nodiscard]] TableDigest digest() const;

  [[nodiscard]] const Blame& blame() const noexcept { return blame_; }

 private:
  struct Block {
    std::uint64_t number = UINT64_MAX;
    std::vector<std::byte> bytes;
  };

  [[nodiscard]] const std::byte* row_bytes(std::uint64_t index) const;

  const TraceFile& file_;
  std::string name_;
  Blame blame_;
  TypeHandle type_;
  std::uint64_t rows_ = 0;
  std::uint64_t row_size_ = 1;
  Extent extent_;
  std::uint64_t rows_per_block_ = 1;
  mutable std::vector<Block> blocks_;  ///< direct-mapped by block number
};

/// How many rows the records of a trace take in the tables that are written front to back.
struct RowCounts {
  std::uint64_t ops = 0;
  std::uint64_t values = 0;
  std::uint64_t tensors = 0;
  std::uint64_t stats = 0;
  std::uint64_t non_finite = 0;
  std::uint64_t substitutions = 0;
  std::uint64_t generators = 0;

  void add(const core::OpRecord& record);
};

/// Numbers byte strings as they first appear and keeps them one behind the other.
struct BytePool {
  std::vector<char> bytes;
  std::vector<std::uint64_t> offsets{0};  ///< where each begins, and the end of the last

  /// @return position among the distinct strings
  std::uint32_t number(std::string_view text);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>{}(text);
    }
  };
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_;
};

/// Folds records into the packed index. What there is one of per record goes to the file at once;
/// what records share, and the operators themselves (they come in order of completion), is kept
/// until the end.
class IndexWriter {  // NOLINT(clang-analyzer-optin.performance.Padding): one a dump
 public:
  /// @param group  `/index`, borrowed
  IndexWriter(hid_t group, const RowCounts& counts, const Blame& blame);

  /// @param record  its index is below counts.ops and has not come before
  void add(const core::OpRecord& record);

  /// @param contents  all that is stored
  /// @param packed    whether those from the journal lie in `/packed`
  /// @param slices    by the contents of which no more is stored
  core::Digest finish(std::span<const KeptContent> contents, bool packed, const Slices& slices);

 private:
  struct ToRow;

  template <typename Row, typename Object>
  Row row_of(const Object& object);
  std::uint32_t op(const std::shared_ptr<const core::OperatorInfo>& op);
  std::uint32_t site(const std::shared_ptr<const core::CallSite>& site);
  void add_value(const core::Value& value, std::uint32_t name, std::uint16_t level);
  void add_tensor(const core::TensorRecord& tensor);
  void add_values(const core::OpRecord& record, OpRow& row);
  template <typename Rows>
  TableDigest write_whole(const TableLayout& layout, const Rows& rows);

  hid_t group_;
  Blame blame_;
  TableWriter values_;
  TableWriter tensors_;
  TableWriter stats_;
  std::optional<TableWriter> non_finite_;  ///< where there are any
  TableWriter substitutions_;
  TableWriter generators_;
  std::vector<OpRow> ops_;
  std::vector<bool> present_;
  BytePool texts_;
  BytePool dims_;  ///< shapes and strides, as the bytes of their numbers
  std::unordered_map<const core::OperatorInfo*, std::uint32_t> op_ids_;
  std::unordered_map<const core::CallSite*, std::uint32_t> site_ids_;
  std::vector<std::shared_ptr<const void>> kept_;  ///< so that no address above comes twice
  std::vector<OperatorRow> operators_;
  std::vector<SiteRow> sites_;
  std::vector<FrameRow> frames_;
};

/// What was made of rows of a table, handed out again: direct-mapped and bounded in bytes, so that
/// a dump in which every operator has a place of its own takes no more memory than another.
template <typename Object>
class RowCache {
 public:
  explicit RowCache(std::uint64_t rows)
      : slots_(std::bit_ceil(
            static_cast<std::size_t>(std::clamp<std::uint64_t>(rows, 1, kMostSlots)))) {}

  /// Null where it is not kept, or not any more.
  [[nodiscard]] std::shared_ptr<const Object> find(std::uint32_t row) const {
    const Slot& slot = slots_[row & (slots_.size() - 1)];
    return slot.row == row ? slot.object : nullptr;
  }

  /// @param bytes  that the object takes, about
  void keep(std::uint32_t row, std::shared_ptr<const Object> object, std::size_t bytes) {
    if (bytes > kMostBytes) return;
    if (bytes_ + bytes > kMostBytes) {
      std::ranges::fill(slots_, Slot{});
      bytes_ = 0;
    }
    Slot& slot = slots_[row & (slots_.size() - 1)];
    bytes_ += bytes - slot.bytes;
    slot = {row, bytes, std::move(object)};
  }

 private:
  static constexpr std::uint64_t kMostSlots = 65'536;
  static constexpr std::size_t kMostBytes = std::size_t{8} << 20U;

  struct Slot {
    std::uint32_t row = 0;
    std::size_t bytes = 0;
    std::shared_ptr<const Object> object;
  };

  std::vector<Slot> slots_;
  std::size_t bytes_ = 0;
};

/// The packed index, read. Every number in it is checked before it is used.
class IndexReader {
 public:
  /// @throws core::Error{kDumpDamaged} when it does not have `digest`, or is not laid out as
  ///         docs/DUMP_FORMAT.md says
  IndexReader(const TraceFile& file, const core::Digest& digest);

  [[nodiscard]] std::uint64_t op_count() const noexcept { return ops_.rows(); }
  [[nodiscard]] std::uint64_t tensor_count() const noexcept { return tensors_.rows(); }
  [[nodiscard]] std::uint64_t content_count() const noexcept { return contents_.rows(); }

  /// @param whole  arguments, results, tensors, substitutions and generator too
  [[nodiscard]] core::OpRecord op(std::uint64_t index, bool whole) const;

  /// A content, and where in `/packed` it is; kOwnDataset or kInReference where it is not there.
  [[nodiscard]] std::pair<core::ContentKey, std::int64_t> content(std::uint64_t index) const;

  [[nodiscard]] std::uint64_t slice_count() const noexcept { return slices_ ? slices_->rows() : 0; }
  /// A content of which only a slice is stored, and that slice, which it can have.
  [[nodiscard]] std::pair<core::ContentKey, core::ContentSlice> slice(std::uint64_t index) const;

 private:
  struct FromRow;

  template <typename Row, typename Object>
  void read(const TableReader& table, Row& row, Object& object) const;
  [[nodiscard]] std::string text(std::uint64_t id) const;
  [[nodiscard]] std::vector<std::int64_t> dims(std::uint64_t begin, std::uint64_t count) const;
  [[nodiscard]] std::shared_ptr<const core::OperatorInfo> operator_info(std::uint32_t id) const;
  [[nodiscard]] std::shared_ptr<const core::CallSite> site(std::uint32_t id) const;
  void read_values(const OpRow& row, core::OpRecord& record) const;
  core::Value value(std::uint64_t& at, std::uint64_t end, int level, std::size_t tensors) const;
  [[nodiscard]] core::TensorRecord tensor(std::uint64_t index) const;
  [[nodiscard]] core::NonFinite non_finite(std::uint64_t tensor) const;

  const TraceFile& file_;
  GroupHandle group_;
  TableReader ops_;
  TableReader values_;
  TableReader tensors_;
  TableReader stats_;
  std::optional<TableReader> non_finite_;
  TableReader substitutions_;
  TableReader generators_;
  TableReader contents_;
  std::optional<TableReader> slices_;
  TableReader operators_;
  TableReader sites_;
  TableReader frames_;
  core::LargeVector<std::int64_t> dims_;
  core::LargeVector<std::uint8_t> text_bytes_;
  core::LargeVector<std::uint64_t> text_offsets_;
  mutable RowCache<core::OperatorInfo> operator_cache_;
  mutable RowCache<core::CallSite> site_cache_;
};

/// Where each content of a dump lies, in 32 bytes a content and a few more for its shape: there is
/// one for every tensor of a dump, at worst.
class ContentTable {
 public:
  /// @param place  as ContentRow::packed says it
  /// @return false for a content that is there already, whose first place holds
  bool add(const core::ContentKey& key, std::int64_t place) {
    const auto known = static_cast<std::uint32_t>(entries_.size());
    const std::uint32_t id = slots_.find_or_add(
        hash_of(key),
        known,
        [&](std::uint32_t other) { return is(entries_[other], key); },
        [&](std::uint32_t other) { return hash_of(entries_[other]); });
    if (id != known) return false;
    Entry entry{key.digest, place, 0, static_cast<std::uint16_t>(key.shape.size()), key.dtype};
    // Neighbours often have one shape.
    if (!entries_.empty() && std::ranges::equal(shape_of(entries_.back()), key.shape)) {
      entry.shape_begin = entries_.back().shape_begin;
    } else {
      entry.shape_begin = static_cast<std::uint32_t>(dims_.size());
      dims_.insert(dims_.end(), key.shape.begin(), key.shape.end());
    }
    entries_.push_back(entry);
    return true;
  }

  /// @param wanted  a key, or the record of a tensor, which has to be copied for nothing here
  template <typename Content>
  [[nodiscard]] std::optional<std::int64_t> find(const Content& wanted) const {
    const auto id = slots_.find(hash_of(wanted),
                                [&](std::uint32_t other) { return is(entries_[other], wanted); });
    return id ? std::optional(entries_[*id].place) : std::nullopt;
  }

 private:
  struct Entry {
    core::Digest digest;
    std::int64_t place = 0;
    std::uint32_t shape_begin = 0;
    std::uint16_t shape_count = 0;
    core::Dtype dtype = core::Dtype::kUnknown;
  };

  template <typename Content>
  static std::size_t hash_of(const Content& content) noexcept {
    return static_cast<std::size_t>(content.digest.low ^ static_cast<std::uint64_t>(content.dtype));
  }
  template <typename Content>
  [[nodiscard]] bool is(const Entry& entry, const Content& wanted) const {
    return entry.digest == wanted.digest && entry.dtype == wanted.dtype &&
           std::ranges::equal(shape_of(entry), wanted.shape);
  }
  [[nodiscard]] std::span<const std::int64_t> shape_of(const Entry& entry) const {
    return std::span(dims_).subspan(entry.shape_begin, entry.shape_count);
  }

  core::IdSlots slots_;
  core::LargeVector<Entry> entries_;
  core::LargeVector<std::int64_t> dims_;
};

}  // namespace repro_check::store
