// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/journal_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/system/signals_blocked.h"
#include "dumpers/journal/journal_reader.h"

namespace repro_check::journal {

std::uint64_t entry_checksum(std::span<const std::byte> covered) noexcept {
  return XXH3_64bits(covered.data(), covered.size());
}

void EntryBuffer::enlarge(std::size_t length) { bytes_.resize(2 * (size_ + length)); }

std::span<const std::byte> EntryBuffer::finish() {
  const std::size_t whole = padded(size_);
  std::memset(reserve(kAlignment), 0, kAlignment);  // a constant size: no call
  EntryHeader header;
  header.length = static_cast<std::uint32_t>(size_ - sizeof(EntryHeader));
  header.kind = static_cast<std::uint32_t>(kind_);
  std::memcpy(bytes_.data(), &header, sizeof(header));
  header.checksum = entry_checksum(
      std::span<const std::byte>(bytes_).subspan(kChecksummedFrom, size_ - kChecksummedFrom));
  std::memcpy(bytes_.data(), &header.checksum, sizeof(header.checksum));
  return std::span<const std::byte>(bytes_).first(whole);
}

namespace {

constexpr std::size_t kFirstWindow = std::size_t{256}
                                     << 10U;  // short runs should not pay for 4 MiB
constexpr std::size_t kLargestWindow = std::size_t{4} << 20U;
constexpr std::size_t kReserve = 4096;

std::size_t page_size() noexcept {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

/// Blocks are allocated before they are mapped: writing to a hole on a full disk would be a SIGBUS.
int allocate(int fd, std::uint64_t begin, std::size_t size) noexcept {
  const core::SizeSignalGuard guard;
  int code = EINTR;
  while (code == EINTR) {
    code = ::posix_fallocate(fd, static_cast<off_t>(begin), static_cast<off_t>(size));
  }
  return code;
}

/// Takes the page faults of the whole window at once, which is several times cheaper than one by
/// one, and turns what would be a SIGBUS later (a disk that is full after all) into an error now.
/// Kernels before 5.14 do not know how; there the faults come one by one.
int make_writable(void* begin, std::size_t size) noexcept {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(begin, size, MADV_POPULATE_WRITE) != 0 && errno == EFAULT) return ENOSPC;
#endif
  (void)begin;
  (void)size;
  return 0;
}

}  // namespace

MappedLog::MappedLog(std::filesystem::path file)
    : file_(std::move(file)), next_size_(kFirstWindow) {
  constexpr mode_t kMode = 0666;
  fd_ = ::open(file_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kMode);
  if (fd_ < 0) fail("cannot create the journal", errno);
  // Held as long as the recording lives, so that another one can tell it from an abandoned one. A
  // file system without locks only loses that courtesy.
  (void)::flock(fd_, LOCK_EX | LOCK_NB);
}

MappedLog::~MappedLog() {
  try {
    close();
  } catch (const core::Error&) {
    // The file keeps zeros behind its last entry; readers stop there.
    if (fd_ >= 0) ::close(fd_);
  }
}

void MappedLog::grow(std::size_t needed) {
  const std::uint64_t position = window_begin_ + used_;
  const std::uint64_t begin = position / page_size() * page_size();
  const auto lead = static_cast<std::size_t>(position - begin);
  const std::size_t least = lead + needed + kReserve;
  const std::size_t size =
      std::max(next_size_, (least + page_size() - 1) / page_size() * page_size());
  if (fd_ < 0) fail("cannot write to the journal", EBADF);
  if (const int code = allocate(fd_, begin, size); code != 0) fail("cannot grow the journal", code);
  void* mapped =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, static_cast<off_t>(begin));
  if (mapped == MAP_FAILED) fail("cannot map the journal", errno);
  if (const int code = make_writable(mapped, size); code != 0) {
    ::munmap(mapped, size);
    fail("cannot grow the journal", code);
  }
  unmap();
  window_ = static_cast<std::byte*>(mapped);
  window_size_ = size;
  window_begin_ = begin;
  used_ = lead;
  reserve_ = kReserve;
  room_ = size - lead - kReserve;
  next_size_ = std::min(2 * next_size_, kLargestWindow);
}

void MappedLog::store(std::span<const std::byte> bytes) noexcept {
  std::memcpy(window_ + used_, bytes.data(), bytes.size());
  used_ += bytes.size();
  room_ -= bytes.size();
}

void MappedLog::append_last(std::span<const std::byte> bytes) {
  if (bytes.size() > last_room()) fail("cannot grow the journal", ENOSPC);
  if (bytes.size() > room_) {
    room_ += std::exchange(reserve_, 0);
  }
  store(bytes);
}

void MappedLog::unmap() noexcept {
  if (window_ != nullptr) ::munmap(window_, window_size_);
  window_ = nullptr;
}

void MappedLog::close() {
  if (fd_ < 0) return;
  unmap();
  room_ = 0;
  reserve_ = 0;
  const int cut = ::ftruncate(fd_, static_cast<off_t>(window_begin_ + used_)) == 0 ? 0 : errno;
  const int closed = ::close(std::exchange(fd_, -1)) == 0 ? 0 : errno;
  if (cut != 0 || closed != 0) fail("cannot close the journal", cut != 0 ? cut : closed);
}

void MappedLog::fail(std::string_view what, int code) const {
  core::write_failed(file_, what, code);
}

std::uint64_t JournalWriter::define(EntryKind kind,
                                    std::string_view body,
                                    const core::Digest& digest) {
  Numbers& numbers = numbers_.at(static_cast<std::size_t>(kind));
  const auto found = numbers.find(digest);
  if (found != numbers.end()) return found->second + std::uint64_t{1};
  const auto number = static_cast<std::uint32_t>(numbers.size());
  definition_.begin(kind);
  definition_(number);
  definition_.put_bytes(body);
  log_.append(definition_.finish());
  numbers.emplace(digest, number);
  return number + std::uint64_t{1};
}

/// The reference to an object that is pinned, else kNothing.
std::uint64_t JournalWriter::pinned(const void* object) {
  const auto address = reinterpret_cast<std::uintptr_t>(object) / alignof(std::max_align_t);
  RecentPin& recent = recent_pins_[(address ^ (address >> 6U)) % recent_pins_.size()];
  if (recent.object != object) {
    const auto found = pins_.find(object);
    if (found == pins_.end()) return kNothing;
    recent = {object, found->second.reference};
  }
  return recent.reference;
}

template <typename Object>
std::uint64_t JournalWriter::define_object(EntryKind kind, const Object& object) {
  body_.begin(kind);
  object_fields(body_, object);
  const std::string_view body = body_.payload();
  return define(kind, body, core::digest_leaf(std::as_bytes(std::span(body))));
}

template <typename Object>
std::uint64_t JournalWriter::refer(EntryKind kind, const std::shared_ptr<const Object>& object) {
  if (object == nullptr) return kNothing;
  const std::uint64_t known = pinned(object.get());
  if (known != kNothing) return known;
  const std::uint64_t reference = define_object(kind, *object);
  pin(object, reference);
  return reference;
}

void JournalWriter::pin(std::shared_ptr<const void> object, std::uint64_t reference) {
  // A recorder that makes a new object for every call must not be kept alive by us without end.
  constexpr std::size_t kMostPins = 1U << 16U;
  if (pins_.size() >= kMostPins) {
    pins_.clear();
    recent_pins_.fill({});
  }
  const void* address = object.get();
  pins_.insert_or_assign(address, Pin{reference, std::move(object)});
}

/// Refers to the form in form_; one that cannot be shared is written out.
/// @return what was put to refer to it, which may be put again
std::uint64_t JournalWriter::put_form() {
  const std::string_view form = form_.payload();
  std::uint64_t reference = kNothing;
  if (form.size() <= kLargestForm) {
    const core::Digest digest = core::digest_leaf(std::as_bytes(std::span(form)));
    const Numbers& numbers = numbers_.at(static_cast<std::size_t>(form_.kind()));
    if (numbers.size() < kMostForms || numbers.contains(digest)) {
      reference = define(form_.kind(), form, digest);
    }
  }
  entry_(reference);
  if (reference == kNothing) entry_(form);
  return reference;
}

/// The form is in form_.
void JournalWriter::put_call_form(RecentCall& recent) {
  if (recent.reference != kNothing && recent.form == form_.payload())
    return entry_(recent.reference);
  recent.reference = put_form();
  recent.form.assign(form_.payload());
}

void JournalWriter::put_tensor_form(const core::TensorRecord& tensor, RecentTensor& recent) {
  if (recent.reference != kNothing && same_form(tensor, recent.tensor)) {
    return entry_(recent.reference);
  }
  form_.begin(EntryKind::kTensorForm);
  tensor_form(form_, tensor);
  recent = {put_form(), tensor};
}

void JournalWriter::append(const core::OpRecord& record) {
  const std::uint64_t op = refer(EntryKind::kOperator, record.op);
  const std::uint64_t site = refer(EntryKind::kSite, record.site);
  form_.begin(EntryKind::kCallForm);
  form_(op, site);
  std::size_t values = 0;
  const std::uint64_t tensors = call_form(form_, record, values);
  if (values > kMostValues || tensors > kMostTensors) {
    throw core::Error(core::ErrorKind::kInternal,
                      fmt::format("op {} has {} values and {} tensors: more than a record takes",
                                  record.index,
                                  values,
                                  tensors));
  }
  entry_.begin(EntryKind::kRecord);
  put_call_form(recent_calls_[op % recent_calls_.size()]);
  call_rest(entry_, record);
  // Prime, so that the places of two operators rarely meet.
  constexpr std::uint64_t kPlaces = 7;
  std::uint64_t place = kPlaces * op;
  for (const core::TensorRecord& tensor : record.tensors) {
    put_tensor_form(tensor, recent_tensors_[place++ % recent_tensors_.size()]);
    tensor_rest(entry_, tensor, record.index);
  }
  if (record.generator) generator_fields(entry_, *record.generator);
  put();
  ++operators_;
  returned_ += core::is_returned(record) ? 1U : 0U;
  tensors_ += record.tensors.size();
}

void JournalWriter::enter(const core::OpHead& call) {
  const std::uint64_t op = refer(EntryKind::kOperator, call.op);
  const std::uint64_t site = refer(EntryKind::kSite, call.site);
  entry_.begin(EntryKind::kEnter);
  entry_(op, site);
  head_fields(entry_, call);
  put();
}

JournalWriter::JournalWriter(const std::filesystem::path& file) : log_(file) {
  log_.append(std::bit_cast<std::array<std::byte, sizeof(FileHeader)>>(FileHeader{}));
}

void JournalWriter::check_counts(const core::TraceSummary& trace) const {
  if (trace.operators == operators_ && trace.returned == returned_ && trace.tensors == tensors_) {
    return;
  }
  throw core::Error(core::ErrorKind::kInternal,
                    fmt::format("the recorder counted {} operators, {} of them returned values, "
                                "and {} tensors, the journal {}, {} and {}",
                                trace.operators,
                                trace.returned,
                                trace.tensors,
                                operators_,
                                returned_,
                                tensors_));
}

void JournalWriter::text(EntryKind kind, std::string_view bytes) {
  entry_.begin(kind);
  entry_.put_bytes(bytes);
  put();
}

/// Often called because the disk is full, so it must manage without growing the file.
void JournalWriter::fail(std::string_view message) {
  constexpr std::size_t kFrame = sizeof(EntryHeader) + kAlignment;
  try {
    return text(EntryKind::kFail, message);
  } catch (const core::Error&) {
    const std::size_t room = log_.last_room();
    if (room <= kFrame) return;
    entry_.begin(EntryKind::kFail);
    entry_.put_bytes(message.substr(0, room - kFrame));
  }
  try {
    log_.append_last(entry_.finish());
  } catch (const core::Error&) {
    // The file is closed: there is nowhere to say it.
  }
}

void JournalWriter::content(const core::ContentKey& key, std::span<const std::byte> bytes) {
  const StoredContent content{key, ContentPlace::kInline, 0, core::content_size(key), bytes};
  if (bytes.size() > kLargestInline || bytes.size() != content.size) {
    throw core::Error(
        core::ErrorKind::kInternal,
        fmt::format("content {} was handed {} bytes", core::content_name(key), bytes.size()));
  }
  entry_.begin(EntryKind::kContent);
  content_fields(entry_, content);
  entry_.put_bytes(bytes);
  put();
}

void JournalWriter::content(const core::ContentKey& key, ContentPlace place, std::uint64_t offset) {
  const StoredContent content{key, place, offset, core::content_size(key), {}};
  entry_.begin(EntryKind::kContent);
  content_fields(entry_, content);
  put();
}

void JournalWriter::refers(const Referred& dump) {
  entry_.begin(EntryKind::kReference);
  entry_(dump.index_digest, dump.run_name);
  put();
}

void JournalWriter::sliced(const SlicedContent& content) {
  entry_.begin(EntryKind::kSlice);
  sliced_fields(entry_, content);
  put();
}

namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kPiece = std::size_t{1} << 20U;

}  // namespace

ContentsFile::ContentsFile(std::filesystem::path file) : file_(std::move(file)) {}

std::uint64_t ContentsFile::append(const core::ContentBytes& bytes) {
  const core::SizeSignalGuard guard;
  if (opened_.get() < 0) {
    constexpr mode_t kMode = 0666;
    opened_ =
        core::FileDescriptor(::open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
    if (opened_.get() < 0) core::write_failed(file_, "cannot create the file", errno);
  }
  const std::uint64_t begin = (end_ + kPage - 1) / kPage * kPage;
  for (std::size_t done = 0; done < bytes.size(); done += piece_.size()) {
    piece_.resize(std::min(kPiece, bytes.size() - done));
    bytes.read(done, piece_);
    if (!core::write_all_at(opened_.get(), begin + done, piece_)) {
      core::write_failed(file_, "cannot write", errno);
    }
  }
  end_ = begin + bytes.size();
  return begin;
}

void ContentsFile::sync() {
  if (opened_.get() >= 0 && ::fsync(opened_.get()) != 0)
    core::write_failed(file_, "cannot force to the disk", errno);
}

namespace {

namespace fs = std::filesystem;

/// The directory, made where it is missing; a recording never goes on top of another.
const fs::path& prepared(const fs::path& directory) {
  std::error_code code;
  for (const char* name : {kJournalName, kContentsName, "trace.h5", "manifest.json"}) {
    if (!fs::exists(directory / name, code)) continue;
    const bool busy = is_being_written(directory / kJournalName);
    throw core::Error(
        core::ErrorKind::kUsage,
        fmt::format("{}: {}",
                    directory.string(),
                    busy ? "another recording is being written there"
                         : fmt::format("holds {} of another recording", name)),
        busy ? "wait for it, or record to another directory" : "record to another directory");
  }
  fs::create_directories(directory, code);
  if (code) core::write_failed(directory, "cannot create the directory", code.value());
  return directory;
}

}  // namespace

JournalSink::JournalSink(const fs::path& directory)
    : directory_(prepared(directory)),
      journal_(directory_ / kJournalName),
      contents_(directory_ / kContentsName) {}

bool JournalSink::put_content(const core::ContentKey& key, const core::ContentBytes& bytes) {
  if (has_content(key)) return true;
  const bool small = bytes.size() <= kSmallContent;
  std::uint64_t offset = 0;
  if (small) {
    small_.resize(bytes.size());
    if (!small_.empty()) bytes.read(0, small_);
  } else {
    // The bytes first: an entry that is there speaks of bytes that are there.
    offset = contents_.append(bytes);
  }
  core::ContentKey read = core::key_of_read(key, bytes);
  if (has_content(read)) return true;
  if (small) {
    journal_.content(read, small_);
  } else {
    journal_.content(read, ContentPlace::kContents, offset);
  }
  known_.insert(std::move(read));
  stored_bytes_ += bytes.size();
  return true;
}

void JournalSink::fail(const std::string& message) {
  failed_ = true;
  journal_.fail(message);
}

void JournalSink::finish(core::RunManifest manifest) {
  if (std::exchange(failed_, true)) {
    throw core::Error(core::ErrorKind::kInternal,
                      "a recording that failed, or is finished, cannot be finished");
  }
  core::TraceSummary& trace = manifest.trace;
  journal_.check_counts(trace);
  trace.contents = known_.size();
  trace.stored_bytes = stored_bytes_;
  // The last word is said when all that it speaks of has reached the disk.
  contents_.sync();
  core::sync_path(directory_ / kJournalName);
  journal_.finished(core::to_json_text(manifest));
  journal_.close();
  core::sync_path(directory_ / kJournalName);
  core::sync_path(directory_);
}

}  // namespace repro_check::journal
