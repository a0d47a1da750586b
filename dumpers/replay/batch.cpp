// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/batch.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/jit_type.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/digest/digest.h"
#include "core/tensor/dtype.h"
#include "core/tensor/subarray.h"
#include "core/trace/record_tensors.h"
#include "dumpers/replay/call_results.h"
#include "dumpers/replay/made_call.h"
#include "dumpers/replay/outermost_calls.h"
#include "dumpers/replay/recorded_call.h"
#include "dumpers/replay/repeated_call.h"

namespace repro_check::replay {
namespace {

using core::ContentState;
using Shape = std::vector<std::int64_t>;

/// Where the items of a batch stand in a tensor.
struct Share {
  enum class Kind : std::uint8_t {
    kWhole,    ///< nowhere: it is the same tensor for all of them
    kAlong,    ///< in dimension `dim`, one behind the other
    kSquare,   ///< in several dimensions: it holds something of each pair of items
    kUnknown,  ///< its shapes do not tell
  };
  Kind kind = Kind::kWhole;
  std::size_t dim = 0;
};

Share share_of(const Shape& all, const Shape& alone, std::int64_t items) {
  if (all.size() != alone.size()) return {Share::Kind::kUnknown};
  Share share;
  for (std::size_t d = 0; d < all.size(); ++d) {
    if (all[d] == alone[d]) continue;
    if (all[d] / items != alone[d] || all[d] % items != 0) return {Share::Kind::kUnknown};
    const bool is_first = share.kind == Share::Kind::kWhole;
    share = {is_first ? Share::Kind::kAlong : Share::Kind::kSquare, d};
  }
  return share;
}

/// How many items these shapes speak of; empty where they speak of none.
std::optional<std::int64_t> items_in(const Shape& all, const Shape& alone) {
  if (all.size() != alone.size()) return std::nullopt;
  const auto [larger, smaller] = std::ranges::mismatch(all, alone);
  if (larger == all.end() || *smaller <= 0 || *larger % *smaller != 0) return std::nullopt;
  if (!std::equal(larger + 1, all.end(), smaller + 1)) return std::nullopt;
  const std::int64_t items = *larger / *smaller;
  return items > 1 ? std::optional(items) : std::nullopt;
}

std::vector<std::byte> item_of(std::span<const std::byte> content,
                               const core::TensorRecord& all,
                               const core::TensorRecord& alone,
                               const Share& share,
                               std::int64_t item) {
  core::Subscript subscript(all.shape.size());
  const std::int64_t size = alone.shape[share.dim];
  subscript[share.dim].start = item * size;
  subscript[share.dim].stop = (item + 1) * size;
  return core::Subarray(all.shape, subscript).take(content, core::element_size(all.dtype));
}

/// Which item stands at each place of a batch.
using Order = std::vector<std::int64_t>;

/// The same tensor with its items in another order.
std::vector<std::byte> arranged(std::span<const std::byte> content,
                                const core::TensorRecord& alone,
                                const Share& share,
                                const Order& order) {
  const Shape inside(alone.shape.begin() + static_cast<std::ptrdiff_t>(share.dim),
                     alone.shape.end());
  const std::size_t run =
      static_cast<std::size_t>(core::element_count(inside)) * core::element_size(alone.dtype);
  std::vector<std::byte> made;
  made.reserve(content.size());
  for (const std::size_t all = run * order.size(); !content.empty();
       content = content.subspan(all)) {
    for (const std::int64_t item : order) {
      const auto own = content.subspan(static_cast<std::size_t>(item) * run, run);
      made.insert(made.end(), own.begin(), own.end());
    }
  }
  return made;
}

/// Whether an argument may be a size or a position: other numbers that differ are another call.
bool may_be_size(const core::OpRecord& record, std::size_t argument) {
  const auto schema =
      c10::Dispatcher::singleton().findSchema({record.op->name, record.op->overload});
  if (!schema || argument >= schema->schema().arguments().size()) return false;
  c10::TypePtr type = schema->schema().arguments()[argument].type();
  if (const auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  if (const auto list = type->cast<c10::ListType>()) type = list->getElementType();
  return type->kind() == c10::TypeKind::IntType;
}

bool agree(const core::Value& all, const core::Value& alone, std::int64_t items, bool is_size) {
  if (all == alone) return true;
  if (all.data.index() != alone.data.index()) return false;
  if (std::holds_alternative<core::TensorSlot>(all.data)) return true;
  if (const auto* number = std::get_if<std::int64_t>(&all.data)) {
    const std::int64_t one = std::get<std::int64_t>(alone.data);
    return is_size && *number % items == 0 && *number / items == one;
  }
  const auto* list = std::get_if<core::ValueList>(&all.data);
  return list != nullptr && std::ranges::equal(list->items,
                                               std::get<core::ValueList>(alone.data).items,
                                               [&](const core::Value& a, const core::Value& b) {
                                                 return agree(a, b, items, is_size);
                                               });
}

/// A call in both recordings.
class PairedCall {
 public:
  /// @param items  of the batch
  /// @throws core::Error{kNotComparable} where the two do not show where the items are
  PairedCall(const core::DumpSource& batch,
             core::OpRecord all,
             core::OpRecord alone,
             std::int64_t items)
      : batch_(batch), all_(std::move(all)), alone_(std::move(alone)), items_(items) {
    for (const core::TensorRecord& tensor : alone_.tensors) {
      const std::size_t at = counterpart_of(tensor);
      counterparts_.push_back(at);
      shares_.push_back(share_of(all_.tensors[at].shape, tensor.shape, items));
    }
  }

  [[nodiscard]] bool has(core::TensorRole role, Share::Kind kind) const {
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      if (alone_.tensors[i].role == role && shares_[i].kind == kind) return true;
    }
    return false;
  }
  [[nodiscard]] bool draws() const { return all_.generator || alone_.generator; }

  /// @throws core::Error{kNotComparable} where more differs than the number of items
  void require_same_call() const {
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      const core::TensorRecord& all = all_.tensors[counterparts_[i]];
      const core::TensorRecord& alone = alone_.tensors[i];
      if (shares_[i].kind == Share::Kind::kUnknown) {
        refuse(
            fmt::format("{} is {} for all items and {} for one, which does not tell where an "
                        "item is",
                        alone.slot,
                        fmt::join(all.shape, "x"),
                        fmt::join(alone.shape, "x")));
      }
      if (all.state != alone.state || all.dtype != alone.dtype || all.layout != alone.layout) {
        refuse(fmt::format("{} is another kind of tensor for one item", alone.slot));
      }
    }
    if (all_.arguments.size() != alone_.arguments.size()) {
      refuse("it has other arguments for one item");
    }
    for (std::size_t i = 0; i < all_.arguments.size(); ++i) {
      const core::Value& all = all_.arguments[i].value;
      const core::Value& alone = alone_.arguments[i].value;
      if (all == alone || agree(all, alone, items_, may_be_size(all_, i))) continue;
      refuse(fmt::format("{} is {} for all items and {} for one",
                         all_.arguments[i].name,
                         core::to_text(all),
                         core::to_text(alone)));
    }
  }

  /// The call with one item, and what the batch gave that item. What is of no item is not there.
  [[nodiscard]] std::unique_ptr<MadeCall> alone(std::int64_t item) const {
    auto made = std::make_unique<MadeCall>(batch_, alone_);
    std::vector<std::byte> content;
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      const core::TensorRecord& all = all_.tensors[counterparts_[i]];
      if (all.state != ContentState::kHashed) continue;
      const bool is_whole = shares_[i].kind == Share::Kind::kWhole;
      if (core::is_output(all) && is_whole) {
        made->leave_out(i);
        continue;
      }
      batch_.read_content(all.content_key(), content);
      made->hold(i,
                 is_whole ? content : item_of(content, all, alone_.tensors[i], shares_[i], item));
    }
    return made;
  }

  /// The call with its items in another order.
  [[nodiscard]] std::unique_ptr<MadeCall> in_order(const Order& order) const {
    auto made = std::make_unique<MadeCall>(batch_, all_);
    std::vector<std::byte> content;
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      const core::TensorRecord& all = all_.tensors[counterparts_[i]];
      if (all.state != ContentState::kHashed || core::is_output(all) ||
          shares_[i].kind != Share::Kind::kAlong) {
        continue;
      }
      batch_.read_content(all.content_key(), content);
      made->hold(counterparts_[i], arranged(content, alone_.tensors[i], shares_[i], order));
    }
    return made;
  }

  /// Whether what in_order() made has other arguments than were recorded.
  [[nodiscard]] bool is_another(const MadeCall& made) const {
    return !std::ranges::equal(made.record().tensors,
                               all_.tensors,
                               {},
                               &core::TensorRecord::digest,
                               &core::TensorRecord::digest);
  }

  /// @param made   what in_order() gave
  /// @param alone  what the batch gave an item
  /// @return whether that is what stands at this place now
  [[nodiscard]] bool gives_item(const CallSink& made,
                                const core::OpRecord& alone,
                                std::int64_t place) const {
    std::vector<std::byte> content;
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      const core::TensorRecord& expected = alone.tensors[i];
      if (!core::is_output(expected) || expected.state != ContentState::kHashed) continue;
      const auto* given = core::find_tensor(made.record, expected.role, expected.slot);
      if (given == nullptr || given->state != ContentState::kHashed ||
          given->shape != all_.tensors[counterparts_[i]].shape) {
        return false;
      }
      made.read(given->content_key(), content);
      const auto own = item_of(content, *given, expected, shares_[i], place);
      if (core::digest_bytes(own) != expected.digest) return false;
    }
    return true;
  }

 private:
  [[nodiscard]] std::size_t counterpart_of(const core::TensorRecord& tensor) const {
    const auto* found = core::find_tensor(all_, tensor.role, tensor.slot);
    if (found == nullptr || all_.tensors.size() != alone_.tensors.size()) {
      refuse("it has other tensors for one item");
    }
    return static_cast<std::size_t>(found - all_.tensors.data());
  }

  [[noreturn]] void refuse(const std::string& why) const {
    cannot(fmt::format("op {} {}: {}", all_.index, all_.op->full_name(), why), "");
  }

  const core::DumpSource& batch_;
  core::OpRecord all_;
  core::OpRecord alone_;
  std::int64_t items_ = 0;
  std::vector<std::size_t> counterparts_;  ///< per tensor of `alone_`, that of `all_`
  std::vector<Share> shares_;              ///< per tensor of `alone_`
};

bool gives_as_expected(const core::OpRecord& made, const core::OpRecord& expected) {
  return std::ranges::all_of(expected.tensors, [&](const core::TensorRecord& tensor) {
    if (!core::is_output(tensor) || tensor.state != ContentState::kHashed) return true;
    const auto* given = core::find_tensor(made, tensor.role, tensor.slot);
    return given != nullptr && given->state == ContentState::kHashed &&
           given->content_key() == tensor.content_key();
  });
}

/// Of what the batch gave an item.
std::vector<core::Digest> results_of(const core::OpRecord& expected) {
  std::vector<core::Digest> digests;
  for (const core::TensorRecord& tensor : expected.tensors) {
    if (core::is_output(tensor) && tensor.state == ContentState::kHashed) {
      digests.push_back(tensor.digest);
    }
  }
  return digests;
}

class BatchSweep {
 public:
  BatchSweep(const core::DumpSource& batch,
             const core::DumpSource& alone,
             std::span<const BatchCall> calls)
      : batch_(batch), alone_(alone) {
    for (const BatchCall& call : calls) alone_of_.emplace(call.op, call.alone);
  }

  BatchOutcome run() {
    const auto items = static_cast<std::uint64_t>(count_items());
    outcome_.items = items;
    if (items == 0) return std::move(outcome_);
    const std::set<std::uint64_t> tried{0, items / 2, items - 1};
    outcome_.tried.assign(tried.begin(), tried.end());
    outcome_.unswept = for_each_outermost(
        batch_, [this](const core::OpRecord& record) { return execute(record); });
    return std::move(outcome_);
  }

 private:
  /// What most tensors say.
  [[nodiscard]] std::int64_t count_items() const {
    std::map<std::int64_t, std::uint64_t> votes;
    for (const auto& [op, alone] : alone_of_) {
      const core::OpRecord all = batch_.op(op);
      for (const core::TensorRecord& tensor : alone_.op(alone).tensors) {
        const auto* same = core::find_tensor(all, tensor.role, tensor.slot);
        if (same == nullptr) continue;
        if (const auto items = items_in(same->shape, tensor.shape)) ++votes[*items];
      }
    }
    const auto most =
        std::ranges::max_element(votes, {}, [](const auto& vote) { return vote.second; });
    return most == votes.end() ? 0 : most->first;
  }

  /// @return whether those inside need not be tried
  bool execute(const core::OpRecord& record) {
    const auto alone = alone_of_.find(record.index);
    if (alone == alone_of_.end()) {
      cannot(fmt::format("op {} {}: the recording of one item has no such call",
                         record.index,
                         record.op->full_name()),
             "");
    }
    const PairedCall call(
        batch_, record, alone_.op(alone->second), static_cast<std::int64_t>(outcome_.items));
    using enum core::TensorRole;
    using Kind = Share::Kind;
    const bool is_square = call.has(kInput, Kind::kSquare) || call.has(kOutput, Kind::kSquare);
    if (!is_square && !call.has(kInput, Kind::kAlong) && !call.has(kInput, Kind::kUnknown)) {
      ++outcome_.without_items;
      return true;
    }
    const bool joins = !call.has(kOutput, Kind::kAlong) && !call.has(kOutput, Kind::kUnknown);
    if (is_square || joins || call.draws()) {
      outcome_.mixing.push_back(record.index);
      return false;
    }
    call.require_same_call();
    return judge(record, call);
  }

  bool judge(const core::OpRecord& record, const PairedCall& call) {
    RepeatedCall again(batch_, record.index, {});
    if (print_of(again.run().record) != print_of(record)) {
      outcome_.unrepeated.push_back(record.index);
      return true;
    }
    std::set<std::vector<core::Digest>> results;
    std::vector<BatchDifference> differing;
    for (const std::uint64_t each : outcome_.tried) {
      const auto item = static_cast<std::int64_t>(each);
      const std::unique_ptr<MadeCall> held = call.alone(item);
      const core::OpRecord& expected = held->record();
      results.insert(results_of(expected));
      RepeatedCall alone(*held, expected.index, {});
      const CallSink& made = alone.run();
      if (gives_as_expected(made.record, expected)) continue;
      BatchDifference difference{record.index, each, worst_output(*held, expected, made)};
      if (!keeps_apart(call, expected, item, difference)) {
        outcome_.mixing.push_back(record.index);
        return false;
      }
      differing.push_back(std::move(difference));
    }
    std::ranges::move(differing, std::back_inserter(outcome_.differing));
    ++outcome_.judged;
    if (results.size() > 1) ++outcome_.told_apart;
    return true;
  }

  /// Whether what an item gets depends on nothing but the item, and how many there are. Where it
  /// stands may change how it is rounded, and no more.
  /// @param expected  of the item, as the batch gave it
  [[nodiscard]] bool keeps_apart(const PairedCall& call,
                                 const core::OpRecord& expected,
                                 std::int64_t item,
                                 const BatchDifference& difference) const {
    constexpr double kRounding = 0.01;
    const auto items = static_cast<std::int64_t>(outcome_.items);
    const auto gives = [&](const MadeCall& arranged, std::int64_t place) {
      RepeatedCall made(arranged, difference.op, {});
      return call.gives_item(made.run(), expected, place);
    };
    const auto copies = call.in_order(Order(outcome_.items, item));
    if (!call.is_another(*copies)) {
      cannot(fmt::format("op {} {}: its items are equal, so that nobody can tell whether one "
                         "depends on the others",
                         difference.op,
                         expected.op->full_name()),
             "");
    }
    if (!gives(*copies, item)) return false;
    const auto& output = difference.output;
    const bool is_rounding =
        output && output->max_abs && *output->max_abs <= kRounding * output->largest;
    if (is_rounding) return true;
    Order moved(outcome_.items);
    for (std::int64_t place = 0; place < items; ++place) {
      moved[static_cast<std::size_t>(place)] = (place + items - 1) % items;
    }
    return gives(*call.in_order(moved), (item + 1) % items);
  }

  const core::DumpSource& batch_;
  const core::DumpSource& alone_;
  std::map<std::uint64_t, std::uint64_t> alone_of_;
  BatchOutcome outcome_;
};

}  // namespace

BatchOutcome sweep_batch(const core::DumpSource& batch,
                         const core::DumpSource& alone,
                         std::span<const BatchCall> calls) {
  return BatchSweep(batch, alone, calls).run();
}

}  // namespace repro_check::replay
