// SPDX-License-Identifier: Apache-2.0
#include "cmd/extract/extract_literal.h"

#include <type_traits>
#include <variant>

namespace repro_check::cmd {

std::string literal(const core::OpRecord& op,
                    const core::Value& value,
                    const LiteralDialect& dialect) {
  return std::visit(
      [&](const auto& data) -> std::string {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, bool>) {
          return dialect.truth(data);
        } else if constexpr (std::is_same_v<T, std::int64_t>) {
          return dialect.integer(data);
        } else if constexpr (std::is_same_v<T, double>) {
          return dialect.real(data);
        } else if constexpr (std::is_same_v<T, std::complex<double>>) {
          return dialect.complex(data);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return dialect.text(data);
        } else if constexpr (std::is_same_v<T, core::Symbol>) {
          return dialect.symbol(data.name);
        } else if constexpr (std::is_same_v<T, core::TensorSlot>) {
          return dialect.tensor(op.tensors.at(data.index));
        } else if constexpr (std::is_same_v<T, core::ValueList>) {
          std::string items;
          for (const core::Value& item : data.items) {
            items += (items.empty() ? "" : ", ") + literal(op, item, dialect);
          }
          return dialect.list(items);
        } else {
          return std::string(dialect.none);
        }
      },
      value.data);
}

}  // namespace repro_check::cmd
