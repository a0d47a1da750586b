// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/trace/op_record.h"
#include "dumpers/store/file/hdf5.h"

namespace repro_check::store {

/// `text` as the name of one link: `/`, `%`, control characters and bytes that are not UTF-8 as
/// `%2F`; never empty, never `.` or `..`, at most 200 bytes.
std::string link_name(std::string_view text);

/// The tree a person browses: `/ops/000041 aten::addmm/inputs/self`, hard links to the contents.
class BrowseTree {
 public:
  /// @param contents  the group `/content`, borrowed
  /// @param is_here   whether that group has a content
  BrowseTree(hid_t file,
             hid_t contents,
             std::function<bool(const core::ContentKey&)> is_here,
             const Blame& blame);

  /// Tensors whose content is not here get no link: one to another file would lead out of the dump.
  void add(const core::OpRecord& record);

 private:
  void link_tensors(hid_t parent, const core::OpRecord& record, core::TensorRole role);

  hid_t contents_;
  std::function<bool(const core::ContentKey&)> is_here_;
  Blame blame_;
  GroupHandle ops_;
};

}  // namespace repro_check::store
