// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/journal_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>
#include <variant>

#include "core/error.h"
#include "core/tensor/content.h"
#include "core/tensor/tensor_record.h"
#include "core/text/text.h"

namespace repro_check::journal {

namespace {

constexpr std::size_t kReadAhead = std::size_t{1} << 20U;

core::Error io_error(const std::string& path, int code) {
  return {
      core::ErrorKind::kIo,
      fmt::format("{}: cannot read the journal: {}", path, std::generic_category().message(code))};
}

}  // namespace

JournalReader::JournalReader(const std::filesystem::path& file)
    : path_(file.string()),
      file_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a FIFO must not hang us
  struct stat status {};
  if (file_.get() < 0 || ::fstat(file_.get(), &status) != 0) throw io_error(path_, errno);
  if (!S_ISREG(status.st_mode)) throw io_error(path_, EINVAL);
  file_size_ = static_cast<std::uint64_t>(status.st_size);
  check_header();
}

void JournalReader::check_header() {
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

std::span<const std::byte> JournalReader::peek(std::size_t size) {
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

std::optional<JournalReader::Entry> JournalReader::next_entry() {
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
  begin_ = position_;
  end_ = position_ + whole;
  position_ = std::min<std::uint64_t>(position_ + padded(whole), file_size_);
  ended_ = false;
  return Entry{static_cast<EntryKind>(header.kind), bytes.subspan(sizeof(EntryHeader))};
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
    throw core::Error(failure.kind(),
                      fmt::format("{}: the entry at byte {} {}", path_, begin_, failure.what()),
                      "record the run again");
  }
}

std::optional<Event> JournalReader::next_event() {
  while (const std::optional<Entry> entry = next_entry()) {
    if (std::optional<Event> event = checked(*entry)) return event;
  }
  return std::nullopt;
}

core::OpRecord JournalReader::record_at(std::uint64_t offset) {
  position_ = offset;
  ended_ = false;
  const std::optional<Entry> entry = next_entry();
  std::optional<Event> event;
  if (entry && entry->kind == EntryKind::kRecord) event = checked(*entry);
  if (!event) {
    throw core::Error(core::ErrorKind::kDumpDamaged,
                      fmt::format("{}: changed while it was read", path_));
  }
  return std::get<core::OpRecord>(std::move(*event));
}

namespace {

constexpr std::uint64_t kMissing = 0;  // the header is there, no entry

/// `aten::conv2d (backbone.conv1, model.py:40)`, without what is not known.
std::string describe(const core::OpHead& call) {
  constexpr std::size_t kLongest = 200;  // names come from outside: one line is for reading
  std::string text =
      core::printable(call.op ? call.op->full_name() : "an unknown operator", kLongest);
  if (!call.site) return text;
  std::string place = core::printable(call.site->module_path, kLongest);
  if (const core::SourceFrame* frame = core::display_frame(*call.site)) {
    if (!place.empty()) place += ", ";
    place += fmt::format(
        "{}:{}",
        core::printable(std::filesystem::path(frame->file).filename().string(), kLongest),
        frame->line);
  }
  return place.empty() ? text : fmt::format("{} ({})", text, place);
}

}  // namespace

void SummaryBuilder::add(const Event& event) {
  if (const auto* entered = std::get_if<core::OpHead>(&event)) {
    open.insert_or_assign(entered->index, *entered);
  } else if (const auto* failure = std::get_if<Failure>(&event)) {
    summary.failure = failure->message;
  } else if (const auto* record = std::get_if<core::OpRecord>(&event)) {
    ++summary.completed;
    summary.last = record->index;
    last = *record;
    open.erase(record->index);
  }
}

JournalSummary SummaryBuilder::finish() const {
  JournalSummary whole = summary;
  if (whole.last) whole.last_operator = describe(last);
  if (!open.empty()) {
    // Indices follow the order of entry: the highest is the innermost call.
    whole.entered = open.rbegin()->first;
    whole.entered_operator = describe(open.rbegin()->second);
  }
  return whole;
}

JournalSummary summarise(const std::filesystem::path& file) {
  JournalReader reader(file);
  SummaryBuilder summary;
  while (const std::optional<Event> event = reader.next_event()) summary.add(*event);
  return summary.finish();
}

bool is_being_written(const std::filesystem::path& file) noexcept {
  const core::FileDescriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return opened.get() >= 0 && ::flock(opened.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

RecordedJournal::RecordedJournal(const std::filesystem::path& file)
    : path_(file.string()), reader_(file) {
  while (const std::optional<Event> event = reader_.next_event()) {
    std::visit([this](const auto& kind) { add(kind); }, *event);
    builder_.add(*event);
  }
  summary = builder_.finish();
  for (std::uint64_t index = 0; index < offsets_.size(); ++index) {
    if (offsets_[index] != kMissing) continue;
    if (!builder_.open.contains(index)) damaged(fmt::format("op {} is missing", index));
    unfinished.push_back(index);
  }
  if (std::cmp_greater_equal(last_producer_, offsets_.size())) {
    damaged("a tensor was produced by an operator that is not there");
  }
}

void RecordedJournal::damaged(const std::string& what) const {
  throw core::Error(core::ErrorKind::kDumpDamaged,
                    fmt::format("{}: {}", path_, what),
                    "no recorder has written this; record the run again");
}

/// Every operator is entered before it is recorded, in the order of the indices: an index that
/// runs ahead would have us ask for memory without end.
void RecordedJournal::check(const core::OpHead& call) const {
  if (call.index >= entered_) damaged(fmt::format("op {} was never entered", call.index));
  if (!call.op) damaged(fmt::format("op {} names no operator", call.index));
  if (call.parent < -1 || std::cmp_greater_equal(call.parent, call.index)) {
    damaged(fmt::format("op {} has the impossible parent {}", call.index, call.parent));
  }
}

void RecordedJournal::check(const core::TensorRecord& tensor) {
  if (tensor.producer < core::kNoProducer || tensor.shape.size() > kMostDims ||
      tensor.strides.size() > kMostDims) {
    damaged("a tensor has an impossible shape or producer");
  }
  core::element_count(tensor.shape);
  last_producer_ = std::max(last_producer_, tensor.producer);
}

void RecordedJournal::add(const core::OpRecord& record) {
  check(static_cast<const core::OpHead&>(record));
  if (record.index >= offsets_.size()) offsets_.resize(record.index + 1, kMissing);
  if (std::exchange(offsets_[record.index], reader_.begin()) != kMissing) {
    damaged(fmt::format("op {} is there twice", record.index));
  }
  for (const core::TensorRecord& tensor : record.tensors) check(tensor);
  totals.tensors += record.tensors.size();
  totals.substitutions += record.substitutions.size();
  totals.drawing_operators += record.generator ? 1U : 0U;
  totals.returned += core::is_returned(record) ? 1U : 0U;
  totals.deepest = std::max(totals.deepest, record.depth);
}

void RecordedJournal::add(const core::OpHead& call) {
  ++entered_;
  check(call);
}

void RecordedJournal::add(const StoredContent& content) {
  const bool is_inline = content.place == ContentPlace::kInline;
  if (content.place == ContentPlace::kReference && !reference) {
    damaged("a content lies in another dump, and none was named");
  }
  const std::uint64_t offset = is_inline ? reader_.end() - content.size : content.offset;
  contents.try_emplace(content.key, ContentSpot{content.place, offset, content.size});
}

void RecordedJournal::add(const Referred& dump) {
  if (reference && *reference != dump) damaged("it refers to two dumps");
  reference = dump;
}

core::OpRecord RecordedJournal::record(std::uint64_t index) const {
  if (offsets_.at(index) != kMissing) return reader_.record_at(offsets_[index]);
  return {builder_.open.at(index)};
}

}  // namespace repro_check::journal
