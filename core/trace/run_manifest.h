// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/digest/digest.h"
#include "core/tensor/dtype.h"
#include "core/text/text.h"
#include "core/trace/recorded_part.h"

namespace repro_check::core {

enum class DeterminismMode { kOff, kWarn, kError };
constexpr std::string_view words_of(DeterminismMode /*type*/) { return "off warn error"; }
/// Where random numbers are drawn: by each device's own generator, or on the host and then moved.
/// What compiles the code that `torch.compile` is given to Inductor for, in a program.
enum class CompileRung {
  kUntouched,
  kOff,       ///< nothing is compiled
  kEager,     ///< its operators are called one by one, as the compiler's front end has them
  kAotEager,  ///< the same, as autograd has written them out
  kAotEagerDecomposed,  ///< the same, taken to pieces as Inductor does
  kInductor,            ///< Inductor, with the random numbers of eager PyTorch
  kAsWritten,           ///< what the program asks for
};
constexpr std::string_view words_of(CompileRung /*type*/) {
  return "untouched off eager aot_eager aot_eager_decomp_partition inductor as_written";
}
enum class RngMode { kDevice, kHost };
constexpr std::string_view words_of(RngMode /*type*/) { return "device host"; }
enum class GradMode { kDisabled, kEnabled, kInference };
constexpr std::string_view words_of(GradMode /*type*/) { return "disabled enabled inference"; }

inline constexpr const char* kDumpFormatName = "repro-check-dump";
inline constexpr std::uint32_t kDumpFormatMajor = 1;  ///< another major is refused
inline constexpr std::uint32_t kDumpFormatMinor = 5;  ///< a higher minor only adds fields

/// A determinism setting, a generator or an environment variable, by name. Values are text, names
/// and not enum numbers: those shift between releases. `unreadable: ...` where a getter threw,
/// `unset` for a variable that is not there.
struct Setting {
  std::string name;   ///< `deterministic_algorithms`, `env.MKL_CBWR`, `threads.intra_op`
  std::string found;  ///< before the recorder touched it; a variable: in the user's shell
  std::string used;   ///< during the run
  bool operator==(const Setting&) const = default;
};

/// A fact of the machine or of the libraries: `libtorch.version`, `cpu.model`.
struct EnvironmentFact {
  std::string name;
  std::string value;
  bool operator==(const EnvironmentFact&) const = default;
};

enum class NamedTensorKind : std::uint8_t { kInput, kParameter, kBuffer };
constexpr std::string_view words_of(NamedTensorKind /*type*/) { return "input parameter buffer"; }

/// A tensor the model was given, or one it owns, before the first operator.
struct NamedTensor {
  NamedTensorKind kind = NamedTensorKind::kInput;
  std::string name;  ///< `encoder.3.weight`; inputs `tokens`, in later calls `tokens@2`
  Dtype dtype = Dtype::kUnknown;
  std::vector<std::int64_t> shape;
  Digest digest;
  bool operator==(const NamedTensor&) const = default;
};

/// Of a recording that ended before its end, and was recovered as far as it came.
struct PartialTrace {
  std::string reason;         ///< why it ended, as far as anybody knows
  std::uint64_t last = 0;     ///< the highest op index that was reached
  std::string last_operator;  ///< `aten::conv2d (backbone.conv1, model.py:40)`
  /// Operators below trace.operators that were entered and never left, ascending: their rows hold
  /// no arguments, results or tensors.
  std::vector<std::uint64_t> unfinished;
  std::uint64_t lost_contents = 0;  ///< whose bytes had not arrived: their tensors are not stored
  bool stopped = false;  ///< by the program itself, as it ends workers: nothing was to come
  bool operator==(const PartialTrace&) const = default;
};

/// The dump that holds contents of another one, which refers to them instead of storing them again.
/// Told by what it is, not by where it lies: who reads must be given it.
struct TraceReference {
  std::string run_name;
  Digest index_digest;
  std::uint64_t contents = 0;  ///< of the referring dump, that lie there
  std::uint64_t bytes = 0;     ///< of those
  bool operator==(const TraceReference&) const = default;
};

/// A type of Python of which leaves at borders of blocks were not read.
struct UnopenedType {
  std::string type;  ///< `mamba.Cache`
  std::uint64_t count = 0;
  bool operator==(const UnopenedType&) const = default;
};

/// Of a recording of blocks: TraceSummary::depth is kDepthBlocks.
struct BlockSummary {
  std::uint64_t rows = 0;              ///< of /index/blocks; set by the sink
  std::uint64_t parameters = 0;        ///< of /index/parameters; set by the sink
  std::uint64_t every = 1;             ///< borders of each so many-th step
  std::vector<UnopenedType> unopened;  ///< by name
  std::vector<std::string> not_seen;   ///< modules that were to be blocks and were never called
  bool operator==(const BlockSummary&) const = default;
};

inline constexpr std::string_view kDepthBlocks = "blocks";

/// What the trace holds, in numbers, and how it was recorded.
struct TraceSummary {
  std::uint64_t operators = 0;     ///< records, those of returned values included
  std::uint64_t returned = 0;      ///< records of returned values; 0 = they were not recorded
  std::uint64_t tensors = 0;       ///< tensor records
  std::uint64_t contents = 0;      ///< distinct contents, here or in the dump referred to
  std::uint64_t stored_bytes = 0;  ///< of those that are stored here
  std::uint64_t slices = 0;        ///< contents of which only some elements are stored
  std::uint64_t substitutions = 0;
  std::uint64_t drawing_operators = 0;  ///< that consumed a generator
  std::string level = "tensor";         ///< digest | stats | tensor
  std::string depth = "top";            ///< top | leaf | all | blocks
  std::vector<std::string> include;     ///< patterns in force; empty = all
  std::vector<std::string> exclude;
  /// `state`: of what an optimizer's operators make nothing was read but what each step leaves;
  /// `operators`: all was; empty = it is no program, or none of the recorded phases is theirs.
  std::string optimizer;
  std::string only;   ///< `steps 0:3`: the part of a program that was recorded; empty = all of it
  OpRanges keep_ops;  ///< at level tensor, the operators whose bytes were kept; empty = all
  std::string digest_algorithm;
  std::string io =
      "buffered";  ///< how big contents were written: direct (past the page cache) | buffered
  /// Op index of the first record with a tensor whose bytes were left out because of
  /// dump.max_bytes; empty = there was none.
  std::optional<std::uint64_t> bytes_limit_reached_at;
  std::optional<PartialTrace> partial;      ///< empty = whole
  std::optional<TraceReference> reference;  ///< empty = every content is stored here
  std::optional<BlockSummary> blocks;       ///< empty = operators were recorded
  Digest index_digest;  ///< over the packed index, set by the dump writer and checked by readers

  /// Calls of operators, as a person counts them.
  [[nodiscard]] std::uint64_t operator_calls() const noexcept {
    return operators - std::min(operators, returned);
  }
};

/// An exception that nothing caught.
struct RaisedException {
  std::string type;        ///< `ValueError`, `torch.OutOfMemoryError`
  std::string file;        ///< the last line of the program's own that it came through; empty: none
  std::uint64_t line = 0;  ///< 0 where there is no file
  Digest text;             ///< of its text, which may hold what is nobody else's business
  std::string thread;      ///< which it ended; empty: the main one, and the program with it
  bool operator==(const RaisedException&) const = default;
};

/// How a program ended. Neither an exit code nor a signal: it is not known.
struct ProgramEnd {
  std::optional<std::uint64_t> exit_code;
  std::string signal;  ///< `SIGKILL`
  std::optional<RaisedException> exception;
  bool operator==(const ProgramEnd&) const = default;
};

/// A process that the recorded one started, or one of those did.
struct ChildProcess {
  std::string name;             ///< `proc-1`
  std::string how;              ///< `fork`, `spawn`, `exec`; empty: not known
  std::string command_line;     ///< of the kernel, words with spaces between
  std::uint64_t operators = 0;  ///< that it ran, as far as it told
  bool recorded = false;        ///< its operators are in a dump of that name
  bool pool = false;            ///< it took whatever task of a pool came next
  bool operator==(const ChildProcess&) const = default;
};

/// A hook of the recorder that failed: what it would have recorded is missing.
struct HookFailure {
  std::string where;  ///< name of the hook: `at_step`
  std::string error;  ///< `ValueError: no such parameter`
  std::uint64_t count = 0;
  bool operator==(const HookFailure&) const = default;
};

/// A file of source that records name, as it was when the program ran.
struct SourceFile {
  std::string file;
  Digest digest;  ///< of its bytes
  bool operator==(const SourceFile&) const = default;
};

/// Of a recording of a program, where no model has been called.
inline constexpr const char* kProgramMethod = "program";
/// TraceSummary::optimizer where operators of an optimizer were not read one by one.
inline constexpr std::string_view kOptimizerState = "state";

/// Who recorded what, with what, in which environment. Written last: no manifest, no dump.
struct RunManifest {
  std::string tool_version;
  std::string run_name;                  ///< `baseline`
  std::string created;                   ///< UTC, ISO 8601
  std::string configuration;             ///< the resolved run, as JSON text
  std::string model_path;                ///< as given; of a program its command
  std::string model_method = "forward";  ///< kProgramMethod of a program
  Digest model_digest;                   ///< of the file
  std::uint64_t seed = 0;
  std::string device = "cpu";
  std::string determinism = "off";
  bool disable_dropout = false;
  std::string rng = "device";
  std::string grad = "disabled";
  std::vector<Setting> settings;
  std::vector<EnvironmentFact> environment;
  std::vector<NamedTensor> named_tensors;  ///< inputs, then parameters, then buffers
  std::vector<std::string> warnings;       ///< as LibTorch gave them, each once
  TraceSummary trace;
  double seconds = 0;  ///< of the forward calls, recording included
  double load_seconds = 0;
  std::string run_id;                   ///< of a program: 32 hex digits, the same in all processes
                                        ///< of one run; empty: older than 1.4
  std::uint64_t attempt = 0;            ///< of an elastic launcher: how often it had restarted
  std::optional<ProgramEnd> end;        ///< of a program; empty: older than 1.4
  std::vector<ChildProcess> processes;  ///< of a program: other processes below it
  std::vector<HookFailure> notes;
  std::vector<SourceFile> sources;  ///< of a program, by name
  Digest digest;  ///< of its text, as that says itself; set by manifest_from_json_text()

  [[nodiscard]] bool is_of_program() const noexcept { return model_method == kProgramMethod; }
  [[nodiscard]] bool is_of_blocks() const noexcept { return trace.depth == kDepthBlocks; }
};

/// UTF-8 JSON with a trailing newline; field order fixed. Strings that are not UTF-8 are cleaned.
std::string to_json_text(const RunManifest& manifest);

/// The digest that stands in a text of to_json_text(), which tells one recording from any other.
Digest manifest_digest(const std::string& text);

/// @throws Error{kDumpUnknown} on another format name or a newer major, Error{kDumpDamaged} on
///         anything malformed or of the wrong type; `origin` (a path) is named in the message
RunManifest manifest_from_json_text(const std::string& text, const std::string& origin);

/// The value a setting had in the run; null where it was not recorded. Borrowed from the manifest.
inline const std::string* used_setting(const RunManifest& manifest, std::string_view name) {
  const auto found = std::ranges::find(manifest.settings, name, &Setting::name);
  return found == manifest.settings.end() ? nullptr : &found->used;
}

/// `(7) at train.py:3`: what the program itself gave a function that seeds or sets something, with
/// the line, where that was recorded.
std::string with_place(const RunManifest& manifest,
                       const std::string& function,
                       const std::string& given);

/// `ValueError at train.py:12`: the exception that ended a program; empty where none is known.
std::string raised_text(const RunManifest& manifest);

/// A fact of the environment; null where it was not recorded. Borrowed from the manifest.
inline const std::string* environment_fact(const RunManifest& manifest, std::string_view name) {
  const auto found = std::ranges::find(manifest.environment, name, &EnvironmentFact::name);
  return found == manifest.environment.end() ? nullptr : &found->value;
}

/// Facts of the environment: the mode that was asked for, and the one the modules say they are in.
inline constexpr std::string_view kModelMode = "model.mode";
inline constexpr std::string_view kModelTraining = "model.training";
/// kModelTraining of a model none of whose modules says it, as a frozen one: it keeps the mode that
/// it was made in, whatever was asked for.
inline constexpr std::string_view kNoTrainingFlags = "no flags";

/// A fact of a dump that `import` made: `tensors` or `msprobe`, what it was made of.
inline constexpr std::string_view kImportFormat = "import.format";

inline std::string text_or_empty(const std::string* text) {
  return text == nullptr ? std::string() : *text;
}

/// The environment variables that can change the numbers a model gives, sorted: a manifest records
/// each, set or not. Of some it is only known that a library reads them: a change of numbers was
/// not seen, on one machine.
std::vector<std::string_view> known_variables();

}  // namespace repro_check::core
