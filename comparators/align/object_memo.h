// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace repro_check::comparators::detail {

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

}  // namespace repro_check::comparators::detail
