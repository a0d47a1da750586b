// SPDX-License-Identifier: Apache-2.0
#include "cmd/extract/reproducer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <complex>
#include <type_traits>
#include <variant>

#include "core/tensor/tensor_view.h"
#include "core/text/printable.h"

namespace repro_check::cmd {
namespace {

template <typename... Arguments>
std::string formatted(std::string_view format, const Arguments&... arguments) {
  return fmt::format(fmt::runtime(format), arguments...);
}

}  // namespace

std::string string_literal(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte >= 0x20 && byte <= 0x7e && c != '"' && c != '\\' && c != '?';
    literal += plain ? std::string(1, c) : fmt::format("\\{:03o}", byte);
  }
  return literal + "\"";
}

std::string slot_literals(const Reproducer& reproducer) {
  std::string slots;
  for (const std::string& slot : reproducer.result_slots) {
    slots += (slots.empty() ? "" : ", ") + string_literal(slot);
  }
  return slots;
}

std::string value_literal(const core::OpRecord& op,
                          const core::Value& value,
                          const ReproducerDialect& dialect) {
  return std::visit(
      [&](const auto& data) -> std::string {
        using T = std::decay_t<decltype(data)>;
        if constexpr (std::is_same_v<T, bool>) {
          return formatted(dialect.truth, data ? dialect.yes : dialect.no);
        } else if constexpr (std::is_same_v<T, std::int64_t>) {
          return formatted(dialect.integer, data);
        } else if constexpr (std::is_same_v<T, double>) {
          return dialect.real(data);
        } else if constexpr (std::is_same_v<T, std::complex<double>>) {
          return dialect.complex(data.real(), data.imag());
        } else if constexpr (std::is_same_v<T, std::string>) {
          return formatted(dialect.text, string_literal(data));
        } else if constexpr (std::is_same_v<T, core::Symbol>) {
          return dialect.symbol(data.name);
        } else if constexpr (std::is_same_v<T, core::TensorSlot>) {
          const core::TensorRecord& tensor = op.tensors.at(data.index);
          const bool undefined = tensor.state == core::ContentState::kUndefined;
          return undefined ? std::string(dialect.undefined)
                           : formatted(dialect.tensor, string_literal(tensor.slot));
        } else if constexpr (std::is_same_v<T, core::ValueList>) {
          std::string items;
          for (const core::Value& item : data.items) {
            items += (items.empty() ? "" : ", ") + value_literal(op, item, dialect);
          }
          return formatted(dialect.list, items);
        } else {
          return std::string(dialect.none);
        }
      },
      value.data);
}

std::string tensor_statements(const Reproducer& reproducer, const ReproducerDialect& dialect) {
  std::string text;
  for (std::size_t i = 0; i < reproducer.storages.size(); ++i) {
    const core::InputStorage& storage = reproducer.storages[i];
    const std::string& device = reproducer.op.tensors.at(storage.tensors.front()).device;
    text += formatted(dialect.storage,
                      string_literal(reproducer.files[i]),
                      dialect.dtype(storage.dtype),
                      device == "cpu" ? "" : formatted(dialect.move, string_literal(device)));
    for (const std::uint32_t member : storage.tensors) {
      const core::TensorRecord& tensor = reproducer.op.tensors[member];
      const bool empty = core::element_count(tensor.shape) == 0;
      text += formatted(dialect.view,
                        string_literal(tensor.slot),
                        formatted(dialect.sizes, fmt::join(tensor.shape, ", ")),
                        formatted(dialect.sizes, fmt::join(tensor.strides, ", ")),
                        empty ? 0 : tensor.storage_offset - storage.first);
    }
  }
  return text;
}

std::string setting_statements(const Reproducer& reproducer, const ReproducerDialect& dialect) {
  std::string text;
  for (const core::Setting& setting : reproducer.manifest.settings) {
    const bool number =
        !setting.used.empty() && setting.used.find_first_not_of("0123456789") == std::string::npos;
    if (setting.name == "threads.intra_op" && number) {
      text += formatted(dialect.threads, setting.used);
    }
    if (setting.name == "deterministic_algorithms" && setting.used != "off") {
      text += formatted(dialect.strict, setting.used == "warn" ? dialect.yes : dialect.no);
    }
  }
  return text;
}

std::string seed_statements(const Reproducer& reproducer, const ReproducerDialect& dialect) {
  const auto& use = reproducer.op.generator;
  if (!use) return "";
  std::string text = formatted(dialect.seed, use->seed);
  if (!reproducer.drawn) {
    return text + formatted(dialect.unplaced, core::printable(use->device), use->position_before);
  }
  return *reproducer.drawn > 0 ? text + formatted(dialect.skip, *reproducer.drawn) : text;
}

std::string expected_statements(const Reproducer& reproducer, const ReproducerDialect& dialect) {
  std::string text;
  for (const ExpectedOutput& output : reproducer.outputs) {
    text += formatted(output.file.empty() ? dialect.unstored : dialect.expected,
                      string_literal(output.tensor->slot),
                      string_literal(output.file),
                      dialect.dtype(output.tensor->dtype));
  }
  return text;
}

std::string fact_comments(const Reproducer& reproducer, std::string_view comment) {
  std::string text;
  for (const core::EnvironmentFact& fact : reproducer.manifest.environment) {
    if (fact.name != "libtorch.version" && fact.name != "cpu.model") continue;
    text += fmt::format("{} {}: {}\n", comment, fact.name, core::printable(fact.value));
  }
  return text;
}

}  // namespace repro_check::cmd
