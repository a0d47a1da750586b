// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hdf5.h>

#include <mutex>
#include <string>
#include <string_view>

#include "core/error.h"

namespace repro_check::store {

/// Stands around every use of HDF5: one thread at a time (the library is built without threads),
/// and its own error printing off. May be nested.
class Hdf5Scope {
 public:
  Hdf5Scope();
  Hdf5Scope(const Hdf5Scope&) = delete;
  Hdf5Scope& operator=(const Hdf5Scope&) = delete;
  Hdf5Scope(Hdf5Scope&&) = delete;
  Hdf5Scope& operator=(Hdf5Scope&&) = delete;
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

}  // namespace repro_check::store
