// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "configs/spec/run_config.h"
#include "core/system/pinned.h"
#include "core/tensor/npy.h"
#include "core/trace/dump.h"
#include "core/trace/run_manifest.h"
#include "dumpers/capture/engine/capture_options.h"

namespace repro_check::torchscript {

/// Reads a tensor out of an HDF5 file. Handed in, because this folder knows no HDF5.
using Hdf5Reader =
    std::function<core::HostTensor(const std::filesystem::path& file, const std::string& dataset)>;

/// One argument of a model's method, as `init` needs it.
struct MethodArgument {
  std::string name;
  std::string type;  ///< TorchScript's own text: `Tensor`, `Optional[int]`, `List[Tensor]`
  bool has_default = false;
  std::string default_value;
  // What the first layer that takes a tensor wants of it, where one is known.
  std::string layer = {};                ///< its weight: `encoder.layers.0.weight`
  std::string dtype = {};                ///< the weight's; int64 of the numbers of rows of a table
  std::vector<std::int64_t> shape = {};  ///< -1 where any size does
  std::int64_t rows = 0;                 ///< of that table
};

struct ModelDescription {
  std::string method;
  std::vector<std::string> methods;       ///< every method of the module, for the near miss
  std::vector<MethodArgument> arguments;  ///< without self
  std::string dtype = "float32";          ///< of all floating parameters, where they have one
};

/// @throws core::Error{kUsage} when the file is missing or no model (saying what it is), or has
///         no such method
ModelDescription describe_model(const std::filesystem::path& path, const std::string& method);

/// Loads libraries that register operators or classes with LibTorch, one after the other. They stay
/// for the life of the process.
/// @return `extension.libmy.so` and the digest of the file, for each
/// @throws core::Error{kUsage} for one that cannot be loaded
std::vector<core::EnvironmentFact> load_extensions(
    const std::vector<std::filesystem::path>& libraries);

/// A tensor that two versions of a model file hold with other values.
struct WeightDifference {
  std::vector<std::string> names;  ///< more than one where names share memory: one cannot be
                                   ///< changed without the others
  std::string what;                ///< dtype and shape of the first
  std::uint64_t elements = 0;      ///< of all
  /// Of them, those with other bits; empty where that is not counted (quantised, sparse).
  std::optional<std::uint64_t> differing;
};

/// What two versions of a model file own under the same names: parameters, buffers and other
/// tensor attributes of their modules.
struct WeightVersions {
  std::vector<std::string> names;           ///< in the order of the model
  std::vector<WeightDifference> different;  ///< in the same order
  /// Why the tensors of one cannot stand in the other, and how to mend it; empty = they can.
  std::string obstacle;
  std::string mend;
};

/// Compares bit by bit: two NaN of the same bits are equal, zeros of other signs are not.
/// @throws core::Error{kUsage} when a file is missing or no model; core::Error{kRunFailed}
///         when memory runs out
WeightVersions compare_weights(const std::filesystem::path& first,
                               const std::filesystem::path& second);

/// A tensor or another value inside what the method returned.
struct ReturnedValue {
  std::string name;  ///< `out` for the value itself, `out.logits[1]` inside it; later calls `out@2`
  std::string what;  ///< dtype, shape and strides, or the kind of value
  core::Digest digest;

  bool operator==(const ReturnedValue&) const = default;
};

/// One recorded run of a TorchScript model, loaded, with its inputs built (nothing of the dump
/// exists yet).
struct TorchScriptRun : core::Pinned {
  virtual ~TorchScriptRun() = default;

  /// Runs every call, recording into `sink`.
  /// @param progress  called from another thread about ten times a second; may be empty
  /// @return the manifest but for what the dump writer knows (contents, bytes, index digest)
  /// @throws core::Error{kRunFailed} when the model throws, with operator, module path and source
  ///         line; when determinism mode refused an operator the hint says what to do
  virtual core::RunManifest record(
      core::DumpSink& sink, const std::function<void(const capture::CaptureCounts&)>& progress) = 0;

  /// Runs every call as record() does, with nothing intercepted: what there is to compare with.
  /// Arguments that record() would change (dropout, host draws) stay as they are.
  /// @throws core::Error{kRunFailed} when the model throws
  virtual void run_bare() = 0;

  /// What stood in the environment before this process was given its own: what the manifest calls
  /// found. Of other variables it is what they are.
  std::map<std::string, std::optional<std::string>> found;

  bool keep_returned = false;           ///< to be said before the calls run
  std::vector<ReturnedValue> returned;  ///< what they returned
};

/// Pins determinism, loads, moves to device and dtype, checks the inputs against the schema.
/// @throws core::Error{kUsage} for what the configuration got wrong: the model file, the method,
///         number, names or types of inputs, an unknown device; core::Error{kRunFailed} otherwise
std::unique_ptr<TorchScriptRun> prepare_run(const configs::RunSpec& run, const Hdf5Reader& hdf5);

}  // namespace repro_check::torchscript
