// SPDX-License-Identifier: Apache-2.0
#include "dumpers/store/dump_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <set>
#include <variant>
#include <vector>

#include "core/digest/digest.h"
#include "core/error.h"
#include "core/system/signals_blocked.h"
#include "core/tensor/content.h"
#include "core/text/text.h"
#include "dumpers/journal/journal_reader.h"
#include "dumpers/journal/journal_writer.h"
#include "dumpers/store/contents/content_writer.h"
#include "dumpers/store/directory/dump_directory.h"
#include "dumpers/store/file/trace_file.h"
#include "dumpers/store/index/index.h"
#include "dumpers/store/reference_dump.h"

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

/// `text` as the name of one link: `/`, `%`, control characters and bytes that are not UTF-8 as
/// `%2F`; never empty, never `.` or `..`, at most 200 bytes.
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

/// The tree a person browses: `/ops/000041 aten::addmm/inputs/self`, hard links to the contents.
class BrowseTree {
 public:
  /// @param group     `/content`, borrowed
  /// @param contents  of that group, and others that are referred to; borrowed
  BrowseTree(hid_t file, hid_t group, const ContentWriter& contents, const Blame& blame)
      : group_(group), contents_(contents), blame_(blame), ops_(make_group(file, "ops", blame)) {}

  /// Tensors whose content is not here get no link: one to another file would lead out of the dump.
  void add(const core::OpRecord& record) {
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
    write_attribute(group.get(), "op_index", H5T_STD_U64LE, &record.index, blame_);
    link_tensors(group.get(), record, core::TensorRole::kInput);
    link_tensors(group.get(), record, core::TensorRole::kOutput);
  }

 private:
  void link_tensors(hid_t parent, const core::OpRecord& record, core::TensorRole role) {
    const char* folder = role == core::TensorRole::kInput ? "inputs" : "outputs";
    GroupHandle group;
    std::set<std::string> taken;
    for (const core::TensorRecord& tensor : record.tensors) {
      if (tensor.role != role || !tensor.stored ||
          contents_.referred.contains(tensor.content_key()))
        continue;
      if (group.get() < 0) group = make_group(parent, folder, blame_);
      std::string name = link_name(tensor.slot);
      for (int copy = 2; !taken.insert(name).second; ++copy) {
        name = fmt::format("{} ({})", link_name(tensor.slot), copy);
      }
      const std::string content = core::content_name(tensor.content_key());
      blame_.ok(H5Lcreate_hard(
                    group_, content.c_str(), group.get(), name.c_str(), H5P_DEFAULT, H5P_DEFAULT),
                "cannot link a tensor");
    }
  }

  hid_t group_;
  const ContentWriter& contents_;
  Blame blame_;
  GroupHandle ops_;
};

/// Elements that lie closer together than this are read with what is between them.
constexpr std::size_t kReadAtOnce = std::size_t{1} << 20U;

/// How many elements of a content `rule` has stored; empty where it is to be stored whole.
/// @param bytes  of the content
std::optional<std::uint64_t> sliced_length(const core::SliceRule& rule,
                                           const core::ContentKey& key,
                                           std::uint64_t bytes) {
  const std::uint64_t total = bytes / std::max<std::uint64_t>(1, core::element_size(key.dtype));
  if (rule.above ? bytes <= *rule.above : total <= rule.elements) return std::nullopt;
  const std::uint64_t length = std::min(rule.elements, core::slice_length(total, rule.stride));
  return length < total ? std::optional(length) : std::nullopt;
}

/// The elements of a slice, one behind the other.
/// @param length  as of sliced_length()
std::vector<std::byte> slice_bytes(const core::ContentBytes& bytes,
                                   std::size_t element_size,
                                   std::uint64_t length,
                                   std::uint64_t stride) {
  std::vector<std::byte> slice(length * element_size);
  if (stride == 1 || length == 1) {
    bytes.read(0, slice);
    return slice;
  }
  // Two elements lie inside the content, so that this is no more than its size.
  const std::uint64_t step = stride * element_size;
  const std::uint64_t at_once = std::max<std::uint64_t>(1, kReadAtOnce / step);
  std::vector<std::byte> block;
  for (std::uint64_t done = 0; done < length; done += at_once) {
    const std::uint64_t count = std::min(at_once, length - done);
    block.resize((count - 1) * step + element_size);
    bytes.read(done * step, block);
    for (std::uint64_t i = 0; i < count; ++i) {
      std::memcpy(slice.data() + (done + i) * element_size, block.data() + i * step, element_size);
    }
  }
  return slice;
}

}  // namespace

struct DumpWriter::Impl {
  Impl(const std::filesystem::path& directory, const DumpWriterOptions& options)
      : options_(options),
        reference_(reference_for(directory, options)),
        place_(prepare_place(directory, options.replace_existing, options.needed_space)),
        journal_(place_.working / kJournalName),
        trace_path_(place_.working / kTraceName),
        blame_(core::ErrorKind::kIo,
               trace_path_.string(),
               "is the disk full? free space, or record to another disk (dump.directory)"),
        file_(create_trace(trace_path_, blame_)),
        content_group_(make_group(file_.get(), "content", blame_)),
        datasets_(content_group_.get(), blame_),
        contents_(trace_path_, datasets_, journal_, options.memory) {
    if (reference_) journal_.refers(reference_->identity);
  }

  static std::optional<ReferenceDump> reference_for(const std::filesystem::path& directory,
                                                    const DumpWriterOptions& options) {
    if (!options.reference || is_same_place(*options.reference, directory)) return std::nullopt;
    return read_reference(*options.reference);
  }

  /// Empty as well where nothing was the same: such a dump needs no other.
  [[nodiscard]] std::optional<core::TraceReference> referred() const {
    if (!reference_ || contents_.referred.size() == 0) return std::nullopt;
    core::TraceReference reference = reference_->identity;
    reference.contents = contents_.referred.size();
    reference.bytes = contents_.referred_bytes;
    return reference;
  }

  void cut_slice(const core::ContentKey& key,
                 const core::ContentBytes& bytes,
                 std::uint64_t length) {
    const std::uint64_t stride = options_.slice->stride;
    const std::vector<std::byte> cut =
        slice_bytes(bytes, core::element_size(key.dtype), length, stride);
    const core::ContentSlice slice{length, stride, core::digest_bytes(cut)};
    const core::ContentKey own = core::slice_key(key, slice);
    if (is_kept(own) || keep(own, core::SpanBytes(cut))) contents_.note_slice(key, slice);
  }

  /// Whether a content needs no bytes any more: they are there, or in the reference.
  bool is_kept(const core::ContentKey& key) {
    if (contents_.has(key)) return true;
    if (!reference_ || !reference_->stored.contains(key)) return false;
    contents_.refer(key);
    return true;
  }

  /// Where DumpWriterOptions::max_bytes shows.
  void note_limit(const core::OpRecord& record) {
    if (!limit_refused_ || (limit_reached_at_ && *limit_reached_at_ < record.index)) return;
    const bool lacks = std::ranges::any_of(record.tensors, [](const core::TensorRecord& tensor) {
      return tensor.state == core::ContentState::kHashed && !tensor.stored;
    });
    if (lacks) limit_reached_at_ = record.index;
  }

  bool keep(const core::ContentKey& key, const core::ContentBytes& bytes) {
    const std::uint64_t stored = contents_.stored_bytes;
    const auto most = options_.max_bytes;
    if (most && (stored > *most || bytes.size() > *most - stored)) {
      limit_refused_ = true;
      return false;
    }
    const core::SizeSignalGuard guard;
    contents_.put(key, bytes);
    return true;
  }

  [[nodiscard]] bool browsable() const {
    using enum DumpWriterOptions::Browse;
    return options_.browse == kAlways ||
           (options_.browse == kAuto && journal_.counts().ops <= kBrowseLimit);
  }

  core::Digest fold() {
    const Hdf5Scope scope;
    const journal::RowCounts& counts = journal_.counts();
    const GroupHandle group = make_group(file_.get(), "index", blame_);
    IndexWriter index(group.get(), counts, blame_);
    std::optional<BrowseTree> tree;
    if (browsable()) {
      tree.emplace(file_.get(), content_group_.get(), contents_, blame_);
    }
    // Each small content into a dataset of its own, for people who browse, or, where there are too
    // many for that, all into `/packed`.
    std::optional<TableWriter> packed;
    if (!tree) packed.emplace(file_.get(), kPackedTable, counts.inline_bytes, blame_);
    journal::RowCounts folded;
    const auto add = [&](const journal::StoredContent& content) {
      journal::ContentRow row = content.row;
      row.packed = content.place == journal::ContentPlace::kReference ? kInReference : kOwnDataset;
      if (content.place == journal::ContentPlace::kInline) {
        ++folded.inline_contents;
        if (packed) {
          row.packed = static_cast<std::int64_t>(folded.inline_bytes);
          packed->append(content.bytes);
        } else {
          datasets_.write(content.key, content.bytes);
        }
        folded.inline_bytes += content.bytes.size();
      }
      index.add(row);
    };
    journal::JournalReader reader(place_.working / kJournalName);
    while (const std::optional<journal::Event> event = reader.next_event()) {
      if (const auto* content = std::get_if<journal::StoredContent>(&*event)) add(*content);
      if (const auto* slice = std::get_if<journal::SlicedContent>(&*event)) index.add(slice->row);
      if (const auto* block = std::get_if<journal::Block>(&*event)) index.add(block->row);
      if (const auto* read = std::get_if<journal::Parameter>(&*event)) index.add(read->row);
      const auto* record = std::get_if<core::OpRecord>(&*event);
      if (record == nullptr) continue;
      index.add(reader.rows());
      if (tree) tree->add(*record);
      ++folded.ops;
    }
    // A journal is read up to the first entry that is not whole: fewer means that it was damaged.
    if (folded.ops != counts.ops || folded.inline_contents != counts.inline_contents ||
        folded.inline_bytes != counts.inline_bytes) {
      throw core::io_error(fmt::format("{}: {} records were written and {} came back",
                                       (place_.working / kJournalName).string(),
                                       counts.ops,
                                       folded.ops),
                           "the disk or the memory changed bytes; record the run again");
    }
    if (packed) packed->finish();
    return index.finish(reader.tables());
  }

  void close_trace() {
    const Hdf5Scope scope;
    content_group_ = GroupHandle();
    blame_.ok(H5Fflush(file_.get(), H5F_SCOPE_GLOBAL), "cannot write the trace");
    blame_.ok(H5Fclose(file_.release()), "cannot close the trace");
  }

  DumpWriterOptions options_;
  std::optional<ReferenceDump> reference_;
  RecordingPlace place_;
  journal::JournalWriter journal_;
  std::filesystem::path trace_path_;
  Blame blame_;
  FileHandle file_;
  GroupHandle content_group_;
  ContentDatasets datasets_;
  ContentWriter contents_;
  bool limit_refused_ = false;                     ///< of bytes, by max_bytes
  std::optional<std::uint64_t> limit_reached_at_;  ///< lowest op index of a record that lacks bytes
  bool failed_ = false;
  bool finished_ = false;
};

DumpWriter::DumpWriter(const std::filesystem::path& directory, const DumpWriterOptions& options)
    : impl_(std::make_unique<Impl>(directory, options)) {}

DumpWriter::~DumpWriter() {
  // Closing an unfinished trace writes what HDF5 still holds.
  const core::SizeSignalGuard guard;
  impl_.reset();
}

void DumpWriter::begin(const core::RunManifest& manifest) {
  impl_->journal_.begun(core::to_json_text(manifest));
}

void DumpWriter::enter(const core::OpHead& call) { impl_->journal_.enter(call); }

bool DumpWriter::has_content(const core::ContentKey& key) const {
  return impl_->contents_.has(key);
}

bool DumpWriter::put_content(const core::ContentKey& key, const core::ContentBytes& bytes) {
  if (impl_->is_kept(key)) return true;
  if (impl_->contents_.slices.contains(key)) return false;
  const auto& slice = impl_->options_.slice;
  const auto length = slice ? sliced_length(*slice, key, bytes.size()) : std::nullopt;
  if (!length) return impl_->keep(key, bytes);
  impl_->cut_slice(key, bytes, *length);
  return false;
}

void DumpWriter::append(const core::OpRecord& record) {
  impl_->contents_.check();
  impl_->journal_.append(record);
  impl_->note_limit(record);
}

void DumpWriter::block(const core::BlockRow& row) { impl_->journal_.block(row); }

void DumpWriter::parameter(const core::ParameterRow& row) { impl_->journal_.parameter(row); }

void DumpWriter::fail(const std::string& message) {
  impl_->failed_ = true;
  impl_->journal_.fail(message);
}

void DumpWriter::refer_to(const core::TraceReference& dump) {
  impl_->reference_.emplace(ReferenceDump{dump, {}});
  impl_->journal_.refers(dump);
}

void DumpWriter::put_reference(const core::ContentKey& key) { impl_->contents_.refer(key); }

void DumpWriter::put_slice(const core::ContentKey& key, const core::ContentSlice& slice) {
  impl_->contents_.note_slice(key, slice);
}

std::uint64_t DumpWriter::stored_bytes() const noexcept { return impl_->contents_.stored_bytes; }

core::Digest DumpWriter::finish(core::RunManifest manifest) {
  if (impl_->failed_ || impl_->finished_) {
    throw core::internal_error("a recording that failed, or is finished, cannot be finished");
  }
  impl_->finished_ = true;
  impl_->journal_.check_counts(manifest.trace);
  impl_->journal_.count_blocks(manifest.trace);
  const core::SizeSignalGuard guard;
  impl_->contents_.drain();
  manifest.trace.contents = impl_->contents_.size();
  manifest.trace.stored_bytes = impl_->contents_.stored_bytes;
  manifest.trace.slices = impl_->contents_.slices.size();
  manifest.trace.reference = impl_->referred();
  if (impl_->limit_reached_at_) manifest.trace.bytes_limit_reached_at = impl_->limit_reached_at_;
  manifest.trace.io = impl_->contents_.direct() ? "direct" : "buffered";
  // Killed from here on, the recording is recovered as a whole one.
  impl_->journal_.finished(core::to_json_text(manifest));
  impl_->journal_.close();
  manifest.trace.index_digest = impl_->fold();
  impl_->close_trace();
  sync_path(impl_->trace_path_);
  // From here on it is a dump. The journal goes last: until the manifest stands, it is what names
  // the last operator; afterwards nobody reads it.
  const std::string text = core::to_json_text(manifest);
  write_file_atomically(impl_->place_.working / kManifestName, text);
  remove_file(impl_->place_.working / kJournalName);
  sync_path(impl_->place_.working);
  publish(impl_->place_);
  return core::manifest_digest(text);
}

}  // namespace repro_check::store
