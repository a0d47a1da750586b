// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "core/op_record.h"
#include "dumpers/store/detail/hdf5_handle.h"
#include "dumpers/store/detail/hdf5_scope.h"

namespace repro_check::store {

/// `text` as the name of one link: `/`, `%`, control characters and bytes that are not UTF-8 as
/// `%2F`; never empty, never `.` or `..`, at most 200 bytes.
std::string link_name(std::string_view text);

/// The tree a person browses: `/ops/000041 aten::addmm/inputs/self`, hard links to the contents.
class BrowseTree {
 public:
  /// @param contents  the group `/content`, borrowed
  BrowseTree(hid_t file, hid_t contents, const Blame& blame);

  void add(const core::OpRecord& record);

 private:
  void link_tensors(hid_t parent, const core::OpRecord& record, core::TensorRole role);

  hid_t contents_;
  Blame blame_;
  GroupHandle ops_;
};

}  // namespace repro_check::store
