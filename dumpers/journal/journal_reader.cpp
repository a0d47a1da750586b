// SPDX-License-Identifier: Apache-2.0
#include "dumpers/journal/journal_reader.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>
#include <utility>
#include <variant>

#include "core/error.h"
#include "core/tensor/content.h"
#include "core/text/text.h"

namespace repro_check::journal {

namespace {

constexpr std::size_t kReadAhead = std::size_t{1} << 20U;

core::Error unreadable(const std::string& path, int code) {
  return {
      core::ErrorKind::kIo,
      fmt::format("{}: cannot read the journal: {}", path, std::generic_category().message(code))};
}

}  // namespace

JournalReader::JournalReader(const std::filesystem::path& file)
    : path_(file.string()),
      file_(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a FIFO must not hang us
  struct stat status {};
  if (file_.get() < 0 || ::fstat(file_.get(), &status) != 0) throw unreadable(path_, errno);
  if (!S_ISREG(status.st_mode)) throw unreadable(path_, EINVAL);
  file_size_ = static_cast<std::uint64_t>(status.st_size);
  check_header();
  share_anew();
}

void JournalReader::share_anew() {
  constexpr std::uint64_t kMany = 4096;
  expect_shared(kMany, kMany);
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
    throw core::unknown_dump(fmt::format("{}: not a journal of repro-check", path_));
  }
  FileHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.version != kJournalVersion) {
    throw core::unknown_dump(
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
    if (!got) throw unreadable(path_, errno);
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

[[noreturn]] void nonsense(const std::string& what) { throw core::damaged_dump(what); }

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Of pairs that each have a null behind them.
core::RootNames root_names(std::string_view pairs) {
  core::RootNames names;
  const auto take = [&] {
    const std::size_t end = pairs.find('\0');
    if (end == std::string_view::npos) nonsense("holds no pairs of names");
    std::string name(pairs.substr(0, end));
    pairs.remove_prefix(end + 1);
    return name;
  };
  while (!pairs.empty()) {
    std::string until_now = take();
    names.insert_or_assign(std::move(until_now), take());
  }
  return names;
}

/// The row that the payload begins with, which is taken off.
template <typename Row>
Row take_row(std::span<const std::byte>& payload) {
  Row row;
  if (payload.size() < sizeof(row)) nonsense("is shorter than its content");
  std::memcpy(&row, payload.data(), sizeof(row));
  payload = payload.subspan(sizeof(row));
  return row;
}

/// A payload that is a row, and nothing else.
template <typename Row>
Row only_row(std::span<const std::byte> payload) {
  const auto row = take_row<Row>(payload);
  if (!payload.empty()) nonsense("is longer than its content");
  return row;
}

/// So many rows of the words of a call, which are taken off.
template <typename Row>
std::span<const Row> take_rows(std::span<const std::byte>& words, std::uint64_t count) {
  static_assert(sizeof(Row) % sizeof(std::uint64_t) == 0);
  if (count > words.size() / sizeof(Row)) nonsense("counts more than it holds");
  const std::span rows(reinterpret_cast<const Row*>(words.data()), count);
  words = words.subspan(rows.size_bytes());
  return rows;
}

/// Those that are whole.
std::vector<Word> words_of(std::span<const std::byte> payload) {
  std::vector<Word> words(payload.size() / sizeof(Word));
  if (!words.empty()) std::memcpy(words.data(), payload.data(), words.size() * sizeof(Word));
  return words;
}

}  // namespace

void JournalReader::define_text(std::string_view text) {
  const std::string named = core::with_root(std::string(text), roots_);
  tables_.text_bytes.insert(tables_.text_bytes.end(), named.begin(), named.end());
  tables_.text_offsets.push_back(tables_.text_bytes.size());
}

void JournalReader::name_roots(core::RootNames names) {
  roots_ = std::move(names);
  const auto bytes = std::exchange(tables_.text_bytes, {});
  const auto offsets = std::exchange(tables_.text_offsets, {0, 0});
  for (std::size_t number = 1; number + 1 < offsets.size(); ++number) {
    define_text({bytes.data() + offsets[number], bytes.data() + offsets[number + 1]});
  }
  share_anew();
}

void JournalReader::define_site(std::span<const std::byte> payload) {
  auto site = take_row<SiteRow>(payload);
  site.frames_begin = static_cast<std::uint32_t>(tables_.frames.size());
  if (payload.size() / sizeof(FrameRow) != site.frame_count) nonsense("holds other frames");
  for (std::uint32_t i = 0; i < site.frame_count; ++i) {
    tables_.frames.push_back(take_row<FrameRow>(payload));
  }
  if (!payload.empty()) nonsense("is longer than its content");
  tables_.sites.push_back(site);
}

std::set<std::string> JournalReader::source_files() const {
  std::set<std::uint32_t> numbers;
  for (const FrameRow& frame : tables_.frames) numbers.insert(frame.file);
  std::set<std::string> files;
  for (const std::uint32_t number : numbers) files.emplace(text(number));
  return files;
}

void JournalReader::define_form(std::span<const std::byte> payload) {
  std::vector<Word> words = words_of(payload);
  if (words.size() > kLargestForm) nonsense("defines a form that is too large to be shared");
  if (forms_.size() >= kMostForms) nonsense("defines more forms than are kept");
  forms_.push_back(std::move(words));
}

/// Puts the words of a call together.
void JournalReader::take_words(std::span<const std::byte> payload) {
  const auto number = take_row<std::uint64_t>(payload);
  std::vector<Word> form;
  if (number == kNoForm) {
    form = words_of(payload);
  } else {
    if (number > forms_.size()) nonsense("refers to what nobody has defined");
    form = forms_[number - 1];
    std::span<const std::byte> mask =
        payload.first(std::min(payload.size(), mask_words(form.size()) * sizeof(Word)));
    payload = payload.subspan(mask.size());
    for (std::size_t begin = 0; begin < form.size(); begin += kMaskBits) {
      for (auto bits = take_row<Word>(mask); bits != 0; bits &= bits - 1) {
        const std::size_t at = begin + static_cast<std::size_t>(std::countr_zero(bits));
        if (at >= form.size()) nonsense("changes a word that its form does not have");
        form[at] = take_row<Word>(payload);
      }
    }
    if (!payload.empty()) nonsense("is longer than its content");
  }
  word_count_ = form.size();
  words_.assign((form.size() + 1) / 2, 0);
  if (!form.empty()) std::memcpy(words_.data(), form.data(), form.size() * sizeof(Word));
}

/// Finds the rows in the words of a call.
void JournalReader::take_rows() {
  auto left = std::as_bytes(std::span(words_)).first(word_count_ * sizeof(Word));
  const auto head = take_row<CallHead>(left);
  rows_ = {head.index, take_row<OpRow>(left)};
  const OpRow& op = rows_.op;
  rows_.values =
      journal::take_rows<ValueRow>(left, std::uint64_t{op.argument_rows} + op.result_rows);
  rows_.tensors = journal::take_rows<TensorRow>(left, op.tensor_count);
  rows_.stats = journal::take_rows<core::TensorStats>(left, head.stats);
  rows_.non_finite = journal::take_rows<NonFiniteRow>(left, head.non_finite);
  rows_.substitutions = journal::take_rows<SubstitutionRow>(left, op.substitution_count);
  rows_.generators = journal::take_rows<GeneratorRow>(left, op.generator >= 0 ? 1 : 0);
  if (!left.empty()) nonsense("is longer than its content");
}

StoredContent JournalReader::stored_content(std::span<const std::byte> payload) const {
  const auto entry = take_row<ContentEntry>(payload);
  StoredContent content{
      content_key(entry.row, 0), {}, entry.offset, entry.row.bytes, payload, entry.row};
  if (entry.place > static_cast<std::uint64_t>(ContentPlace::kReference)) {
    nonsense("names no known place");
  }
  content.place = static_cast<ContentPlace>(entry.place);
  constexpr auto kEnd = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (content.offset > kEnd || content.size > kEnd - content.offset) {
    nonsense("keeps bytes where no file can have any");
  }
  if (content.place == ContentPlace::kReference && content.offset != 0) {
    nonsense("says where in another dump bytes are");
  }
  const bool is_inline = content.place == ContentPlace::kInline;
  if (payload.size() != (is_inline ? content.size : 0) || (is_inline && content.offset != 0)) {
    nonsense("holds other bytes than it says");
  }
  return content;
}

void JournalReader::fail(const TableLayout& table, const std::string& what) const {
  nonsense(fmt::format("({}) {}", table.name, what));
}

std::optional<Event> JournalReader::take(const Entry& entry) {
  std::span<const std::byte> payload = entry.payload;
  switch (entry.kind) {
    case EntryKind::kText:
      define_text(text_of(payload));
      return std::nullopt;
    case EntryKind::kSizes:
      while (!payload.empty()) tables_.dims.push_back(take_row<std::int64_t>(payload));
      return std::nullopt;
    case EntryKind::kOperator:
      tables_.operators.push_back(only_row<OperatorRow>(payload));
      return std::nullopt;
    case EntryKind::kSite:
      define_site(payload);
      return std::nullopt;
    case EntryKind::kForm:
      define_form(payload);
      return std::nullopt;
    case EntryKind::kEnter:
    case EntryKind::kRecord: {
      take_words(payload);
      take_rows();
      core::OpRecord record;
      read_record(rows_, true, record);
      if (entry.kind == EntryKind::kRecord) return record;
      return core::OpHead(record);
    }
    case EntryKind::kFail:
      return Failure{text_of(payload)};
    case EntryKind::kContent:
      return stored_content(payload);
    case EntryKind::kBegun:
      return Begun{text_of(payload)};
    case EntryKind::kSlice:
      return slice(only_row<SliceRow>(payload), 0);
    case EntryKind::kBlock: {
      const auto row = only_row<BlockLine>(payload);
      return Block{block(row), row};
    }
    case EntryKind::kParameter: {
      const auto row = only_row<ParameterLine>(payload);
      return Parameter{parameter(row), row};
    }
    case EntryKind::kReference: {
      const auto digest = take_row<core::Digest>(payload);
      return core::TraceReference{text_of(payload), digest};
    }
    case EntryKind::kRoots:
      if (roots_.empty()) name_roots(root_names(text_of(payload)));
      return std::nullopt;
    case EntryKind::kFinished:
      return Finished{text_of(payload)};
  }
  nonsense("is of a kind nobody knows");
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
    throw core::damaged_dump(fmt::format("{}: changed while it was read", path_));
  }
  return std::get<core::OpRecord>(std::move(*event));
}

namespace {

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

}  // namespace repro_check::journal
