// SPDX-License-Identifier: Apache-2.0
#include "baselines/baseline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/error.h"
#include "core/text/secrets.h"
#include "core/text/text.h"
#include "core/trace/record_names.h"

namespace repro_check::baselines {
namespace {

using core::digest_bytes;

constexpr std::size_t kLongestFile = std::size_t{64} << 20U;
constexpr const char* kMend = "take the file from version control again, or accept anew";
constexpr std::string_view kDigestPrefix = "xxh3:";
constexpr std::string_view kBaselineMagic = "repro-baseline ";
constexpr std::string_view kPendingMagic = "repro-pending 1\n";

// By value of the enumerations that they stand for.
constexpr std::string_view kKinds = "iwb";
constexpr std::string_view kPhases = "fgosdlrae";

/// Printable ASCII without spaces; other bytes and the backslash are `\x5c`, the empty text is `-`,
/// a lone dash `\x2d`.
/// @param inner_spaces  single ones inside stay as they are: for the last thing of a line
std::string escape(std::string_view text, bool inner_spaces = false) {
  if (text.empty()) return "-";
  if (text == "-") return "\\x2d";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_inner = i != 0 && i + 1 != text.size() && text[i - 1] != ' ';
    const bool is_plain = byte > 0x20 && byte < 0x7f && byte != '\\';
    if (is_plain || (byte == ' ' && inner_spaces && is_inner)) {
      out += text[i];
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  return out;
}

/// Empty where an escape is malformed.
std::optional<std::string> unescape(std::string_view word) {
  if (word == "-") return std::string();
  std::string out;
  while (!word.empty()) {
    if (word.front() != '\\') {
      out += word.front();
      word.remove_prefix(1);
      continue;
    }
    constexpr std::size_t kEscape = 4;
    constexpr int kHexadecimal = 16;
    unsigned byte = 0;
    if (word.size() < kEscape || word[1] != 'x') return std::nullopt;
    const char* end = word.data() + kEscape;
    const auto read = std::from_chars(word.data() + 2, end, byte, kHexadecimal);
    if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
    out += static_cast<char>(byte);
    word.remove_prefix(kEscape);
  }
  return out;
}

/// Decimal, without sign or leading zeros.
template <typename Number>
std::optional<Number> parse_count(std::string_view word) {
  const auto count = core::parse_number<Number>(word);
  if (!count || *count < 0 || (word.size() > 1 && word.front() == '0')) return std::nullopt;
  return count;
}

std::string digest_word(const core::Digest& digest) {
  return std::string(kDigestPrefix) + core::to_hex(digest);
}

std::optional<core::Digest> parse_digest_word(std::string_view word) {
  if (!word.starts_with(kDigestPrefix)) return std::nullopt;
  return core::parse_digest(word.substr(kDigestPrefix.size()));
}

std::string shape_text(core::Dtype dtype, const std::vector<std::int64_t>& shape) {
  return fmt::format("{}[{}]", core::dtype_name(dtype), fmt::join(shape, ","));
}

/// Writer and Reader are the two ends of each spelling, so that a line is described once.
class Writer {
 public:
  [[nodiscard]] std::string text() && { return std::move(text_); }

  void literal(std::string_view word) {
    if (!text_.empty() && text_.back() != '\n') text_ += ' ';
    text_ += word;
  }
  void end_line() { text_ += '\n'; }
  void check(bool /*holds*/, std::string_view /*what*/) const {}

  void name(const std::string& text) { literal(escape(text)); }
  void rest(const std::string& text) { literal(escape(text, true)); }
  void digest(const core::Digest& digest) { literal(digest_word(digest)); }
  void count(std::uint64_t number) { literal(std::to_string(number)); }
  void when(std::uint32_t step, std::uint32_t rank) {
    literal(rank == 0 ? std::to_string(step) : fmt::format("{}/{}", step, rank));
  }
  void border(const std::optional<core::Digest>& digest) {
    literal(digest ? core::to_hex(*digest) : "-");
  }
  void flag(bool value, std::string_view yes, std::string_view no) { literal(value ? yes : no); }
  template <typename Enum>
  void letter(std::string_view letters, Enum value) {
    literal(letters.substr(static_cast<std::size_t>(value), 1));
  }
  /// A tensor that is called `*` must not read as all of them.
  void tensor(const core::NamedTensor& tensor) {
    literal(tensor.name == "*" ? "\\x2a" : escape(tensor.name));
    literal(form_of(tensor) + ':' + core::to_hex(tensor.digest));
  }
  void op(const std::string& line) { literal(line); }
  void op(const core::OpRecord& record, const std::string& scalars);

  template <typename Items, typename Describe>
  void each(const Items& items, bool (*)(std::string_view), const Describe& describe) {
    for (const auto& item : items) {
      describe(*this, item);
      end_line();
    }
  }

 private:
  std::string text_;
};

class Reader {
 public:
  Reader(std::string_view text, const std::string& origin) : origin_(origin), rest_(text) {
    next_line();
  }

  [[noreturn]] void fail(std::string_view what) const {
    throw core::damaged_dump(
        fmt::format("{}: line {}: {}", core::printable(origin_), line_number_, what), kMend);
  }
  void check(bool holds, std::string_view what) const {
    if (!holds) fail(what);
  }
  template <typename T>
  [[nodiscard]] T need(std::optional<T> value, std::string_view what) const {
    if (!value) fail(fmt::format("expected {}", what));
    return *std::move(value);
  }

  /// The next word of the line; all that is left of it where that is asked for.
  std::string_view take(bool all = false) {
    if (!left_) fail("expected another word");
    const std::size_t space = all ? std::string_view::npos : left_->find(' ');
    const std::string_view word = left_->substr(0, space);
    left_ =
        space == std::string_view::npos ? std::nullopt : std::optional(left_->substr(space + 1));
    return word;
  }
  void end_line() {
    if (left_) fail("more words than were expected");
    next_line();
  }
  /// What follows the lines that were read.
  [[nodiscard]] std::string_view left() const {
    return left_ ? std::string_view(left_->data(), left_->size() + rest_.size() + 1) : rest_;
  }
  [[nodiscard]] bool is_at_end() const { return !left_; }

  void literal(std::string_view word) {
    if (take() != word) fail(fmt::format("expected \"{}\"", word));
  }
  void name(std::string& text) { text = need(unescape(take()), "a name"); }
  void rest(std::string& text) { text = need(unescape(take(true)), "a value"); }
  void digest(core::Digest& digest) { digest = need(parse_digest_word(take()), "a digest"); }
  template <typename Number>
  void count(Number& number) {
    number = need(parse_count<Number>(take()), "a number");
  }
  void when(std::uint32_t& step, std::uint32_t& rank) {
    const std::vector<std::string_view> words = core::split(take(), '/');
    check(words.size() < 3, "expected step/rank");
    step = need(parse_count<std::uint32_t>(words[0]), "a step");
    if (words.size() == 2) rank = need(parse_count<std::uint32_t>(words[1]), "a rank");
  }
  void border(std::optional<core::Digest>& digest) {
    const std::string_view word = take();
    if (word != "-") digest = need(core::parse_digest(word), "a digest");
  }
  void flag(bool& value, std::string_view yes, std::string_view no) {
    const std::string_view word = take();
    value = word == yes;
    if (!value && word != no) fail(fmt::format("expected \"{}\" or \"{}\"", yes, no));
  }
  template <typename Enum>
  void letter(std::string_view letters, Enum& value) {
    const std::string_view word = take();
    const std::size_t place = letters.find(word);
    if (word.size() != 1 || place == std::string_view::npos) fail("a line of no known kind");
    value = static_cast<Enum>(place);
  }
  void tensor(core::NamedTensor& tensor) {
    name(tensor.name);
    core::TensorRecord read = form(take());
    if (read.state != core::ContentState::kHashed) fail("expected a digest");
    tensor.dtype = read.dtype;
    tensor.shape = std::move(read.shape);
    tensor.digest = read.digest;
  }
  void op(std::string& line) {
    line = *left_;
    const AcceptedOp read = op();
    check(to_line(read.record, read.scalars) == line, "not as repro-check writes it");
  }
  AcceptedOp op();

  template <typename Items, typename Describe>
  void each(Items& items, bool (*is_next)(std::string_view), const Describe& describe) {
    while (left_ && is_next(*left_)) {
      describe(*this, items.emplace_back());
      end_line();
    }
  }

 private:
  void next_line() {
    left_.reset();
    if (rest_.empty()) return;
    const std::size_t end = rest_.find('\n');
    left_ = rest_.substr(0, end);
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    ++line_number_;
  }
  [[nodiscard]] core::TensorRecord form(std::string_view word) const;

  const std::string& origin_;
  std::string_view rest_;                 ///< lines that were not begun
  std::optional<std::string_view> left_;  ///< of the line
  std::size_t line_number_ = 0;
};

core::TensorRecord Reader::form(std::string_view word) const {
  const std::size_t open = word.find('[');
  const std::size_t close = word.find("]:", open);
  if (open == std::string_view::npos || close == std::string_view::npos) {
    fail("expected a tensor, such as float32[2,3]:<digest>");
  }
  core::TensorRecord tensor;
  tensor.role = core::TensorRole::kOutput;
  const std::string_view dtype = word.substr(0, open);
  const auto known = core::parse_dtype(dtype);
  if (!known && dtype != core::dtype_name(core::Dtype::kUnknown)) fail("unknown dtype");
  tensor.dtype = known.value_or(core::Dtype::kUnknown);
  if (const auto sizes = word.substr(open + 1, close - open - 1); !sizes.empty()) {
    for (const std::string_view size : core::split(sizes, ',')) {
      tensor.shape.push_back(need(parse_count<std::int64_t>(size), "a size"));
    }
  }
  const std::string_view content = word.substr(close + 2);
  if (const auto digest = core::parse_digest(content)) {
    tensor.state = core::ContentState::kHashed;
    tensor.digest = *digest;
    return tensor;
  }
  using enum core::ContentState;
  for (const core::ContentState state :
       {kUninitialised, kNone, kUndefined, kComposite, kExcluded}) {
    if (core::content_state_name(state) != content) continue;
    tensor.state = state;
    return tensor;
  }
  fail("expected a digest or a state");
}

void Writer::op(const core::OpRecord& record, const std::string& scalars) {
  letter(kPhases, record.phase);
  name(record.op == nullptr ? std::string() : record.op->full_name());
  name(record.site == nullptr ? std::string() : record.site->module_path);
  const bool is_main = record.rank == 0 && record.lane == 0 && record.depth == 0;
  literal(is_main
              ? std::to_string(record.step)
              : fmt::format("{}/{}/{}/{}", record.step, record.rank, record.lane, record.depth));
  std::size_t number = 0;
  for (const core::TensorRecord& tensor : record.tensors) {
    if (tensor.role != core::TensorRole::kOutput) continue;
    const bool is_plain = tensor.slot == std::to_string(number++);
    const bool is_hashed = tensor.state == core::ContentState::kHashed;
    literal((is_plain ? "" : escape(tensor.slot) + '=') + shape_text(tensor.dtype, tensor.shape) +
            ':' +
            (is_hashed ? core::to_hex(tensor.digest)
                       : std::string(core::content_state_name(tensor.state))));
  }
  if (!scalars.empty()) literal('=' + escape(scalars));
}

AcceptedOp Reader::op() {
  AcceptedOp op;
  core::OpRecord& record = op.record;
  letter(kPhases, record.phase);
  auto info = std::make_shared<core::OperatorInfo>();
  name(info->name);
  const std::size_t space = info->name.rfind("::");
  const std::size_t dot = info->name.find('.', space == std::string::npos ? 0 : space + 2);
  if (dot < info->name.size() - 1) {
    info->overload = info->name.substr(dot + 1);
    info->name.resize(dot);
  }
  record.op = std::move(info);
  auto site = std::make_shared<core::CallSite>();
  name(site->module_path);
  record.site = std::move(site);
  const std::vector<std::string_view> place = core::split(take(), '/');
  if (place.size() != 1 && place.size() != 4) fail("expected step/rank/lane/depth");
  const std::array<std::uint32_t*, 4> into{&record.step, &record.rank, &record.lane, &record.depth};
  for (std::size_t i = 0; i < place.size(); ++i) {
    *into.at(i) = need(parse_count<std::uint32_t>(place[i]), "a number");
  }
  while (left_) {
    const std::string_view word = take();
    if (word.starts_with('=')) {
      if (left_) fail("something follows the scalars");
      op.scalars = need(unescape(word.substr(1)), "scalars");
      break;
    }
    // The form has none, and a slot may: `out[a=b]`.
    const std::size_t equals = word.rfind('=');
    core::TensorRecord& tensor = record.tensors.emplace_back(
        form(equals == std::string_view::npos ? word : word.substr(equals + 1)));
    tensor.slot = equals == std::string_view::npos
                      ? std::to_string(record.tensors.size() - 1)
                      : need(unescape(word.substr(0, equals)), "a slot");
  }
  return op;
}

template <char... kLetters>
bool is_of(std::string_view line) {
  return ((line.starts_with(kLetters) && line.substr(1).starts_with(' ')) || ...);
}

bool is_of_phase(std::string_view line) {
  return !line.empty() && kPhases.find(line.front()) != std::string_view::npos &&
         line.substr(1).starts_with(' ');
}

bool is_fold_of_tensors(std::string_view line) { return line.substr(1).starts_with(" * "); }

template <typename Io, typename Call>
void describe_call(Io& io, Call& call) {
  io.literal("k");
  io.letter(kPhases, call.row.phase);
  io.name(call.row.path);
  io.when(call.row.step, call.rank);
  io.count(call.row.call);
  io.border(call.row.in);
  io.border(call.row.out);
}

template <typename Io, typename Update>
void describe_update(Io& io, Update& update) {
  io.literal("u");
  io.name(update.row.name);
  io.when(update.row.step, update.rank);
  io.border(update.row.digest);
}

/// What a recording of blocks has below its records.
/// @param records  their number
template <typename Io, typename Blocks>
void describe_blocks(Io& io, Blocks& blocks, std::uint64_t records) {
  io.each(blocks.calls, is_of<'k'>, [](auto& end, auto& call) { describe_call(end, call); });
  io.each(blocks.parameters, is_of<'u'>, [](auto& end, auto& of) { describe_update(end, of); });
  std::uint64_t left = records + blocks.call_count + blocks.parameter_count;
  io.each(blocks.folded, is_of<'t'>, [&](auto& end, auto& steps) {
    end.literal("t");
    end.when(steps.first, steps.rank);
    end.count(steps.width);
    end.count(steps.lines);
    end.digest(steps.digest);
    const std::uint64_t width = blocks.folded.front().width;
    end.check(width != 0 && steps.width == width && steps.first % width == 0,
              "not as many steps as in the others");
    end.check(steps.lines <= left, "more lines than are claimed");
    left -= steps.lines;
  });
  if (blocks.folded.empty()) {
    io.check(blocks.calls.size() == blocks.call_count &&
                 blocks.parameters.size() == blocks.parameter_count,
             "the calls of blocks are not as many as are claimed");
  } else {
    io.check(left == 0 && blocks.calls.empty() && blocks.parameters.empty(),
             "the steps hold other lines than are claimed");
  }
}

/// The first two lines.
template <typename Io, typename File>
void describe_head(Io& io, File& baseline) {
  std::uint64_t version = baseline.blocks ? kBaselineVersion : 1;
  io.literal("repro-baseline");
  io.count(version);
  io.end_line();
  if constexpr (!std::is_const_v<File>) {
    if (version == kBaselineVersion) baseline.blocks.emplace();
  }
  io.literal("gate");
  io.name(baseline.gate);
  io.literal("model");
  io.digest(baseline.model);
  io.literal("config");
  io.digest(baseline.config);
  io.literal("policy");
  io.name(baseline.policy);
  io.literal("ops");
  io.count(baseline.operators);
  if (baseline.blocks) {
    io.literal("blocks");
    io.count(baseline.blocks->blocks);
    io.literal("calls");
    io.count(baseline.blocks->call_count);
    io.literal("parameters");
    io.count(baseline.blocks->parameter_count);
  }
  io.end_line();
}

/// All lines but the last. `File` is const for the writer.
template <typename Io, typename File>
void describe(Io& io, File& baseline) {
  describe_head(io, baseline);
  core::Digest key = baseline.platform.key();
  io.literal("platform");
  io.digest(key);
  io.end_line();
  const auto fact = [](const char* letter) {
    return [letter](auto& end, auto& item) {
      end.literal(letter);
      end.name(item.name);
      end.rest(item.value);
    };
  };
  io.each(baseline.platform.fields, is_of<'p'>, fact("p"));
  io.check(key == baseline.platform.key(), "the platform does not give its key");
  io.each(baseline.facts, is_of<'c'>, fact("c"));
  io.literal("root");
  io.digest(baseline.root);
  io.end_line();
  const auto is_tensor = [](std::string_view line) {
    return is_of<'i', 'w', 'b'>(line) && !is_fold_of_tensors(line);
  };
  io.each(baseline.tensors, is_tensor, [](auto& end, auto& tensor) {
    end.letter(kKinds, tensor.kind);
    end.tensor(tensor);
  });
  io.each(baseline.folded, is_of<'i', 'w', 'b'>, [](auto& end, auto& all) {
    end.letter(kKinds, all.kind);
    end.literal("*");
    end.count(all.count);
    end.digest(all.digest);
  });
  io.each(baseline.ops, is_of_phase, [](auto& end, auto& line) { end.op(line); });
  std::uint64_t operators = baseline.ops.size();
  io.each(baseline.modules, is_of<'m'>, [&](auto& end, auto& module) {
    end.literal("m");
    end.name(module.path);
    end.count(module.operators);
    end.digest(module.digest);
    end.check(module.operators <= std::numeric_limits<std::uint64_t>::max() - operators,
              "more operators than can be");
    operators += module.operators;
  });
  if (baseline.blocks) {
    io.check(baseline.modules.empty(), "blocks have no lines of modules");
    describe_blocks(io, *baseline.blocks, baseline.operators);
  }
  const bool is_by_step = baseline.blocks && !baseline.blocks->folded.empty();
  io.check(operators == (is_by_step ? 0 : baseline.operators),
           "the operators are not as many as are claimed");
}

/// Of a pending file what stands before the baseline.
template <typename Io, typename File>
void describe_runs(Io& io, File& pending) {
  io.literal("runs");
  io.flag(pending.agreed, "agreed", "disagreed");
  io.count(pending.runs);
  io.end_line();
  const auto file = [](auto& end, const char* name, auto& loaded) {
    end.literal(name);
    end.digest(loaded.digest);
    end.rest(loaded.path);
  };
  file(io, "model", pending.model);
  io.end_line();
  const auto is_weights = [](std::string_view line) { return line.starts_with("weights "); };
  auto weights = pending.weights ? std::vector{*pending.weights} : std::vector<LoadedFile>();
  io.each(weights, is_weights, [&](auto& end, auto& loaded) { file(end, "weights", loaded); });
  if constexpr (!std::is_const_v<File>) {
    if (!weights.empty()) pending.weights = std::move(weights.back());
  }
}

// The checksum comes first: what a hand or a merge changed is told as that, wherever it is.
void check_frame(std::string_view text, const std::string& origin) {
  const std::string name = core::printable(origin);
  if (!text.starts_with(kBaselineMagic)) {
    throw core::unknown_dump(name + ": not a baseline of repro-check");
  }
  const auto version = parse_count<std::uint64_t>(
      text.substr(kBaselineMagic.size(), text.find_first_of("\r\n") - kBaselineMagic.size()));
  if (version && *version > kBaselineVersion) {
    throw core::unknown_dump(
        fmt::format("{}: version {}; this tool reads up to {}", name, *version, kBaselineVersion),
        "use the repro-check that wrote it, or a newer one");
  }
  const auto bad = [&](std::string_view what) {
    return core::damaged_dump(fmt::format("{}: {}", name, what), kMend);
  };
  if (text.size() > kLongestFile) throw bad("longer than any baseline");
  if (text.find('\r') != std::string_view::npos) {
    throw bad("has CR LF line ends; add `*.repro text eol=lf -merge` to .gitattributes");
  }
  if (text.find("\n<<<<<<< ") != std::string_view::npos) throw bad("holds a merge conflict");
  const std::size_t end = text.rfind("\nend ");
  if (!text.ends_with('\n') || end == std::string_view::npos) throw bad("cut short");
  const auto words = core::split(text.substr(end + 1, text.size() - end - 2), ' ');
  if (words.size() != 3 || parse_digest_word(words[2]) != digest_bytes(text.substr(0, end + 1))) {
    throw bad("does not match its checksum: edited by hand, or merged badly");
  }
}

}  // namespace

core::Digest Platform::key() const {
  Writer writer;
  for (const Fact& field : fields) {
    writer.name(field.name);
    writer.rest(field.value);
    writer.end_line();
  }
  return digest_bytes(std::move(writer).text());
}

std::string short_key(const core::Digest& key) {
  constexpr std::size_t kShortKey = 12;
  return core::to_hex(key).substr(0, kShortKey);
}

std::string file_name(const Baseline& baseline) {
  return fmt::format("{}-{}{}", baseline.gate, short_key(baseline.platform.key()), kBaselineSuffix);
}

std::string form_of(const core::NamedTensor& tensor) {
  return shape_text(tensor.dtype, tensor.shape);
}

std::string to_line(const core::OpRecord& record, const std::string& scalars) {
  Writer writer;
  writer.op(record, scalars);
  return std::move(writer).text();
}

std::string to_line(const core::NamedTensor& tensor) {
  Writer writer;
  writer.letter(kKinds, tensor.kind);
  writer.tensor(tensor);
  return std::move(writer).text();
}

AcceptedOp op_of(std::string_view line) { return Reader(line, "").op(); }

std::string to_text(const Baseline& baseline) {
  Writer writer;
  describe(writer, baseline);
  const std::string text = std::move(writer).text();
  return text + fmt::format("end {} {}\n", baseline.operators, digest_word(digest_bytes(text)));
}

std::string to_text(const Pending& pending) {
  Writer writer;
  describe_runs(writer, pending);
  const std::string text =
      std::string(kPendingMagic) + std::move(writer).text() + to_text(pending.baseline);
  return text + fmt::format("pending {}\n", digest_word(digest_bytes(text)));
}

Baseline baseline_from_text(std::string_view text, const std::string& origin) {
  check_frame(text, origin);
  Reader reader(text.substr(0, text.rfind("\nend ") + 1), origin);
  Baseline baseline;
  describe(reader, baseline);
  if (!reader.is_at_end()) reader.fail("a line of no known kind");
  if (to_text(baseline) != text) reader.fail("not as repro-check writes it");
  return baseline;
}

Pending pending_from_text(std::string_view text, const std::string& origin) {
  const std::string name = core::printable(origin);
  if (!text.starts_with("repro-pending ")) {
    throw core::unknown_dump(name + ": not a pending baseline of repro-check",
                             "give a file NAME-KEY.repro.new that the gate has written");
  }
  if (!text.starts_with(kPendingMagic)) {
    throw core::unknown_dump(name + ": a version this tool does not read");
  }
  const std::size_t end = text.rfind("\npending ");
  const std::string_view whole = text.substr(0, end == std::string_view::npos ? 0 : end + 1);
  if (text.substr(whole.size()) != fmt::format("pending {}\n", digest_word(digest_bytes(whole)))) {
    throw core::damaged_dump(name + ": changed or cut short since the gate wrote it",
                             "run the gate again");
  }
  Reader reader(whole.substr(kPendingMagic.size()), origin);
  Pending pending;
  describe_runs(reader, pending);
  pending.baseline = baseline_from_text(reader.left(), origin);
  if (to_text(pending) != text) reader.fail("not as repro-check writes it");
  return pending;
}

namespace {

// Sorted keys: the order in which a configuration was resolved is nobody's business.
using Json = nlohmann::json;

constexpr std::string_view kUnknown = "unknown";

// Not the name of the CPU: machines of one name compute differently, and of two names alike.
constexpr std::string_view kFacts =
    "os.machine cpu.capability libtorch.version compiler blas mkl onednn cuda cudnn";
constexpr std::string_view kOnnxFacts =
    "onnxruntime.version onnxruntime.provider onnx.version onnx.engine";
constexpr std::string_view kFrameworkFacts = "framework jax.version jaxlib.version cpu.model";
constexpr std::string_view kProbes =
    "probe.convolution probe.matmul probe.softmax probe.exp probe.sum";

std::string threads_of(const core::RunManifest& manifest) {
  const std::string* found = core::used_setting(manifest, "threads.intra_op");
  return found == nullptr ? std::string(kUnknown) : *found;
}

std::string value_of(const Platform& platform, std::string_view name) {
  const auto found = std::ranges::find(platform.fields, name, &Fact::name);
  return found == platform.fields.end() ? std::string(kUnknown) : found->value;
}

bool is_tensors_only(const core::Value& value) {
  if (std::holds_alternative<core::TensorSlot>(value.data)) return true;
  const auto* list = std::get_if<core::ValueList>(&value.data);
  return list != nullptr && std::ranges::all_of(list->items, is_tensors_only);
}

// Contents of inputs have lines of their own: where they come from does not matter.
void forget_sources(Json& value) {
  if (value.is_array()) {
    for (Json& item : value) forget_sources(item);
    return;
  }
  if (!value.is_object()) return;
  for (const char* kind : {"generate", "npy", "torch", "hdf5"}) {
    if (!value.contains(kind)) continue;
    Json tensor = Json::object();
    if (value.contains("name")) tensor["name"] = value["name"];
    tensor["kind"] = "tensor";
    value = std::move(tensor);
    return;
  }
  for (auto& [key, member] : value.items()) forget_sources(member);
}

std::string json_text(const Json& value) {
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);
}

/// True for the values that a baseline keeps: the settings that this program knows, and numbers.
/// Other text may be anything.
bool keeps_value(std::string_view pointer, const Json& value) {
  constexpr std::string_view kVariables = "/env/";
  if (value.is_null()) return true;
  if (pointer.starts_with(kVariables)) {
    const std::vector<std::string_view> known = core::known_variables();
    return std::ranges::find(known, pointer.substr(kVariables.size())) != known.end();
  }
  if (pointer.starts_with("/program/")) return false;
  const bool is_free_text = pointer.starts_with("/calls/") && value.is_string();
  return !is_free_text || pointer.ends_with("/name") || pointer.ends_with("/kind");
}

/// The words of a command among facts, in their order.
std::map<std::size_t, Fact*> words_of(std::string_view command, std::vector<Fact>& facts) {
  std::map<std::size_t, Fact*> words;
  for (Fact& fact : facts) {
    const std::string_view name = fact.name;
    if (!name.starts_with(command)) continue;
    const auto place = core::parse_number<std::size_t>(name.substr(command.size()));
    if (place) words[*place] = &fact;
  }
  return words;
}

std::vector<Fact> names_alone(std::vector<Fact> facts) {
  std::map<Fact*, std::string> kept;
  for (const std::string_view command : {"/program/command/", "/program/resume/"}) {
    const std::map<std::size_t, Fact*> words = words_of(command, facts);
    std::vector<std::string> texts;
    for (const auto& [place, fact] : words) {
      const Json word = Json::parse(fact->value, nullptr, false);
      texts.push_back(word.is_string() ? word.get<std::string>() : std::string());
    }
    std::vector<std::string> names = core::names_alone(texts);
    auto name = names.begin();
    for (const auto& [place, fact] : words) kept[fact] = std::move(*name++);
  }
  for (Fact& fact : facts) {
    const Json value = Json::parse(fact.value, nullptr, false);
    const auto name = kept.find(&fact);
    if (name != kept.end())
      fact.value = json_text(name->second);
    else if (!keeps_value(fact.name, value))
      fact.value = json_text(core::kHidden);
  }
  return facts;
}

// What of a resolved run numbers can depend on: not where things lie, nor how much is stored.
std::vector<Fact> facts_of(const std::string& configuration) {
  Json run = Json::parse(configuration, nullptr, false);
  if (!run.is_object()) return {};
  run.erase("name");
  run.erase("recorder");
  run.erase("extensions");
  if (run.contains("model") && run["model"].is_object()) {
    // Which numbers the weights are is looked at beside this.
    for (const char* key : {"path", "weights_from", "weights"}) run["model"].erase(key);
  }
  if (run.contains("calls")) forget_sources(run["calls"]);
  Json dump = run.value("dump", Json());
  run.erase("dump");
  // The last two are of blocks alone.
  for (const char* key : {"depth", "include", "exclude", "blocks", "every"}) {
    if (dump.is_object() && dump.contains(key)) run["dump"][key] = dump[key];
  }
  std::vector<Fact> facts;
  const Json flat = run.flatten();
  for (const auto& [pointer, value] : flat.items()) facts.push_back({pointer, json_text(value)});
  return names_alone(std::move(facts));
}

core::Digest digest_of_facts(const std::vector<Fact>& facts) {
  std::string text;
  for (const Fact& fact : facts) text += fact.name + '=' + fact.value + '\n';
  return digest_bytes(text);
}

// What the model is, without the numbers in it: those may be what went wrong.
core::Digest model_digest(const core::RunManifest& manifest) {
  std::string text = manifest.model_method + '\n';
  for (core::NamedTensor tensor : manifest.named_tensors) {
    if (tensor.kind == core::NamedTensorKind::kInput) continue;
    tensor.digest = {};
    text += to_line(tensor) + '\n';
  }
  return digest_bytes(text);
}

bool is_returned_line(const std::string& line) { return core::is_returned(op_of(line).record); }

std::vector<std::string> operator_lines(const Baseline& baseline) {
  std::vector<std::string> lines = baseline.ops;
  std::erase_if(lines, is_returned_line);
  return lines;
}

void fold_tensors(Baseline& baseline) {
  using enum core::NamedTensorKind;
  for (const core::NamedTensorKind kind : {kInput, kParameter, kBuffer}) {
    const auto is_kind = [&](const core::NamedTensor& tensor) { return tensor.kind == kind; };
    const auto count = std::ranges::count_if(baseline.tensors, is_kind);
    if (std::cmp_less_equal(count, kMostLines)) continue;
    std::string text;
    for (const core::NamedTensor& tensor : baseline.tensors) {
      if (is_kind(tensor)) text += to_line(tensor) + '\n';
    }
    std::erase_if(baseline.tensors, is_kind);
    baseline.folded.push_back({kind, static_cast<std::uint64_t>(count), digest_bytes(text)});
  }
}

using Named = std::map<std::string, std::string>;

constexpr const char* kNone = "none";

void add_differences(const Named& accepted,
                     const Named& now,
                     const std::string& prefix,
                     std::vector<Change>& changes) {
  for (const auto& [name, value] : accepted) {
    const auto found = now.find(name);
    if (found == now.end()) {
      changes.push_back({prefix + name, value, kNone});
    } else if (found->second != value) {
      changes.push_back({prefix + name, value, found->second});
    }
  }
  for (const auto& [name, value] : now) {
    if (!accepted.contains(name)) changes.push_back({prefix + name, kNone, value});
  }
}

Named named_facts(const Baseline& baseline) {
  Named named;
  // Names alone of an older baseline as well.
  for (const Fact& fact : names_alone(baseline.facts)) named.emplace(fact.name, fact.value);
  return named;
}

constexpr auto kIsInput = [](const auto& tensors) {
  return tensors.kind == core::NamedTensorKind::kInput;
};

/// What the tensors of a kind hold.
Named contents_of(const Baseline& baseline, core::NamedTensorKind kind) {
  Named named;
  for (const core::NamedTensor& tensor : baseline.tensors) {
    if (tensor.kind != kind) continue;
    named.emplace(tensor.name, form_of(tensor) + ':' + core::to_hex(tensor.digest));
  }
  for (const AcceptedTensors& all : baseline.folded) {
    if (all.kind != kind) continue;
    named.emplace("(all of them)", fmt::format("{} {}", all.count, core::to_hex(all.digest)));
  }
  return named;
}

void add_contents(const Baseline& accepted,
                  const Baseline& now,
                  core::NamedTensorKind kind,
                  const std::string& prefix,
                  std::vector<Change>& changes) {
  add_differences(contents_of(accepted, kind), contents_of(now, kind), prefix, changes);
}

// Shapes alone: what a model owns, whatever the numbers are.
Named weights_of(const Baseline& baseline) {
  Named named;
  for (const core::NamedTensor& tensor : baseline.tensors) {
    if (!kIsInput(tensor)) named.emplace(tensor.name, form_of(tensor));
  }
  return named;
}

Named named_modules(const Baseline& baseline) {
  Named named;
  for (const AcceptedModule& module : baseline.modules) {
    named.emplace(module.path, core::to_hex(module.digest));
  }
  return named;
}

std::string module_changes(const Baseline& accepted, const Baseline& now) {
  std::vector<Change> changes;
  add_differences(named_modules(accepted), named_modules(now), "", changes);
  return fmt::format("{} of {} modules change, first {}",
                     changes.size(),
                     std::max(accepted.modules.size(), now.modules.size()),
                     changes.empty() ? "none" : changes.front().name);
}

std::string place_text(const std::string& line) {
  const core::OpRecord op = op_of(line).record;
  const std::string& module = op.site->module_path;
  return module.empty() ? op.op->full_name() : fmt::format("{} ({})", op.op->full_name(), module);
}

}  // namespace

std::optional<Platform> platform_of(const core::RunManifest& manifest) {
  Platform platform;
  for (const std::string_view name : core::split(kFacts, ' ')) {
    const std::string* value = core::environment_fact(manifest, name);
    platform.fields.push_back(
        {std::string(name), value != nullptr ? *value : std::string(kUnknown)});
  }
  // Of ONNX models; those of PyTorch have keys that say nothing of it.
  for (const std::string_view name : core::split(kOnnxFacts, ' ')) {
    const std::string* value = core::environment_fact(manifest, name);
    if (value != nullptr) platform.fields.push_back({std::string(name), *value});
  }
  platform.fields.push_back({"device", manifest.device});
  platform.fields.push_back({"threads", threads_of(manifest)});
  // Nothing of another framework is run to see what it computes: its releases and the processor
  // stand for that.
  if (core::environment_fact(manifest, core::kFramework) != nullptr) {
    for (const std::string_view name : core::split(kFrameworkFacts, ' ')) {
      platform.fields.push_back(
          {std::string(name), core::text_or_empty(core::environment_fact(manifest, name))});
    }
    return platform;
  }
  for (const std::string_view name : core::split(kProbes, ' ')) {
    const std::string* value = core::environment_fact(manifest, name);
    if (value == nullptr) return std::nullopt;
    platform.fields.push_back({std::string(name), *value});
  }
  return platform;
}

std::string describe(const Platform& platform) {
  const std::string onnx = value_of(platform, "onnxruntime.version");
  const std::string jax = value_of(platform, "jax.version");
  if (jax != kUnknown) {
    return fmt::format(
        "{} jax-{} {}", value_of(platform, "os.machine"), jax, value_of(platform, "device"));
  }
  return fmt::format("{} {} {} {} threads-{}",
                     value_of(platform, "os.machine"),
                     value_of(platform, "cpu.capability"),
                     onnx == kUnknown ? "libtorch-" + value_of(platform, "libtorch.version")
                                      : "onnxruntime-" + onnx,
                     value_of(platform, "device"),
                     value_of(platform, "threads"));
}

std::string scalars_of(const core::OpRecord& record) {
  constexpr std::size_t kLongest = 64;
  if (std::ranges::all_of(record.results, is_tensors_only)) return {};
  std::string text;
  const bool has_paths =
      core::is_returned(record) && record.arguments.size() == record.results.size();
  for (std::size_t i = 0; i < record.results.size(); ++i) {
    if (!text.empty()) text += ' ';
    if (has_paths) text += record.arguments[i].name + '=';
    text += core::to_text(record.results[i]);
  }
  return text.size() <= kLongest ? text : "xxh3:" + core::to_hex(digest_bytes(text));
}

std::string to_line(const core::OpRecord& record) { return to_line(record, scalars_of(record)); }

Baseline summarise(const core::DumpSource& dump,
                   const Platform& platform,
                   const std::string& gate,
                   const std::string& policy) {
  const core::RunManifest& manifest = dump.manifest();
  Baseline baseline;
  baseline.gate = gate;
  baseline.model = model_digest(manifest);
  baseline.facts = facts_of(manifest.configuration);
  baseline.config = digest_of_facts(baseline.facts);
  baseline.policy = policy;
  baseline.operators = dump.op_count();
  baseline.platform = platform;
  baseline.root = manifest.trace.index_digest;
  baseline.tensors = manifest.named_tensors;
  std::ranges::stable_sort(baseline.tensors, {}, &core::NamedTensor::kind);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::string>> lanes;
  for (std::uint64_t i = 0; i < baseline.operators; ++i) {
    const core::OpRecord record = dump.op(i);
    lanes[{record.rank, record.lane}].push_back(to_line(record));
  }
  baseline.ops.reserve(baseline.operators);
  for (auto& [place, lines] : lanes) {
    if (core::is_unordered(place.second)) std::ranges::sort(lines);
    std::ranges::move(lines, std::back_inserter(baseline.ops));
  }
  if (manifest.is_of_blocks()) baseline.blocks = blocks_in(dump);
  return baseline;
}

namespace {

/// Of the modules of other ranks than the one that leads: `rank-1/encoder`.
constexpr std::string_view kRankPrefix = "rank-";

std::uint32_t rank_of_module(std::string_view path) {
  if (!path.starts_with(kRankPrefix)) return 0;
  const std::string_view digits = path.substr(kRankPrefix.size());
  return core::parse_number<std::uint32_t>(digits.substr(0, digits.find('/'))).value_or(0);
}

std::string at_rank(const std::string& line, std::uint32_t rank) {
  AcceptedOp op = op_of(line);
  op.record.rank = rank;
  return to_line(op.record, op.scalars);
}

}  // namespace

Baseline with_rank(Baseline baseline, const Baseline& other, std::uint32_t rank) {
  for (const std::string& line : other.ops) baseline.ops.push_back(at_rank(line, rank));
  baseline.operators += other.operators;
  if (!baseline.blocks || !other.blocks) return baseline;
  const auto add = [rank](auto items, auto& to) {
    for (auto& item : items) {
      item.rank = rank;
      to.push_back(std::move(item));
    }
  };
  add(other.blocks->calls, baseline.blocks->calls);
  add(other.blocks->parameters, baseline.blocks->parameters);
  count_anew(*baseline.blocks);
  return baseline;
}

std::vector<std::uint32_t> ranks_in(const Baseline& baseline) {
  std::set<std::uint32_t> ranks;
  for (const std::string& line : baseline.ops) ranks.insert(op_of(line).record.rank);
  for (const AcceptedModule& module : baseline.modules) ranks.insert(rank_of_module(module.path));
  if (baseline.blocks) {
    for (const AcceptedCall& call : baseline.blocks->calls) ranks.insert(call.rank);
    for (const AcceptedUpdate& update : baseline.blocks->parameters) ranks.insert(update.rank);
    for (const AcceptedSteps& steps : baseline.blocks->folded) ranks.insert(steps.rank);
  }
  return {ranks.begin(), ranks.end()};
}

Baseline of_rank(Baseline baseline, std::uint32_t rank) {
  std::erase_if(baseline.ops,
                [&](const std::string& line) { return op_of(line).record.rank != rank; });
  for (std::string& line : baseline.ops) {
    if (rank != 0) line = at_rank(line, 0);
  }
  baseline.operators = baseline.ops.size();
  if (!baseline.blocks) return baseline;
  const auto keep = [rank](auto& items) {
    std::erase_if(items, [&](const auto& item) { return item.rank != rank; });
    for (auto& item : items) item.rank = 0;
  };
  keep(baseline.blocks->calls);
  keep(baseline.blocks->parameters);
  count_anew(*baseline.blocks);
  return baseline;
}

namespace {

Baseline fold_operators(Baseline baseline) {
  std::map<std::string, std::pair<std::uint64_t, std::string>> modules;
  for (const std::string& line : baseline.ops) {
    const core::OpRecord record = op_of(line).record;
    // A path no module has: baselines made before returned values were recorded keep their modules.
    std::string path = core::is_returned(record) ? record.op->name : record.site->module_path;
    if (record.rank != 0) path = fmt::format("{}{}/{}", kRankPrefix, record.rank, path);
    auto& [operators, lines] = modules[path];
    ++operators;
    lines += line + '\n';
  }
  baseline.ops.clear();
  for (const auto& [path, module] : modules) {
    baseline.modules.push_back({path, module.first, digest_bytes(module.second)});
  }
  return baseline;
}

/// Records, calls and parameters of so many steps of a rank as one line.
Baseline fold_steps(Baseline baseline, std::uint32_t width) {
  AcceptedBlocks& blocks = *baseline.blocks;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::pair<std::uint64_t, std::string>>
      stretches;
  const auto add = [&](std::uint32_t rank, std::uint32_t step, const std::string& line) {
    auto& [count, lines] = stretches[{rank, step / width * width}];
    ++count;
    lines += line + '\n';
  };
  for (const std::string& line : baseline.ops) {
    const core::OpRecord record = op_of(line).record;
    add(record.rank, record.step, line);
  }
  for (AcceptedCall& call : blocks.calls) {
    // Two runs may be given the same by other means: what came out is judged.
    call.row.in.reset();
    Writer writer;
    describe_call(writer, std::as_const(call));
    add(call.rank, call.row.step, std::move(writer).text());
  }
  for (const AcceptedUpdate& update : blocks.parameters) {
    Writer writer;
    describe_update(writer, update);
    add(update.rank, update.row.step, std::move(writer).text());
  }
  baseline.ops.clear();
  blocks.calls.clear();
  blocks.parameters.clear();
  for (const auto& [place, lines] : stretches) {
    blocks.folded.push_back(
        {place.first, place.second, width, lines.first, digest_bytes(lines.second)});
  }
  return baseline;
}

/// Empty where there are few enough for a line each.
std::optional<std::uint32_t> steps_in_a_line(const Baseline& baseline) {
  const AcceptedBlocks& blocks = *baseline.blocks;
  if (std::max({baseline.ops.size(), blocks.calls.size(), blocks.parameters.size()}) <=
      kMostLines) {
    return std::nullopt;
  }
  std::uint64_t steps = 1;
  const auto reach = [&](std::uint32_t step) {
    steps = std::max<std::uint64_t>(steps, step + 1ULL);
  };
  for (const std::string& line : baseline.ops) reach(op_of(line).record.step);
  for (const AcceptedCall& call : blocks.calls) reach(call.row.step);
  for (const AcceptedUpdate& update : blocks.parameters) reach(update.row.step);
  const std::uint64_t lines = steps * ranks_in(baseline).size();
  return static_cast<std::uint32_t>((lines + kMostLines - 1) / kMostLines);
}

}  // namespace

Baseline fold(Baseline baseline) {
  fold_tensors(baseline);
  if (baseline.blocks) {
    const auto width = steps_in_a_line(baseline);
    return width ? fold_steps(std::move(baseline), *width) : baseline;
  }
  return baseline.ops.size() <= kMostLines ? baseline : fold_operators(std::move(baseline));
}

bool is_folded(const Baseline& baseline) {
  return !baseline.modules.empty() || (baseline.blocks && !baseline.blocks->folded.empty());
}

Baseline folded_like(Baseline baseline, const Baseline& other) {
  if (!is_folded(other)) return baseline;
  if (!other.blocks) return fold_operators(std::move(baseline));
  return fold_steps(std::move(baseline), other.blocks->folded.front().width);
}

std::uint64_t operator_calls(const Baseline& baseline) {
  auto returned = static_cast<std::uint64_t>(std::ranges::count_if(baseline.ops, is_returned_line));
  for (const AcceptedModule& module : baseline.modules) {
    if (module.path == core::kReturnedOperator) returned += module.operators;
  }
  return baseline.operators - returned;
}

bool holds_returned(const Baseline& baseline) {
  // They were recorded before blocks were, and the lines of steps do not show it.
  return baseline.blocks || operator_calls(baseline) != baseline.operators;
}

Baseline without_returned(Baseline baseline) {
  std::erase_if(baseline.ops, is_returned_line);
  return baseline;
}

bool holds_values(const Baseline& baseline) {
  return names_alone(baseline.facts) != baseline.facts;
}

std::vector<Change> stale_reasons(const Baseline& accepted, const Baseline& now) {
  std::vector<Change> changes;
  if (accepted.model != now.model) {
    add_differences(weights_of(accepted), weights_of(now), "model ", changes);
    if (changes.empty()) {
      changes.push_back({"model", core::to_hex(accepted.model), core::to_hex(now.model)});
    }
  }
  add_differences(named_facts(accepted), named_facts(now), "config ", changes);
  add_contents(accepted, now, core::NamedTensorKind::kInput, "input ", changes);
  return changes;
}

std::vector<Change> platform_changes(const Platform& accepted, const Platform& now) {
  std::vector<Change> changes;
  for (const Fact& field : now.fields) {
    const auto found = std::ranges::find(accepted.fields, field.name, &Fact::name);
    const std::string before = found == accepted.fields.end() ? kNone : found->value;
    if (before != field.value) changes.push_back({field.name, before, field.value});
  }
  return changes;
}

std::string fact_of(const Baseline& baseline, std::string_view pointer) {
  const auto fact = std::ranges::find(baseline.facts, pointer, &Fact::name);
  return fact == baseline.facts.end() ? std::string() : fact->value;
}

std::string depth_of(const Baseline& baseline) {
  if (baseline.blocks) return std::string(core::kDepthBlocks);
  const Json depth = Json::parse(fact_of(baseline, "/dump/depth"), nullptr, false);
  return depth.is_string() ? depth.get<std::string>() : "top";
}

bool same_results(const Baseline& accepted, const Baseline& now) {
  return accepted.ops == now.ops && accepted.modules == now.modules &&
         accepted.blocks == now.blocks;
}

std::vector<Change> weight_changes(const Baseline& accepted, const Baseline& now) {
  std::vector<Change> changes;
  add_contents(accepted, now, core::NamedTensorKind::kParameter, "parameter ", changes);
  add_contents(accepted, now, core::NamedTensorKind::kBuffer, "buffer ", changes);
  return changes;
}

std::string describe_changes(const Baseline& accepted, const Baseline& now) {
  if (accepted.blocks && now.blocks) {
    std::string changes = describe_changes(*accepted.blocks, *now.blocks);
    if (!changes.empty()) return changes;
    return accepted.ops == now.ops ? "no border changes"
                                   : "no border changes, but batches, losses or steps do";
  }
  if (!accepted.modules.empty() || !now.modules.empty()) return module_changes(accepted, now);
  const std::vector<std::string> before = operator_lines(accepted);
  const std::vector<std::string> after = operator_lines(now);
  const std::size_t shorter = std::min(before.size(), after.size());
  std::size_t first = 0;
  while (first < shorter && before[first] == after[first]) ++first;
  if (first == before.size() && first == after.size()) {
    return accepted.ops == now.ops ? "no operator changes"
                                   : "no operator changes, but what the model returns does";
  }
  const std::string op = place_text(first < after.size() ? after[first] : before[first]);
  if (before.size() != after.size()) {
    return fmt::format("{} -> {} operators, first change {}", before.size(), after.size(), op);
  }
  std::size_t count = 0;
  for (std::size_t i = first; i < shorter; ++i) {
    if (before[i] != after[i]) ++count;
  }
  return fmt::format("{} of {} operators change, first {}", count, shorter, op);
}

}  // namespace repro_check::baselines
