// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/pairing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <variant>

#include "comparators/align/steps.h"
#include "comparators/measure/records.h"
#include "core/error.h"
#include "core/trace/program_records.h"
#include "core/trace/run_manifest.h"

namespace repro_check::comparators {
core::Digest digest_of_name(std::string_view name) noexcept {
  return core::digest_leaf(std::as_bytes(std::span(name)));
}

core::Digest key_of(const core::OpRecord& head,
                    const core::Digest& module,
                    const core::Digest& op) noexcept {
  const std::array<std::uint64_t, 9> parts{head.rank,
                                           head.lane,
                                           head.step,
                                           static_cast<std::uint64_t>(head.phase),
                                           head.depth,
                                           module.high,
                                           module.low,
                                           op.high,
                                           op.low};
  return core::digest_leaf(std::as_bytes(std::span(parts)));
}

namespace {

/// A record and what gives it an order: the calls of one lane of one rank.
struct StreamOp {
  std::uint32_t rank = 0;
  std::uint32_t lane = 0;
  std::uint32_t op = 0;

  [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> stream() const { return {rank, lane}; }
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads the default
  auto operator<=>(const StreamOp&) const = default;
};

/// One side's records as they are read: what is kept of them, and what is needed until they are
/// aligned.
struct SideRecords {
  RecordKeys kept;
  StepSums steps;
  core::LargeVector<StreamOp> streams;  ///< of the records to align, sorted
  core::LargeVector<bool> renamed;      ///< per record; empty where the map rewrote a name of none
  Ops lines;                            ///< per record a hash of its line; empty but of programs
};

struct LowHalf {
  std::size_t operator()(const core::Digest& key) const noexcept { return key.low; }
};

/// Of both sides.
using KnownKeys = core::Numbering<core::Digest, LowHalf>;

/// What was found out about objects that a source hands out again and again, as it does one for
/// all calls of an operator or of a place. Of those that fall together the last is remembered: a
/// dump in which every call has a place of its own takes no more memory than another.
template <typename Object, typename Value>
class ObjectMemo {
 public:
  /// @param object  may be null. It is held, so that its address cannot be another's later
  /// @param find    gives the value where it is not remembered
  template <typename Find>
  const Value& of(const std::shared_ptr<const Object>& object, const Find& find) {
    const auto address = reinterpret_cast<std::uintptr_t>(object.get());
    Slot& slot = slots_[(address * 0x9E37'79B9'7F4A'7C15U >> 32U) % kSlots];
    if (!slot.set || slot.object != object) slot = {object, find(), true};
    return slot.value;
  }

 private:
  static constexpr std::size_t kSlots = 4096;

  struct Slot {
    std::shared_ptr<const Object> object;
    Value value{};
    bool set = false;
  };

  std::vector<Slot> slots_ = std::vector<Slot>(kSlots);
};

/// Keys of one side's records, by the names that the other side may know them by.
class SideKeys {
 public:
  SideKeys(const NameRewriter& names, std::vector<std::uint64_t>& rewritten, KnownKeys& known)
      : names_(names), rewritten_(rewritten), known_(known) {}

  /// Of what is left out: nothing else has it, on either side.
  std::uint32_t number_of_none() {
    const std::array<std::uint64_t, 1> parts{known_.size()};
    return checked(core::digest_leaf(std::as_bytes(std::span(parts))));
  }

  /// @param renamed  set where the map rewrote a name of it
  /// @param print  set to a hash of all that the key has but the step
  std::uint32_t number_of(const core::OpRecord& head, bool& renamed, std::uint64_t& print) {
    const Id op = operators_.of(head.op, [&] { return id_of(names_.operator_name(*head.op)); });
    const Id module = sites_.of(head.site, [&] {
      return id_of(names_.module_path(head.site ? head.site->module_path : std::string()));
    });
    for (const Id& id : {op, module}) {
      if (id.entry) ++rewritten_[*id.entry];
      renamed = renamed || id.changed;
    }
    print = print_of(head, module.name, op.name);
    return checked(key_of(head, module.name, op.name));
  }

 private:
  static std::uint64_t print_of(const core::OpRecord& head,
                                const core::Digest& module,
                                const core::Digest& op) noexcept {
    std::uint64_t hash = op.low;
    for (const std::uint64_t part : {module.low,
                                     std::uint64_t{head.lane},
                                     static_cast<std::uint64_t>(head.phase),
                                     std::uint64_t{head.depth}}) {
      hash = (hash ^ (hash >> 32U)) * 0x9E37'79B9'7F4A'7C15U + part;
    }
    return hash ^ (hash >> 32U);
  }

  std::uint32_t checked(const core::Digest& key) {
    if (known_.size() >= kUnmatched - 1) {
      throw core::not_comparable("the dumps hold more kinds of operators than can be aligned");
    }
    return known_.number_of(key);
  }

  struct Id {
    core::Digest name;
    std::optional<std::size_t> entry;  ///< of the map, that matched it
    bool changed = false;
  };

  static Id id_of(const NameRewriter::Name& name) {
    return {digest_of_name(name.text), name.entry, name.changed};
  }

  const NameRewriter& names_;
  std::vector<std::uint64_t>& rewritten_;
  KnownKeys& known_;
  ObjectMemo<core::OperatorInfo, Id> operators_;
  ObjectMemo<core::CallSite, Id> sites_;
};

/// A call ends after all it encloses. Nested calls have higher op indices than what encloses them,
/// so the end of a call is known by the greatest index inside it; of several calls that end there
/// the innermost ends first.
/// @param parents  kUnmatched where there is none
/// @param depths   as many as parents; both empty where nothing is nested
Ops completion_order(std::size_t count, const Ops& parents, const Ops& depths) {
  Ops order(count);
  std::iota(order.begin(), order.end(), 0U);
  if (parents.empty()) return order;
  Ops last = order;
  for (std::size_t i = count; i-- > 0;) {
    if (parents[i] == kUnmatched) continue;
    std::uint32_t& of_parent = last[parents[i]];
    of_parent = std::max(of_parent, last[i]);
  }
  std::ranges::sort(order, [&](std::uint32_t left, std::uint32_t right) {
    return std::tuple(last[left], depths[right], right) <
           std::tuple(last[right], depths[left], left);
  });
  return order;
}

/// Leaves out the calls that another one encloses.
/// @param parents  kUnmatched where there is none
void keep_top(const Ops& parents, RecordKeys& keys) {
  for (std::size_t i = 0; i < parents.size(); ++i) {
    // A parent comes before what it encloses.
    if (parents[i] != kUnmatched) keys.visible_of[i] = keys.visible_of[parents[i]];
  }
  keys.nested_left_out =
      std::erase_if(keys.completion, [&](std::uint32_t op) { return parents[op] != kUnmatched; });
}

/// Whether a record is no operator to pair.
bool is_left_out(const core::OpRecord& head,
                 const SideOptions& side,
                 ObjectMemo<core::OperatorInfo, bool>& of_checkpoint) {
  return head.index < side.from ||
         (side.only != nullptr && !std::ranges::binary_search(*side.only, head.index)) ||
         std::ranges::binary_search(side.without, head.index) ||
         of_checkpoint.of(head.op, [&] { return core::is_of_checkpoint(*head.op); });
}

void expect_sound(const core::DumpSource& source, const core::OpRecord& head, std::uint64_t index) {
  const bool has_sound_parent = head.parent < static_cast<std::int64_t>(index);
  if (has_sound_parent && head.op) return;
  throw core::damaged_dump(
      fmt::format("{}: op {} names {}",
                  source.location(),
                  index,
                  has_sound_parent ? "no operator" : "a parent that does not come before it"));
}

/// Puts what was read in the orders that it is compared in, and takes out what is not.
/// @param parents, depths  of every record; empty where nothing is nested
void settle(SideRecords& side, const Ops& parents, const Ops& depths, bool top_only) {
  if (!std::ranges::is_sorted(side.streams)) std::ranges::sort(side.streams);
  for (const StreamOp& at : side.streams) {
    if (side.kept.ranks.empty() || side.kept.ranks.back() != at.rank) {
      side.kept.ranks.push_back(at.rank);
    }
  }
  Ops& completion = side.kept.completion;
  completion = completion_order(side.kept.keys.size(), parents, depths);
  if (const Ops& visible = side.kept.visible_of; !visible.empty()) {
    std::erase_if(completion, [&](std::uint32_t op) { return visible[op] == kUnmatched; });
  }
  if (top_only && !parents.empty()) keep_top(parents, side.kept);
  if (!side.kept.returned.empty()) {
    std::erase_if(completion, [&](std::uint32_t op) {
      return std::ranges::binary_search(side.kept.returned, op);
    });
  }
}

void note_nesting(const core::OpRecord& head, std::uint64_t count, Ops& parents, Ops& depths) {
  if (parents.empty()) {
    parents.assign(count, kUnmatched);
    depths.assign(count, 0);
  }
  parents[head.index] = static_cast<std::uint32_t>(head.parent);
  depths[head.index] = head.depth;
}

std::uint32_t line_hash(const core::OpRecord& head) {
  return static_cast<std::uint32_t>(digest_of_name(core::line_text(head.site.get())).low);
}

/// How a side is read again, once its steps have been aligned.
struct Reading {
  const std::map<RankStep, std::uint32_t>* numbers = nullptr;  ///< of its steps; null = its own
  StepRecords* records = nullptr;                              ///< filled in; may be null
  Pace* pace = nullptr;  ///< is told every record; may be null
};

class SideReader {
 public:
  /// @param rewritten  per entry of the map, the records whose names it rewrote are added
  SideReader(const core::DumpSource& source,
             const SideOptions& options,
             const NameRewriter& names,
             const Reading& reading,
             std::vector<std::uint64_t>& rewritten,
             KnownKeys& known)
      : source_(source),
        options_(options),
        reading_(reading),
        keys_(names, rewritten, known),
        count_(source.op_count()),
        has_lines_(source.manifest().is_of_program()) {
    if (count_ >= kUnmatched) {
      throw core::not_comparable(source.location() + " holds more operators than can be aligned");
    }
  }

  SideRecords read() {
    side_.kept.keys.reserve(count_);
    side_.streams.reserve(count_);
    for (std::uint64_t i = 0; i < count_; ++i) {
      core::OpRecord head = source_.op_head(i);
      head.index = i;  // places in what is kept are found by it
      expect_sound(source_, head, i);
      add(head);
      if (reading_.pace != nullptr) reading_.pace->add(1);
    }
    settle(side_, parents_, depths_, options_.top_only);
    return std::move(side_);
  }

 private:
  void add(core::OpRecord& head) {
    const RankStep step{head.rank, head.step += options_.steps_before};
    if (reading_.numbers != nullptr) {
      const auto number = reading_.numbers->find(step);
      if (number != reading_.numbers->end()) head.step = number->second;
    }
    const bool left_out = is_left_out(head, options_, of_checkpoint_);
    const bool is_nested = head.parent >= 0;
    const bool is_hidden = options_.top_only && is_nested;
    const std::uint64_t print = add_key(head, left_out);
    note_visible(head.index, left_out, is_hidden);
    if (core::is_returned(head)) {
      side_.kept.returned.push_back(static_cast<std::uint32_t>(head.index));
    } else if (!left_out && !is_hidden) {
      side_.streams.push_back({head.rank, head.lane, static_cast<std::uint32_t>(head.index)});
      side_.steps.add(step, print, head.phase == core::Phase::kBackward);
      if (reading_.records != nullptr) (*reading_.records)[step].push_back(print);
    }
    if (is_nested) note_nesting(head, count_, parents_, depths_);
  }

  /// @return a hash of all that the key has but the step; 0 of what is left out
  std::uint64_t add_key(const core::OpRecord& head, bool left_out) {
    bool renamed = false;
    std::uint64_t print = 0;
    side_.kept.keys.push_back(left_out ? keys_.number_of_none()
                                       : keys_.number_of(head, renamed, print));
    if (has_lines_) side_.lines.push_back(lines_.of(head.site, [&] { return line_hash(head); }));
    if (renamed) {
      side_.renamed.resize(count_);
      side_.renamed[head.index] = true;
    }
    return print;
  }

  void note_visible(std::uint64_t op, bool left_out, bool is_hidden) {
    Ops& visible = side_.kept.visible_of;
    if (visible.empty() && (left_out || is_hidden)) {
      visible.resize(count_);
      std::iota(visible.begin(), visible.end(), 0U);
    }
    if (left_out) visible[op] = kUnmatched;
  }

  const core::DumpSource& source_;
  const SideOptions& options_;
  const Reading& reading_;
  SideKeys keys_;
  std::uint64_t count_ = 0;
  bool has_lines_ = false;
  SideRecords side_;
  // What encloses each record; empty as long as nothing is nested.
  Ops parents_;
  Ops depths_;
  ObjectMemo<core::OperatorInfo, bool> of_checkpoint_;
  ObjectMemo<core::CallSite, std::uint32_t> lines_;
};

bool same_tensor(const core::TensorRecord& left, const core::TensorRecord& right) {
  if (left.role != right.role || left.slot != right.slot || left.state != right.state) return false;
  if (left.state == core::ContentState::kUndefined) return true;
  return left.state == core::ContentState::kHashed && left.layout == right.layout &&
         left.attributes == right.attributes && left.content_key() == right.content_key();
}

bool same_argument(const core::Argument& left, const core::Argument& right) {
  return left.name == right.name && same_scalars(left.value, right.value);
}

using core::ContentState;

/// A digest that is equal exactly where what was put is; texts and lists say how long they are.
class Print {
 public:
  template <typename T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) { stream_.add(std::as_bytes(std::span(&value, 1))); }
  void put(std::string_view text) {
    put(text.size());
    stream_.add(std::as_bytes(std::span(text)));
  }
  void put(const std::string& text) { put(std::string_view(text)); }
  void put(std::monostate /*none*/) {}
  void put(core::TensorSlot /*slot*/) {}  // what it holds is told by the tensor records
  void put(const core::Symbol& value) { put(value.name); }
  void put(const core::Opaque& value) { put(value.type); }
  void put(const core::ValueList& list) {
    put(list.items.size());
    for (const core::Value& item : list.items) put(item);
  }
  void put(const core::Value& value) {
    put(value.data.index());
    std::visit([this](const auto& held) { put(held); }, value.data);
  }
  void put(const core::TensorRecord& tensor) {
    put(tensor.slot);
    put(tensor.dtype);
    put(tensor.shape.size());
    for (const std::int64_t size : tensor.shape) put(size);
    put(tensor.layout);
    put(tensor.attributes);
    put(tensor.state);
    if (tensor.state == ContentState::kHashed) put(tensor.digest);
  }

  [[nodiscard]] core::Digest finish() { return stream_.finish(); }

 private:
  core::DigestStream stream_;
};

/// A record as it is looked for: its key, then how much of it has to be equal.
struct Entry {
  std::array<std::uint64_t, 5> print{};
  std::uint32_t op = 0;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads the default
  auto operator<=>(const Entry&) const = default;
};

enum class Likeness { kWhole, kInputs, kKey };

/// The records of one side of a stream that has no order.
class Pool {
 public:
  Pool(const core::DumpSource& source, const Ops& keys, std::span<const StreamOp> stream)
      : keys_(keys), stream_(stream) {
    for (const StreamOp& at : stream) {
      std::optional<OpPrints> prints;
      damage_in([&] { prints = op_prints(source.op(at.op)); });  // whoever compares it says so
      prints_.push_back(prints);
    }
  }

  /// Those without a counterpart, sorted.
  [[nodiscard]] core::LargeVector<Entry> entries(Likeness likeness, const Ops& counterparts) const {
    core::LargeVector<Entry> entries;
    for (std::size_t i = 0; i < stream_.size(); ++i) {
      const std::uint32_t op = stream_[i].op;
      if (counterparts[op] != kUnmatched) continue;
      Entry entry{{keys_[op]}, op};
      if (likeness != Likeness::kKey) {
        if (!prints_[i]) continue;
        const auto& [inputs, results] = *prints_[i];
        entry.print[1] = inputs.high;
        entry.print[2] = inputs.low;
        if (likeness == Likeness::kWhole) {
          entry.print[3] = results.high;
          entry.print[4] = results.low;
        }
      }
      entries.push_back(entry);
    }
    std::ranges::sort(entries);
    return entries;
  }

 private:
  const Ops& keys_;
  std::span<const StreamOp> stream_;
  core::LargeVector<std::optional<OpPrints>> prints_;
};

/// Pairs the records of two streams that have no order: of each key first those that agree in
/// inputs and results, then those with equal inputs, and what is left as it comes. A record that
/// cannot be read agrees with none.
void pair_unordered(const Pool& here, const Pool& there, Pairing& pairing) {
  for (const Likeness likeness : {Likeness::kWhole, Likeness::kInputs, Likeness::kKey}) {
    const core::LargeVector<Entry> ours = here.entries(likeness, pairing.candidate_of);
    const core::LargeVector<Entry> theirs = there.entries(likeness, pairing.baseline_of);
    auto other = theirs.begin();
    for (const Entry& entry : ours) {
      while (other != theirs.end() && other->print < entry.print) ++other;
      if (other == theirs.end()) break;
      if (other->print != entry.print) continue;
      pairing.match(entry.op, other->op, MatchedBy::kPosition);
      ++other;
    }
    pairing.summary.work += ours.size() + theirs.size();
  }
}

/// The k-th record of a key that is left over here is the k-th that is left over there.
core::LargeVector<OpPair> find_moved(const Pairing& pairing) {
  core::LargeVector<OpPair> moved;
  const Ops& counterparts = pairing.baseline_of;
  if (pairing.matched == counterparts.size() - pairing.candidate.returned.size()) return moved;
  // Per key a chain of places there, each 1 more than it is: from the first on.
  Ops first(pairing.distinct_keys);
  Ops next(counterparts.size());
  for (std::size_t i = counterparts.size(); i-- > 0;) {
    if (counterparts[i] != kUnmatched) continue;
    std::uint32_t& of_key = first[pairing.candidate.keys[i]];
    next[i] = std::exchange(of_key, static_cast<std::uint32_t>(i + 1));
  }
  for (std::uint32_t i = 0; i < pairing.candidate_of.size(); ++i) {
    std::uint32_t& of_key = first[pairing.baseline.keys[i]];
    if (pairing.candidate_of[i] != kUnmatched || of_key == 0) continue;
    moved.push_back({i, of_key - 1});
    of_key = next[of_key - 1];
  }
  return moved;
}

/// The records of the first stream at `at`, behind which it is then.
std::span<const StreamOp> take_stream(const core::LargeVector<StreamOp>& streams, std::size_t& at) {
  const std::size_t begin = at;
  while (at < streams.size() && streams[at].stream() == streams[begin].stream()) ++at;
  return std::span(streams).subspan(begin, at - begin);
}

/// One side of two streams that are aligned.
struct StreamSide {
  const core::DumpSource& source;
  std::span<const StreamOp> ops;
  std::span<const std::uint32_t> keys;  ///< per op of the stream
  const Ops& lines;                     ///< per op of the dump; empty = not known

  [[nodiscard]] std::uint32_t line(std::size_t at) const { return lines[ops[at].op]; }
};

/// Whether operators of one key stand at the same lines in both, nearly all, where the streams are
/// alike: of a program that was not edited in between.
bool has_same_lines(const StreamSide& here, const StreamSide& there) {
  if (here.lines.empty() || there.lines.empty()) return false;
  const std::size_t least = std::min(here.keys.size(), there.keys.size());
  std::size_t alike = 0;
  std::size_t pairs = 0;
  for (std::size_t i = 0; i < least && here.keys[i] == there.keys[i]; ++i, ++pairs) {
    if (here.line(i) == there.line(i)) ++alike;
  }
  for (std::size_t i = 1; i <= least - pairs; ++i) {
    const std::size_t one = here.keys.size() - i;
    const std::size_t other = there.keys.size() - i;
    if (here.keys[one] != there.keys[other]) break;
    ++pairs;
    if (here.line(one) == there.line(other)) ++alike;
  }
  // Nothing more can be told where all pairs are at their lines already.
  const bool is_all = alike == pairs && 2 * pairs == here.keys.size() + there.keys.size();
  constexpr std::size_t kOfTen = 9;
  return !is_all && 10 * alike >= kOfTen * pairs;
}

/// Places in a stream.
struct OpRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  [[nodiscard]] std::size_t size() const noexcept { return end - begin; }
};

struct PairHash {
  std::size_t operator()(const std::pair<std::uint32_t, std::uint32_t>& pair) const noexcept {
    return (std::uint64_t{pair.first} << 32U | pair.second) * 0x9E37'79B9'7F4A'7C15U;
  }
};
using PairNumbers = core::Numbering<std::pair<std::uint32_t, std::uint32_t>, PairHash>;

/// A hash of the form of what an operator returns; of its own where it cannot be read.
std::uint32_t form_of(const core::DumpSource& source, std::uint32_t op) {
  Print print;
  const auto damage = damage_in([&] {
    for (const core::TensorRecord& tensor : source.op(op).tensors) {
      if (!core::is_output(tensor)) continue;
      print.put(tensor.dtype);
      print.put(tensor.shape.size());
      for (const std::int64_t size : tensor.shape) print.put(size);
    }
  });
  if (damage) print.put(op);
  return static_cast<std::uint32_t>(print.finish().low);
}

/// Pairs what is left between two pairs at equal lines where it returns the same forms.
void align_gap(const StreamSide& here,
               const StreamSide& there,
               OpRange left,
               OpRange right,
               Alignment& alignment) {
  constexpr std::size_t kMostRead = 4096;
  if (left.size() == 0 || right.size() == 0 || left.size() + right.size() > kMostRead) return;
  PairNumbers numbers;
  const auto numbered = [&](const StreamSide& side, const OpRange& range) {
    Ops own;
    for (std::size_t i = range.begin; i < range.end; ++i) {
      own.push_back(numbers.number_of({side.keys[i], form_of(side.source, side.ops[i].op)}));
    }
    return own;
  };
  const Ops ours = numbered(here, left);
  const Ops theirs = numbered(there, right);
  KeyScratch scratch;
  const Alignment between = align(ours, theirs, scratch);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (between.candidate_of[i] == kUnmatched) continue;
    alignment.candidate_of[left.begin + i] =
        static_cast<std::uint32_t>(right.begin) + between.candidate_of[i];
    alignment.how[left.begin + i] = MatchedBy::kLcs;
    ++alignment.matched;
  }
  alignment.work += between.work;
}

/// Pairs operators of equal lines, and then those in between.
Alignment align_by_lines(const StreamSide& here, const StreamSide& there) {
  PairNumbers numbers;
  const auto numbered = [&](const StreamSide& side) {
    Ops own;
    own.reserve(side.keys.size());
    for (std::size_t i = 0; i < side.keys.size(); ++i) {
      own.push_back(numbers.number_of({side.keys[i], side.line(i)}));
    }
    return own;
  };
  const Ops ours = numbered(here);
  const Ops theirs = numbered(there);
  KeyScratch scratch;
  Alignment alignment = align(ours, theirs, scratch);
  const core::LargeVector<std::uint32_t> pairs = alignment.candidate_of;
  std::size_t left = 0;
  std::size_t right = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (pairs[i] == kUnmatched) continue;
    align_gap(here, there, {left, i}, {right, pairs[i]}, alignment);
    left = i + 1;
    right = std::size_t{pairs[i]} + 1;
  }
  align_gap(here, there, {left, pairs.size()}, {right, theirs.size()}, alignment);
  return alignment;
}

/// Aligns two streams that have an order.
/// @param baseline, candidate  and the lines of their records
void align_stream(std::span<const StreamOp> left,
                  std::span<const StreamOp> right,
                  const std::pair<const core::DumpSource&, const Ops&>& baseline,
                  const std::pair<const core::DumpSource&, const Ops&>& candidate,
                  const core::LargeVector<bool>& renamed,
                  KeyScratch& scratch,
                  Pairing& pairing) {
  const auto keys_of = [](std::span<const StreamOp> stream, const Ops& keys, Ops& own) {
    // The only stream there is has all of them, in order.
    if (stream.size() == keys.size()) return std::span(keys);
    own.reserve(stream.size());
    for (const StreamOp& at : stream) own.push_back(keys[at.op]);
    return std::span<const std::uint32_t>(own);
  };
  Ops own_left;
  Ops own_right;
  const auto here = keys_of(left, pairing.baseline.keys, own_left);
  const auto there = keys_of(right, pairing.candidate.keys, own_right);
  const auto match = [&](std::size_t i, std::size_t j, MatchedBy how) {
    const bool by_map = !renamed.empty() && renamed[right[j].op];
    pairing.match(left[i].op, right[j].op, by_map ? MatchedBy::kMap : how);
  };
  if (pairing.summary.by_position) {
    const std::size_t common = std::min(left.size(), right.size());
    for (std::size_t i = 0; i < common; ++i) {
      if (here[i] == there[i]) match(i, i, MatchedBy::kPosition);
    }
    pairing.summary.work += common;
    return;
  }
  const StreamSide ours{baseline.first, left, here, baseline.second};
  const StreamSide theirs{candidate.first, right, there, candidate.second};
  const Alignment alignment =
      has_same_lines(ours, theirs) ? align_by_lines(ours, theirs) : align(here, there, scratch);
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (alignment.candidate_of[i] == kUnmatched) continue;
    match(i, alignment.candidate_of[i], alignment.how[i]);
  }
  pairing.summary.work += alignment.work;
  pairing.summary.gave_up = pairing.summary.gave_up || alignment.gave_up;
}

/// Pairs what each stream that both sides have holds.
void align_streams(const core::DumpSource& baseline,
                   const core::DumpSource& candidate,
                   const SideRecords& here,
                   const SideRecords& there,
                   Pairing& pairing) {
  KeyScratch scratch;
  std::size_t of_here = 0;
  std::size_t of_there = 0;
  std::span<const StreamOp> right = take_stream(there.streams, of_there);
  while (of_here < here.streams.size()) {
    const std::span<const StreamOp> left = take_stream(here.streams, of_here);
    while (!right.empty() && right.front().stream() < left.front().stream()) {
      right = take_stream(there.streams, of_there);
    }
    if (right.empty()) break;
    if (left.front().stream() != right.front().stream()) continue;
    if (core::is_unordered(left.front().lane)) {
      pair_unordered(Pool(baseline, pairing.baseline.keys, left),
                     Pool(candidate, pairing.candidate.keys, right),
                     pairing);
    } else {
      align_stream(left,
                   right,
                   {baseline, here.lines},
                   {candidate, there.lines},
                   there.renamed,
                   scratch,
                   pairing);
    }
    pairing.summary.work_limit += most_work(left.size() + right.size());
  }
}

/// Reads and aligns; what it takes for that is gone afterwards.
void align_all(const core::DumpSource& baseline,
               const core::DumpSource& candidate,
               const PairingOptions& options,
               Pairing& pairing) {
  KnownKeys known;
  const auto read = [&](bool of_baseline, const Reading& reading) {
    return SideReader(of_baseline ? baseline : candidate,
                      of_baseline ? options.baseline : options.candidate,
                      of_baseline ? pairing.own_names : pairing.names,
                      reading,
                      pairing.rewritten,
                      known)
        .read();
  };
  SideRecords here = read(true, {nullptr, nullptr, options.pace});
  SideRecords there = read(false, {nullptr, nullptr, options.pace});
  if (!pairing.summary.by_position) {
    const auto rewritten = pairing.rewritten;
    const StepNumbers steps = align_steps(here.steps, there.steps, [&] {
      std::pair<StepRecords, StepRecords> records;
      read(true, {nullptr, &records.first, nullptr});
      read(false, {nullptr, &records.second, nullptr});
      return records;
    });
    if (!steps.empty()) {
      known = {};
      here = read(true, {&steps.baseline, nullptr, nullptr});
      there = read(false, {&steps.candidate, nullptr, nullptr});
    }
    pairing.rewritten = rewritten;
  }
  pairing.distinct_keys = known.size();
  known = {};
  pairing.baseline = std::move(here.kept);
  pairing.candidate = std::move(there.kept);
  pairing.candidate_of.assign(pairing.baseline.keys.size(), kUnmatched);
  pairing.baseline_of.assign(pairing.candidate.keys.size(), kUnmatched);
  pairing.how.assign(pairing.baseline.keys.size(), MatchedBy::kNone);
  pairing.steps_before = options.candidate.steps_before;
  align_streams(baseline, candidate, here, there, pairing);
}

/// The k-th call of a rank in one dump is the k-th in the other.
void pair_returned(const core::DumpSource& baseline,
                   const core::DumpSource& candidate,
                   Pairing& pairing) {
  using Place =
      std::tuple<std::uint32_t, std::uint32_t, std::size_t>;  // rank, step, how many before
  std::map<Place, OpPair> calls;
  const auto add = [&calls](const core::DumpSource& source,
                            const std::vector<std::uint32_t>& ops,
                            std::uint32_t OpPair::*side) {
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> before;
    for (const std::uint32_t op : ops) {
      const core::OpRecord head = source.op_head(op);
      calls[{head.rank, head.step, before[{head.rank, head.step}]++}].*side = op;
    }
  };
  add(baseline, pairing.baseline.returned, &OpPair::baseline);
  add(candidate, pairing.candidate.returned, &OpPair::candidate);
  for (const auto& [place, call] : calls) {
    pairing.returned.push_back(call);
    if (!call.matched()) continue;
    pairing.candidate_of[call.baseline] = call.candidate;
    pairing.baseline_of[call.candidate] = call.baseline;
  }
}

/// For the record of each optimizer's step the operators of phase optimizer that were called since
/// the backward pass, or since the step before it.
std::vector<std::vector<std::uint64_t>> operators_before_steps(const core::DumpSource& dump) {
  std::vector<std::vector<std::uint64_t>> steps;
  std::vector<std::uint64_t> since;
  for (std::uint64_t op = 0; op < dump.op_count(); ++op) {
    const core::OpRecord head = dump.op_head(op);
    if (core::is_named_values(head)) {
      if (head.op->name == core::kStepRecord) steps.push_back(std::exchange(since, {}));
    } else if (head.phase == core::Phase::kOptimizer) {
      since.push_back(op);
    } else {
      since.clear();
    }
  }
  return steps;
}

}  // namespace

std::vector<std::uint64_t> operators_of_hidden_steps(const core::DumpSource& dump,
                                                     const core::DumpSource& other) {
  std::vector<std::uint64_t> hidden;
  const std::string& here = dump.manifest().trace.optimizer;
  const std::string& there = other.manifest().trace.optimizer;
  if (here.empty() || here == core::kOptimizerState || there != core::kOptimizerState)
    return hidden;
  const auto all = operators_before_steps(dump);
  const auto some = operators_before_steps(other);
  for (std::size_t step = 0; step < std::min(all.size(), some.size()); ++step) {
    const std::size_t both = std::min(all[step].size(), some[step].size());
    hidden.insert(
        hidden.end(), all[step].begin() + static_cast<std::ptrdiff_t>(both), all[step].end());
  }
  return hidden;
}

bool bit_equal(const core::OpRecord& baseline, const core::OpRecord& candidate) {
  return baseline.generator == candidate.generator &&
         std::ranges::equal(baseline.tensors, candidate.tensors, same_tensor) &&
         std::ranges::equal(baseline.arguments, candidate.arguments, same_argument) &&
         std::ranges::equal(baseline.results, candidate.results, same_scalars);
}

void pair_moved(const core::DumpSource& baseline,
                const core::DumpSource& candidate,
                Pairing& pairing) {
  if (baseline.manifest().trace.digest_algorithm != candidate.manifest().trace.digest_algorithm) {
    return;
  }
  std::erase_if(pairing.moved, [&](const OpPair& moved) {
    // What cannot be read is not known to be equal; whoever reads it again says that it is damaged.
    bool equal = false;
    const auto damage = damage_in(
        [&] { equal = bit_equal(baseline.op(moved.baseline), candidate.op(moved.candidate)); });
    if (damage || !equal) return false;
    pairing.match(moved.baseline, moved.candidate, MatchedBy::kOrder);
    return true;
  });
}

std::optional<OpPrints> op_prints(const core::OpRecord& record) {
  Print inputs;
  Print results;
  for (const core::Argument& argument : record.arguments) {
    inputs.put(argument.name);
    inputs.put(argument.value);
  }
  if (record.generator) {
    inputs.put(record.generator->seed);
    inputs.put(record.generator->position_before);
  }
  for (const core::Value& value : record.results) results.put(value);
  bool has_result = has_scalar_results(record);
  for (const core::TensorRecord& tensor : record.tensors) {
    const bool is_input = core::is_input(tensor);
    if (is_input && !core::reads_values(*record.op, tensor.slot)) continue;
    if (tensor.state == ContentState::kExcluded || has_unread_values(tensor)) return std::nullopt;
    (is_input ? inputs : results).put(tensor);
    has_result = has_result || (!is_input && tensor.state == ContentState::kHashed);
  }
  if (!has_result) return std::nullopt;
  return OpPrints{inputs.finish(), results.finish()};
}

void Pairing::match(std::uint32_t baseline_op, std::uint32_t candidate_op, MatchedBy by) {
  candidate_of[baseline_op] = candidate_op;
  baseline_of[candidate_op] = baseline_op;
  how[baseline_op] = by;
  ++matched;
  const std::array counts{&summary.position,
                          &summary.lcs,
                          &summary.anchor,
                          &summary.partial,
                          &summary.map,
                          &summary.order};
  ++*counts.at(static_cast<std::size_t>(by) - 1);
}

Pairing pair_records(const core::DumpSource& baseline,
                     const core::DumpSource& candidate,
                     const PairingOptions& options) {
  Pairing pairing;
  pairing.summary.by_position = options.mode == configs::AlignMode::kStrict;
  if (options.map != nullptr) {
    pairing.names = NameRewriter(*options.map, options.renames);
    pairing.rewritten.resize(options.map->entries.size());
  }
  if (options.without_modules) {
    pairing.own_names = pairing.names = NameRewriter::without_modules();
  }
  align_all(baseline, candidate, options, pairing);
  pair_returned(baseline, candidate, pairing);
  if (!pairing.summary.by_position) pairing.moved = find_moved(pairing);
  return pairing;
}

void lift_producers(const RecordKeys& keys, core::OpRecord& record) {
  if (keys.visible_of.empty()) return;
  for (core::TensorRecord& tensor : record.tensors) {
    if (tensor.producer < 0) continue;
    const std::uint32_t visible = keys.visible_of[static_cast<std::size_t>(tensor.producer)];
    tensor.producer = visible == kUnmatched ? core::kNoProducer : std::int64_t{visible};
  }
}

}  // namespace repro_check::comparators
