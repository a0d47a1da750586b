// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/index/table_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "dumpers/store/index/table_writer.h"

namespace repro_check::store {
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
  for (std::size_t i = 0; i < layout.members.size(); ++i) {
    const Member& member = layout.members[i];
    if (member.may_lack && row_size_ == member.offset) break;
    const int index = H5Tget_member_index(type_.get(), member.name);
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
