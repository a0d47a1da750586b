// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/file/hdf5_scope.h"

#include <fmt/format.h>

#include "core/text/printable.h"
#include "dumpers/store/file/hdf5_handle.h"

namespace repro_check::store {
namespace {

std::recursive_mutex& library_mutex() {
  static std::recursive_mutex mutex;
  return mutex;
}

/// The library's own clean-up at exit would try again, and complain, when a file could not be
/// closed because the disk is full.
void prepare_library() {
  static const herr_t once = H5dont_atexit();
  (void)once;
}

herr_t keep_innermost(unsigned /*n*/, const H5E_error2_t* error, void* into) {
  if (error->desc != nullptr && *error->desc != '\0') {
    *static_cast<std::string*>(into) = error->desc;
  }
  return 0;
}

/// Descriptions can quote names and numbers out of a damaged file, over several lines.
std::string innermost_reason() {
  constexpr std::size_t kLongest = 200;
  std::string reason;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, &keep_innermost, &reason);
  return core::printable(reason, kLongest);
}

}  // namespace

Hdf5Scope::Hdf5Scope() : lock_(library_mutex()) {
  prepare_library();
  H5Eget_auto2(H5E_DEFAULT, &print_, &data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Hdf5Scope::~Hdf5Scope() { H5Eset_auto2(H5E_DEFAULT, print_, data_); }

void close_quietly(herr_t (*close)(hid_t), hid_t id) noexcept {
  const Hdf5Scope scope;
  close(id);
}

Blame Blame::inside(std::string_view inner) const {
  return {kind_, fmt::format("{}: {}", where_, core::printable(inner)), hint_};
}

void Blame::fail(std::string_view what) const {
  throw core::Error(kind_, fmt::format("{}: {}", where_, what), hint_);
}

void Blame::library_failed(std::string_view doing) const {
  const std::string reason = innermost_reason();
  fail(reason.empty() ? std::string(doing) : fmt::format("{} ({})", doing, reason));
}

}  // namespace repro_check::store
