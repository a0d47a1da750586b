// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/index/index.h"

#include <fmt/format.h>

#include <iterator>

#include "core/error.h"

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
  return core::digest_bytes(text);
}

namespace {

constexpr std::size_t kBatch = std::size_t{1} << 20U;

/// One member of a row.
struct Member {
  std::string name;  ///< empty = the row itself
  std::size_t offset = 0;
  core::Dtype type = core::Dtype::kUnknown;
  bool may_lack = false;
};

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
    std::string code(word.substr(colon + 1, 2));
    if (code.front() == 't') code.front() = 'u';
    for (const core::DtypeRow& row : core::kDtypes) {
      if (row.numpy.ends_with(code)) member.type = row.dtype;
    }
    member.offset = offset;
    offset += core::element_size(member.type);
  }
  return members;
}

/// The HDF5 type of a row.
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

}  // namespace

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
    throw core::internal_error(
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
    throw core::internal_error(fmt::format(
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

std::span<const std::byte> TableReader::rows_from(std::uint64_t index) const {
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
  return std::span(block.bytes).subspan(index % rows_per_block_ * row_size_);
}

void TableReader::expect_range(std::uint64_t begin, std::uint64_t count) const {
  if (begin <= rows_ && count <= rows_ - begin) return;
  blame_.fail(
      fmt::format("has {} rows, and an operator refers to {} from row {}", rows_, count, begin));
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

IndexWriter::IndexWriter(hid_t group, const journal::RowCounts& counts, const Blame& blame)
    : values_(group, journal::kValuesTable, counts.values, blame),
      tensors_(group, journal::kTensorsTable, counts.tensors, blame),
      stats_(group, journal::kStatsTable, counts.stats, blame),
      substitutions_(group, journal::kSubstitutionsTable, counts.substitutions, blame),
      generators_(group, journal::kGeneratorsTable, counts.generators, blame),
      group_(group),
      ops_(counts.ops),
      present_(counts.ops),
      blame_(blame) {
  const auto where_any =
      [&](std::optional<TableWriter>& into, const TableLayout& layout, auto rows) {
        if (rows > 0) into.emplace(group, layout, rows, blame);
      };
  where_any(non_finite_, journal::kNonFiniteTable, counts.non_finite);
  where_any(blocks_, journal::kBlocksTable, counts.blocks);
  where_any(parameters_, journal::kParametersTable, counts.parameters);
}

void IndexWriter::add(const journal::CallRows& call) {
  if (call.op.op == journal::kNoRow) {
    throw core::internal_error("a record names no operator");
  }
  if (call.index >= ops_.size() || present_[call.index]) {
    throw core::internal_error(fmt::format(
        "op {} is not one of the {} of the trace, or came twice", call.index, ops_.size()));
  }
  present_[call.index] = true;
  // From here on rows are counted from the first of the table.
  journal::OpRow& row = ops_[call.index];
  row = call.op;
  row.values_begin = values_.written();
  row.tensors_begin = tensors_.written();
  row.substitutions_begin = substitutions_.written();
  if (row.generator >= 0) row.generator = static_cast<std::int64_t>(generators_.written());
  for (journal::TensorRow tensor : call.tensors) {
    if (tensor.stats >= 0) tensor.stats += static_cast<std::int64_t>(stats_.written());
    tensors_.append_row(tensor);
  }
  for (journal::NonFiniteRow counts : call.non_finite) {
    counts.tensor += row.tensors_begin;
    non_finite_.value().append_row(counts);
  }
  values_.append(std::as_bytes(call.values));
  stats_.append(std::as_bytes(call.stats));
  substitutions_.append(std::as_bytes(call.substitutions));
  generators_.append(std::as_bytes(call.generators));
}

template <typename Rows>
TableDigest IndexWriter::write_whole(const TableLayout& layout, const Rows& rows) {
  const auto bytes = std::as_bytes(std::span(rows));
  TableWriter writer(group_, layout, bytes.size() / layout.row_size, blame_);
  writer.append(bytes);
  return writer.finish();
}

core::Digest IndexWriter::finish(const journal::SharedTables& shared) {
  std::vector<TableDigest> digests;
  for (TableWriter* table : {&values_, &tensors_, &stats_, &substitutions_, &generators_}) {
    digests.push_back(table->finish());
  }
  for (std::optional<TableWriter>* table : {&non_finite_, &blocks_, &parameters_}) {
    if (*table) digests.push_back((*table)->finish());
  }
  if (!slices_.empty()) digests.push_back(write_whole(journal::kSlicesTable, slices_));
  digests.push_back(write_whole(journal::kContentsTable, contents_));
  digests.push_back(write_whole(journal::kOpsTable, ops_));
  digests.push_back(write_whole(journal::kOperatorsTable, shared.operators));
  digests.push_back(write_whole(journal::kSitesTable, shared.sites));
  digests.push_back(write_whole(journal::kFramesTable, shared.frames));
  digests.push_back(write_whole(kDimsTable, shared.dims));
  digests.push_back(write_whole(kTextBytesTable, shared.text_bytes));
  digests.push_back(write_whole(kTextOffsetsTable, shared.text_offsets));
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
  if (layout.may_lack && !file.has_link(group, layout.name)) return std::nullopt;
  return open_table(file, group, layout);
}

/// What is verified is read first: nothing of the index is looked at before its digest holds.
GroupHandle verified_group(const TraceFile& file, const core::Digest& digest) {
  GroupHandle group = file.group("index");
  check_digest(file, group.get(), digest);
  return group;
}

}  // namespace

IndexReader::IndexReader(const TraceFile& file, const core::Digest& digest)
    : file_(file),
      group_(verified_group(file, digest)),
      ops_(open_table(file, group_.get(), journal::kOpsTable)),
      values_(open_table(file, group_.get(), journal::kValuesTable)),
      tensors_(open_table(file, group_.get(), journal::kTensorsTable)),
      stats_(open_table(file, group_.get(), journal::kStatsTable)),
      non_finite_(find_table(file, group_.get(), journal::kNonFiniteTable)),
      substitutions_(open_table(file, group_.get(), journal::kSubstitutionsTable)),
      generators_(open_table(file, group_.get(), journal::kGeneratorsTable)),
      contents_(open_table(file, group_.get(), journal::kContentsTable)),
      slices_(find_table(file, group_.get(), journal::kSlicesTable)),
      blocks_(find_table(file, group_.get(), journal::kBlocksTable)),
      parameters_(find_table(file, group_.get(), journal::kParametersTable)) {
  const auto shared = [&]<typename Row>(const TableLayout& layout, core::LargeVector<Row>& rows) {
    rows = open_table(file, group_.get(), layout).template all<Row>();
  };
  shared(journal::kOperatorsTable, tables_.operators);
  shared(journal::kSitesTable, tables_.sites);
  shared(journal::kFramesTable, tables_.frames);
  shared(kDimsTable, tables_.dims);
  shared(kTextBytesTable, tables_.text_bytes);
  shared(kTextOffsetsTable, tables_.text_offsets);
  const auto& offsets = tables_.text_offsets;
  if (offsets.empty() || offsets.front() != 0 || !std::ranges::is_sorted(offsets) ||
      offsets.back() != tables_.text_bytes.size()) {
    file.blame().inside("/index/text_offsets").fail("does not cut text_bytes into texts");
  }
  expect_shared(tables_.operators.size(), tables_.sites.size());
}

void IndexReader::fail(const TableLayout& table, const std::string& what) const {
  file_.blame().inside(fmt::format("/index/{}", table.name)).fail(what);
}

/// Of a tensor that was counted.
std::optional<journal::NonFiniteRow> IndexReader::non_finite(std::uint64_t tensor) const {
  std::uint64_t begin = 0;
  std::uint64_t end = non_finite_ ? non_finite_->rows() : 0;
  while (begin < end) {
    const std::uint64_t middle = begin + (end - begin) / 2;
    const auto row = non_finite_->row<journal::NonFiniteRow>(middle);
    if (row.tensor == tensor) return row;
    (row.tensor < tensor ? begin : end) = row.tensor < tensor ? middle + 1 : middle;
  }
  return std::nullopt;
}

void IndexReader::read_rows(const journal::OpRow& row) const {
  values_.read(row.values_begin, std::uint64_t{row.argument_rows} + row.result_rows, rows_.values);
  tensors_.read(row.tensors_begin, row.tensor_count, rows_.tensors);
  substitutions_.read(row.substitutions_begin, row.substitution_count, rows_.substitutions);
  rows_.generators.clear();
  if (row.generator >= 0) {
    rows_.generators.push_back(
        generators_.row<journal::GeneratorRow>(static_cast<std::uint64_t>(row.generator)));
  }
  rows_.stats.clear();
  rows_.non_finite.clear();
  for (std::size_t i = 0; i < rows_.tensors.size(); ++i) {
    journal::TensorRow& tensor = rows_.tensors[i];
    if (tensor.stats >= 0) {
      const auto stats = static_cast<std::uint64_t>(
          std::exchange(tensor.stats, static_cast<std::int64_t>(rows_.stats.size())));
      rows_.stats.push_back(stats_.row<core::TensorStats>(stats));
    }
    if ((tensor.flags & journal::kTensorCounted) == 0) continue;
    if (const auto counted = non_finite(row.tensors_begin + i)) {
      rows_.non_finite.push_back({i, counted->counts});
    }
  }
}

void IndexReader::read_op(std::uint64_t index, bool whole, core::OpRecord& into) const {
  const auto row = ops_.row<journal::OpRow>(index);
  // An enclosing call is entered first: a parent that comes later would make a cycle possible.
  if (row.parent < -1 || std::cmp_greater_equal(row.parent, index)) {
    ops_.blame().fail(fmt::format("row {} has the impossible parent {}", index, row.parent));
  }
  if (row.op == journal::kNoRow) ops_.blame().fail(fmt::format("row {} names no operator", index));
  if (!whole) return read_record({index, row}, false, into);
  read_rows(row);
  read_record({index,
               row,
               rows_.values,
               rows_.tensors,
               rows_.stats,
               rows_.non_finite,
               rows_.substitutions,
               rows_.generators},
              true,
              into);
}

std::pair<core::ContentKey, std::int64_t> IndexReader::content(std::uint64_t index) const {
  const auto row = contents_.row<journal::ContentRow>(index);
  if (row.packed < kInReference) contents_.blame().fail(fmt::format("row {} lies nowhere", index));
  return {content_key(row, index), row.packed};
}

journal::SlicedContent IndexReader::slice(std::uint64_t index) const {
  return RowDecoder::slice(slices_.value().row<journal::SliceRow>(index), index);
}

core::BlockRow IndexReader::block(std::uint64_t index) const {
  return RowDecoder::block(blocks_.value().row<journal::BlockLine>(index));
}

core::ParameterRow IndexReader::parameter(std::uint64_t index) const {
  return RowDecoder::parameter(parameters_.value().row<journal::ParameterLine>(index));
}

}  // namespace repro_check::store
