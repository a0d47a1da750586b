// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <vector>

#include "core/tensor/tensor_stats.h"
#include "dumpers/capture/tensors/device_stream.h"

namespace repro_check::capture {

/// A device that is none. What streams are given is done late, and in any order but that of each
/// stream and of the events that a stream waits for. Digests are those of the bytes that lie there
/// when their turn comes, or, where the program's own work is done at once, when they are started.
class FakeStream final : public DeviceStream {
 public:
  explicit FakeStream(unsigned seed = 1) : random_(seed) {}

  /// What the program does on a stream.
  void run(int stream, std::function<void()> work) { queue(stream).push_back(std::move(work)); }
  void switch_to(int stream) { current_ = stream; }
  /// What `stream` is given from here on comes behind what `other` has been given until now.
  void order_behind(int stream, int other) {
    auto reached = std::make_shared<bool>(false);
    run(other, [reached] { *reached = true; });
    gates_[stream].emplace_back(queue(stream).size(), reached);
    run(stream, [] {});
  }
  /// Does all there is to do.
  void finish() {
    while (step()) {
    }
  }

  std::optional<Handle> current() override {
    ++asked;
    if (captures) return std::nullopt;
    return reinterpret_cast<Handle>(static_cast<std::uintptr_t>(current_ + 1));
  }

  std::byte* allocate(std::size_t bytes) override {
    if (captures) ++disturbed;
    if (has_no_memory) return nullptr;
    memory_.resize(bytes / sizeof(std::max_align_t) + 1);
    return reinterpret_cast<std::byte*>(memory_.data());
  }

  bool start(Handle stream,
             const kernel::LeafOrder* orders,
             kernel::LeafResult* results,
             std::byte* copied,
             std::size_t count) override {
    if (captures) ++disturbed;
    ++started;
    if (fails_to_start) return false;
    const std::vector<kernel::LeafOrder> leaves(orders, orders + count);
    if (!reads_late) {
      // Found now, and told later.
      auto found = std::make_shared<std::vector<kernel::LeafResult>>(count);
      auto bytes = std::make_shared<std::vector<std::byte>>(count * 1024);
      read(leaves, found->data(), bytes->data());
      run(number(stream), [=] {
        std::ranges::copy(*found, results);
        for (std::size_t i = 0; i < leaves.size(); ++i) {
          if (leaves[i].copied == 0) continue;
          const std::size_t at = leaves[i].copied - 1;
          std::memcpy(copied + at, bytes->data() + at, leaves[i].size);
        }
      });
    } else {
      run(number(stream), [=] { read(leaves, results, copied); });
    }
    return true;
  }

  bool record(std::size_t event, Handle stream) override {
    if (captures) ++disturbed;
    if (fails_to_record) return false;
    come_.erase(event);
    // Of an event that is recorded again, the last time counts.
    run(number(stream), [this, event, time = ++recorded_[event]] {
      if (recorded_[event] == time) come_.insert(event);
    });
    return true;
  }

  Progress query(std::size_t event) override {
    if (fails) return Progress::kFailed;
    if (!is_stuck && random_() % 4 == 0) step();
    return come_.contains(event) ? Progress::kDone : Progress::kGoing;
  }

  Progress wait(std::size_t event) override {
    if (captures) ++disturbed;
    ++waited;
    if (fails) return Progress::kFailed;
    while (!come_.contains(event)) {
      if (!step()) return Progress::kFailed;  // what nobody recorded
    }
    return Progress::kDone;
  }

  bool captures = false;
  bool has_no_memory = false;
  bool fails_to_start = false;
  bool fails_to_record = false;
  bool fails = false;       ///< whatever is asked of events
  bool reads_late = false;  ///< the program's work is that of run()
  bool is_stuck = false;    ///< nothing comes before it is waited for
  int asked = 0;
  int started = 0;
  int waited = 0;
  int disturbed = 0;  ///< calls while a graph was captured

 private:
  using Queue = std::deque<std::function<void()>>;

  Queue& queue(int stream) { return queues_[stream]; }
  static int number(Handle stream) {
    return static_cast<int>(reinterpret_cast<std::uintptr_t>(stream)) - 1;
  }

  /// The next of any stream that need not wait.
  bool step() {
    std::vector<int> ready;
    for (auto& [stream, work] : queues_) {
      auto& gates = gates_[stream];
      const bool waits = !gates.empty() && gates.front().first == 0 && !*gates.front().second;
      if (!work.empty() && !waits) ready.push_back(stream);
    }
    if (ready.empty()) return false;
    const int stream = ready[random_() % ready.size()];
    auto& gates = gates_[stream];
    if (!gates.empty() && gates.front().first == 0) gates.pop_front();
    for (auto& [ahead, reached] : gates) --ahead;
    const auto work = std::move(queue(stream).front());
    queue(stream).pop_front();
    work();
    return true;
  }

  static void read(const std::vector<kernel::LeafOrder>& leaves,
                   kernel::LeafResult* results,
                   std::byte* copied) {
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      const kernel::LeafOrder& leaf = leaves[i];
      const auto bytes = std::span(reinterpret_cast<const std::byte*>(leaf.data), leaf.size);
      if (leaf.copied != 0) {
        std::memcpy(copied + leaf.copied - 1, bytes.data(), bytes.size());
        continue;
      }
      const auto counted = core::count_leaf(dtype_of(leaf.odd.width), bytes);
      const core::NonFinite& odd = counted.counts;
      results[i] = {counted.digest.low,
                    counted.digest.high,
                    odd.nans + odd.infs(),
                    odd.positive_infs,
                    odd.negative_infs};
    }
  }

  static core::Dtype dtype_of(unsigned width) {
    if (width == 8) return core::Dtype::kFloat64;
    return width == 4 ? core::Dtype::kFloat32 : core::Dtype::kUInt8;
  }

  std::mt19937 random_;
  int current_ = 0;
  std::map<int, Queue> queues_;
  /// Of each stream, after how many of its works it waits, and for what.
  std::map<int, std::deque<std::pair<std::size_t, std::shared_ptr<bool>>>> gates_;
  std::set<std::size_t> come_;  ///< events
  std::map<std::size_t, int> recorded_;
  std::vector<std::max_align_t> memory_;
};

}  // namespace repro_check::capture
