// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/tensor/tensor_record.h"

namespace repro_check::core {

/// Number of a lane: the place in the program that makes work, never the thread that happens to run
/// it. The same place has the same number in every run.

inline constexpr std::uint32_t kMainLane = 0;

/// Of what `creator` forks as its `ordinal`-th, from 0. Distinct for three levels of 16,383, 255
/// and 255 forks; beyond them a digest of the path, 30 bits of it.
std::uint32_t forked_lane(std::uint32_t creator, std::uint32_t ordinal) noexcept;

/// Of the work that threads do for `creator` of which nobody knows the place: it has no order.
std::uint32_t pool_lane(std::uint32_t creator) noexcept;

bool is_unordered(std::uint32_t lane) noexcept;

/// Of a worker process of a data loader, by its number, from 0: at most 65,534 are told apart.
std::uint32_t worker_lane(std::uint32_t worker) noexcept;
bool is_of_worker(std::uint32_t lane) noexcept;

/// The path of creation: `main`, `main.0`, `main.0.2`; `fork 1a2b3c4d` beyond; `pool of main.0`;
/// `worker 1`.
std::string lane_text(std::uint32_t lane);

struct Value;

/// Stands for the tensor `tensors[index]` of the record that holds the value.
struct TensorSlot {
  std::uint32_t index = 0;
  bool operator==(const TensorSlot&) const = default;
};

/// Something without a value to compare (a stream, a custom class): only its type is known.
struct Opaque {
  std::string type;
  bool operator==(const Opaque&) const = default;
};

/// Device, dtype, layout, memory format and the like, by name.
struct Symbol {
  std::string name;
  bool operator==(const Symbol&) const = default;
};

struct ValueList {
  std::vector<Value> items;
  bool operator==(const ValueList& other) const;
};

/// One argument or result of an operator, exactly. monostate is None. A dict is a list of
/// two-element lists in its own order.
struct Value {
  std::variant<std::monostate,
               bool,
               std::int64_t,
               double,
               std::complex<double>,
               std::string,
               Symbol,
               TensorSlot,
               Opaque,
               ValueList>
      data;

  /// Exact equality; doubles by their bits, so a NaN equals itself and +0 is not -0.
  bool operator==(const Value& other) const;
};

/// As a person reads it: `None`, `True`, `0.5`, `[1, 2]`, `<tensor 0>`, `"mean"`, `cpu`.
std::string to_text(const Value& value);

/// What does not change from call to call; one object per operator, shared by its records.
struct OperatorInfo {
  std::string name;      ///< `aten::add`
  std::string overload;  ///< `Tensor`; empty for the default overload
  bool seeded = false;   ///< tagged nondeterministic_seeded, or known to draw

  /// `aten::add.Tensor`; without an overload just the name.
  [[nodiscard]] std::string full_name() const {
    return overload.empty() ? name : name + "." + overload;
  }
  bool operator==(const OperatorInfo&) const = default;
};

struct SourceFrame {
  std::string file;
  std::uint32_t line = 0;  ///< 1-based; 0 = unknown
  std::string function;
  bool operator==(const SourceFrame&) const = default;
};

/// Where in the model a call stands; one object per place, shared by its records.
struct CallSite {
  std::string module_path;          ///< as named_modules() has it; empty for the root
  std::string module_type;          ///< class name of that module, without its package
  std::vector<SourceFrame> frames;  ///< innermost first; may be empty

  bool operator==(const CallSite&) const = default;
};

/// The frame to show a person: the innermost one outside `torch/`, else the innermost; null when
/// there is none.
const SourceFrame* display_frame(const CallSite& site) noexcept;

/// `train.py:31`, and `In [6], line 1` in a cell of a notebook.
std::string line_text(std::string_view file, std::uint64_t line);
/// `train.py:31`, of the frame to show; empty where there is none.
std::string line_text(const CallSite* site);
/// The module and the line, as far as they are known: `encoder.fc1, train.py:31`.
std::string place_of(const CallSite* site);

/// What a program was doing. Of a model it is always kForward. Numbers are those of the dump.
enum class Phase : std::uint8_t {
  kForward = 0,
  kBackward = 1,
  kOptimizer = 2,  ///< steps, and clipping of gradients
  kSetup = 3,      ///< before the first batch and the first call of a module
  kData = 4,       ///< a data loader hands out a batch
  kLoss = 5,       ///< outside of modules, behind the forward pass
  kReduce = 6,     ///< collectives
  kRecompute = 7,  ///< a forward pass again, inside of a backward pass
  kEval = 8,       ///< a module in evaluation mode, without gradients
};
inline constexpr Phase kLastPhase = Phase::kEval;
constexpr std::string_view words_of(Phase /*type*/) {
  return "forward backward optimizer setup data loss reduce recompute eval";
}

struct Argument {
  std::string name;
  Value value;
  bool operator==(const Argument&) const = default;
};

/// An argument the recorder changed before the operator ran: dropout turned off, a draw on the
/// host.
struct Substitution {
  std::string argument;  ///< `p`, `train`, or `rng` for a host draw
  std::string from;
  std::string to;
  std::string reason;  ///< `disable_dropout`, `rng: host`
  bool operator==(const Substitution&) const = default;
};

/// Movement of one generator across one call.
struct GeneratorUse {
  std::string device;  ///< `cpu`, `cuda:0`, `host` for a draw that was moved there
  std::uint64_t seed = 0;
  /// Digest of the engine's state on CPU, philox offset elsewhere; of a draw on the host how many
  /// were made before it since that seed.
  std::uint64_t position_before = 0;
  std::uint64_t position_after = 0;
  /// 32-bit draws on CPU, increment of the philox offset elsewhere. -1 = not counted.
  std::int64_t drawn = -1;
  bool operator==(const GeneratorUse&) const = default;
};

/// What is known of an operator call before it runs.
struct OpHead {
  std::uint64_t index = 0;  ///< op index: 0-based, in order of entry
  std::shared_ptr<const OperatorInfo> op;
  std::shared_ptr<const CallSite> site;
  std::int64_t parent = -1;  ///< op index of the enclosing recorded call; -1 = none
  Phase phase = Phase::kForward;
  std::uint32_t depth = 0;  ///< 0 = called by the model
  std::uint32_t step = 0;   ///< which of the configuration's `calls`
  std::uint32_t rank = 0;
  std::uint32_t lane = 0;  ///< where in the program it was called, see forked_lane()
  /// What of the calling thread decides dtypes, where it is not LibTorch's default, with a space
  /// between: `autocast.cpu=bfloat16 default_dtype=float64`.
  std::string modes = {};
};

inline constexpr std::string_view kDefaultDtypeMode = "default_dtype";
/// The last of OpHead::modes, where the module that makes the call is in evaluation mode. Decides
/// no dtype.
inline constexpr std::string_view kModuleMode = "module";
inline constexpr std::string_view kModuleInEval = "module=eval";

/// Name and value of each of OpHead::modes: `autocast.cpu` and `bfloat16`.
std::vector<std::pair<std::string_view, std::string_view>> call_modes(std::string_view modes);

/// One operator call.
struct OpRecord : OpHead {
  std::vector<Argument> arguments = {};    ///< in schema order; a tensor is a TensorSlot
  std::vector<Value> results = {};         ///< in schema order; a tensor is a TensorSlot
  std::vector<TensorRecord> tensors = {};  ///< inputs first, then outputs
  std::vector<Substitution> substitutions = {};
  std::optional<GeneratorUse> generator = {};  ///< set when a generator was consumed
  std::uint64_t wall_ns = 0;                   ///< of the operator alone, without recording
};

/// Stands for no operator: the last record of a call, of what it returned. Its arguments are named
/// by path (`out`, `out.logits[0]`) and hold one tensor or other value each; its results are the
/// same values, its output tensors have the paths as slots. Of lane 0 and depth 0, outside of every
/// module, and not subject to dump.include and dump.exclude.
inline constexpr std::string_view kReturnedOperator = "repro_check::returned";

inline bool is_returned(const OpRecord& record) {
  return record.op && record.op->name == kReturnedOperator;
}

/// Of an operator: `empty_like` of `aten::empty_like`.
std::string_view base_name(std::string_view name) noexcept;

/// Whether what an operator returns is memory that nobody has written.
/// @param base  its name without its namespace
bool hands_out_memory(std::string_view base) noexcept;

/// Whether an operator may look at an element of an argument. Of LibTorch's some take of it the
/// shape, dtype, device or class alone, give it another storage, or have it as memory for their
/// result, as in `mul.out(a, b, out=memory)`.
/// @param argument  its name, or that of a part: `self.values`
bool reads_values(const OperatorInfo& op, std::string_view argument) noexcept;

}  // namespace repro_check::core
