// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "configs/spec/compare_spec.h"
#include "configs/spec/gate_spec.h"
#include "core/tensor/content.h"
#include "core/tensor/dtype.h"
#include "core/trace/op_record.h"
#include "core/trace/run_manifest.h"

namespace repro_check::configs {

// The schema of configurations has the words of enumerations in the same order.

enum class ModelMode { kEval, kTrain, kAsSaved };
constexpr std::string_view words_of(ModelMode /*type*/) { return "eval train as_saved"; }
using core::DeterminismMode;
using core::DumpDepth;
using core::DumpLevel;
using core::GradMode;
using core::name_of;
using core::OptimizerReading;
using core::RecordedProcesses;
using core::RngMode;
enum class BrowseMode { kAuto, kAlways, kNever };
constexpr std::string_view words_of(BrowseMode /*type*/) { return "auto always never"; }

struct ModelSpec {
  std::filesystem::path path;  ///< absolute once parsed
  std::string method = "forward";
  ModelMode mode = ModelMode::kEval;
  /// Another version of `path`, whose parameters, buffers and other tensor attributes are put in
  /// place of those of the same name; absolute once parsed.
  std::optional<std::filesystem::path> weights_from;
  std::vector<std::string> weights;  ///< which of them, `encoder.3.weight`; empty = all
  bool operator==(const ModelSpec&) const = default;
};

/// A program that a run starts in place of a model: any that uses PyTorch.
struct ProgramSpec {
  std::vector<std::string> command;  ///< looked for in PATH, and its arguments
  std::filesystem::path cwd;         ///< where it is started; absolute once parsed
  std::vector<std::string> resume;   ///< as `command`: goes on from a checkpoint that that has made
  bool operator==(const ProgramSpec&) const = default;
};

enum class Distribution { kZeros, kOnes, kArange, kNormal, kUniform, kRandint };
constexpr std::string_view words_of(Distribution /*type*/) {
  return "zeros ones arange normal uniform randint";
}

/// A tensor made on the spot, on the CPU, by the recorder's own generator: the same numbers in
/// every LibTorch and on every machine.
struct GeneratedInput {
  Distribution distribution = Distribution::kZeros;
  std::vector<std::int64_t> shape;
  core::Dtype dtype = core::Dtype::kFloat32;
  std::uint64_t seed = 0;
  double low = 0;   ///< uniform, randint: inclusive; arange: first value, the step is 1
  double high = 1;  ///< uniform, randint: exclusive
  double mean = 0;  ///< normal
  double std = 1;   ///< normal
  bool operator==(const GeneratedInput&) const = default;
};

/// A tensor in a file.
struct FileInput {
  enum class Kind { kNpy, kTorch, kHdf5 };  ///< torch: written by `torch.save`

  Kind kind = Kind::kNpy;
  std::filesystem::path path;
  std::string dataset = {};  ///< of HDF5
  bool operator==(const FileInput&) const = default;
};
struct ValueInput {
  std::variant<std::nullptr_t, bool, std::int64_t, double, std::string> value;
  bool operator==(const ValueInput&) const = default;
};

struct InputSpec;
/// Inputs inside of another one.
struct ContainerInput {
  enum class Kind { kList, kTuple, kDict };

  Kind kind = Kind::kList;
  std::vector<InputSpec> items;  ///< of a dict named by its keys, in order
  bool operator==(const ContainerInput& other) const;
};

/// One argument of the method.
struct InputSpec {
  std::string name;     ///< empty = by position
  std::string pointer;  ///< JSON pointer in the configuration, for messages
  std::variant<GeneratedInput, FileInput, ValueInput, ContainerInput> source;
  bool operator==(const InputSpec&) const = default;
};

using CallSpec = std::vector<InputSpec>;

inline constexpr std::uint64_t kLeastDumpMemory = std::uint64_t{8} << 20U;

/// Where recordings go whose place nobody names.
inline constexpr const char* kDefaultFolder = "repro-check-out";

struct DumpSpec : core::RecordedPart {
  std::filesystem::path directory = kDefaultFolder;  ///< absolute once parsed
  BrowseMode browse = BrowseMode::kAuto;
  std::uint64_t memory = std::uint64_t{256} << 20U;  ///< bytes between the model and the disk
  std::optional<std::uint64_t> max_bytes;            ///< tensors beyond are not stored
  std::optional<core::SliceRule> slice;              ///< how much is stored of what is too large
  /// A dump whose contents are referred to instead of stored again; absolute once parsed.
  std::optional<std::filesystem::path> reference;
  bool keep_values = false;  ///< variables and arguments that may be secrets as well
  bool operator==(const DumpSpec&) const = default;
};

/// Its members that are keys of a configuration, as core::visit_part() has them.
template <typename Visitor, typename Dump>
void visit_dump(const Visitor& member, Dump& dump) {
  core::visit_part(member, dump);
  member("directory", dump.directory);
  member("browse", dump.browse);
  member("memory", dump.memory);
  member.unless_empty("max_bytes", dump.max_bytes);
  member.unless_empty("slice", dump.slice);
  member.unless_empty("reference", dump.reference);
  member.unless_empty("keep_values", dump.keep_values);
}

enum class LevelChoice {
  kDefault,  ///< none was given: auto for `run`, tensor for `record`
  kAuto,     ///< digests first, then tensors around the first divergence
  kFixed,    ///< DumpSpec::level
};

/// The part of the section `dump` that is about several runs, and that no recorder is told.
struct RecordingPlan {
  LevelChoice level = LevelChoice::kDefault;
  bool names_depth = false;  ///< DumpSpec::depth was given
  std::uint64_t window = 8;  ///< operators before and after the first divergence, under auto
};

/// Everything one recorder process is told: the base configuration with a run's overrides applied.
struct RunSpec {
  std::string name;
  /// What is run: a program, of which then only the members count that docs/CONFIGURATION.md names;
  /// else the model, called with inputs.
  std::optional<ProgramSpec> program;
  ModelSpec model;
  std::vector<CallSpec> calls;
  /// 0 to 2^32-1; empty, for a program only: its generators are left as they are. The default of a
  /// program is ProgramSeed's.
  std::optional<std::uint64_t> seed = 0;
  DeterminismMode determinism = DeterminismMode::kOff;
  bool disable_dropout = true;
  RngMode rng = RngMode::kDevice;
  core::CompileRung compile = core::CompileRung::kUntouched;  ///< of a program
  /// `own::scale`: an operator that eager PyTorch computes inside of Inductor's code; empty = none.
  std::string compile_fallback;
  GradMode grad = GradMode::kDisabled;
  std::string device = "cpu";
  std::optional<core::Dtype> dtype;  ///< floating tensors of model and inputs are cast to it
  std::optional<int> threads;        ///< intra-op
  std::optional<int> interop_threads;
  bool optimize_executor = false;  ///< audit TorchScript's optimised executor
  /// Variables set before the recorder starts; an empty optional takes one away.
  std::map<std::string, std::optional<std::string>> env;
  /// Settings of the determinism table by name, beyond what `determinism` pins: `on`, `off`, an
  /// integer or a name, as text.
  std::map<std::string, std::string> settings;
  std::optional<std::filesystem::path>
      recorder;  ///< another recorder, built against another LibTorch
  /// Libraries of operators, loaded before the model in this order; absolute once parsed.
  std::vector<std::filesystem::path> extensions;
  /// Seconds until its recorder is killed. What starts the recorder keeps it to itself.
  std::optional<int> timeout;
  DumpSpec dump;
  bool operator==(const RunSpec&) const = default;
};

struct ReportSpec {
  std::vector<std::string> formats = {"text"};         ///< text, json; the first goes to stdout
  std::map<std::string, std::filesystem::path> files;  ///< further reports by format; absolute
};

struct Config {
  std::filesystem::path file;  ///< where it came from; empty when built in memory
  std::vector<RunSpec> runs;   ///< at least two; the first is the baseline
  /// The configuration without any run's overrides, named `run`: what `record` records. Empty when
  /// only the runs say which model or which inputs.
  std::optional<RunSpec> base;
  /// Every run has a "seed" that was given, null included, and not the default.
  bool names_seed = false;
  /// Set when the runs are one configuration, so many times; 0 = they are listed one by one.
  std::uint64_t repeat = 0;
  RecordingPlan recording;
  CompareSpec compare;
  ReportSpec report;
  GateSpec gate;
  AuditSpec audit;
  /// Directory of the dump of one run.
  [[nodiscard]] std::filesystem::path dump_directory(const RunSpec& run) const {
    return run.dump.directory / run.name;
  }
};

/// Calls `visit` with every input that holds no others, in order.
template <typename Visit>
void for_each_leaf(const InputSpec& input, const Visit& visit) {
  const auto* container = std::get_if<ContainerInput>(&input.source);
  if (container == nullptr) return visit(input);
  for (const InputSpec& item : container->items) for_each_leaf(item, visit);
}

/// As above, of every input of every call.
template <typename Visit>
void for_each_leaf(const RunSpec& run, const Visit& visit) {
  for (const CallSpec& call : run.calls) {
    for (const InputSpec& input : call) for_each_leaf(input, visit);
  }
}

/// Variables a run sets, or takes away where the value is empty, before its recorder starts; all
/// others are inherited. What the configuration's `env` says wins over what is pinned here. Which
/// are pinned when is in docs/CONFIGURATION.md.
std::map<std::string, std::optional<std::string>> pinned_environment(const RunSpec& run);

}  // namespace repro_check::configs
