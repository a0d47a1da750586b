// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/trace/dump_sink.h"
#include "core/trace/op_range.h"
#include "core/trace/op_record.h"
#include "core/trace/run_modes.h"

namespace at {
class Tensor;
}
namespace c10 {
struct IValue;
}

namespace repro_check::capture {

struct CaptureOptions {
  core::DumpLevel level = core::DumpLevel::kTensor;
  core::DumpDepth depth = core::DumpDepth::kTop;
  bool verify_inputs = false;  ///< hash every input anew instead of trusting the digest cache
  bool disable_dropout = false;
  core::RngMode rng = core::RngMode::kDevice;
  std::uint64_t seed = 0;            ///< base of the host generator under RngMode::kHost
  std::vector<std::string> include;  ///< globs on operator name or module path; empty = all
  std::vector<std::string> exclude;
  /// The program may write memory without an operator, as Python does from lists, files and shared
  /// memory: what nobody was seen to write counts as written once it is read.
  bool unseen_writes = false;
  core::OpRanges keep_ops;  ///< at level tensor, the operators whose bytes are kept; empty = all
};

/// Tensors by name.
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Values by name.
using NamedValues = std::vector<std::pair<std::string, c10::IValue>>;

/// Says where in the model the calling thread stands. Implemented by the front end; called on the
/// thread that runs the operator, inside the fallback.
class SiteProvider {
 public:
  SiteProvider() = default;
  SiteProvider(const SiteProvider&) = delete;
  SiteProvider& operator=(const SiteProvider&) = delete;
  SiteProvider(SiteProvider&&) = delete;
  SiteProvider& operator=(SiteProvider&&) = delete;
  virtual ~SiteProvider() = default;

  /// Null when nothing is known. Equal places should be the same object.
  virtual std::shared_ptr<const core::CallSite> current_site() = 0;

  /// Which part of a training step this thread is in; empty where the front end says it once for
  /// all threads, with Capture::set_phase().
  [[nodiscard]] virtual std::optional<core::Phase> current_phase() const { return std::nullopt; }

  /// Whether what this thread runs now, outside any operator, is the model. What a compiler runs
  /// while it folds constants is not, and is not recorded.
  [[nodiscard]] virtual bool runs_model() const { return true; }

  /// Whether what this thread runs writes the memory that it allocates without an operator, as what
  /// turns a list of the program into a tensor does.
  [[nodiscard]] virtual bool fills_memory() const { return false; }
};

/// Progress, readable from any thread while the run goes on.
struct CaptureCounts {
  std::uint64_t operators = 0;  ///< records, those of returned values included
  std::uint64_t returned = 0;
  std::uint64_t tensors = 0;
  std::uint64_t substitutions = 0;
  std::uint64_t drawing_operators = 0;
  /// Operators that may have drawn while somebody else held their generator.
  std::uint64_t uncounted_draws = 0;
  std::uint64_t hashed_bytes = 0;
  /// Under verify_inputs: inputs that had changed though no recorded operator wrote them.
  std::uint64_t stale_inputs = 0;
};

/// Records every operator that passes the dispatcher while a Scope is alive. One Capture at a time
/// is active in a process. Knows no front end and no file format.
class Capture {
 public:
  /// @param sink, sites  borrowed for the life of the object; `sites` may be null
  Capture(const CaptureOptions& options, core::DumpSink& sink, SiteProvider* sites);
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  Capture(Capture&&) = delete;
  Capture& operator=(Capture&&) = delete;
  ~Capture();

  /// Names a tensor's storage, `state:encoder.3.weight` or `input:tokens`, until an operator writes
  /// it. Records of it carry the name.
  void name_tensor(const at::Tensor& tensor, const std::string& name);

  /// The digest the records of `tensor` would carry now; remembered, so that the first operator to
  /// read it does not hash it again. Undefined, meta and other content-less tensors give a record
  /// whose state says so. Components of sparse and quantised tensors follow as further records.
  std::vector<core::TensorRecord> describe(const at::Tensor& tensor, const std::string& slot);

  /// The tensors that the packed weights of a quantised layer were made of, as the records of
  /// operators that use them will have them: `<name>.weight`, `<name>.bias`. Empty for any other
  /// value.
  NamedTensors unpack(const c10::IValue& object, const std::string& name);

  void set_step(std::uint32_t step);
  void set_phase(core::Phase phase);

  /// Appends the record of what the call of this step returned (core::kReturnedOperator). To be
  /// called on the thread that made this object, outside of a Scope. Memory that no operator has
  /// written is digested as well: the program hands it out.
  void record_returned(const c10::IValue& value);

  /// Appends a record that stands for no operator of LibTorch: values that the front end names, as
  /// a batch, a loss or the state of an optimizer. On any thread that a Scope covers.
  /// @param name    `repro_check::batch`
  /// @param values  a name each; nothing but tensors, numbers and strings
  void record_values(const std::string& name, const NamedValues& values);

  /// The lane of the next thread that the calling thread starts, to be handed to that thread's
  /// Scope; empty where the calling thread is in no lane.
  std::optional<std::uint32_t> fork_lane();

  [[nodiscard]] CaptureCounts counts() const;

  /// What a person should know of the recording, each once: draws that could not be moved to the
  /// host, draws that could not be counted, inputs that changed unseen (verify_inputs).
  [[nodiscard]] std::vector<std::string> warnings() const;

  /// Rethrows what went wrong inside the recording itself (a full disk, a defect of ours), which a
  /// model may have swallowed. To be called after the run; does nothing when nothing did.
  /// @throws core::Error
  void rethrow_failure() const;

  /// Patterns of CaptureOptions::include that no operator and no module of the run matched.
  [[nodiscard]] std::vector<std::string> unmatched_include() const;

  /// The operator that was running, or the last one, for messages: `op 57 aten::conv2d
  /// (backbone.conv1, model.py:40)`. Empty before the first.
  [[nodiscard]] std::string last_operator() const;

  class Impl;

  /// Interception on the calling thread, and the threads that inherit its state, while alive.
  class Scope {
   public:
    /// @throws core::Error{kInternal} while another Capture records
    explicit Scope(Capture& capture) : Scope(capture, std::nullopt) {}
    /// @param lane  from fork_lane(); empty = the thread that made the Capture, or one of which
    ///              nobody knows who started it
    Scope(Capture& capture, std::optional<std::uint32_t> lane);
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    Scope(Scope&&) = delete;
    Scope& operator=(Scope&&) = delete;
    ~Scope();

   private:
    struct LaneGuard;

    Impl* impl_;
    std::unique_ptr<LaneGuard> lane_;
    bool previous_ = false;
    int exceptions_;
  };

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace repro_check::capture
