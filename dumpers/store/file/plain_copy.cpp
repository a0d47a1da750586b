// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/file/plain_copy.h"

#include <sys/mman.h>

#include <memory>
#include <utility>

#include "dumpers/store/file/plain_file.h"

namespace repro_check::store {
namespace {

constexpr const char* kUnreadable = "has a type that cannot be read";

/// HDF5 keeps it, so it is asked to free it.
struct FreeName {
  void operator()(char* name) const noexcept { H5free_memory(name); }
};

TypeHandle little_endian_compound(hid_t type, const Blame& blame) {
  TypeHandle made(blame.id(H5Tcreate(H5T_COMPOUND, H5Tget_size(type)), kUnreadable));
  const int members = H5Tget_nmembers(type);
  for (int i = 0; i < members; ++i) {
    const auto at = static_cast<unsigned>(i);
    const std::unique_ptr<char, FreeName> name(H5Tget_member_name(type, at));
    const TypeHandle theirs(blame.id(H5Tget_member_type(type, at), kUnreadable));
    const TypeHandle ours = little_endian(theirs.get(), blame);
    if (name == nullptr) blame.fail(kUnreadable);
    blame.ok(H5Tinsert(made.get(), name.get(), H5Tget_member_offset(type, at), ours.get()),
             kUnreadable);
  }
  return made;
}

/// A file of so many bytes mapped into memory, for HDF5 to write to.
class Mapping {
 public:
  Mapping(const core::FileDescriptor& file, std::uint64_t bytes, const Blame& blame)
      : bytes_(bytes),
        at_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0)) {
    if (at_ == MAP_FAILED) blame.fail("needs more address space than there is");
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  Mapping(Mapping&&) = delete;
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() { ::munmap(at_, bytes_); }

  [[nodiscard]] void* get() const noexcept { return at_; }

 private:
  std::uint64_t bytes_;
  void* at_;
};

}  // namespace

TypeHandle little_endian(hid_t type, const Blame& blame) {
  switch (H5Tget_class(type)) {
    case H5T_COMPOUND:
      return little_endian_compound(type, blame);
    case H5T_INTEGER:
    case H5T_FLOAT: {
      TypeHandle copy(blame.id(H5Tcopy(type), kUnreadable));
      blame.ok(H5Tset_order(copy.get(), H5T_ORDER_LE), kUnreadable);
      return copy;
    }
    case H5T_ENUM:
      return TypeHandle(blame.id(H5Tcopy(type), kUnreadable));
    default:
      // HDF5 would put pointers into the bytes for some of them.
      blame.fail("has elements of a kind that no dump holds");
  }
}

core::FileDescriptor plain_copy(hid_t dataset,
                                hid_t type,
                                std::uint64_t bytes,
                                const Blame& blame) {
  TemporaryFile made = create_temporary(bytes);
  take_space(made.file, bytes, "a temporary file");
  const Mapping mapping(made.file, bytes, blame);
  blame.ok(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, mapping.get()), "cannot be read");
  return std::move(made.file);
}

}  // namespace repro_check::store
