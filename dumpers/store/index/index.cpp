// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/index/index.h"

#include <fmt/format.h>

#include <complex>
#include <iterator>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/error.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"
#include "dumpers/journal/entry.h"
#include "dumpers/store/file/trace_file.h"

namespace repro_check::store {

core::Digest index_digest(std::vector<TableDigest> tables) {
  std::ranges::sort(tables, {}, &TableDigest::name);
  std::string text;
  for (const TableDigest& table : tables) {
    fmt::format_to(std::back_inserter(text),
                   "{} {} {} {}\n",
                   table.name,
                   table.rows,
                   table.row_size,
                   core::to_hex(table.digest));
  }
  return core::digest_bytes(std::as_bytes(std::span<const char>(text)));
}

namespace {

constexpr std::size_t kBatch = std::size_t{1} << 20U;

}  // namespace

std::vector<Member> members_of(const TableLayout& layout) {
  std::vector<Member> members;
  std::size_t offset = 0;
  for (std::string_view rest = layout.members; !rest.empty();) {
    std::string_view word = rest.substr(0, rest.find(' '));
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    Member& member = members.emplace_back();
    member.may_lack = word.ends_with('?');
    const std::size_t colon = word.find(':');
    if (colon != std::string_view::npos) member.name = word.substr(0, colon);
    const std::string_view code = word.substr(colon + 1, 2);
    for (const core::DtypeRow& row : core::kDtypes) {
      if (row.numpy.ends_with(code)) member.type = row.dtype;
    }
    member.offset = offset;
    offset += core::element_size(member.type);
  }
  return members;
}

TypeHandle row_type(const TableLayout& layout, const Blame& blame) {
  const std::vector<Member> members = members_of(layout);
  if (members.front().name.empty()) {
    return TypeHandle(
        blame.id(H5Tcopy(number_type(members.front().type)), "cannot make a row type"));
  }
  TypeHandle type(blame.id(H5Tcreate(H5T_COMPOUND, layout.row_size), "cannot make a row type"));
  for (const Member& member : members) {
    blame.ok(H5Tinsert(type.get(), member.name.c_str(), member.offset, number_type(member.type)),
             "cannot make a row type");
  }
  return type;
}

TableWriter::TableWriter(hid_t group, const TableLayout& layout, std::uint64_t rows, Blame blame)
    : layout_(layout), rows_(rows), blame_(std::move(blame)), type_(row_type(layout, blame_)) {
  const hsize_t dims = rows;
  const SpaceHandle space = make_space({&dims, 1}, blame_);
  const PropertyHandle contiguous = contiguous_creation(blame_);
  dataset_ = DatasetHandle(blame_.id(
      H5Dcreate2(
          group, layout.name, type_.get(), space.get(), H5P_DEFAULT, contiguous.get(), H5P_DEFAULT),
      "cannot create the table"));
}

void TableWriter::append(std::span<const std::byte> rows) {
  pending_.insert(pending_.end(), rows.begin(), rows.end());
  if (pending_.size() >= kBatch) flush();
}

void TableWriter::flush() {
  const hsize_t count = pending_rows();
  if (count == 0) return;
  if (flushed_ + count > rows_) {
    throw core::Error(
        core::ErrorKind::kInternal,
        fmt::format("index table {} was announced {} rows and gets more", layout_.name, rows_));
  }
  const hsize_t begin = flushed_;
  const Hdf5Scope scope;
  const SpaceHandle memory = make_space({&count, 1}, blame_);
  const SpaceHandle file(blame_.id(H5Dget_space(dataset_.get()), "cannot write the table"));
  blame_.ok(H5Sselect_hyperslab(file.get(), H5S_SELECT_SET, &begin, nullptr, &count, nullptr),
            "cannot write the table");
  blame_.ok(
      H5Dwrite(dataset_.get(), type_.get(), memory.get(), file.get(), H5P_DEFAULT, pending_.data()),
      "cannot write the table");
  hasher_.add(pending_);
  flushed_ += count;
  pending_.clear();
}

TableDigest TableWriter::finish() {
  flush();
  if (flushed_ != rows_) {
    throw core::Error(
        core::ErrorKind::kInternal,
        fmt::format(
            "index table {} was announced {} rows and got {}", layout_.name, rows_, flushed_));
  }
  return {layout_.name, rows_, layout_.row_size, hasher_.finish()};
}

namespace {

constexpr std::size_t kBlocks = 32;
constexpr std::uint64_t kBlockBytes = std::uint64_t{64} << 10U;

}  // namespace

TableReader::TableReader(const TraceFile& file, hid_t group, const std::string& name)
    : file_(file),
      name_(name),
      blame_(file.blame().inside(fmt::format("/index/{}", name))),
      blocks_(kBlocks) {
  PlainDataset dataset = file.dataset(group, name, blame_);
  if (dataset.dims.size() != 1) blame_.fail("is not a list of rows");
  type_ = std::move(dataset.type);
  rows_ = dataset.dims.front();
  extent_ = std::move(dataset.extent);
  const Hdf5Scope scope;
  row_size_ = H5Tget_size(type_.get());
  if (row_size_ == 0) blame_.fail("has rows of no size");
  rows_per_block_ = std::max<std::uint64_t>(1, kBlockBytes / row_size_);
}

void TableReader::expect_layout(const TableLayout& layout) const {
  const Hdf5Scope scope;
  const TypeHandle expected = row_type(layout, blame_);
  if (H5Tequal(type_.get(), expected.get()) > 0) return;
  const bool compound = H5Tget_class(type_.get()) == H5T_COMPOUND;
  if (!compound || H5Tget_class(expected.get()) != H5T_COMPOUND) {
    blame_.fail("has rows of another type");
  }
  const std::vector<Member> members = members_of(layout);
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    if (member.may_lack && row_size_ == member.offset) break;
    const int index = H5Tget_member_index(type_.get(), member.name.c_str());
    if (index < 0) blame_.fail(fmt::format("has no member \"{}\"", member.name));
    const auto at = static_cast<unsigned>(index);
    const TypeHandle theirs(blame_.id(H5Tget_member_type(type_.get(), at), "cannot be read"));
    const TypeHandle ours(
        blame_.id(H5Tget_member_type(expected.get(), static_cast<unsigned>(i)), "cannot be read"));
    if (H5Tget_member_offset(type_.get(), at) != member.offset ||
        H5Tequal(theirs.get(), ours.get()) <= 0) {
      blame_.fail(fmt::format("has another member \"{}\"", member.name));
    }
  }
}

const std::byte* TableReader::row_bytes(std::uint64_t index) const {
  if (index >= rows_) blame_.fail(fmt::format("has no row {}", index));
  const std::uint64_t number = index / rows_per_block_;
  Block& block = blocks_[number % blocks_.size()];
  if (block.number != number) {
    const std::uint64_t first = number * rows_per_block_;
    const std::uint64_t count = std::min(rows_per_block_, rows_ - first);
    block.number = UINT64_MAX;  // while it is being replaced it holds nothing
    block.bytes.resize(count * row_size_);
    file_.read(extent_, first * row_size_, block.bytes);
    block.number = number;
  }
  return block.bytes.data() + index % rows_per_block_ * row_size_;
}

void TableReader::expect_range(std::uint64_t begin, std::uint64_t count, const char* whose) const {
  if (begin <= rows_ && count <= rows_ - begin) return;
  blame_.fail(
      fmt::format("has {} rows, and {} refers to {} from row {}", rows_, whose, count, begin));
}

TableDigest TableReader::digest() const {
  core::DigestStream hasher;
  std::vector<std::byte> piece;
  const std::uint64_t total = rows_ * row_size_;
  for (std::uint64_t done = 0; done < total; done += piece.size()) {
    piece.resize(std::min<std::uint64_t>(core::kDigestChunk, total - done));
    file_.read(extent_, done, piece);
    hasher.add(piece);
  }
  return {name_, rows_, row_size_, hasher.finish()};
}

namespace {

// What a row says of an object, said once: `f` fills the row (IndexWriter::ToRow) or the object
// (IndexReader::FromRow). The order is that in which a writer numbers texts and sizes.

template <typename Object, typename Wanted>
concept Either = std::is_same_v<std::remove_const_t<Object>, Wanted>;

template <typename Codec, Either<core::OperatorInfo> Op>
void row_fields(Codec& f, OperatorRow& row, Op& op) {
  f.text(row.name, op.name);
  f.text(row.overload, op.overload);
  f.number(row.seeded, op.seeded);
}

/// Frames left out.
template <typename Codec, Either<core::CallSite> Site>
void row_fields(Codec& f, SiteRow& row, Site& site) {
  f.text(row.module_path, site.module_path);
  f.text(row.module_type, site.module_type);
}

template <typename Codec, Either<core::SourceFrame> Frame>
void row_fields(Codec& f, FrameRow& row, Frame& frame) {
  f.text(row.file, frame.file);
  f.number(row.line, frame.line);
  f.text(row.function, frame.function);
}

template <typename Codec, Either<core::Substitution> Change>
void row_fields(Codec& f, SubstitutionRow& row, Change& change) {
  f.text(row.argument, change.argument);
  f.text(row.from, change.from);
  f.text(row.to, change.to);
  f.text(row.reason, change.reason);
}

template <typename Codec, Either<core::GeneratorUse> Use>
void row_fields(Codec& f, GeneratorRow& row, Use& use) {
  f.number(row.seed, use.seed);
  f.number(row.position_before, use.position_before);
  f.number(row.position_after, use.position_after);
  f.number(row.drawn, use.drawn);
  f.text(row.device, use.device);
}

/// Of contents and slices.
template <typename Codec, typename Row, Either<core::ContentKey> Key>
void row_fields(Codec& f, Row& row, Key& key) {
  f.number(row.digest, key.digest);
  f.sizes(row.shape_begin, row.shape_count, key.shape);
  f.word(row.dtype, key.dtype, "dtype");
}

/// Operator, site, and what other tables hold left out.
template <typename Codec, Either<core::OpRecord> Record>
void row_fields(Codec& f, OpRow& row, Record& record) {
  f.number(row.parent, record.parent);
  f.number(row.depth, record.depth);
  f.word(row.phase, record.phase, "phase");
  f.number(row.step, record.step);
  f.number(row.rank, record.rank);
  f.number(row.lane, record.lane);
  f.number(row.wall_ns, record.wall_ns);
}

/// Statistics and counts left out.
template <typename Codec, Either<core::TensorRecord> Tensor>
void row_fields(Codec& f, TensorRow& row, Tensor& tensor) {
  f.number(row.digest, tensor.digest);
  f.number(row.storage_offset, tensor.storage_offset);
  f.number(row.storage, tensor.storage);
  f.number(row.producer, tensor.producer);
  f.sizes(row.shape_begin, row.shape_count, tensor.shape);
  f.sizes(row.strides_begin, row.strides_count, tensor.strides);
  f.text(row.slot, tensor.slot);
  f.text(row.device, tensor.device);
  f.text(row.layout, tensor.layout);
  f.text(row.attributes, tensor.attributes);
  f.text(row.name, tensor.name);
  f.word(row.role, tensor.role, "role");
  f.word(row.state, tensor.state, "state");
  f.word(row.dtype, tensor.dtype, "dtype");
  f.flag(row.flags, kTensorRequiresGrad, tensor.requires_grad);
  f.flag(row.flags, kTensorStored, tensor.stored);
  f.flag(row.flags, kTensorSteady, tensor.watch, core::InputWatch::kSteady);
  f.flag(row.flags, kTensorMoved, tensor.watch, core::InputWatch::kMoved);
}

/// Kind and items of a list left out.
template <typename Codec, Either<core::Value> Value>
void row_fields(Codec& f, ValueRow& row, Value& value) {
  const auto field = [&](auto& data) {
    using Data = std::remove_cvref_t<decltype(data)>;
    if constexpr (std::is_same_v<Data, std::string>) {
      f.text(row.integer, data);
    } else if constexpr (std::is_same_v<Data, core::Symbol>) {
      f.text(row.integer, data.name);
    } else if constexpr (std::is_same_v<Data, core::Opaque>) {
      f.text(row.integer, data.type);
    } else if constexpr (std::is_same_v<Data, core::TensorSlot>) {
      f.number(row.integer, data.index);
    } else if constexpr (std::is_same_v<Data, double>) {
      f.number(row.real, data);
    } else if constexpr (std::is_same_v<Data, std::complex<double>>) {
      auto parts = std::pair(data.real(), data.imag());
      f.number(row.real, parts.first);
      f.number(row.imaginary, parts.second);
      if constexpr (Codec::kReads) data = {parts.first, parts.second};
    } else if constexpr (std::is_integral_v<Data>) {
      f.number(row.integer, data);
    }
  };
  std::visit(field, value.data);
}

/// Rows of what is inside the list.
std::uint64_t rows_inside(const core::ValueList& list, int depth) {
  std::uint64_t rows = list.items.size();
  // The journal makes deeper lists opaque, which is one row.
  if (depth == journal::kMaxListDepth) return rows;
  for (const core::Value& item : list.items) {
    if (const auto* inner = std::get_if<core::ValueList>(&item.data)) {
      rows += rows_inside(*inner, depth + 1);
    }
  }
  return rows;
}

std::uint64_t rows_of(const core::Value& value) {
  const auto* list = std::get_if<core::ValueList>(&value.data);
  return list == nullptr ? 1 : 1 + rows_inside(*list, 1);
}

bool has_counts(const core::TensorRecord& tensor) {
  return tensor.counted && tensor.counted->any();
}

}  // namespace

void RowCounts::add(const core::OpRecord& record) {
  ++ops;
  for (const core::Argument& argument : record.arguments) values += rows_of(argument.value);
  for (const core::Value& result : record.results) values += rows_of(result);
  tensors += record.tensors.size();
  for (const core::TensorRecord& tensor : record.tensors) {
    stats += tensor.stats ? 1U : 0U;
    non_finite += has_counts(tensor) ? 1U : 0U;
  }
  substitutions += record.substitutions.size();
  generators += record.generator ? 1U : 0U;
}

namespace {

template <typename T>
std::uint32_t count_of(const std::vector<T>& items) {
  return static_cast<std::uint32_t>(items.size());
}

}  // namespace

std::uint32_t BytePool::number(std::string_view text) {
  const auto found = numbers_.find(text);
  if (found != numbers_.end()) return found->second;
  const auto number = static_cast<std::uint32_t>(numbers_.size());
  numbers_.emplace(text, number);
  bytes.insert(bytes.end(), text.begin(), text.end());
  offsets.push_back(bytes.size());
  return number;
}

struct IndexWriter::ToRow {
  static constexpr bool kReads = false;
  IndexWriter& writer;

  template <typename Number, typename Field>
  void number(Number& into, const Field& field) {
    into = static_cast<Number>(field);
  }
  template <typename Number, typename Enum>
  void word(Number& into, Enum value, const char* /*what*/) {
    into = static_cast<Number>(value);
  }
  template <typename Field>
  void flag(std::uint8_t& flags, std::uint8_t bit, Field value, Field wanted = Field{true}) {
    if (value == wanted) flags = static_cast<std::uint8_t>(flags | bit);
  }
  template <typename Number>
  void text(Number& into, std::string_view text) {
    into = writer.texts_.number(text);
  }
  void sizes(std::uint64_t& begin, std::uint32_t& count, std::span<const std::int64_t> sizes) {
    const std::string_view bytes{reinterpret_cast<const char*>(sizes.data()), sizes.size_bytes()};
    const std::uint32_t number = writer.dims_.number(bytes);
    begin = writer.dims_.offsets[number] / sizeof(std::int64_t);
    count = static_cast<std::uint32_t>(sizes.size());
  }
};

template <typename Row, typename Object>
Row IndexWriter::row_of(const Object& object) {
  Row row;
  ToRow f{*this};
  row_fields(f, row, object);
  return row;
}

IndexWriter::IndexWriter(hid_t group, const RowCounts& counts, const Blame& blame)
    : group_(group),
      blame_(blame),
      values_(group, kValuesTable, counts.values, blame),
      tensors_(group, kTensorsTable, counts.tensors, blame),
      stats_(group, kStatsTable, counts.stats, blame),
      substitutions_(group, kSubstitutionsTable, counts.substitutions, blame),
      generators_(group, kGeneratorsTable, counts.generators, blame),
      ops_(counts.ops),
      present_(counts.ops) {
  if (counts.non_finite > 0) non_finite_.emplace(group, kNonFiniteTable, counts.non_finite, blame);
  texts_.number("");  // number 0, so that a zero in a row is no accident
}

std::uint32_t IndexWriter::op(const std::shared_ptr<const core::OperatorInfo>& op) {
  if (op == nullptr) {
    throw core::Error(core::ErrorKind::kInternal, "a record names no operator");
  }
  const auto [entry, added] = op_ids_.try_emplace(op.get(), count_of(operators_));
  if (added) {
    kept_.push_back(op);
    operators_.push_back(row_of<OperatorRow>(*op));
  }
  return entry->second;
}

std::uint32_t IndexWriter::site(const std::shared_ptr<const core::CallSite>& site) {
  if (site == nullptr) return kNoRow;
  const auto [entry, added] = site_ids_.try_emplace(site.get(), count_of(sites_));
  if (added) {
    kept_.push_back(site);
    SiteRow& row = sites_.emplace_back(row_of<SiteRow>(*site));
    row.frames_begin = count_of(frames_);
    row.frame_count = count_of(site->frames);
    for (const core::SourceFrame& frame : site->frames) {
      frames_.push_back(row_of<FrameRow>(frame));
    }
  }
  return entry->second;
}

void IndexWriter::add_value(const core::Value& value, std::uint32_t name, std::uint16_t level) {
  auto row = row_of<ValueRow>(value);
  row.name = name;
  row.kind = static_cast<std::uint16_t>(value.data.index());
  row.level = level;
  const auto* list = std::get_if<core::ValueList>(&value.data);
  if (list != nullptr) row.integer = static_cast<std::int64_t>(list->items.size());
  values_.append_row(row);
  if (list == nullptr) return;
  for (const core::Value& item : list->items) {
    add_value(item, kNoRow, static_cast<std::uint16_t>(level + 1));
  }
}

void IndexWriter::add_values(const core::OpRecord& record, OpRow& row) {
  row.values_begin = values_.written();
  for (const core::Argument& argument : record.arguments) {
    add_value(argument.value, texts_.number(argument.name), 0);
  }
  const std::uint64_t middle = values_.written();
  for (const core::Value& result : record.results) add_value(result, kNoRow, 0);
  row.argument_rows = static_cast<std::uint32_t>(middle - row.values_begin);
  row.result_rows = static_cast<std::uint32_t>(values_.written() - middle);
}

void IndexWriter::add_tensor(const core::TensorRecord& tensor) {
  auto row = row_of<TensorRow>(tensor);
  if (tensor.stats) {
    row.stats = static_cast<std::int64_t>(stats_.written());
    stats_.append_row(*tensor.stats);
  }
  if (tensor.counted) row.flags = static_cast<std::uint8_t>(row.flags | kTensorCounted);
  if (has_counts(tensor)) {
    non_finite_.value().append_row(NonFiniteRow{tensors_.written(), *tensor.counted});
  }
  tensors_.append_row(row);
}

void IndexWriter::add(const core::OpRecord& record) {
  if (record.index >= ops_.size() || present_[record.index]) {
    throw core::Error(
        core::ErrorKind::kInternal,
        fmt::format(
            "op {} is not one of the {} of the trace, or came twice", record.index, ops_.size()));
  }
  present_[record.index] = true;
  OpRow& row = ops_[record.index];
  row = row_of<OpRow>(record);
  row.op = op(record.op);
  row.site = site(record.site);
  add_values(record, row);
  row.tensors_begin = tensors_.written();
  row.tensor_count = count_of(record.tensors);
  for (const core::TensorRecord& tensor : record.tensors) add_tensor(tensor);
  row.substitutions_begin = substitutions_.written();
  row.substitution_count = count_of(record.substitutions);
  for (const core::Substitution& change : record.substitutions) {
    substitutions_.append_row(row_of<SubstitutionRow>(change));
  }
  if (record.generator) {
    row.generator = static_cast<std::int64_t>(generators_.written());
    generators_.append_row(row_of<GeneratorRow>(*record.generator));
  }
}

template <typename Rows>
TableDigest IndexWriter::write_whole(const TableLayout& layout, const Rows& rows) {
  const auto bytes = std::as_bytes(std::span(rows));
  TableWriter writer(group_, layout, bytes.size() / layout.row_size, blame_);
  writer.append(bytes);
  return writer.finish();
}

core::Digest IndexWriter::finish(std::span<const KeptContent> contents,
                                 bool packed,
                                 const Slices& slices) {
  std::vector<ContentRow> content_rows;
  for (const auto& [key, offset] : contents) {
    ContentRow& row = content_rows.emplace_back(row_of<ContentRow>(*key));
    row.bytes = core::content_size(*key);
    row.packed = packed || offset == kInReference ? offset : kOwnDataset;
  }
  std::vector<TableDigest> digests;
  for (TableWriter* table : {&values_, &tensors_, &stats_, &substitutions_, &generators_}) {
    digests.push_back(table->finish());
  }
  if (non_finite_) digests.push_back(non_finite_->finish());
  digests.push_back(write_whole(kContentsTable, content_rows));
  if (!slices.empty()) {
    std::vector<SliceRow> rows;
    for (const auto& [key, slice] : slices) {
      SliceRow& row = rows.emplace_back(row_of<SliceRow>(key));
      row.slice = slice.digest;
      row.elements = slice.elements;
      row.stride = slice.stride;
    }
    digests.push_back(write_whole(kSlicesTable, rows));
  }
  digests.push_back(write_whole(kOpsTable, ops_));
  digests.push_back(write_whole(kOperatorsTable, operators_));
  digests.push_back(write_whole(kSitesTable, sites_));
  digests.push_back(write_whole(kFramesTable, frames_));
  digests.push_back(write_whole(kDimsTable, dims_.bytes));
  digests.push_back(write_whole(kTextBytesTable, texts_.bytes));
  digests.push_back(write_whole(kTextOffsetsTable, texts_.offsets));
  return index_digest(std::move(digests));
}

namespace {

constexpr std::size_t kMostTables = 256;

void check_digest(const TraceFile& file, hid_t group, const core::Digest& expected) {
  std::vector<TableDigest> tables;
  for (const std::string& name : file.names(group, kMostTables)) {
    tables.push_back(TableReader(file, group, name).digest());
  }
  if (index_digest(std::move(tables)) != expected) {
    file.blame().fail("/index does not match the digest in the manifest");
  }
}

TableReader open_table(const TraceFile& file, hid_t group, const TableLayout& layout) {
  TableReader table(file, group, layout.name);
  table.expect_layout(layout);
  return table;
}

/// A table that only some dumps have.
std::optional<TableReader> find_table(const TraceFile& file,
                                      hid_t group,
                                      const TableLayout& layout) {
  if (!file.has_link(group, layout.name)) return std::nullopt;
  return open_table(file, group, layout);
}

/// What is verified is read first: nothing of the index is looked at before its digest holds.
GroupHandle verified_group(const TraceFile& file, const core::Digest& digest) {
  GroupHandle group = file.group("index");
  check_digest(file, group.get(), digest);
  return group;
}

}  // namespace

struct IndexReader::FromRow {
  static constexpr bool kReads = true;
  const IndexReader& reader;
  const TableReader& table;

  template <typename Number, typename Field>
  void number(const Number& row, Field& field) {
    field = static_cast<Field>(row);
  }
  template <typename Number, typename Enum>
  void word(Number row, Enum& value, const char* what) {
    if (row > static_cast<Number>(journal::kLast<Enum>)) {
      table.blame().fail(fmt::format("holds the unknown {} {}", what, row));
    }
    value = static_cast<Enum>(row);
  }
  template <typename Field>
  void flag(std::uint8_t flags, std::uint8_t bit, Field& value, Field wanted = Field{true}) {
    if ((flags & bit) != 0) value = wanted;
  }
  template <typename Number>
  void text(Number row, std::string& text) {
    text = reader.text(static_cast<std::uint64_t>(row));
  }
  void sizes(std::uint64_t begin, std::uint32_t count, std::vector<std::int64_t>& sizes) {
    sizes = reader.dims(begin, count);
  }
};

template <typename Row, typename Object>
void IndexReader::read(const TableReader& table, Row& row, Object& object) const {
  FromRow f{*this, table};
  row_fields(f, row, object);
}

IndexReader::IndexReader(const TraceFile& file, const core::Digest& digest)
    : file_(file),
      group_(verified_group(file, digest)),
      ops_(open_table(file, group_.get(), kOpsTable)),
      values_(open_table(file, group_.get(), kValuesTable)),
      tensors_(open_table(file, group_.get(), kTensorsTable)),
      stats_(open_table(file, group_.get(), kStatsTable)),
      non_finite_(find_table(file, group_.get(), kNonFiniteTable)),
      substitutions_(open_table(file, group_.get(), kSubstitutionsTable)),
      generators_(open_table(file, group_.get(), kGeneratorsTable)),
      contents_(open_table(file, group_.get(), kContentsTable)),
      slices_(find_table(file, group_.get(), kSlicesTable)),
      operators_(open_table(file, group_.get(), kOperatorsTable)),
      sites_(open_table(file, group_.get(), kSitesTable)),
      frames_(open_table(file, group_.get(), kFramesTable)),
      dims_(open_table(file, group_.get(), kDimsTable).all<std::int64_t>()),
      text_bytes_(open_table(file, group_.get(), kTextBytesTable).all<std::uint8_t>()),
      text_offsets_(open_table(file, group_.get(), kTextOffsetsTable).all<std::uint64_t>()),
      operator_cache_(operators_.rows()),
      site_cache_(sites_.rows()) {
  if (text_offsets_.empty() || text_offsets_.front() != 0 ||
      !std::ranges::is_sorted(text_offsets_) || text_offsets_.back() != text_bytes_.size()) {
    file.blame().inside("/index/text_offsets").fail("does not cut text_bytes into texts");
  }
}

std::string IndexReader::text(std::uint64_t id) const {
  if (id >= text_offsets_.size() - 1) {
    file_.blame().inside("/index/text_offsets").fail(fmt::format("has no text {}", id));
  }
  const auto* begin = reinterpret_cast<const char*>(text_bytes_.data());
  return {begin + text_offsets_[id], begin + text_offsets_[id + 1]};
}

std::vector<std::int64_t> IndexReader::dims(std::uint64_t begin, std::uint64_t count) const {
  if (count > journal::kMostDims || begin > dims_.size() || count > dims_.size() - begin) {
    file_.blame().inside("/index/dims").fail(fmt::format("has no {} rows from {}", count, begin));
  }
  const auto first = dims_.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

std::shared_ptr<const core::OperatorInfo> IndexReader::operator_info(std::uint32_t id) const {
  auto row = operators_.row<OperatorRow>(id);
  if (auto known = operator_cache_.find(id)) return known;
  auto info = std::make_shared<core::OperatorInfo>();
  read(operators_, row, *info);
  operator_cache_.keep(id, info, sizeof *info + info->name.size() + info->overload.size());
  return info;
}

std::shared_ptr<const core::CallSite> IndexReader::site(std::uint32_t id) const {
  if (id == kNoRow) return nullptr;
  auto row = sites_.row<SiteRow>(id);
  if (auto known = site_cache_.find(id)) return known;
  frames_.expect_range(row.frames_begin, row.frame_count, "a site");
  auto site = std::make_shared<core::CallSite>();
  read(sites_, row, *site);
  std::size_t bytes = sizeof *site + site->module_path.size() + site->module_type.size();
  for (std::uint64_t i = 0; i < row.frame_count; ++i) {
    auto frame = frames_.row<FrameRow>(row.frames_begin + i);
    core::SourceFrame& into = site->frames.emplace_back();
    read(frames_, frame, into);
    bytes += sizeof into + into.file.size() + into.function.size();
  }
  site_cache_.keep(id, site, bytes);
  return site;
}

core::Value IndexReader::value(std::uint64_t& at,
                               std::uint64_t end,
                               int level,
                               std::size_t tensors) const {
  if (at >= end) values_.blame().fail("holds a list that is cut short");
  auto row = values_.row<ValueRow>(at++);
  if (row.level != level) values_.blame().fail(fmt::format("has a wrong level in row {}", at - 1));
  core::Value value;
  if (!journal::set_alternative(value.data, row.kind)) {
    values_.blame().fail(fmt::format("holds the unknown kind {}", row.kind));
  }
  if (std::holds_alternative<core::TensorSlot>(value.data) &&
      (std::cmp_less(row.integer, 0) || std::cmp_greater_equal(row.integer, tensors))) {
    values_.blame().fail("refers to a tensor its operator does not hold");
  }
  read(values_, row, value);
  auto* list = std::get_if<core::ValueList>(&value.data);
  if (list == nullptr) return value;
  if (level >= journal::kMaxListDepth) values_.blame().fail("nests lists too deep");
  for (std::int64_t i = 0; i < row.integer; ++i) {
    list->items.push_back(this->value(at, end, level + 1, tensors));
  }
  return value;
}

void IndexReader::read_values(const OpRow& row, core::OpRecord& record) const {
  const std::uint64_t rows = std::uint64_t{row.argument_rows} + row.result_rows;
  values_.expect_range(row.values_begin, rows, "an operator");
  std::uint64_t at = row.values_begin;
  std::uint64_t end = at + row.argument_rows;
  while (at < end) {
    const auto first = values_.row<ValueRow>(at);
    core::Value item = value(at, end, 0, row.tensor_count);
    record.arguments.push_back({text(first.name), std::move(item)});
  }
  end += row.result_rows;
  while (at < end) record.results.push_back(value(at, end, 0, row.tensor_count));
}

core::TensorRecord IndexReader::tensor(std::uint64_t index) const {
  auto row = tensors_.row<TensorRow>(index);
  if (row.producer < core::kNoProducer || std::cmp_greater_equal(row.producer, ops_.rows())) {
    tensors_.blame().fail(
        fmt::format("row {} was produced by an operator that is not there", index));
  }
  core::TensorRecord tensor;
  read(tensors_, row, tensor);
  core::element_count(tensor.shape);  // refuses what is no shape
  if (row.stats >= 0) {
    tensor.stats = stats_.row<core::TensorStats>(static_cast<std::uint64_t>(row.stats));
  }
  if ((row.flags & kTensorCounted) != 0) tensor.counted = non_finite(index);
  return tensor;
}

/// Of a tensor that was counted.
core::NonFinite IndexReader::non_finite(std::uint64_t tensor) const {
  std::uint64_t begin = 0;
  std::uint64_t end = non_finite_ ? non_finite_->rows() : 0;
  while (begin < end) {
    const std::uint64_t middle = begin + (end - begin) / 2;
    const auto row = non_finite_->row<NonFiniteRow>(middle);
    if (row.tensor == tensor) return row.counts;
    (row.tensor < tensor ? begin : end) = row.tensor < tensor ? middle + 1 : middle;
  }
  return {};
}

core::OpRecord IndexReader::op(std::uint64_t index, bool whole) const {
  auto row = ops_.row<OpRow>(index);
  // An enclosing call is entered first: a parent that comes later would make a cycle possible.
  if (row.parent < -1 || std::cmp_greater_equal(row.parent, index)) {
    ops_.blame().fail(fmt::format("row {} has the impossible parent {}", index, row.parent));
  }
  core::OpRecord record;
  read(ops_, row, record);
  record.index = index;
  record.op = operator_info(row.op);
  record.site = site(row.site);
  if (!whole) return record;
  read_values(row, record);
  tensors_.expect_range(row.tensors_begin, row.tensor_count, "an operator");
  record.tensors.reserve(row.tensor_count);
  for (std::uint64_t i = 0; i < row.tensor_count; ++i) {
    record.tensors.push_back(tensor(row.tensors_begin + i));
  }
  substitutions_.expect_range(row.substitutions_begin, row.substitution_count, "an operator");
  for (std::uint64_t i = 0; i < row.substitution_count; ++i) {
    auto change = substitutions_.row<SubstitutionRow>(row.substitutions_begin + i);
    read(substitutions_, change, record.substitutions.emplace_back());
  }
  if (row.generator >= 0) {
    auto use = generators_.row<GeneratorRow>(static_cast<std::uint64_t>(row.generator));
    read(generators_, use, record.generator.emplace());
  }
  return record;
}

std::pair<core::ContentKey, std::int64_t> IndexReader::content(std::uint64_t index) const {
  auto row = contents_.row<ContentRow>(index);
  core::ContentKey key;
  read(contents_, row, key);
  std::uint64_t bytes = 0;
  const auto elements = static_cast<std::uint64_t>(core::element_count(key.shape));
  if (__builtin_mul_overflow(elements, core::element_size(key.dtype), &bytes) ||
      bytes != row.bytes || key.dtype == core::Dtype::kUnknown) {
    contents_.blame().fail(fmt::format("row {} is no tensor of {} bytes", index, row.bytes));
  }
  if (row.packed < kInReference) contents_.blame().fail(fmt::format("row {} lies nowhere", index));
  return {std::move(key), row.packed};
}

std::pair<core::ContentKey, core::ContentSlice> IndexReader::slice(std::uint64_t index) const {
  auto row = slices_.value().row<SliceRow>(index);
  core::ContentKey key;
  read(*slices_, row, key);
  const core::ContentSlice slice{row.elements, row.stride, row.slice};
  const auto total = static_cast<std::uint64_t>(core::element_count(key.shape));
  if (key.dtype == core::Dtype::kUnknown || !core::is_slice_of(slice, total)) {
    slices_->blame().fail(fmt::format("row {} is no slice of {} elements", index, total));
  }
  return {std::move(key), slice};
}

}  // namespace repro_check::store
