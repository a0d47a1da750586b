// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/index/tables.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "core/error.h"
#include "core/tensor/dtype_table.h"
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

}  // namespace repro_check::store
