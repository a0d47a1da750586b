// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/directory/browse_tree.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <set>
#include <utility>

#include "core/text/printable.h"
#include "dumpers/store/file/trace_creation.h"

namespace repro_check::store {
namespace {

bool is_plain(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte != 0x7f && c != '/' && c != '%';
}

std::string source_of(const core::OpRecord& record) {
  const core::SourceFrame* frame =
      record.site == nullptr ? nullptr : core::display_frame(*record.site);
  return frame == nullptr ? "" : fmt::format("{}:{}", frame->file, frame->line);
}

void write_index(hid_t group, std::uint64_t index, const Blame& blame) {
  const SpaceHandle space = make_space({}, blame);
  const AttributeHandle attribute(
      blame.id(H5Acreate2(group, "op_index", H5T_STD_U64LE, space.get(), H5P_DEFAULT, H5P_DEFAULT),
               "cannot make an attribute"));
  blame.ok(H5Awrite(attribute.get(), H5T_NATIVE_UINT64, &index), "cannot write an attribute");
}

}  // namespace

std::string link_name(std::string_view text) {
  constexpr std::size_t kLongest = 200;
  if (text.empty()) return "%";  // a lone percent sign stands for nothing else
  const bool utf8 = core::is_utf8(text);
  std::string name;
  for (const char c : text) {
    if (name.size() >= kLongest) break;
    if (is_plain(c) && (utf8 || static_cast<unsigned char>(c) < 0x80)) {
      name += c;
    } else {
      fmt::format_to(std::back_inserter(name), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
  while (!core::is_utf8(name)) name.pop_back();  // the cut may have gone through a character
  if (name == "." || name == "..") name.replace(0, 1, "%2E");
  return name;
}

BrowseTree::BrowseTree(hid_t file,
                       hid_t contents,
                       std::function<bool(const core::ContentKey&)> is_here,
                       const Blame& blame)
    : contents_(contents),
      is_here_(std::move(is_here)),
      blame_(blame),
      ops_(make_group(file, "ops", blame)) {}

void BrowseTree::link_tensors(hid_t parent, const core::OpRecord& record, core::TensorRole role) {
  const char* folder = role == core::TensorRole::kInput ? "inputs" : "outputs";
  GroupHandle group;
  std::set<std::string> taken;
  for (const core::TensorRecord& tensor : record.tensors) {
    if (tensor.role != role || !tensor.stored || !is_here_(tensor.content_key())) continue;
    if (group.get() < 0) group = make_group(parent, folder, blame_);
    std::string name = link_name(tensor.slot);
    for (int copy = 2; !taken.insert(name).second; ++copy) {
      name = fmt::format("{} ({})", link_name(tensor.slot), copy);
    }
    const std::string content = core::content_name(tensor.content_key());
    blame_.ok(H5Lcreate_hard(
                  contents_, content.c_str(), group.get(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
              "cannot link a tensor");
  }
}

void BrowseTree::add(const core::OpRecord& record) {
  const Hdf5Scope scope;
  const std::string op = record.op->full_name();
  const GroupHandle group =
      make_group(ops_.get(), fmt::format("{:06} {}", record.index, link_name(op)), blame_);
  // An attribute holds 64 KiB at most.
  constexpr std::size_t kLongest = 4096;
  const auto write = [&](const char* name, const std::string& text) {
    write_text_attribute(group.get(), name, core::printable(text, kLongest), blame_);
  };
  write("operator", op);
  write("module", record.site == nullptr ? "" : record.site->module_path);
  write("source", source_of(record));
  write_index(group.get(), record.index, blame_);
  link_tensors(group.get(), record, core::TensorRole::kInput);
  link_tensors(group.get(), record, core::TensorRole::kOutput);
}

}  // namespace repro_check::store
