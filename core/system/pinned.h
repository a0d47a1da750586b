// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace repro_check::core {

/// The base of what is neither copied nor moved: others hold its address, or its destructor puts
/// something back.
class Pinned {
 protected:
  Pinned() = default;
  ~Pinned() = default;

 public:
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
};

}  // namespace repro_check::core
