// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dumpers/capture/tensors/digest_ring.h"

namespace repro_check::capture {

/// A write that nobody can tell before the digests of a content have come: one of an operator that
/// may have written what it was given. Until then the producer of the content is open.
struct OpenWrite {
  std::int64_t index = 0;      ///< of the operator
  std::int64_t producer = -1;  ///< where it has not written it, and `earlier` has not
  std::shared_ptr<const OpenWrite> earlier;
  Awaited before;
  Awaited after;

  /// To be asked once both have come. What could not be read may have been written.
  [[nodiscard]] bool happened() const {
    const bool are_read = before->state == AwaitedContent::State::kRead &&
                          after->state == AwaitedContent::State::kRead;
    return !are_read || before->summary.digest != after->summary.digest;
  }
  [[nodiscard]] bool any_happened() const {
    return happened() || (earlier != nullptr && earlier->any_happened());
  }
  [[nodiscard]] std::int64_t last() const {
    if (happened()) return index;
    return earlier != nullptr ? earlier->last() : producer;
  }
};

/// What of the records of a call is not known before digests come. All is by position among them.
struct Arrivals {
  struct Content {
    std::size_t record;
    Awaited content;
    bool is_number;  ///< with statistics and bytes
  };
  struct Producer {
    std::size_t record;
    std::shared_ptr<const OpenWrite> write;
  };
  /// An input that changed unseen, if the two differ.
  struct Change {
    std::string slot;
    Awaited before;
    Awaited after;
  };

  std::vector<Content> contents;
  std::vector<Producer> producers;
  std::vector<Change> changes;
  std::vector<Producer> written;  ///< records that are there only if the write happened

  [[nodiscard]] bool empty() const noexcept {
    return contents.empty() && producers.empty() && changes.empty() && written.empty();
  }
  void clear() noexcept {
    contents.clear();
    producers.clear();
    changes.clear();
    written.clear();
  }
  /// Something that has not come; null = all has.
  [[nodiscard]] Awaited next() const {
    for (const Content& each : contents) {
      if (is_on_the_way(each.content)) return each.content;
    }
    const auto of_write = [](const OpenWrite& write) {
      return is_on_the_way(write.before) ? write.before : write.after;
    };
    for (const auto* writes : {&producers, &written}) {
      for (const Producer& each : *writes) {
        for (const OpenWrite* write = each.write.get(); write != nullptr;
             write = write->earlier.get()) {
          if (Awaited content = of_write(*write); is_on_the_way(content)) return content;
        }
      }
    }
    for (const Change& each : changes) {
      for (const Awaited& content : {each.before, each.after}) {
        if (is_on_the_way(content)) return content;
      }
    }
    return nullptr;
  }
};

}  // namespace repro_check::capture
