// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/trace/op_record.h"

namespace repro_check::cmd {

/// How a language of reproducers writes a recorded value.
struct LiteralDialect {
  std::string (*truth)(bool);
  std::string (*integer)(std::int64_t);
  std::string (*real)(double);
  std::string (*complex)(std::complex<double>);
  std::string (*text)(const std::string&);
  std::string (*symbol)(const std::string&);         ///< a dtype, layout, memory format or device
  std::string (*tensor)(const core::TensorRecord&);  ///< one that may be undefined
  std::string (*list)(const std::string& comma_separated);
  std::string_view none;  ///< also a generator: the default one stands in for it
};

/// An argument of `op` in the words of a language.
std::string literal(const core::OpRecord& op,
                    const core::Value& value,
                    const LiteralDialect& dialect);

}  // namespace repro_check::cmd
