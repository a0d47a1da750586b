// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/detail/content_writer.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "core/dtype.h"
#include "core/error.h"
#include "core/tensor_view.h"

namespace repro_check::store {
namespace {

constexpr std::size_t kSmall = std::size_t{64} << 10U;
constexpr std::size_t kArena = std::size_t{32} << 20U;

}  // namespace

PropertyHandle contiguous_creation(const Blame& blame) {
  PropertyHandle list(blame.id(H5Pcreate(H5P_DATASET_CREATE), "cannot make a property list"));
  blame.ok(H5Pset_layout(list.get(), H5D_CONTIGUOUS), "cannot make a property list");
  blame.ok(H5Pset_alloc_time(list.get(), H5D_ALLOC_TIME_EARLY), "cannot make a property list");
  blame.ok(H5Pset_fill_time(list.get(), H5D_FILL_TIME_NEVER), "cannot make a property list");
  blame.ok(H5Pset_obj_track_times(list.get(), false), "cannot make a property list");
  return list;
}

ContentWriter::ContentWriter(hid_t group, Blame blame)
    : group_(group),
      blame_(std::move(blame)),
      types_(blame_),
      creation_(contiguous_creation(blame_)) {}

void ContentWriter::put(const core::ContentKey& key, std::span<const std::byte> bytes) {
  if (known_.contains(key)) return;
  const auto elements = static_cast<std::uint64_t>(core::element_count(key.shape));
  const std::size_t element = core::element_size(key.dtype);
  if (element == 0 || elements != bytes.size() / element || bytes.size() % element != 0) {
    throw core::Error(
        core::ErrorKind::kInternal,
        fmt::format("content {} was handed {} bytes", core::content_name(key), bytes.size()));
  }
  if (bytes.size() > kSmall) write(key, bytes);
  const core::ContentKey& kept = *known_.insert(key).first;
  keys_.push_back(&kept);
  stored_bytes_ += bytes.size();
  if (bytes.size() > kSmall) return;
  pending_.push_back({&kept, arena_.size(), bytes.size()});
  arena_.insert(arena_.end(), bytes.begin(), bytes.end());
  if (arena_.size() >= kArena) flush();
}

void ContentWriter::flush() {
  for (const Pending& content : pending_) {
    write(*content.key, std::span<const std::byte>(arena_).subspan(content.offset, content.size));
  }
  pending_.clear();
  arena_.clear();
}

void ContentWriter::write(const core::ContentKey& key, std::span<const std::byte> bytes) const {
  const Hdf5Scope scope;
  const std::string name = core::content_name(key);
  const Blame blame = blame_.inside(fmt::format("/content/{}", name));
  const hid_t type = types_.of(key.dtype);
  const SpaceHandle space = make_space(dataset_dims(key.shape), blame);
  const DatasetHandle dataset(blame.id(
      H5Dcreate2(
          group_, name.c_str(), type, space.get(), H5P_DEFAULT, creation_.get(), H5P_DEFAULT),
      "cannot store a tensor"));
  if (!bytes.empty()) {
    blame.ok(H5Dwrite(dataset.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()),
             "cannot store a tensor");
  }
  write_text_attribute(dataset.get(), "dtype", core::dtype_name(key.dtype), blame);
}

}  // namespace repro_check::store
