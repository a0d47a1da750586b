// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/dump_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <new>
#include <system_error>
#include <utility>

#include "core/digest/digest.h"
#include "core/error.h"
#include "core/system/file_descriptor.h"
#include "core/tensor/content.h"
#include "core/text/text.h"
#include "dumpers/store/contents/content_writer.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/file/hdf5.h"
#include "dumpers/store/file/trace_file.h"
#include "dumpers/store/index/index.h"
#include "dumpers/store/pack.h"
#include "dumpers/store/pack_file.h"
#include "dumpers/store/reference_dump.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;
using core::Error;

class Dump final : public core::DumpSource {
 public:
  // In braces, because the manifest is read first: it says what the rest is.
  Dump(std::string location, const fs::path& directory, const std::vector<fs::path>& references)
      : Dump{std::move(location),
             read_manifest(directory),
             open_trace(directory / kTraceName),
             references} {}

  Dump(std::string location,
       core::RunManifest manifest,
       OpenTrace trace,
       const std::vector<fs::path>& references)
      : location_(std::move(location)),
        manifest_(std::move(manifest)),
        file_(std::move(trace)),
        index_(file_, manifest_.trace.index_digest),
        content_group_(file_.group("content")),
        types_(file_.blame()),
        reference_(manifest_.trace.reference, references) {
    check_count("operators", manifest_.trace.operators, index_.op_count());
    check_count("tensors", manifest_.trace.tensors, index_.tensor_count());
    check_count("contents", manifest_.trace.contents, index_.content_count());
    const core::BlockSummary blocks = manifest_.trace.blocks.value_or(core::BlockSummary{});
    check_count("blocks", blocks.rows, index_.block_count());
    check_count("parameters", blocks.parameters, index_.parameter_count());
    read_contents();
    read_slices();
    open_packed();
  }

  [[nodiscard]] const std::string& location() const override { return location_; }
  [[nodiscard]] const core::RunManifest& manifest() const override { return manifest_; }
  [[nodiscard]] std::uint64_t op_count() const override { return index_.op_count(); }
  [[nodiscard]] core::OpRecord op_head(std::uint64_t index) const override {
    core::OpRecord head;
    index_.read_op(index, false, head);
    return head;
  }

  [[nodiscard]] core::OpRecord op(std::uint64_t index) const override {
    core::OpRecord record;
    Dump::read_op(index, record);
    return record;
  }

  void read_op(std::uint64_t index, core::OpRecord& into) const override {
    index_.read_op(index, true, into);
    for (const core::TensorRecord& tensor : into.tensors) {
      if (tensor.stored && !contents_.find(tensor)) {
        file_.blame().fail(fmt::format("op {} refers to content {}, which the index does not list",
                                       index,
                                       core::content_name(tensor.content_key())));
      }
    }
  }

  [[nodiscard]] std::uint64_t block_count() const override { return index_.block_count(); }
  [[nodiscard]] core::BlockRow block(std::uint64_t position) const override {
    return index_.block(position);
  }
  [[nodiscard]] std::uint64_t parameter_count() const override { return index_.parameter_count(); }
  [[nodiscard]] core::ParameterRow parameter(std::uint64_t position) const override {
    return index_.parameter(position);
  }

  [[nodiscard]] bool has_content(const core::ContentKey& key) const override {
    const auto place = contents_.find(key);
    return place && (*place != kInReference || reference_.has_content(key));
  }

  [[nodiscard]] std::optional<core::ContentSlice> find_slice(
      const core::ContentKey& key) const override {
    const auto found = slices_.find(key);
    return found == slices_.end() ? std::nullopt : std::optional(found->second);
  }

  void read_content(const core::ContentKey& key, std::vector<std::byte>& into) const override {
    if (place_of(key) == kInReference) {
      return reference_.holding(location_, key).read_content(key, into);
    }
    const OwnContent content = find_own(key);
    into.resize(content.extent.bytes);
    file_.read(content.extent, 0, into);
    if (core::digest_bytes(into) != key.digest) fail_digest(content);
  }

  [[nodiscard]] std::unique_ptr<core::ContentParts> open_content(
      const core::ContentKey& key) const override {
    if (place_of(key) == kInReference) return reference_.holding(location_, key).open_content(key);
    OwnContent content = find_own(key);
    LentBytes lent;
    if (content.packed) lent = window_.find(file_, packed_, content.extent);
    return std::make_unique<Parts>(*this, std::move(content), std::move(lent));
  }

  [[nodiscard]] std::string missing_reference() const override { return reference_.missing(); }

  [[nodiscard]] std::uint64_t content_count() const override { return index_.content_count(); }
  [[nodiscard]] std::optional<core::ContentKey> content(std::uint64_t position) const override {
    auto [key, place] = index_.content(position);
    if (place == kInReference && !reference_.given()) return std::nullopt;
    return std::move(key);
  }

 private:
  /// Where the bytes of a content lie in this dump's file.
  struct OwnContent {
    core::ContentKey key;
    bool packed = false;
    Extent extent;
  };

  class Parts final : public core::ContentParts {
   public:
    /// @param lent  all its bytes, where they were read already
    Parts(const Dump& dump, OwnContent content, LentBytes lent)
        : dump_(dump), content_(std::move(content)), lent_(std::move(lent)) {}

    [[nodiscard]] std::uint64_t size() const noexcept override { return content_.extent.bytes; }
    [[nodiscard]] std::span<const std::byte> read(std::uint64_t begin,
                                                  std::span<std::byte> buffer) const override {
      if (lent_.owner != nullptr) return lent_.bytes.subspan(begin, buffer.size());
      dump_.file_.read(content_.extent, begin, buffer);
      return buffer;
    }
    [[nodiscard]] bool verified() const noexcept override { return false; }
    void verify(std::span<const core::Digest> chunks) const override {
      if (core::digest_of_leaves(chunks) != content_.key.digest) dump_.fail_digest(content_);
    }

   private:
    const Dump& dump_;
    OwnContent content_;
    LentBytes lent_;
  };

  [[nodiscard]] std::int64_t place_of(const core::ContentKey& key) const {
    if (const auto place = contents_.find(key)) return *place;
    throw core::not_comparable(
        fmt::format("{}: content {} is not stored", location_, core::content_name(key)),
        "record with dump.level \"tensor\"");
  }

  [[nodiscard]] OwnContent find_own(const core::ContentKey& key) const {
    expect_known_digests();
    const std::int64_t place = place_of(key);
    if (place == kOwnDataset) return {key, false, locate(key, core::content_name(key))};
    return {key, true, locate_packed(key, place)};
  }

  [[noreturn]] void fail_digest(const OwnContent& content) const {
    file_.blame()
        .inside((content.packed ? "/packed: " : "/content/") + core::content_name(content.key))
        .fail("the stored bytes do not match their digest");
  }

  /// A dump whose digests follow another rule can be listed, but nothing in it can be verified.
  void expect_known_digests() const {
    const std::string& algorithm = manifest_.trace.digest_algorithm;
    if (algorithm == core::kDigestAlgorithm) return;
    throw core::not_comparable(
        fmt::format("{}: its digests are \"{}\"; this repro-check knows \"{}\"",
                    location_,
                    core::printable(algorithm),
                    core::kDigestAlgorithm),
        "use the repro-check that recorded it, or record the run again");
  }

  void check_count(const char* what, std::uint64_t announced, std::uint64_t found) const {
    if (announced == found) return;
    file_.blame().fail(
        fmt::format("/index holds {} {}, the manifest says {}", found, what, announced));
  }

  void read_slices() {
    check_count("slices", manifest_.trace.slices, index_.slice_count());
    for (std::uint64_t i = 0; i < index_.slice_count(); ++i) {
      auto [key, slice, row] = index_.slice(i);
      const core::ContentKey own = core::slice_key(key, slice);
      if (!contents_.find(own)) {
        file_.blame()
            .inside("/index/slices")
            .fail(fmt::format("refers to content {}, which the index does not list",
                              core::content_name(own)));
      }
      slices_.emplace(std::move(key), slice);
    }
  }

  void read_contents() {
    std::uint64_t referred = 0;
    std::uint64_t bytes = 0;
    for (std::uint64_t i = 0; i < index_.content_count(); ++i) {
      const auto [key, place] = index_.content(i);
      if (!contents_.add(key, place) || place != kInReference) continue;
      ++referred;
      bytes += core::content_size(key);
    }
    const std::optional<core::TraceReference>& named = manifest_.trace.reference;
    check_count("contents of another dump", named ? named->contents : 0, referred);
    check_count("bytes in another dump", named ? named->bytes : 0, bytes);
  }

  /// Finds the dataset of a content and checks that it is what the index says it is.
  [[nodiscard]] Extent locate(const core::ContentKey& key, const std::string& name) const {
    const Hdf5Scope scope;
    const Blame blame = file_.blame().inside(fmt::format("/content/{}", name));
    const PlainDataset dataset = file_.dataset(content_group_.get(), name, blame);
    if (H5Tequal(dataset.type.get(), types_.of(key.dtype)) <= 0) {
      blame.fail(fmt::format("is not of dtype {}", core::dtype_name(key.dtype)));
    }
    if (dataset.dims != dataset_dims(key.shape)) blame.fail("has another shape than its name");
    return dataset.extent;
  }

  /// The one dataset of small contents, where there is one.
  void open_packed() {
    const Hdf5Scope scope;
    const Blame blame = file_.blame().inside("/packed");
    if (!file_.has_link(file_.root(), kPackedTable.name)) return;
    const PlainDataset dataset = file_.dataset(file_.root(), kPackedTable.name, blame);
    if (dataset.dims.size() != 1 || H5Tget_size(dataset.type.get()) != 1) {
      blame.fail("is not a list of bytes");
    }
    packed_ = dataset.extent;
  }

  [[nodiscard]] Extent locate_packed(const core::ContentKey& key, std::int64_t offset) const {
    const auto begin = static_cast<std::uint64_t>(offset);
    const std::uint64_t bytes = core::content_size(key);
    if (begin > packed_.bytes || bytes > packed_.bytes - begin) {
      file_.blame().inside("/packed").fail(
          fmt::format("ends before content {} does", core::content_name(key)));
    }
    return {packed_.offset + begin, bytes, packed_.copy};
  }

  std::string location_;
  core::RunManifest manifest_;
  TraceFile file_;
  IndexReader index_;
  GroupHandle content_group_;
  ElementTypes types_;
  FoundReference reference_;
  ContentTable contents_;
  Slices slices_;
  Extent packed_;
  mutable PackedWindow window_;
};

template <typename Open>
std::unique_ptr<core::DumpSource> open_guarded(const std::string& name, Open open) {
  try {
    return open();
  } catch (const std::bad_alloc&) {
    throw core::damaged_dump(fmt::format("{}: its index needs more memory than there is", name));
  }
}

/// Whether the name still stands for what is open.
bool is_there(const core::FileDescriptor& open, const fs::path& name) {
  struct stat held {};
  struct stat there {};
  return ::fstat(open.get(), &held) == 0 && ::stat(name.c_str(), &there) == 0 &&
         held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

/// Opens what lies in one directory, whatever takes its name meanwhile; null where that is no dump
/// either.
std::unique_ptr<core::DumpSource> open_held(const std::string& name,
                                            const fs::path& directory,
                                            const std::vector<fs::path>& references) {
  // Nobody records so fast that it is exchanged so often.
  constexpr int kMostExchanges = 10;
  for (int exchanges = 0; exchanges < kMostExchanges; ++exchanges) {
    const core::FileDescriptor held(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (held.get() < 0) return nullptr;
    const fs::path place = fmt::format("/proc/self/fd/{}", held.get());
    try {
      return open_guarded(name, [&] { return std::make_unique<Dump>(name, place, references); });
    } catch (const Error&) {
      if (is_there(held, directory)) return nullptr;
    }
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<core::DumpSource> open_contents(const fs::path& pack,
                                                PackContents contents,
                                                const std::vector<fs::path>& references) {
  return open_guarded(pack.string(), [&] {
    const Hdf5Scope scope;
    return std::make_unique<Dump>(
        pack.string(),
        core::manifest_from_json_text(contents.manifest, name_inside(pack, kManifestName)),
        std::move(contents.trace),
        references);
  });
}

std::unique_ptr<core::DumpSource> open_pack(const fs::path& pack,
                                            const std::vector<fs::path>& references,
                                            const PackProgress& progress) {
  return open_contents(pack, read_pack(pack, progress), references);
}

std::unique_ptr<core::DumpSource> open_dump(const fs::path& path,
                                            const std::vector<fs::path>& references) {
  if (is_pack(path)) return open_pack(path, references);
  const Hdf5Scope scope;
  const fs::path found = locate_dump(path);
  try {
    return open_guarded(path.string(),
                        [&] { return std::make_unique<Dump>(path.string(), found, references); });
  } catch (const Error&) {
    // A newer dump may have taken its place meanwhile: then half of either was read.
    if (auto held = open_held(path.string(), found, references)) return held;
    throw;
  }
}

std::unique_ptr<core::DumpSource> open_named(const fs::path& path,
                                             const std::vector<fs::path>& references) {
  try {
    return open_dump(path, references);
  } catch (const Error& error) {
    refuse_bare_folder(path, error);
    throw;
  }
}

std::optional<journal::JournalSummary> summarise_incomplete(const fs::path& directory) {
  std::error_code code;
  for (const fs::path& place : {directory, recording_beside(directory)}) {
    const fs::path file = place / kJournalName;
    if (fs::exists(place / kManifestName, code) || !fs::exists(file, code)) continue;
    return journal::summarise(file);
  }
  return std::nullopt;
}

std::string hdf5_version() {
  const Hdf5Scope scope;
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

}  // namespace repro_check::store
