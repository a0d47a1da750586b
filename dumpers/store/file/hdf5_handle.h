// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <utility>

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

}  // namespace repro_check::store
