// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/inspect/inspect_json.h"
#include "core/trace/dump_source.h"

namespace repro_check::cmd {

/// Where the value of one argument came from. Names are as the dump has them: not escaped.
struct FlowSource {
  std::string argument;             ///< slot of the reader
  std::string kind;                 ///< operator, parameter, buffer, state, input or constant
  std::optional<std::uint64_t> op;  ///< of kind operator, as the next two
  std::string operator_name;
  std::string output;  ///< slot; empty where the operator wrote memory that it did not return
  std::string name;    ///< of a parameter, buffer or input
};

/// A later operator that reads an output.
struct FlowReader {
  std::string output;  ///< slot of the operator that is looked at
  std::uint64_t op = 0;
  std::string operator_name;
  std::string argument;
};

/// Tensors of one call that share memory.
struct FlowAlias {
  std::int64_t storage = 0;
  std::vector<std::string> tensors;  ///< `in:self`, `out:0`
  bool written = false;              ///< by the operator itself
};

/// What flows into an operator and out of it.
struct OpFlow {
  std::vector<FlowSource> producers;  ///< one for each tensor argument, in order
  std::vector<FlowReader> consumers;  ///< in trace order
  std::vector<FlowAlias> aliases;     ///< by first appearance
};

/// Where the value of `tensor`, of some record of `dump`, came from.
FlowSource flow_source(const core::DumpSource& dump, const core::TensorRecord& tensor);

/// Reads the trace from `op` to its end.
/// @throws core::Error{kDumpDamaged}
OpFlow op_flow(const core::DumpSource& dump, const core::OpRecord& op);

/// `op 1 aten::relu out:0`, `parameter head.weight`, `model input x`, `a constant`; escaped.
std::string source_text(const FlowSource& source);

/// A row of an operator's view.
std::string op_row(std::string_view label, const std::string& text);

/// Those that say who shares its memory and who reads its outputs.
/// @param all  else at most 20 readers, and how many there are
std::string flow_rows(const OpFlow& flow, bool all);

/// Adds `producers`, `consumers` and `aliases`.
void add_flow(const OpFlow& flow, OrderedJson& document);

}  // namespace repro_check::cmd
