// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "baselines/accepted_blocks.h"
#include "core/digest/digest.h"
#include "core/trace/dump.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"

namespace repro_check::baselines {

// The grammar of a baseline file. UTF-8 is never needed: every byte is printable ASCII or LF.
//
//   file     = head platform *config "root" SP digest LF *tensor *( op / module )
//              *call *update *steps end
//   head     = "repro-baseline" SP version LF
//              "gate" SP word SP "model" SP digest SP "config" SP digest SP
//              "policy" SP word SP "ops" SP count
//              [ SP "blocks" SP count SP "calls" SP count SP "parameters" SP count ] LF
//   platform = "platform" SP digest LF 1*( "p" SP word SP rest LF )
//   config   = "c" SP word SP rest LF                    ; ascending by name
//   tensor   = ( "i" / "w" / "b" ) SP word SP form LF     ; input, parameter, buffer
//            / ( "i" / "w" / "b" ) SP "*" SP count SP digest LF      ; folded
//   op       = ( "f" / "g" / "o" ) SP word SP word SP place *( SP result ) LF
//   module   = "m" SP word SP count SP digest LF          ; folded
//   call     = "k" SP phase SP word SP when SP count SP border SP border LF   ; of a block
//   update   = "u" SP word SP when SP border LF           ; a parameter behind a step
//   steps    = "t" SP when SP count SP count SP digest LF ; folded: how many steps, and lines
//   when     = step [ "/" rank ]                          ; the rank left out where it leads
//   border   = 32HEXDIG / "-"
//   place    = step [ "/" rank "/" lane "/" depth ]       ; all but the step left out where all are
//   result   = [ slot "=" ] form / "=" word               ; the last: results that are no tensors
//   form     = dtype "[" [ count *( "," count ) ] "]:" ( 32HEXDIG / state )
//   end      = "end" SP count SP digest LF                ; of all bytes before this line
//
// Version 2 is that of recordings of blocks, whose ops are batches, losses and steps; its head
// tells how many blocks, calls of these and parameters there are. All others are version 1.
//
// There is one spelling of every content, and readers refuse any other. A file on its way to become
// a baseline is
//
//   pending  = "repro-pending 1" LF "runs" SP ( "agreed" / "disagreed" ) SP count LF
//              "model" SP digest SP rest LF [ "weights" SP digest SP rest LF ] file
//              "pending" SP digest LF

inline constexpr std::uint64_t kBaselineVersion = 2;
/// Operators, and tensors of a kind, above which a file holds a line a module, or one for all;
/// calls of blocks, and parameters behind steps, above which it holds a line a step, or fewer.
inline constexpr std::size_t kMostLines = 5000;
inline constexpr std::string_view kBaselineSuffix = ".repro";
inline constexpr std::string_view kPendingSuffix = ".repro.new";

/// Something with a name: `libtorch.version` `2.13.0`.
using Fact = core::EnvironmentFact;

/// What decides which numbers a machine computes: architecture, CPU kernels in use, libraries,
/// device, threads, and the digests of a few fixed computations (the numeric probe), because
/// machines of one description do not always agree.
struct Platform {
  std::vector<Fact> fields;  ///< in a fixed order

  [[nodiscard]] core::Digest key() const;
  bool operator==(const Platform&) const = default;
};

/// Empty when the recording holds no numeric probe: an older recorder made it.
std::optional<Platform> platform_of(const core::RunManifest& manifest);

/// `x86_64 avx512 libtorch-2.13.0 threads-2`
std::string describe(const Platform& platform);

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
  core::Digest model;           ///< names, dtypes and shapes of what the model owns, and the method
  core::Digest config;          ///< of `facts`
  std::string policy;           ///< `bitwise`
  std::uint64_t operators = 0;  ///< lines, those of returned values included
  Platform platform;
  /// The configuration as far as numbers depend on it, by JSON pointer. Variables and arguments
  /// that are no known settings have their names alone.
  std::vector<Fact> facts;
  core::Digest root;                       ///< index digest of the dump it was made from
  std::vector<core::NamedTensor> tensors;  ///< inputs, then parameters, then buffers
  std::vector<AcceptedTensors> folded;     ///< the kinds that are not in `tensors`
  /// A line an operator, in trace order of each lane; none where `modules` stand for them. It has
  /// no number, so that an inserted one is a difference of one line.
  std::vector<std::string> ops;
  std::vector<AcceptedModule> modules;                  ///< ascending
  std::optional<AcceptedBlocks> blocks = std::nullopt;  ///< of a recording of blocks
  bool operator==(const Baseline&) const = default;
};

/// A file that a run loaded.
struct LoadedFile {
  core::Digest digest;
  std::string path;  ///< as it was given
  bool operator==(const LoadedFile&) const = default;
};

/// What a gate found, on its way to become a baseline.
struct Pending {
  bool agreed = false;     ///< the runs agreed with each other
  std::uint64_t runs = 0;  ///< how many there were
  LoadedFile model;
  Baseline baseline;
  std::optional<LoadedFile> weights = std::nullopt;  ///< where the model's are not its own
};

/// `3f9c0d12e5a7`: the part of a platform's key that file names hold.
std::string short_key(const core::Digest& key);
/// `bert-3f9c0d12e5a7.repro`
std::string file_name(const Baseline& baseline);

/// What the line of an operator tells: its operator, place and outputs, and `scalars`, the results
/// that are no tensors, as text; empty = there are none.
struct AcceptedOp {
  core::OpRecord record;
  std::string scalars;
};

/// One line without its end, as the file has it.
std::string to_line(const core::OpRecord& record, const std::string& scalars);
std::string to_line(const core::NamedTensor& tensor);
/// @param line  as to_line() writes it
/// @throws core::Error{kDumpDamaged} for any other
AcceptedOp op_of(std::string_view line);
/// `float32[2,3]`, without the digest.
std::string form_of(const core::NamedTensor& tensor);

/// True for older baselines that hold a value of which only the name is kept today.
bool holds_values(const Baseline& baseline);

std::string to_text(const Baseline& baseline);
std::string to_text(const Pending& pending);

/// @param origin  path, named in messages
/// @throws core::Error{kDumpUnknown} for another format or a newer version,
///         core::Error{kDumpDamaged} for anything to_text() would not have written
Baseline baseline_from_text(std::string_view text, const std::string& origin);
Pending pending_from_text(std::string_view text, const std::string& origin);

/// One thing that is not what was accepted.
struct Change {
  std::string name;      ///< `config /seed`, `input tokens`, `buffer mask`, `cpu.capability`
  std::string accepted;  ///< `none` where there was no such thing
  std::string now;
};

/// What makes a baseline stale: configuration, inputs, and what the model is apart from its
/// numbers. Weights are none of it: another number there is what a gate is to find.
std::vector<Change> stale_reasons(const Baseline& accepted, const Baseline& now);

/// Fields in which two platforms differ, in their order.
std::vector<Change> platform_changes(const Platform& accepted, const Platform& now);

/// `blocks`, or `top`: the depth at which it was recorded, as the configuration has it.
std::string depth_of(const Baseline& baseline);

/// A fact of the configuration, as JSON; empty where the baseline does not have it.
std::string fact_of(const Baseline& baseline, std::string_view pointer);

/// Whether every operator returned what was accepted, and every block and parameter. Both folded
/// alike, see folded_like().
bool same_results(const Baseline& accepted, const Baseline& now);

/// Which of the model's parameters and buffers hold something else: `parameter fc.weight`.
std::vector<Change> weight_changes(const Baseline& accepted, const Baseline& now);

/// For a summary: `3 of 491 operators change, first aten::addmm (encoder.0)`.
std::string describe_changes(const Baseline& accepted, const Baseline& now);

/// What would be accepted of one operator: its name, its place and its outputs.
std::string to_line(const core::OpRecord& record);
/// Its results that are no tensors; empty = there are none.
std::string scalars_of(const core::OpRecord& record);

/// What would be accepted of a recording, with a line for every operator and tensor, however many
/// there are: fold() makes the file. Only digests are read, no contents. Lane after lane, since
/// which of them was first is a matter of luck, as all order in a pool is.
/// @param platform  the recording's, see platform_of()
/// @throws core::Error{kDumpDamaged}
Baseline summarise(const core::DumpSource& dump,
                   const Platform& platform,
                   const std::string& gate,
                   const std::string& policy);

/// Adds the operators of one more rank of the same run, which has this number.
/// @param other  not folded, like `baseline`
Baseline with_rank(Baseline baseline, const Baseline& other, std::uint32_t rank);

/// The ranks that it tells the operators of, ascending: the one that leads is 0.
std::vector<std::uint32_t> ranks_in(const Baseline& baseline);

/// What it tells of one of them.
/// @param baseline  not folded
Baseline of_rank(Baseline baseline, std::uint32_t rank);

/// Puts a line a module in place of a line an operator, where there are more than kMostLines; of a
/// recording of blocks a line a step in place of all others; the same of the tensors of a kind.
Baseline fold(Baseline baseline);

/// Whether there is no line for each operator, or call of a block.
bool is_folded(const Baseline& baseline);

/// Folds all but tensors as another one is, however few there are: to compare with it.
/// @param baseline  not folded
/// @param other     of a recording of the same depth
Baseline folded_like(Baseline baseline, const Baseline& other);

/// Calls of operators, as a person counts them: what the model returned is none.
std::uint64_t operator_calls(const Baseline& baseline);

/// Whether it says what the calls returned: one that was accepted before that was recorded does
/// not.
bool holds_returned(const Baseline& baseline);

/// @param baseline  not folded
Baseline without_returned(Baseline baseline);

}  // namespace repro_check::baselines
