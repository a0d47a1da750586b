// SPDX-License-Identifier: Apache-2.0
#include "dumpers/replay/sweep.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "core/error.h"
#include "core/system/pinned.h"
#include "dumpers/replay/call_results.h"
#include "dumpers/replay/outermost_calls.h"
#include "dumpers/replay/repeated_call.h"
#include "dumpers/replay/restored_generator.h"
#include "dumpers/replay/rounding.h"
#include "dumpers/replay/thread_count.h"

namespace repro_check::replay {
namespace {

using Kind = SweepSetting::Kind;

/// Moves generators from one drawing call to the next. Only where something outside of the recorded
/// calls drew in between, the way from the seed is walked.
class FollowedGenerators {
 public:
  /// @param dump  borrowed
  explicit FollowedGenerators(const core::DumpSource& dump) : dump_(dump) {}

  /// @return the state before the call
  /// @throws core::Error{kNotComparable} when no way leads there, or too many had to be walked
  at::Tensor before(const core::OpRecord& record) {
    const auto known = ends_.find(place_of(record));
    if (known != ends_.end() && known->second.position == record.generator->position_before) {
      return known->second.state;
    }
    if (walks_++ == kMostWalks) {
      cannot("something outside the recorded operators moves the generator again and again", "");
    }
    return restore_generator(dump_, record).get_state();
  }
  void note(const RepeatedCall& call) {
    if (!call.record().generator) return;
    ends_[place_of(call.record())] = {call.record().generator->position_after,
                                      call.generator_end()};
  }

 private:
  static constexpr int kMostWalks = 32;

  struct End {
    std::uint64_t position = 0;
    at::Tensor state;
  };
  using Place = std::pair<std::string, std::uint64_t>;  ///< device and seed

  static Place place_of(const core::OpRecord& record) {
    return {record.generator->device, record.generator->seed};
  }

  const core::DumpSource& dump_;
  std::map<Place, End> ends_;
  int walks_ = 0;
};

/// Hands out memory of another allocator, filled. Releases of LibTorch declare these members in two
/// ways, so that one of each pair overrides and the other one is not called.
class FillingAllocator final : public c10::Allocator {
 public:
  FillingAllocator(c10::Allocator* from, std::int64_t byte)
      : from_(from), byte_(static_cast<int>(byte)) {}

  // NOLINTBEGIN(modernize-use-override,cppcoreguidelines-explicit-virtual-functions)
  [[nodiscard]] c10::DataPtr allocate(std::size_t size) { return filled(size); }
  [[nodiscard]] c10::DataPtr allocate(std::size_t size) const { return filled(size); }
  void copy_data(void* to, const void* from, std::size_t count) const {
    std::memcpy(to, from, count);
  }
  // NOLINTEND(modernize-use-override,cppcoreguidelines-explicit-virtual-functions)
  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return from_->raw_deleter(); }

 private:
  [[nodiscard]] c10::DataPtr filled(std::size_t size) const {
    c10::DataPtr memory = from_->allocate(size);
    if (memory.get() != nullptr) std::memset(memory.get(), byte_, size);
    return memory;
  }

  c10::Allocator* from_;
  int byte_;
};

/// Fills all memory that LibTorch allocates on the CPU, for as long as it lives.
class Fill : core::Pinned {
 public:
  explicit Fill(std::int64_t byte) : found_(c10::GetCPUAllocator()), filling_(found_, byte) {
    c10::SetCPUAllocator(&filling_, kPriority);
  }
  ~Fill() { c10::SetCPUAllocator(found_, kPriority); }

 private:
  static constexpr std::uint8_t kPriority = std::numeric_limits<std::uint8_t>::max();

  c10::Allocator* found_;
  FillingAllocator filling_;
};

/// Whether it is: an extension may have put an allocator of its own in front.
bool can_fill(std::int64_t byte) {
  constexpr std::int64_t kBytes = 4096;
  const Fill fill(byte);
  const at::Tensor memory = at::empty({kBytes}, at::kByte);
  return memory.eq(byte).all().item<bool>();
}

/// And differs from what this process has.
bool can_be_had(const SweepSetting& setting) {
  if (setting.kind == Kind::kFill) return can_fill(setting.value);
  if (setting.kind != Kind::kThreads) return true;
  if (setting.value == at::get_num_threads()) return false;
  const ThreadCount threads(static_cast<int>(setting.value));
  return at::get_num_threads() == setting.value;
}

class Sweep {
 public:
  Sweep(const core::DumpSource& dump, const std::vector<SweepSetting>& settings)
      : dump_(dump), settings_(settings), generators_(dump) {
    for (std::uint64_t i = 0; i < settings.size(); ++i) {
      if (can_be_had(settings[i])) outcome_.had.push_back(i);
    }
  }

  SweepOutcome run() {
    outcome_.unswept = for_each_outermost(dump_, [this](const core::OpRecord& record) {
      RepeatedCall call(dump_, record.index, {}, [this](const core::OpRecord& drew) {
        return generators_.before(drew);
      });
      differing_.clear();
      rounding_.reset();
      execute(call);
      std::ranges::move(differing_, std::back_inserter(outcome_.differing));
      ++outcome_.executed;
      return true;
    });
    return std::move(outcome_);
  }

 private:
  void execute(RepeatedCall& call) {
    const std::string recorded = print_of(call.record());
    const bool repeats = !differs(call, recorded, std::nullopt);
    generators_.note(call);
    std::optional<std::string> filled;
    for (const std::uint64_t at : outcome_.had) {
      if (settings_[at].kind == Kind::kFill) {
        // Memory that nobody wrote may be why a call does not repeat.
        if (!compare_fills(call, at, filled)) break;
      } else if (repeats) {
        change(call, recorded, at);
      }
    }
  }

  void change(RepeatedCall& call, const std::string& recorded, std::uint64_t at) {
    const SweepSetting& setting = settings_[at];
    if (setting.kind == Kind::kAlignment) {
      differs(call, recorded, at, setting.value);
    } else if (setting.kind == Kind::kThreads) {
      const ThreadCount threads(static_cast<int>(setting.value));
      differs(call, recorded, at);
    } else {
      if (!rounding_) rounding_ = rounding_of(dump_, call);
      const auto& found = setting.kind == Kind::kCondition ? rounding_->moved : rounding_->decided;
      if (found) differing_.push_back({call.record().index, at, found});
    }
  }

  /// @param first  what the call gives with the first fill, which is made here
  /// @return false where it gives two results with one fill
  bool compare_fills(RepeatedCall& call, std::uint64_t at, std::optional<std::string>& first) {
    const Fill fill(settings_[at].value);
    if (first) {
      differs(call, *first, at);
      return true;
    }
    first = print_of(call.run().record);
    return print_of(call.run().record) == *first;
  }

  bool differs(RepeatedCall& call,
               const std::string& expected,
               const std::optional<std::uint64_t>& setting,
               std::int64_t shift = 0) {
    const CallSink& made = call.run({.shift = shift, .nudged = {}});
    if (print_of(made.record) == expected) return false;
    differing_.push_back({call.record().index, setting, worst_output(dump_, call.record(), made)});
    return true;
  }

  const core::DumpSource& dump_;
  const std::vector<SweepSetting>& settings_;
  FollowedGenerators generators_;
  std::vector<SweptCall> differing_;  ///< settings of one call
  std::optional<Rounding> rounding_;  ///< of that call, where it is asked for
  SweepOutcome outcome_;
};

}  // namespace

SweepOutcome sweep(const core::DumpSource& dump, const std::vector<SweepSetting>& settings) {
  return Sweep(dump, settings).run();
}

}  // namespace repro_check::replay
