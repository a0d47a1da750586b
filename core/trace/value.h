// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace repro_check::core {

struct Value;

/// Stands for the tensor `tensors[index]` of the record that holds the value.
struct TensorSlot {
  std::uint32_t index = 0;
  bool operator==(const TensorSlot&) const = default;
};

/// Something without a value to compare (a stream, a custom class): only its type is known.
struct Opaque {
  std::string type;
  bool operator==(const Opaque&) const = default;
};

/// Device, dtype, layout, memory format and the like, by name.
struct Symbol {
  std::string name;
  bool operator==(const Symbol&) const = default;
};

struct ValueList {
  std::vector<Value> items;
  bool operator==(const ValueList& other) const;
};

/// One argument or result of an operator, exactly. monostate is None. A dict is a list of
/// two-element lists in its own order.
struct Value {
  std::variant<std::monostate,
               bool,
               std::int64_t,
               double,
               std::complex<double>,
               std::string,
               Symbol,
               TensorSlot,
               Opaque,
               ValueList>
      data;

  /// Exact equality; doubles by their bits, so a NaN equals itself and +0 is not -0.
  bool operator==(const Value& other) const;
};

/// As a person reads it: `None`, `True`, `0.5`, `[1, 2]`, `<tensor 0>`, `"mean"`, `cpu`.
std::string to_text(const Value& value);

}  // namespace repro_check::core
