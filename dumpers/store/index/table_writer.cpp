// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/index/table_writer.h"

#include <fmt/format.h>

#include <utility>

#include "core/error.h"
#include "dumpers/store/file/content_datasets.h"
#include "dumpers/store/file/element_types.h"

namespace repro_check::store {
namespace {

constexpr std::size_t kBatch = std::size_t{1} << 20U;

hid_t scalar_type(Scalar scalar) {
  switch (scalar) {
    case Scalar::kUInt8:
      return H5T_STD_U8LE;
    case Scalar::kUInt16:
      return H5T_STD_U16LE;
    case Scalar::kUInt32:
      return H5T_STD_U32LE;
    case Scalar::kUInt64:
      return H5T_STD_U64LE;
    case Scalar::kInt64:
      return H5T_STD_I64LE;
    case Scalar::kFloat64:
      return H5T_IEEE_F64LE;
  }
  return H5I_INVALID_HID;
}

}  // namespace

TypeHandle row_type(const TableLayout& layout, const Blame& blame) {
  if (*layout.members.front().name == '\0') {
    return TypeHandle(
        blame.id(H5Tcopy(scalar_type(layout.members.front().type)), "cannot make a row type"));
  }
  TypeHandle type(blame.id(H5Tcreate(H5T_COMPOUND, layout.row_size), "cannot make a row type"));
  for (const Member& member : layout.members) {
    blame.ok(H5Tinsert(type.get(), member.name, member.offset, scalar_type(member.type)),
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

}  // namespace repro_check::store
