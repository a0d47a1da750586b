// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/journal_writer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "core/error.h"
#include "core/system/signals_blocked.h"
#include "core/text/short_text.h"
#include "dumpers/journal/journal_reader.h"
#include "dumpers/journal/row_decoder.h"
#include "dumpers/journal/row_fields.h"

namespace repro_check::journal {

std::uint64_t entry_checksum(std::span<const std::byte> covered) noexcept {
  return XXH3_64bits(covered.data(), covered.size());
}

std::span<const std::byte> EntryBuffer::finish() {
  std::memset(room(kAlignment), 0, kAlignment);  // a constant size: no call
  EntryHeader header;
  header.length = static_cast<std::uint32_t>(size_ - sizeof(EntryHeader));
  header.kind = static_cast<std::uint32_t>(kind_);
  std::memcpy(bytes_.data(), &header, sizeof(header));
  header.checksum = entry_checksum(
      std::span<const std::byte>(bytes_).subspan(kChecksummedFrom, size_ - kChecksummedFrom));
  std::memcpy(bytes_.data(), &header.checksum, sizeof(header.checksum));
  return std::span<const std::byte>(bytes_).first(padded(size_));
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
  const core::FileDescriptor opened = file_.create("cannot create the journal");
  // Held as long as the recording lives, so that another one can tell it from an abandoned one. A
  // file system without locks only loses that courtesy. The kernel keeps the lock of a file as long
  // as a mapping of it is there.
  (void)::flock(opened.get(), LOCK_EX | LOCK_NB);
  (void)lock_.map(opened.get(), 0, page_size(), PROT_READ);
}

MappedLog::~MappedLog() {
  try {
    close();
  } catch (const core::Error&) {
    // The file keeps zeros behind its last entry; readers stop there.
  }
}

void MappedLog::grow(std::size_t needed) {
  if (!lock_.is_mapped()) fail("cannot write to the journal", EBADF);
  const std::uint64_t position = window_begin_ + used_;
  const std::uint64_t begin = position / page_size() * page_size();
  const auto lead = static_cast<std::size_t>(position - begin);
  const std::size_t least = lead + needed + kReserve;
  const std::size_t size =
      std::max(next_size_, (least + page_size() - 1) / page_size() * page_size());
  expect_whole();
  const core::FileDescriptor opened = file_.open("cannot grow the journal");
  if (const int code = allocate(opened.get(), begin, size); code != 0) {
    fail("cannot grow the journal", code);
  }
  core::MappedWindow window;
  if (!window.map(opened.get(), begin, size, PROT_READ | PROT_WRITE)) {
    fail("cannot map the journal", errno);
  }
  if (const int code = make_writable(window.data(), size); code != 0) {
    fail("cannot grow the journal", code);
  }
  window_ = std::move(window);
  window_begin_ = begin;
  used_ = lead;
  reserve_ = kReserve;
  room_ = size - lead - kReserve;
  next_size_ = std::min(2 * next_size_, kLargestWindow);
}

void MappedLog::store(std::span<const std::byte> bytes) noexcept {
  std::memcpy(window_.data() + used_, bytes.data(), bytes.size());
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

/// Nobody but this process writes to it, but anybody may cut it.
void MappedLog::expect_whole() const {
  if (!window_.is_mapped()) return;
  const core::FileDescriptor opened = file_.open("cannot write to the journal");
  struct stat now {};
  if (window_.was_cut() || ::fstat(opened.get(), &now) != 0 ||
      static_cast<std::uint64_t>(now.st_size) < window_begin_ + window_.size()) {
    throw core::Error(core::ErrorKind::kIo,
                      file_.path().string() + ": the journal was cut by another process");
  }
}

void MappedLog::close() {
  if (!lock_.is_mapped()) return;
  const core::MappedWindow held = std::move(lock_);
  room_ = 0;
  reserve_ = 0;
  expect_whole();
  window_ = {};
  const core::FileDescriptor opened = file_.open("cannot close the journal");
  if (::ftruncate(opened.get(), static_cast<off_t>(window_begin_ + used_)) != 0) {
    fail("cannot close the journal", errno);
  }
}

void MappedLog::let_go() noexcept {
  window_ = {};
  lock_ = {};
  room_ = 0;
  reserve_ = 0;
}

void MappedLog::fail(std::string_view what, int code) const {
  core::write_failed(file_.path(), what, code);
}

struct JournalWriter::ToRow {
  static constexpr bool kReads = false;

  JournalWriter& writer;

  template <typename Number, typename Field>
  void number(Number& into, const Field& field) {
    into = static_cast<Number>(field);
  }
  template <typename Number, typename Enum>
  void word(Number& into, Enum value, const char* /*what*/) {
    into = static_cast<Number>(value);
  }
  template <typename Field>
  void flag(std::uint8_t& flags, std::uint8_t bit, Field value, Field wanted = Field{true}) {
    if (value == wanted) flags = static_cast<std::uint8_t>(flags | bit);
  }
  template <typename Number>
  void text(Number& into, std::string_view text) {
    into = static_cast<Number>(writer.number_of(text));
  }
  void digest(core::Digest& into, const std::optional<core::Digest>& digest) {
    into = digest.value_or(core::Digest{});
  }
  void sizes(std::uint64_t& begin, std::uint32_t& count, std::span<const std::int64_t> sizes) {
    begin = writer.place_of(sizes);
    count = static_cast<std::uint32_t>(sizes.size());
  }
};

template <typename Row, typename Object>
void JournalWriter::fill(Row& row, const Object& object) {
  ToRow f{*this};
  row_fields(f, row, object);
}

/// @param grows  by how much its number is lower than that of the next one
std::uint64_t JournalWriter::define(EntryKind kind,
                                    std::span<const std::byte> bytes,
                                    std::uint64_t grows) {
  // A trace that has others all the time, or long ones, must not fill our memory: a second number
  // does no harm.
  constexpr std::size_t kMostKnown = std::size_t{1} << 16U;
  constexpr std::size_t kLongestKnown = 4096;
  Definitions& known = definitions_.at(static_cast<std::size_t>(kind));
  const std::string_view name(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const auto found = known.numbers.find(name); found != known.numbers.end()) {
    return found->second;
  }
  definition_.begin(kind);
  definition_.put_bytes(bytes);
  log_.append(definition_.finish());
  if (known.numbers.size() >= kMostKnown) known.numbers.clear();
  if (name.size() <= kLongestKnown) known.numbers.emplace(name, known.next);
  return std::exchange(known.next, known.next + grows);
}

std::uint64_t JournalWriter::number_of(std::string_view text) {
  constexpr std::size_t kLongest = 256;  // what a model computes with may be long
  const auto bytes = std::as_bytes(std::span(text));
  if (text.empty()) return 0;
  if (recent_ == nullptr || text.size() > kLongest) return define(EntryKind::kText, bytes);
  if (next_text_ == recent_->texts.size()) recent_->texts.emplace_back();
  auto& [known, number] = recent_->texts[next_text_++];
  if (core::same_text(known, text)) return number;
  number = define(EntryKind::kText, bytes);
  known = text;
  return number;
}

std::uint64_t JournalWriter::place_of(std::span<const std::int64_t> sizes) {
  const auto bytes = std::as_bytes(sizes);
  if (sizes.empty()) return 0;
  if (recent_ == nullptr) return define(EntryKind::kSizes, bytes, sizes.size());
  if (next_sizes_ == recent_->sizes.size()) recent_->sizes.emplace_back();
  auto& [known, begin] = recent_->sizes[next_sizes_++];
  if (core::same_sizes(known, sizes)) return begin;
  begin = define(EntryKind::kSizes, bytes, sizes.size());
  known.assign(sizes.begin(), sizes.end());
  return begin;
}

std::uint32_t JournalWriter::define_object(const core::OperatorInfo& op) {
  return static_cast<std::uint32_t>(
      define(EntryKind::kOperator, bytes_of(row_of<OperatorRow>(op))));
}

std::uint32_t JournalWriter::define_object(const core::CallSite& site) {
  auto row = row_of<SiteRow>(site);
  row.frame_count = static_cast<std::uint32_t>(site.frames.size());
  std::vector<std::byte> bytes;
  const auto add_bytes = [&](std::span<const std::byte> more) {
    bytes.insert(bytes.end(), more.begin(), more.end());
  };
  add_bytes(bytes_of(row));
  for (const core::SourceFrame& frame : site.frames) add_bytes(bytes_of(row_of<FrameRow>(frame)));
  return static_cast<std::uint32_t>(define(EntryKind::kSite, bytes));
}

template <typename Object>
std::uint32_t JournalWriter::refer(const std::shared_ptr<const Object>& object) {
  if (object == nullptr) return kNoRow;
  const auto address = reinterpret_cast<std::uintptr_t>(object.get()) / alignof(std::max_align_t);
  auto& [recent, row] = recent_pins_[(address ^ (address >> 6U)) % recent_pins_.size()];
  if (recent == object.get()) return row;
  auto pinned = pins_.find(object.get());
  if (pinned == pins_.end()) {
    // A recorder that makes a new object for every call must not be kept alive by us without end.
    constexpr std::size_t kMostPins = 1U << 16U;
    if (pins_.size() >= kMostPins) {
      pins_.clear();
      recent_pins_.fill({});
    }
    recent_ = nullptr;
    pinned = pins_.emplace(object.get(), Pin{define_object(*object), object}).first;
  }
  recent = object.get();
  row = pinned->second.row;
  return row;
}

/// With its head and its OpRow.
void JournalWriter::begin_call(const core::OpHead& call) {
  call_size_ = 0;
  add_row<CallHead>().index = call.index;
  auto& row = add_row<OpRow>();
  fill(row, call);
  row.op = refer(call.op);
  row.site = refer(call.site);
  recent_ = &recents_[row.op % kRecent];
  next_text_ = 0;
  next_sizes_ = 0;
}

/// @return rows
std::uint32_t JournalWriter::add_value(const core::Value& value,
                                       std::uint32_t name,
                                       std::uint16_t level) {
  const auto* list = std::get_if<core::ValueList>(&value.data);
  if (list != nullptr && level == kMaxListDepth) {
    return add_value({core::Opaque{"list in more than 64 lists"}}, name, level);
  }
  auto& row = add_row<ValueRow>();
  fill(row, value);
  row.name = name;
  row.kind = static_cast<std::uint16_t>(value.data.index());
  row.level = level;
  std::uint32_t rows = 1;
  if (list == nullptr) return rows;
  row.integer = static_cast<std::int64_t>(list->items.size());
  for (const core::Value& item : list->items) {
    rows += add_value(item, kNoRow, static_cast<std::uint16_t>(level + 1));
  }
  return rows;
}

/// And their statistics, or counts.
void JournalWriter::add_tensors(const core::OpRecord& record) {
  std::uint32_t stats = 0;
  for (const core::TensorRecord& tensor : record.tensors) {
    auto& row = add_row<TensorRow>();
    fill(row, tensor);
    if (tensor.stats) row.stats = stats++;
    if (tensor.counted) row.flags = static_cast<std::uint8_t>(row.flags | kTensorCounted);
  }
  for (const core::TensorRecord& tensor : record.tensors) {
    if (tensor.stats) add_row<core::TensorStats>() = *tensor.stats;
  }
  call_head().stats = stats;
  for (std::size_t i = 0; i < record.tensors.size(); ++i) {
    const auto& counted = record.tensors[i].counted;
    if (!counted || !counted->any()) continue;
    add_row<NonFiniteRow>() = {i, *counted};
    ++call_head().non_finite;
  }
}

void JournalWriter::append(const core::OpRecord& record) {
  begin_call(record);
  std::uint32_t arguments = 0;
  for (const core::Argument& argument : record.arguments) {
    const auto name = static_cast<std::uint32_t>(number_of(argument.name));
    arguments += add_value(argument.value, name, 0);
  }
  std::uint32_t results = 0;
  for (const core::Value& result : record.results) results += add_value(result, kNoRow, 0);
  const std::size_t values = std::size_t{arguments} + results;
  if (values > kMostValues || record.tensors.size() > kMostTensors) {
    throw core::internal_error(
        fmt::format("op {} has {} values and {} tensors: more than a record takes",
                    record.index,
                    values,
                    record.tensors.size()));
  }
  add_tensors(record);
  for (const core::Substitution& change : record.substitutions) {
    fill(add_row<SubstitutionRow>(), change);
  }
  if (record.generator) fill(add_row<GeneratorRow>(), *record.generator);
  OpRow& row = op_row();
  row.wall_ns = record.wall_ns;
  row.argument_rows = arguments;
  row.result_rows = results;
  row.tensor_count = static_cast<std::uint32_t>(record.tensors.size());
  row.substitution_count = static_cast<std::uint32_t>(record.substitutions.size());
  if (record.generator) row.generator = 0;
  put_call(EntryKind::kRecord, recorded_);
  ++counts_.ops;
  counts_.returned += core::is_returned(record) ? 1U : 0U;
  counts_.values += values;
  counts_.tensors += record.tensors.size();
  counts_.stats += call_head().stats;
  counts_.non_finite += call_head().non_finite;
  counts_.substitutions += record.substitutions.size();
  counts_.generators += record.generator ? 1U : 0U;
}

void JournalWriter::enter(const core::OpHead& call) {
  begin_call(call);
  put_call(EntryKind::kEnter, entered_);
}

/// The words of the call that was put together.
void JournalWriter::put_call(EntryKind kind, std::array<Form, kRecent>& forms) {
  Form& form = forms[op_row().op % kRecent];
  const auto call = std::span<const std::byte>(call_).first(call_size_);
  const std::size_t words = call.size() / sizeof(Word);
  const std::size_t masks = mask_words(words);
  entry_.begin(kind);
  std::byte* to = entry_.room(sizeof(form.reference) + (masks + words) * sizeof(Word));
  auto* changes = reinterpret_cast<Word*>(to + sizeof(form.reference));
  std::fill_n(changes, masks, 0);
  std::size_t end = masks;
  bool has_form = form.words.size() == call.size();
  // Two words at once: most are as they were.
  for (std::size_t i = 0; has_form && i < words; i += 2) {
    using Words = std::array<Word, 2>;
    const auto now = core::word_at<Words>(&call[i * sizeof(Word)]);
    const auto before = core::word_at<Words>(&form.words[i * sizeof(Word)]);
    if (std::bit_cast<std::uint64_t>(now) == std::bit_cast<std::uint64_t>(before)) continue;
    for (std::size_t half = 0; half < now.size(); ++half) {
      if (now[half] == before[half]) continue;
      changes[(i + half) / kMaskBits] |= Word{1} << ((i + half) % kMaskBits);
      changes[end++] = now[half];
    }
  }
  const bool is_unlike = !has_form || end > words / 2;
  if (is_unlike && words <= kLargestForm && forms_ < kMostForms) {
    definition_.begin(EntryKind::kForm);
    definition_.put_bytes(call);
    log_.append(definition_.finish());
    form = {++forms_, {call.begin(), call.end()}};
    has_form = true;
    std::fill_n(changes, masks, 0);
    end = masks;
  }
  const std::uint64_t reference = has_form ? form.reference : kNoForm;
  std::memcpy(to, &reference, sizeof(reference));
  if (!has_form) std::memcpy(changes, call.data(), call.size());
  entry_.took(sizeof(reference) + (has_form ? end * sizeof(Word) : call.size()));
  put();
}

JournalWriter::JournalWriter(const std::filesystem::path& file) : log_(file) {
  definitions_[static_cast<std::size_t>(EntryKind::kText)].next = 1;  // 0 is the empty one
  log_.append(std::bit_cast<std::array<std::byte, sizeof(FileHeader)>>(FileHeader{}));
}

void JournalWriter::check_counts(const core::TraceSummary& trace) const {
  if (trace.operators == counts_.ops && trace.returned == counts_.returned &&
      trace.tensors == counts_.tensors) {
    return;
  }
  throw core::internal_error(
      fmt::format("the recorder counted {} operators, {} of them returned values, "
                  "and {} tensors, the journal {}, {} and {}",
                  trace.operators,
                  trace.returned,
                  trace.tensors,
                  counts_.ops,
                  counts_.returned,
                  counts_.tensors));
}

void JournalWriter::count_blocks(core::TraceSummary& trace) const {
  if (!trace.blocks && counts_.blocks + counts_.parameters > 0) {
    throw core::internal_error("blocks were recorded, and the manifest does not say how");
  }
  if (!trace.blocks) return;
  trace.blocks->rows = counts_.blocks;
  trace.blocks->parameters = counts_.parameters;
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
  if (bytes.size() > kLargestInline || bytes.size() != core::content_size(key)) {
    throw core::internal_error(
        fmt::format("content {} was handed {} bytes", core::content_name(key), bytes.size()));
  }
  put_content(key, ContentPlace::kInline, 0, bytes);
  ++counts_.inline_contents;
  counts_.inline_bytes += bytes.size();
}

void JournalWriter::content(const core::ContentKey& key, ContentPlace place, std::uint64_t offset) {
  put_content(key, place, offset, {});
}

void JournalWriter::put_content(const core::ContentKey& key,
                                ContentPlace place,
                                std::uint64_t offset,
                                std::span<const std::byte> bytes) {
  recent_ = nullptr;
  ContentEntry content{row_of<ContentRow>(key), offset, static_cast<std::uint64_t>(place)};
  content.row.bytes = core::content_size(key);
  entry_.begin(EntryKind::kContent);
  entry_.put_bytes(bytes_of(content));
  entry_.put_bytes(bytes);
  put();
}

void JournalWriter::refers(const core::TraceReference& dump) {
  entry_.begin(EntryKind::kReference);
  entry_.put_bytes(bytes_of(dump.index_digest));
  entry_.put_bytes(dump.run_name);
  put();
}

void JournalWriter::sliced(const SlicedContent& content) {
  recent_ = nullptr;
  auto row = row_of<SliceRow>(content.key);
  row.slice = content.slice.digest;
  row.elements = content.slice.elements;
  row.stride = content.slice.stride;
  put_row(EntryKind::kSlice, row);
}

void JournalWriter::block(const core::BlockRow& block) {
  recent_ = nullptr;
  auto row = row_of<BlockLine>(block);
  row.unopened = static_cast<std::uint16_t>(std::min<std::uint32_t>(block.unopened, UINT16_MAX));
  put_row(EntryKind::kBlock, row);
  ++counts_.blocks;
}

void JournalWriter::parameter(const core::ParameterRow& parameter) {
  recent_ = nullptr;
  put_row(EntryKind::kParameter, row_of<ParameterLine>(parameter));
  ++counts_.parameters;
}

void JournalWriter::roots(const core::RootNames& names) {
  std::string pairs;
  for (const auto& [until_now, name] : names) {
    pairs.append(until_now).append(1, '\0').append(name).append(1, '\0');
  }
  text(EntryKind::kRoots, pairs);
}

namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::size_t kPiece = std::size_t{1} << 20U;

}  // namespace

ContentsFile::ContentsFile(std::filesystem::path file) : path_(std::move(file)) {}

std::uint64_t ContentsFile::append(const core::ContentBytes& bytes) {
  const core::SizeSignalGuard guard;
  const bool is_new = !file_;
  if (is_new) file_.emplace(path_);
  const core::FileDescriptor opened =
      is_new ? file_->create("cannot create the file") : file_->open("cannot write");
  const std::uint64_t begin = (end_ + kPage - 1) / kPage * kPage;
  for (std::size_t done = 0; done < bytes.size(); done += piece_.size()) {
    piece_.resize(std::min(kPiece, bytes.size() - done));
    bytes.read(done, piece_);
    if (!file_->is_open_in(opened) || !core::write_all_at(opened.get(), begin + done, piece_)) {
      core::write_failed(path_, "cannot write", errno);
    }
  }
  end_ = begin + bytes.size();
  return begin;
}

void ContentsFile::sync() {
  if (file_) core::sync_path(path_);
}

namespace {

namespace fs = std::filesystem;

/// The directory, made where it is missing; a recording never goes on top of another.
const fs::path& prepared(const fs::path& directory) {
  std::error_code code;
  for (const char* name : {kJournalName, kContentsName, "trace.h5", "manifest.json"}) {
    if (!fs::exists(directory / name, code)) continue;
    const bool busy = is_being_written(directory / kJournalName);
    throw core::usage_error(
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
    throw core::internal_error("a recording that failed, or is finished, cannot be finished");
  }
  core::TraceSummary& trace = manifest.trace;
  journal_.check_counts(trace);
  trace.contents = known_.size();
  trace.stored_bytes = stored_bytes_;
  journal_.count_blocks(trace);
  // The last word is said when all that it speaks of has reached the disk.
  contents_.sync();
  core::sync_path(directory_ / kJournalName);
  journal_.finished(core::to_json_text(manifest));
  journal_.close();
  core::sync_path(directory_ / kJournalName);
  core::sync_path(directory_);
}

}  // namespace repro_check::journal
