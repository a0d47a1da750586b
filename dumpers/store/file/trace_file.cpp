// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/file/trace_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/tensor/dtype.h"
#include "core/text/text.h"
#include "core/trace/run_manifest.h"
#include "dumpers/journal/entry.h"
#include "dumpers/store/file/hdf5_tensor.h"

namespace repro_check::store {

namespace {

/// Of fixed length: readers check it before they trust anything, and a text of variable length
/// would have them follow a pointer into the file's heap for it.
void write_fixed_attribute(hid_t file,
                           const char* name,
                           const std::string& text,
                           const Blame& blame) {
  const TypeHandle type(blame.id(H5Tcopy(H5T_C_S1), "cannot make a text type"));
  blame.ok(H5Tset_size(type.get(), text.size()), "cannot make a text type");
  blame.ok(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), "cannot make a text type");
  write_attribute(file, name, type.get(), text.data(), blame);
}

/// For making something that does not remember when it was made.
PropertyHandle timeless_creation(hid_t kind, const Blame& blame) {
  PropertyHandle list(blame.id(H5Pcreate(kind), "cannot make a property list"));
  blame.ok(H5Pset_obj_track_times(list.get(), false), "cannot make a property list");
  return list;
}

/// How we open HDF5 files: without its file locks. Our own tell recordings apart, and read-only and
/// network file systems have none.
PropertyHandle file_access(const Blame& blame) {
  PropertyHandle list(blame.id(H5Pcreate(H5P_FILE_ACCESS), "cannot make a property list"));
  blame.ok(H5Pset_file_locking(list.get(), false, true), "cannot switch file locks off");
  return list;
}

}  // namespace

FileHandle create_trace(const std::filesystem::path& file, const Blame& blame) {
  const Hdf5Scope scope;
  const PropertyHandle access = file_access(blame);
  // Big contents are written in whole blocks, past the page cache.
  blame.ok(H5Pset_alignment(access.get(), journal::kSmallContent + 1, kDirectBlock),
           "cannot align the file");
  // The oldest format in which every piece of structure carries a checksum; readable since 1.8.
  blame.ok(H5Pset_libver_bounds(access.get(), H5F_LIBVER_V18, H5F_LIBVER_V18),
           "cannot choose the file format");
  const PropertyHandle creation = timeless_creation(H5P_FILE_CREATE, blame);
  FileHandle created(blame.id(H5Fcreate(file.c_str(), H5F_ACC_EXCL, creation.get(), access.get()),
                              "cannot create the trace"));
  write_fixed_attribute(created.get(), "format", core::kDumpFormatName, blame);
  write_fixed_attribute(created.get(), "version", format_version(), blame);
  return created;
}

GroupHandle make_group(hid_t parent, const std::string& name, const Blame& blame) {
  const Hdf5Scope scope;
  const PropertyHandle creation = timeless_creation(H5P_GROUP_CREATE, blame);
  return GroupHandle(
      blame.id(H5Gcreate2(parent, name.c_str(), H5P_DEFAULT, creation.get(), H5P_DEFAULT),
               "cannot make a group"));
}

std::string format_version() {
  return fmt::format("{}.{}", core::kDumpFormatMajor, core::kDumpFormatMinor);
}

PropertyHandle contiguous_creation(const Blame& blame) {
  PropertyHandle list = timeless_creation(H5P_DATASET_CREATE, blame);
  blame.ok(H5Pset_layout(list.get(), H5D_CONTIGUOUS), "cannot make a property list");
  blame.ok(H5Pset_alloc_time(list.get(), H5D_ALLOC_TIME_EARLY), "cannot make a property list");
  blame.ok(H5Pset_fill_time(list.get(), H5D_FILL_TIME_NEVER), "cannot make a property list");
  return list;
}

ContentDatasets::ContentDatasets(hid_t group, Blame blame)
    : group_(group),
      blame_(std::move(blame)),
      types_(blame_),
      creation_(contiguous_creation(blame_)) {}

Blame ContentDatasets::blame_for(const core::ContentKey& key) const {
  return blame_.inside(fmt::format("/content/{}", core::content_name(key)));
}

DatasetHandle ContentDatasets::create(const core::ContentKey& key, const Blame& blame) const {
  const SpaceHandle space = make_space(dataset_dims(key.shape), blame);
  DatasetHandle dataset(blame.id(H5Dcreate2(group_,
                                            core::content_name(key).c_str(),
                                            types_.of(key.dtype),
                                            space.get(),
                                            H5P_DEFAULT,
                                            creation_.get(),
                                            H5P_DEFAULT),
                                 "cannot store a tensor"));
  write_text_attribute(dataset.get(), "dtype", core::dtype_name(key.dtype), blame);
  return dataset;
}

std::uint64_t ContentDatasets::allocate(const core::ContentKey& key) const {
  const Hdf5Scope scope;
  const Blame blame = blame_for(key);
  const DatasetHandle dataset = create(key, blame);
  const haddr_t offset = H5Dget_offset(dataset.get());
  if (offset == HADDR_UNDEF) blame.library_failed("cannot find room for a tensor");
  return offset;
}

void ContentDatasets::rename(const core::ContentKey& from, const core::ContentKey& to) const {
  const Hdf5Scope scope;
  blame_for(from).ok(H5Lmove(group_,
                             core::content_name(from).c_str(),
                             group_,
                             core::content_name(to).c_str(),
                             H5P_DEFAULT,
                             H5P_DEFAULT),
                     "cannot rename a tensor");
}

void ContentDatasets::remove(const core::ContentKey& key) const {
  const Hdf5Scope scope;
  blame_for(key).ok(H5Ldelete(group_, core::content_name(key).c_str(), H5P_DEFAULT),
                    "cannot remove a tensor");
}

void ContentDatasets::write(const core::ContentKey& key, std::span<const std::byte> bytes) const {
  const Hdf5Scope scope;
  const Blame blame = blame_for(key);
  const DatasetHandle dataset = create(key, blame);
  if (bytes.empty()) return;
  blame.ok(
      H5Dwrite(dataset.get(), types_.of(key.dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data()),
      "cannot store a tensor");
}

namespace {

constexpr const char* kUnreadable = "has a type that cannot be read";

/// HDF5 keeps it, so it is asked to free it.
struct FreeName {
  void operator()(char* name) const noexcept { H5free_memory(name); }
};

/// The same type, laid out alike, with every number in it little-endian: what our own dumps hold.
/// None where no dump holds such elements: HDF5 would put pointers into the bytes for some of them.
TypeHandle little_endian(hid_t type, const Blame& blame) {
  const H5T_class_t kind = H5Tget_class(type);
  const bool number = kind == H5T_INTEGER || kind == H5T_FLOAT;
  if (number || kind == H5T_ENUM) {
    TypeHandle copy(blame.id(H5Tcopy(type), kUnreadable));
    if (number) blame.ok(H5Tset_order(copy.get(), H5T_ORDER_LE), kUnreadable);
    return copy;
  }
  if (kind != H5T_COMPOUND) return {};
  TypeHandle made(blame.id(H5Tcreate(H5T_COMPOUND, H5Tget_size(type)), kUnreadable));
  const int members = H5Tget_nmembers(type);
  for (int i = 0; i < members; ++i) {
    const auto at = static_cast<unsigned>(i);
    const std::unique_ptr<char, FreeName> name(H5Tget_member_name(type, at));
    const TypeHandle theirs(blame.id(H5Tget_member_type(type, at), kUnreadable));
    const TypeHandle ours = little_endian(theirs.get(), blame);
    if (ours.get() < 0) return {};
    if (name == nullptr) blame.fail(kUnreadable);
    blame.ok(H5Tinsert(made.get(), name.get(), H5Tget_member_offset(type, at), ours.get()),
             kUnreadable);
  }
  return made;
}

/// A file of so many bytes mapped into memory, for HDF5 to write to.
class Mapping : core::Pinned {
 public:
  Mapping(const core::FileDescriptor& file, std::uint64_t bytes, const Blame& blame)
      : bytes_(bytes),
        at_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0)) {
    if (at_ == MAP_FAILED) blame.fail("needs more address space than there is");
  }
  ~Mapping() { ::munmap(at_, bytes_); }

  [[nodiscard]] void* get() const noexcept { return at_; }

 private:
  std::uint64_t bytes_;
  void* at_;
};

constexpr const char* kHint = "the dump is damaged; copy it again or record the run again";

struct Names {
  std::vector<std::string>* into;
  std::size_t limit;
};

herr_t collect(hid_t /*group*/, const char* name, const H5L_info_t* /*info*/, void* data) {
  const auto* names = static_cast<Names*>(data);
  if (names->into->size() >= names->limit) return -1;
  try {
    names->into->emplace_back(name);
  } catch (...) {
    return -1;  // no exception may cross C code
  }
  return 0;
}

/// Links that lead to other names or other files are never followed.
void expect_hard_link(hid_t group, const char* name, const Blame& blame) {
  H5L_info_t info{};
  blame.ok(H5Lget_info(group, name, &info, H5P_DEFAULT), "is missing");
  if (info.type != H5L_TYPE_HARD) blame.fail("is a link");
}

void expect_object(hid_t group, const char* name, H5O_type_t type, const Blame& blame) {
  expect_hard_link(group, name, blame);
  H5O_info_t info{};
  blame.ok(H5Oget_info_by_name2(group, name, &info, H5O_INFO_BASIC, H5P_DEFAULT), "cannot be read");
  if (info.type != type) {
    blame.fail(type == H5O_TYPE_GROUP ? "is not a group" : "is not a dataset");
  }
}

/// Filters are refused although HDF5 has some: a few bytes could become any number, and others are
/// code that it loads from wherever an environment variable says.
H5D_layout_t expect_own_storage(hid_t dataset, const Blame& blame) {
  const PropertyHandle list(blame.id(H5Dget_create_plist(dataset), "cannot be read"));
  const H5D_layout_t layout = H5Pget_layout(list.get());
  if (layout != H5D_CONTIGUOUS && layout != H5D_CHUNKED && layout != H5D_COMPACT) {
    blame.fail("is stored in other datasets");
  }
  if (H5Pget_external_count(list.get()) != 0) blame.fail("is stored in another file");
  if (H5Pget_nfilters(list.get()) != 0) {
    blame.fail("is stored through a filter (take it off with h5repack -f NONE)");
  }
  return layout;
}

bool is_little_endian(hid_t type) {
  const H5T_order_t order = H5Tget_order(type);
  return order != H5T_ORDER_BE && order != H5T_ORDER_MIXED;
}

std::vector<hsize_t> dims_of(hid_t dataset, const Blame& blame) {
  const SpaceHandle space(blame.id(H5Dget_space(dataset), "cannot be read"));
  const H5S_class_t kind = H5Sget_simple_extent_type(space.get());
  if (kind != H5S_SIMPLE && kind != H5S_SCALAR) blame.fail("has no shape");
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank < 0 || rank > H5S_MAX_RANK) blame.fail("has an impossible shape");
  std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
  blame.ok(H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr), "cannot be read");
  return dims;
}

/// @param size  of the file
Extent contiguous_extent(hid_t dataset,
                         std::uint64_t bytes,
                         std::uint64_t size,
                         const Blame& blame) {
  const haddr_t offset = H5Dget_offset(dataset);
  if (offset == HADDR_UNDEF) blame.fail("has no bytes");
  if (offset > size || bytes > size - offset) blame.fail("lies beyond the end of the file");
  return {offset, bytes};
}

/// The elements of a dataset as a contiguous one would hold them, in a temporary file without a
/// name: disk instead of memory, because a tensor may be larger than that.
/// @param type   little_endian() of the dataset's
/// @param bytes  of all elements; not 0
/// @param size   of the file
/// @throws core::Error{kDumpDamaged} when HDF5 cannot read it, {kIo} when there is no room
Extent copied_extent(
    hid_t dataset, hid_t type, std::uint64_t bytes, std::uint64_t size, const Blame& blame) {
  // Chunks that are not there read as zeros, of which a small file could announce any number.
  const hsize_t stored = H5Dget_storage_size(dataset);
  if (stored < bytes) blame.fail("has no bytes");
  if (stored > size) blame.fail("lies beyond the end of the file");
  core::TemporaryFile made = create_temporary(bytes);
  take_space(made.file, bytes, "a temporary file");
  const Mapping mapping(made.file, bytes, blame);
  blame.ok(H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, mapping.get()), "cannot be read");
  return {0, bytes, std::make_shared<core::FileDescriptor>(std::move(made.file))};
}

/// An attribute of the file that says what it is.
std::string identity(hid_t file, const char* name, const Blame& whole) {
  constexpr std::size_t kLongest = 64;
  const Blame blame = whole.inside(fmt::format("attribute \"{}\"", name));
  const AttributeHandle attribute(
      blame.id(H5Aopen_by_name(file, "/", name, H5P_DEFAULT, H5P_DEFAULT),
               "is missing: not the trace of a dump"));
  const TypeHandle type(blame.id(H5Aget_type(attribute.get()), "cannot be read"));
  const SpaceHandle space(blame.id(H5Aget_space(attribute.get()), "cannot be read"));
  const std::size_t size = H5Tget_size(type.get());
  if (H5Tget_class(type.get()) != H5T_STRING || H5Tis_variable_str(type.get()) != 0 ||
      H5Sget_simple_extent_npoints(space.get()) != 1 || size > kLongest) {
    blame.fail("is not a short text of fixed length");
  }
  std::string text(size, '\0');
  blame.ok(H5Aread(attribute.get(), type.get(), text.data()), "cannot be read");
  text.resize(text.find_last_not_of('\0') + 1);
  return text;
}

void check_identity(hid_t file, const Blame& blame) {
  const bool ours = identity(file, "format", blame) == core::kDumpFormatName;
  if (!ours) blame.fail("is not the trace of a dump");
  // The manifest has been accepted by now, so another major here means that the two do not belong
  // together.
  const std::string version = identity(file, "version", blame);
  if (!version.starts_with(fmt::format("{}.", core::kDumpFormatMajor))) {
    blame.fail(
        fmt::format("is of format version {}, other than its manifest", core::printable(version)));
  }
}

}  // namespace

OpenTrace open_trace(const std::filesystem::path& file) {
  // A FIFO must not hang us, and a dump must not lead out of its directory.
  core::FileDescriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (opened.get() < 0) {
    const int code = errno;
    const Blame blame(core::ErrorKind::kDumpDamaged, file.string(), kHint);
    if (code == ENOENT) blame.fail("is missing");
    if (code == ELOOP) blame.fail("is a link");
    read_failed(file, "cannot open", code);
  }
  return {std::move(opened), file.string(), file, {}};
}

TraceFile::TraceFile(OpenTrace trace)
    : trace_(std::move(trace)), blame_(core::ErrorKind::kDumpDamaged, trace_.name, kHint) {
  struct stat status {};
  if (::fstat(trace_.file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    blame_.fail("is not a file");
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  // HDF5 opens nothing but names, and follows no link to a file that has none.
  if (trace_.path.empty() && trace_.temporary.path().empty()) {
    trace_.temporary = name_temporary(trace_.file);
  }
  const std::string path = trace_.path.empty() ? trace_.temporary.path() : trace_.path.string();
  const Hdf5Scope scope;
  const PropertyHandle access = file_access(blame_);
  file_ = FileHandle(
      blame_.id(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), "is not a whole HDF5 file"));
  const core::TemporaryName no_longer_needed(std::move(trace_.temporary));
  check_identity(file_.get(), blame_);
}

GroupHandle TraceFile::group(const char* name) const {
  const Hdf5Scope scope;
  const Blame blame = blame_.inside(fmt::format("/{}", name));
  expect_object(file_.get(), name, H5O_TYPE_GROUP, blame);
  return GroupHandle(blame.id(H5Gopen2(file_.get(), name, H5P_DEFAULT), "cannot be opened"));
}

std::vector<std::string> TraceFile::names(hid_t group, std::size_t limit) const {
  const Hdf5Scope scope;
  std::vector<std::string> names;
  Names data{&names, limit};
  // In any other order HDF5 makes a table first, and frees entries of it that it never filled when
  // the group turns out to be damaged half-way.
  blame_.ok(H5Literate(group, H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, &collect, &data),
            "a group cannot be listed");
  std::ranges::sort(names);
  return names;
}

bool TraceFile::has_link(hid_t group, const std::string& name) const {
  const Hdf5Scope scope;
  return H5Lexists(group, name.c_str(), H5P_DEFAULT) > 0;
}

PlainDataset TraceFile::dataset(hid_t group, const std::string& name, const Blame& blame) const {
  const Hdf5Scope scope;
  expect_object(group, name.c_str(), H5O_TYPE_DATASET, blame);
  const DatasetHandle dataset(
      blame.id(H5Dopen2(group, name.c_str(), H5P_DEFAULT), "cannot be opened"));
  const bool contiguous = expect_own_storage(dataset.get(), blame) == H5D_CONTIGUOUS;
  PlainDataset found;
  found.type = TypeHandle(blame.id(H5Dget_type(dataset.get()), "cannot be read"));
  found.dims = dims_of(dataset.get(), blame);
  std::uint64_t bytes = H5Tget_size(found.type.get());
  for (const hsize_t size : found.dims) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) blame.fail("has an impossible shape");
  }
  const bool plain = contiguous && is_little_endian(found.type.get());
  const hid_t id = dataset.get();
  if (contiguous && bytes != 0) found.extent = contiguous_extent(id, bytes, size_, blame);
  if (plain) return found;
  found.type = little_endian(found.type.get(), blame);
  if (found.type.get() < 0) blame.fail("has elements of a kind that no dump holds");
  if (bytes != 0) found.extent = copied_extent(id, found.type.get(), bytes, size_, blame);
  return found;
}

void TraceFile::read(const Extent& extent, std::uint64_t begin, std::span<std::byte> into) const {
  const int file = extent.copy != nullptr ? extent.copy->get() : trace_.file.get();
  if (read_some(file, extent.offset + begin, into, trace_.name) < into.size()) {
    blame_.fail("ends before its content does");
  }
}

namespace {

constexpr std::uint64_t kWindow = std::uint64_t{1} << 20U;

}  // namespace

LentBytes PackedWindow::find(const TraceFile& file, const Extent& packed, const Extent& content) {
  const std::uint64_t end = content.offset + content.bytes;
  const bool follows = std::exchange(expected_, end) == content.offset;
  const bool inside =
      bytes_ != nullptr && content.offset >= begin_ && end <= begin_ + bytes_->size();
  if (!inside) {
    const std::uint64_t left = packed.offset + packed.bytes - content.offset;
    if (!follows || content.bytes > kWindow) return {};
    auto bytes = std::make_shared<std::vector<std::byte>>(std::min(kWindow, left));
    try {
      file.read(packed, content.offset - packed.offset, *bytes);
    } catch (const core::Error&) {
      return {};
    }
    begin_ = content.offset;
    bytes_ = std::move(bytes);
  }
  return {bytes_, std::span(*bytes_).subspan(content.offset - begin_, content.bytes)};
}

namespace {

constexpr std::size_t kShown = 8;

herr_t note_dataset(hid_t /*file*/, const char* name, const H5O_info_t* info, void* data) {
  auto* found = static_cast<std::vector<std::string>*>(data);
  if (info->type != H5O_TYPE_DATASET) return 0;
  try {
    found->push_back(fmt::format("/{}", core::printable(name)));
  } catch (...) {
    return -1;  // no exception may cross C code
  }
  return found->size() > kShown ? 1 : 0;
}

std::string datasets_hint(hid_t file) {
  std::vector<std::string> found;
  // The native order, as in TraceFile::names: others make HDF5 crash on a damaged file.
  H5Ovisit2(file, H5_INDEX_NAME, H5_ITER_NATIVE, &note_dataset, &found, H5O_INFO_BASIC);
  if (found.empty()) return "the file holds no dataset";
  const bool more = found.size() > kShown;
  if (more) found.pop_back();
  std::ranges::sort(found);
  return fmt::format("it holds {}{}", fmt::join(found, ", "), more ? ", ..." : "");
}

std::string describe(hid_t type) {
  const std::size_t bits = 8 * H5Tget_size(type);
  switch (H5Tget_class(type)) {
    case H5T_INTEGER:
      return fmt::format("integers of {} bits", bits);
    case H5T_FLOAT:
      return fmt::format("floating-point numbers of {} bits in a format of their own", bits);
    case H5T_STRING:
      return "text";
    case H5T_COMPOUND:
      return "records";
    case H5T_ENUM:
      return "an enumeration";
    default:
      return "a type that is no number";
  }
}

/// Unallocated and compressed datasets can claim any size; deflate packs about 1000 to 1 at best.
std::uint64_t checked_size(const std::vector<hsize_t>& dims,
                           std::uint64_t element,
                           const std::filesystem::path& file,
                           const Blame& blame) {
  constexpr std::uint64_t kAlways = std::uint64_t{1} << 30U;
  constexpr std::uint64_t kRatio = 1100;
  std::uint64_t bytes = element;
  bool empty = false;
  bool overflow = false;
  for (const hsize_t size : dims) {
    empty = empty || size == 0;
    overflow = overflow || __builtin_mul_overflow(bytes, std::max<hsize_t>(size, 1), &bytes);
  }
  if (empty) return 0;
  std::error_code code;
  const std::uint64_t stored = std::filesystem::file_size(file, code);
  if (overflow || (bytes > kAlways && bytes / kRatio > stored)) {
    blame.fail("claims to be larger than its file can hold");
  }
  return bytes;
}

}  // namespace

core::HostTensor read_hdf5_tensor(const std::filesystem::path& file, const std::string& dataset) {
  const Hdf5Scope scope;
  const Blame whole(core::ErrorKind::kUsage, file.string());
  std::error_code code;
  if (!std::filesystem::exists(file, code)) whole.fail("no such file");
  const PropertyHandle access = file_access(whole);
  const FileHandle opened(
      whole.id(H5Fopen(file.c_str(), H5F_ACC_RDONLY, access.get()), "is not a whole HDF5 file"));
  const hid_t id = H5Dopen2(opened.get(), dataset.c_str(), H5P_DEFAULT);
  if (id < 0 || dataset.find('\0') != std::string::npos) {
    Blame(core::ErrorKind::kUsage, file.string(), datasets_hint(opened.get()))
        .inside(dataset)
        .fail("no such dataset");
  }
  const DatasetHandle found(id);
  const Blame blame = whole.inside(dataset);
  const TypeHandle type(blame.id(H5Dget_type(found.get()), "cannot be read"));
  const ElementTypes types(blame);
  const std::optional<core::Dtype> dtype = types.recognise(little_endian(type.get(), blame).get());
  if (!dtype) blame.fail(fmt::format("holds {}, which no tensor can", describe(type.get())));

  const std::vector<hsize_t> dims = dims_of(found.get(), blame);
  core::HostTensor tensor;
  tensor.dtype = *dtype;
  tensor.shape.assign(dims.begin(), dims.end());
  tensor.bytes.resize(checked_size(dims, core::element_size(*dtype), file, blame));
  if (tensor.bytes.empty()) return tensor;
  blame.ok(
      H5Dread(found.get(), types.of(*dtype), H5S_ALL, H5S_ALL, H5P_DEFAULT, tensor.bytes.data()),
      "cannot be read");
  return tensor;
}

}  // namespace repro_check::store
