// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>
#include <variant>

#include "core/content/content.h"
#include "core/error.h"
#include "core/system/signals_blocked.h"
#include "core/tensor/tensor_view.h"

namespace repro_check::journal {

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

std::uint64_t RecordEncoder::define(EntryKind kind,
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
std::uint64_t RecordEncoder::pinned(const void* object) {
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
std::uint64_t RecordEncoder::define_object(EntryKind kind, const Object& object) {
  body_.begin(kind);
  object_fields(body_, object);
  const std::string_view body = body_.payload();
  return define(kind, body, core::digest_leaf(std::as_bytes(std::span(body))));
}

template <typename Object>
std::uint64_t RecordEncoder::refer(EntryKind kind, const std::shared_ptr<const Object>& object) {
  if (object == nullptr) return kNothing;
  const std::uint64_t known = pinned(object.get());
  if (known != kNothing) return known;
  const std::uint64_t reference = define_object(kind, *object);
  pin(object, reference);
  return reference;
}

void RecordEncoder::pin(std::shared_ptr<const void> object, std::uint64_t reference) {
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
std::uint64_t RecordEncoder::put_form(EntryBuffer& into) {
  const std::string_view form = form_.payload();
  std::uint64_t reference = kNothing;
  if (form.size() <= kLargestForm) {
    const core::Digest digest = core::digest_leaf(std::as_bytes(std::span(form)));
    const Numbers& numbers = numbers_.at(static_cast<std::size_t>(form_.kind()));
    if (numbers.size() < kMostForms || numbers.contains(digest)) {
      reference = define(form_.kind(), form, digest);
    }
  }
  into(reference);
  if (reference == kNothing) into(form);
  return reference;
}

/// The form is in form_.
void RecordEncoder::put_call_form(RecentCall& recent, EntryBuffer& into) {
  if (recent.reference != kNothing && recent.form == form_.payload()) return into(recent.reference);
  recent.reference = put_form(into);
  recent.form.assign(form_.payload());
}

void RecordEncoder::put_tensor_form(const core::TensorRecord& tensor,
                                    RecentTensor& recent,
                                    EntryBuffer& into) {
  if (recent.reference != kNothing && same_form(tensor, recent.tensor)) {
    return into(recent.reference);
  }
  form_.begin(EntryKind::kTensorForm);
  tensor_form(form_, tensor);
  recent = {put_form(into), tensor};
}

void RecordEncoder::encode(const core::OpRecord& record, EntryBuffer& into) {
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
  into.begin(EntryKind::kRecord);
  put_call_form(recent_calls_[op % recent_calls_.size()], into);
  call_rest(into, record);
  // Prime, so that the places of two operators rarely meet.
  constexpr std::uint64_t kPlaces = 7;
  std::uint64_t place = kPlaces * op;
  for (const core::TensorRecord& tensor : record.tensors) {
    put_tensor_form(tensor, recent_tensors_[place++ % recent_tensors_.size()], into);
    tensor_rest(into, tensor, record.index);
  }
  if (record.generator) generator_fields(into, *record.generator);
}

void RecordEncoder::encode(const core::OpHead& call, EntryBuffer& into) {
  const std::uint64_t op = refer(EntryKind::kOperator, call.op);
  const std::uint64_t site = refer(EntryKind::kSite, call.site);
  into.begin(EntryKind::kEnter);
  into(op, site);
  head_fields(into, call);
}

namespace {

constexpr std::size_t kReadAhead = std::size_t{1} << 20U;

core::Error io_error(const std::string& path, int code) {
  return {
      core::ErrorKind::kIo,
      fmt::format("{}: cannot read the journal: {}", path, std::generic_category().message(code))};
}

}  // namespace

EntryReader::EntryReader(const std::filesystem::path& file)
    : path_(file.string()),
      file_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a FIFO must not hang us
  struct stat status {};
  if (file_.get() < 0 || ::fstat(file_.get(), &status) != 0) throw io_error(path_, errno);
  if (!S_ISREG(status.st_mode)) throw io_error(path_, EINVAL);
  file_size_ = static_cast<std::uint64_t>(status.st_size);
  check_header();
}

void EntryReader::check_header() {
  const std::span<const std::byte> bytes = peek(sizeof(FileHeader));
  const FileHeader expected;
  // Killed before the header was written: the file is empty, cut short, or still all zeros.
  const bool zeros = std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{0}; });
  const auto start = std::as_bytes(std::span(&expected, 1)).first(bytes.size());
  const bool prefix = std::ranges::equal(bytes, start);
  ended_ = zeros || (prefix && bytes.size() < sizeof(FileHeader));
  if (ended_) return;
  if (bytes.size() < sizeof(FileHeader) ||
      std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    throw core::Error(core::ErrorKind::kDumpUnknown,
                      fmt::format("{}: not a journal of repro-check", path_));
  }
  FileHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.version != kJournalVersion) {
    throw core::Error(
        core::ErrorKind::kDumpUnknown,
        fmt::format("{}: journal version {} cannot be read: this repro-check reads version {}",
                    path_,
                    header.version,
                    kJournalVersion),
        "use the repro-check that recorded it");
  }
  position_ = sizeof(FileHeader);
}

std::span<const std::byte> EntryReader::peek(std::size_t size) {
  const auto available =
      static_cast<std::size_t>(std::min<std::uint64_t>(size, file_size_ - position_));
  const bool buffered =
      position_ >= buffer_begin_ && position_ - buffer_begin_ + available <= buffer_size_;
  if (!buffered) {
    buffer_.resize(static_cast<std::size_t>(
        std::min<std::uint64_t>(std::max(available, kReadAhead), file_size_ - position_)));
    buffer_begin_ = position_;
    buffer_size_ = 0;
    const std::optional<std::size_t> got = core::read_at(file_.get(), position_, buffer_);
    if (!got) throw io_error(path_, errno);
    buffer_size_ = *got;  // less where somebody cuts the file while we read
  }
  const auto begin = static_cast<std::size_t>(position_ - buffer_begin_);
  return std::span<const std::byte>(buffer_).subspan(begin,
                                                     std::min(available, buffer_size_ - begin));
}

std::optional<Entry> EntryReader::next() {
  if (ended_) return std::nullopt;
  ended_ = true;  // unless the entry proves whole
  std::span<const std::byte> bytes = peek(sizeof(EntryHeader));
  if (bytes.size() < sizeof(EntryHeader)) return std::nullopt;
  EntryHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  const std::size_t whole = sizeof(EntryHeader) + std::size_t{header.length};
  if (header.kind == 0 || whole > file_size_ - position_) return std::nullopt;
  bytes = peek(whole);
  if (bytes.size() < whole) return std::nullopt;
  if (entry_checksum(bytes.subspan(kChecksummedFrom)) != header.checksum) return std::nullopt;
  const Entry entry{
      static_cast<EntryKind>(header.kind), position_, bytes.subspan(sizeof(EntryHeader))};
  position_ = std::min<std::uint64_t>(position_ + padded(whole), file_size_);
  ended_ = false;
  return entry;
}

JournalWriter::JournalWriter(const std::filesystem::path& file) : log_(file) {
  log_.append(std::bit_cast<std::array<std::byte, sizeof(FileHeader)>>(FileHeader{}));
}

void JournalWriter::append(const core::OpRecord& record) {
  put(record);
  ++operators_;
  returned_ += core::is_returned(record) ? 1U : 0U;
  tensors_ += record.tensors.size();
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
  log_.append(entry_.finish());
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
  log_.append(entry_.finish());
}

void JournalWriter::content(const core::ContentKey& key, ContentPlace place, std::uint64_t offset) {
  const StoredContent content{key, place, offset, core::content_size(key), {}};
  entry_.begin(EntryKind::kContent);
  content_fields(entry_, content);
  log_.append(entry_.finish());
}

void JournalWriter::refers(const Referred& dump) {
  entry_.begin(EntryKind::kReference);
  entry_(dump.index_digest, dump.run_name);
  log_.append(entry_.finish());
}

void JournalWriter::sliced(const SlicedContent& content) {
  entry_.begin(EntryKind::kSlice);
  sliced_fields(entry_, content);
  log_.append(entry_.finish());
}

namespace {

constexpr std::size_t kLeastTensor = 4;

/// Definitions come numbered from 0, each once.
void expect_next(ByteReader& bytes, std::size_t expected) {
  if (bytes.varint() != expected) ByteReader::nonsense("defines a number out of turn");
}

template <typename Object>
void define(std::vector<std::shared_ptr<const Object>>& objects, ByteReader bytes) {
  expect_next(bytes, objects.size());
  auto object = std::make_shared<Object>();
  object_fields(bytes, *object);
  bytes.expect_end();
  objects.push_back(std::move(object));
}

void define(std::vector<std::string>& forms, ByteReader bytes) {
  expect_next(bytes, forms.size());
  if (forms.size() >= kMostForms) ByteReader::nonsense("defines more forms than are kept");
  if (bytes.size() > kLargestForm) {
    ByteReader::nonsense("defines a form that is too large to be shared");
  }
  forms.emplace_back(bytes.rest());
}

/// What the next reference refers to; null for kNothing.
template <typename Definition>
const Definition* find(const std::vector<Definition>& definitions, ByteReader& bytes) {
  const std::uint64_t reference = bytes.varint();
  if (reference == kNothing) return nullptr;
  if (reference > definitions.size()) ByteReader::nonsense("refers to what nobody has defined");
  return &definitions[static_cast<std::size_t>(reference - 1)];
}

template <typename Object>
std::shared_ptr<const Object> object(const std::vector<std::shared_ptr<const Object>>& objects,
                                     ByteReader& bytes) {
  const auto* found = find(objects, bytes);
  return found == nullptr ? nullptr : *found;
}

ByteReader form(const std::vector<std::string>& forms, ByteReader& bytes) {
  const std::string* known = find(forms, bytes);
  return ByteReader(known != nullptr ? std::string_view(*known) : bytes.text());
}

/// Elements of the content. @throws core::Error{kDumpDamaged} when the key makes no tensor
std::uint64_t elements_of(const core::ContentKey& key) {
  if (key.shape.size() > kMostDims) ByteReader::nonsense("keeps a tensor of too many dimensions");
  const auto elements = static_cast<std::uint64_t>(core::element_count(key.shape));
  std::uint64_t size = 0;
  if (key.dtype == core::Dtype::kUnknown ||
      __builtin_mul_overflow(elements, core::element_size(key.dtype), &size)) {
    ByteReader::nonsense("keeps what is no tensor");
  }
  return elements;
}

StoredContent stored_content(ByteReader bytes) {
  StoredContent content;
  content_fields(bytes, content);
  if (content.size != elements_of(content.key) * core::element_size(content.key.dtype)) {
    ByteReader::nonsense("keeps another number of bytes than dtype and shape make");
  }
  constexpr auto kEnd = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (content.offset > kEnd || content.size > kEnd - content.offset) {
    ByteReader::nonsense("keeps bytes where no file can have any");
  }
  if (content.place == ContentPlace::kReference && content.offset != 0) {
    ByteReader::nonsense("says where in another dump bytes are");
  }
  if (content.place == ContentPlace::kInline) {
    content.bytes = bytes.rest_of_bytes();
    if (content.bytes.size() != content.size || content.offset != 0) {
      ByteReader::nonsense("holds other bytes than it says");
    }
  }
  bytes.expect_end();
  return content;
}

SlicedContent sliced_content(ByteReader bytes) {
  SlicedContent content;
  sliced_fields(bytes, content);
  bytes.expect_end();
  if (!core::is_slice_of(content.slice, elements_of(content.key))) {
    ByteReader::nonsense("keeps an impossible slice");
  }
  return content;
}

}  // namespace

core::OpRecord JournalReader::record(std::span<const std::byte> payload) const {
  ByteReader bytes(payload);
  core::OpRecord record;
  ByteReader call = form(call_forms_, bytes);
  record.op = object(ops_, call);
  record.site = object(sites_, call);
  std::size_t values = 0;
  const std::uint64_t tensors = call_form(call, record, values);
  call.expect_end();
  call_rest(bytes, record);
  if (tensors > bytes.size() / kLeastTensor) ByteReader::nonsense("counts more than it holds");
  record.tensors.resize(tensors);
  for (core::TensorRecord& tensor : record.tensors) {
    ByteReader shared = form(tensor_forms_, bytes);
    tensor_form(shared, tensor);
    shared.expect_end();
    tensor_rest(bytes, tensor, record.index);
  }
  if (record.generator) generator_fields(bytes, *record.generator);
  bytes.expect_end();
  return record;
}

std::optional<Event> JournalReader::take(const Entry& entry) {
  ByteReader bytes(entry.payload);
  switch (entry.kind) {
    case EntryKind::kOperator:
      define(ops_, bytes);
      return std::nullopt;
    case EntryKind::kSite:
      define(sites_, bytes);
      return std::nullopt;
    case EntryKind::kCallForm:
      define(call_forms_, bytes);
      return std::nullopt;
    case EntryKind::kTensorForm:
      define(tensor_forms_, bytes);
      return std::nullopt;
    case EntryKind::kEnter: {
      core::OpHead call;
      call.op = object(ops_, bytes);
      call.site = object(sites_, bytes);
      head_fields(bytes, call);
      bytes.expect_end();
      return call;
    }
    case EntryKind::kRecord:
      return record(entry.payload);
    case EntryKind::kFail:
      return Failure{std::string(bytes.rest())};
    case EntryKind::kContent:
      return stored_content(bytes);
    case EntryKind::kBegun:
      return Begun{std::string(bytes.rest())};
    case EntryKind::kSlice:
      return sliced_content(bytes);
    case EntryKind::kReference: {
      Referred dump;
      bytes(dump.index_digest, dump.run_name);
      bytes.expect_end();
      return dump;
    }
    case EntryKind::kFinished:
      return Finished{std::string(bytes.rest())};
  }
  ByteReader::nonsense("is of a kind nobody knows");
}

std::optional<Event> JournalReader::checked(const Entry& entry) {
  try {
    return take(entry);
  } catch (const core::Error& failure) {
    throw core::Error(
        failure.kind(),
        fmt::format("{}: the entry at byte {} {}", entries_.path(), entry.offset, failure.what()),
        "record the run again");
  }
}

std::optional<Event> JournalReader::next_event() {
  while (const std::optional<Entry> entry = entries_.next()) {
    begin_ = entry->offset;
    end_ = entry->offset + sizeof(EntryHeader) + entry->payload.size();
    if (std::optional<Event> event = checked(*entry)) return event;
  }
  return std::nullopt;
}

std::optional<core::OpRecord> JournalReader::next() {
  while (std::optional<Event> event = next_event()) {
    if (auto* record = std::get_if<core::OpRecord>(&*event)) return std::move(*record);
  }
  return std::nullopt;
}

core::OpRecord JournalReader::record_at(std::uint64_t offset) {
  entries_.go_to(offset);
  const std::optional<Entry> entry = entries_.next();
  std::optional<Event> event;
  if (entry && entry->kind == EntryKind::kRecord) event = checked(*entry);
  if (!event) {
    throw core::Error(core::ErrorKind::kDumpDamaged,
                      fmt::format("{}: changed while it was read", entries_.path()));
  }
  return std::get<core::OpRecord>(std::move(*event));
}

}  // namespace repro_check::journal
