// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "baselines/platform.h"
#include "core/digest/digest.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"

namespace repro_check::baselines {

// The grammar of a baseline file. UTF-8 is never needed: every byte is printable ASCII or LF.
//
//   file     = head platform *config "root" SP digest LF *tensor *( op / module ) end
//   head     = "repro-baseline" SP version LF
//              "gate" SP word SP "model" SP digest SP "config" SP digest SP
//              "policy" SP word SP "ops" SP count LF
//   platform = "platform" SP digest LF 1*( "p" SP word SP rest LF )
//   config   = "c" SP word SP rest LF                    ; ascending by name
//   tensor   = ( "i" / "w" / "b" ) SP word SP form LF     ; input, parameter, buffer
//            / ( "i" / "w" / "b" ) SP "*" SP count SP digest LF      ; folded
//   op       = ( "f" / "g" / "o" ) SP word SP word SP place *( SP result ) LF
//   module   = "m" SP word SP count SP digest LF          ; folded
//   place    = step [ "/" rank "/" lane "/" depth ]       ; all but the step left out where all are
//   0 result   = [ slot "=" ] form / "=" word               ; the last: results that are no tensors
//   form     = dtype "[" [ count *( "," count ) ] "]:" ( 32HEXDIG / state )
//   end      = "end" SP count SP digest LF                ; of all bytes before this line
//
// There is one spelling of every content, and readers refuse any other.

inline constexpr std::uint64_t kBaselineVersion = 1;
/// Operators, and tensors of a kind, above which a file holds a line a module, or one for all.
inline constexpr std::size_t kMostLines = 5000;
inline constexpr std::string_view kBaselineSuffix = ".repro";

/// What an operator returned.
struct AcceptedOutput {
  std::string slot;
  core::Dtype dtype = core::Dtype::kUnknown;
  std::vector<std::int64_t> shape;
  core::ContentState state = core::ContentState::kNone;
  core::Digest digest;  ///< where the state is kHashed
  bool operator==(const AcceptedOutput&) const = default;
};

/// One operator. It has no number, so that an inserted one is a difference of one line.
struct AcceptedOp {
  core::Phase phase = core::Phase::kForward;
  std::string name;  ///< with its overload
  std::string module;
  std::uint32_t step = 0;
  std::uint32_t rank = 0;
  std::uint32_t lane = 0;
  std::uint32_t depth = 0;
  std::vector<AcceptedOutput> outputs;
  std::string scalars;  ///< results that are no tensors, as text; empty = there are none
  bool operator==(const AcceptedOp&) const = default;
};

/// The operators of one module path, where there are too many for a line each.
struct AcceptedModule {
  std::string path;
  std::uint64_t operators = 0;
  core::Digest digest;  ///< of their lines
  bool operator==(const AcceptedModule&) const = default;
};

/// Tensors of one kind, where there are too many for a line each.
struct AcceptedTensors {
  core::NamedTensorKind kind = core::NamedTensorKind::kInput;
  std::uint64_t count = 0;
  core::Digest digest;  ///< of their lines
  bool operator==(const AcceptedTensors&) const = default;
};

/// What was accepted, of one gate on one platform.
struct Baseline {
  std::string gate;
  core::Digest model;   ///< names, dtypes and shapes of what the model owns, and the method
  core::Digest config;  ///< of `facts`
  std::string policy;   ///< `bitwise`
  std::uint64_t operators = 0;
  Platform platform;
  std::vector<Fact> facts;  ///< the configuration as far as numbers depend on it, by JSON pointer
  core::Digest root;        ///< index digest of the dump it was made from
  std::vector<core::NamedTensor> tensors;  ///< inputs, then parameters, then buffers
  std::vector<AcceptedTensors> folded;     ///< the kinds that are not in `tensors`
  std::vector<AcceptedOp>
      ops;  ///< in trace order of each lane; empty where `modules` stand for them
  std::vector<AcceptedModule> modules;  ///< ascending
  bool operator==(const Baseline&) const = default;
};

/// `bert-3f9c0d12e5a7.repro`
std::string file_name(const Baseline& baseline);
std::string file_name(std::string_view gate, const core::Digest& key);

/// One line without its end, as the file has it.
std::string to_line(const AcceptedOp& op);
std::string to_line(const core::NamedTensor& tensor);

std::string to_text(const Baseline& baseline);

/// @param origin  path, named in messages
/// @throws core::Error{kDumpUnknown} for another format or a newer version,
///         core::Error{kDumpDamaged} for anything to_text() would not have written
Baseline baseline_from_text(std::string_view text, const std::string& origin);

}  // namespace repro_check::baselines
