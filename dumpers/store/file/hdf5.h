// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/system/pinned.h"
#include "core/tensor/dtype.h"

namespace repro_check::store {

/// Closes `id` with HDF5's own printing off; a failure to close is nobody's to mend by then.
void close_quietly(herr_t (*close)(hid_t), hid_t id) noexcept;

/// Owns one HDF5 identifier.
template <herr_t (*Close)(hid_t)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(hid_t id) noexcept : id_(id) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) close_quietly(Close, id_);
  }

  [[nodiscard]] hid_t get() const noexcept { return id_; }
  [[nodiscard]] hid_t release() noexcept { return std::exchange(id_, H5I_INVALID_HID); }

 private:
  hid_t id_ = H5I_INVALID_HID;
};

using FileHandle = Handle<H5Fclose>;
using GroupHandle = Handle<H5Gclose>;
using DatasetHandle = Handle<H5Dclose>;
using SpaceHandle = Handle<H5Sclose>;
using TypeHandle = Handle<H5Tclose>;
using AttributeHandle = Handle<H5Aclose>;
using PropertyHandle = Handle<H5Pclose>;

/// Stands around every use of HDF5: one thread at a time (the library is built without threads),
/// and its own error printing off. May be nested.
class Hdf5Scope : core::Pinned {
 public:
  Hdf5Scope();
  ~Hdf5Scope();

 private:
  std::scoped_lock<std::recursive_mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* data_ = nullptr;
};

/// What a failing HDF5 call means where it is made: the kind of error, and what to name in it.
class Blame {
 public:
  Blame(core::ErrorKind kind, std::string where, std::string hint = {})
      : kind_(kind), where_(std::move(where)), hint_(std::move(hint)) {}

  /// The same for something inside: `<where>: <inner>`.
  [[nodiscard]] Blame inside(std::string_view inner) const;

  [[nodiscard]] hid_t id(hid_t id, std::string_view doing) const {
    if (id < 0) library_failed(doing);
    return id;
  }
  void ok(herr_t code, std::string_view doing) const {
    if (code < 0) library_failed(doing);
  }

  /// Throws without asking HDF5.
  [[noreturn]] void fail(std::string_view what) const;
  /// Throws with HDF5's innermost reason added.
  [[noreturn]] void library_failed(std::string_view doing) const;

 private:
  core::ErrorKind kind_;
  std::string where_;
  std::string hint_;
};

/// What HDF5 calls a plain number. The two formats it has no words for are bytes: float8_e8m0fnu is
/// without a sign, float4_e2m1fn_x2 packs two values in a byte.
/// @param dtype  no float of 16 bits or less but those two, not complex
hid_t number_type(core::Dtype dtype);

/// The HDF5 type that contents of each dtype are stored with, made once. DUMP_FORMAT.md has the
/// table.
class ElementTypes {
 public:
  explicit ElementTypes(const Blame& blame);

  /// @param dtype  any but kUnknown
  [[nodiscard]] hid_t of(core::Dtype dtype) const;

  /// The dtype a foreign type stands for; quantised dtypes and those that are stored as plain
  /// integers come back as integers.
  /// @param type  with its numbers little-endian
  [[nodiscard]] std::optional<core::Dtype> recognise(hid_t type) const;

 private:
  std::array<TypeHandle, core::kDtypes.size()> types_;
};

/// Dimensions of the dataset for `shape`: the shape itself, or all elements in one dimension where
/// HDF5 has not that many.
std::vector<hsize_t> dataset_dims(std::span<const std::int64_t> shape);

/// A dataspace for `dims`; scalar where there are none.
SpaceHandle make_space(std::span<const hsize_t> dims, const Blame& blame);

/// @param value  of `type`, little-endian
void write_attribute(
    hid_t object, const char* name, hid_t type, const void* value, const Blame& blame);

/// `text` as a variable-length UTF-8 attribute, which h5py shows as `str`.
void write_text_attribute(hid_t object,
                          const char* name,
                          std::string_view text,
                          const Blame& blame);

}  // namespace repro_check::store
