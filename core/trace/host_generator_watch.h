// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/system/pinned.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"

namespace repro_check::core {

/// Generators that no operator draws from, as Python's `random` and NumPy's global one. Their state
/// is read where it lies: no function of theirs is replaced, since a compiler knows those by what
/// they are. Any thread.
class HostGeneratorWatch : core::Pinned {
 public:
  /// A place that the front end has checked, and keeps alive. Of a name that is known: the new one.
  struct Generator {
    std::string name;
    const std::byte* state = nullptr;
    std::size_t size = 0;
    std::size_t position = 0;  ///< where in the state a number of 32 bits says what is used up
  };
  void watch(const Generator& generator);

  /// The calling thread is about to call an operator at `place`: what has moved since it called the
  /// one before moved in between.
  /// @param place  null: not known; as long as this is there
  void look(const SourceFrame* place);

  /// What a record says of each: `generator.random` = the digest of its state, and where it has
  /// moved since the record before, if that is known, `moved.random`.
  using Texts = std::vector<std::pair<std::string, std::string>>;
  Texts read();

  /// What the manifest says of each: whether it ever moved, and its state.
  std::vector<EnvironmentFact> facts();

 private:
  struct Watched : Generator {
    std::uint64_t seen = 0;  ///< what mark() gave last
    std::string known;       ///< digest of the state that was read or set last
    std::string moved_at;    ///< since the last read()
    bool moved = false;
  };

  static std::uint64_t mark(const Generator& generator);
  static std::string digest(const Generator& generator);
  static bool is_new(const Generator& generator);

  std::atomic<bool> any_ = false;
  std::mutex mutex_;
  std::vector<Watched> generators_;
};

}  // namespace repro_check::core
