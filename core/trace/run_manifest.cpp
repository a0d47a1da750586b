// SPDX-License-Identifier: Apache-2.0
#include "core/trace/run_manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "core/error.h"
#include "core/text/secrets.h"
#include "core/text/strict_json.h"
#include "core/text/text.h"
#include "core/trace/op_record.h"
#include "core/trace/program_records.h"

namespace repro_check::core {

OpRanges united(OpRanges ranges) {
  std::ranges::sort(ranges, {}, &OpRange::first);
  OpRanges merged;
  for (const OpRange& range : ranges) {
    const bool touches = !merged.empty() && (range.first <= merged.back().last ||
                                             range.first - merged.back().last == 1);
    if (touches) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

bool contains(const OpRanges& ranges, std::uint64_t index) noexcept {
  const auto after = std::ranges::upper_bound(ranges, index, {}, &OpRange::first);
  return after != ranges.begin() && index <= std::prev(after)->last;
}

std::string describe(const OpRanges& ranges) {
  std::string text;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const OpRange& range = ranges[i];
    if (i > 0) text += i + 1 == ranges.size() ? " and " : ", ";
    text += range.first == range.last ? fmt::format("op {}", range.first)
                                      : fmt::format("op {} to {}", range.first, range.last);
  }
  return text;
}

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kDigestText = 32;
constexpr const char* kDigestField = "manifest_digest";

/// JSON has no NaN and no infinity: they are written as text.
Json real_to_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

/// Whether a field stands in every manifest, is lacking in older ones, or is written only where it
/// has something to say.
enum class Presence { kAlways, kLater, kRare };

/// A Type, or a const one.
template <typename T, typename Type>
concept Of = std::same_as<std::remove_const_t<T>, Type>;

// What a manifest and its parts consist of, once for writing and reading: a form `f` takes one
// field of `it` after another.
#define FIELD(name) (#name, it.name)
#define LATER(name) (#name, it.name, Presence::kLater)
#define RARE(name) (#name, it.name, Presence::kRare)

void fields(const auto& f, Of<Setting> auto& it) { f FIELD(name) FIELD(found) FIELD(used); }

void fields(const auto& f, Of<EnvironmentFact> auto& it) { f FIELD(name) FIELD(value); }

void fields(const auto& f, Of<NamedTensor> auto& it) {
  f FIELD(kind) FIELD(name) FIELD(dtype) FIELD(shape) FIELD(digest);
}

void fields(const auto& f, Of<PartialTrace> auto& it) {
  f FIELD(reason) FIELD(last) FIELD(last_operator) FIELD(unfinished) FIELD(lost_contents);
}

void fields(const auto& f, Of<TraceReference> auto& it) {
  f FIELD(run_name) FIELD(index_digest) FIELD(contents) FIELD(bytes);
}

void fields(const auto& f, Of<RaisedException> auto& it) {
  f FIELD(type) FIELD(file) FIELD(line) FIELD(text) RARE(thread);
}

void fields(const auto& f, Of<ProgramEnd> auto& it) {
  f RARE(exit_code) RARE(signal) RARE(exception);
}

void fields(const auto& f, Of<ChildProcess> auto& it) {
  f FIELD(name) FIELD(how) FIELD(command_line) FIELD(operators) FIELD(recorded);
}

void fields(const auto& f, Of<HookFailure> auto& it) { f FIELD(where) FIELD(error) FIELD(count); }

void fields(const auto& f, Of<SourceFile> auto& it) { f FIELD(file) FIELD(digest); }

void fields(const auto& f, Of<TraceSummary> auto& it) {
  f FIELD(operators) FIELD(tensors) FIELD(contents) FIELD(stored_bytes) FIELD(substitutions);
  f FIELD(drawing_operators) FIELD(level) FIELD(depth) FIELD(include) FIELD(exclude);
  f FIELD(digest_algorithm) LATER(io) FIELD(index_digest);  // `io` since 1.1, as the next ones
  f RARE(bytes_limit_reached_at) RARE(partial) RARE(keep_ops);
  f RARE(slices) RARE(reference);               // since 1.2
  f RARE(returned) RARE(only) RARE(optimizer);  // since 1.3
}

void fields(const auto& f, Of<RunManifest> auto& it) {
  f FIELD(tool_version) FIELD(run_name) FIELD(created) FIELD(model_path) FIELD(model_method);
  f FIELD(model_digest) FIELD(seed) FIELD(device) FIELD(determinism) FIELD(disable_dropout);
  f FIELD(rng) FIELD(grad) FIELD(seconds) FIELD(load_seconds) FIELD(trace) FIELD(warnings);
  f FIELD(settings) FIELD(environment) FIELD(named_tensors) FIELD(configuration);
  f RARE(run_id) RARE(attempt) RARE(end) RARE(processes) RARE(notes);  // since 1.4
  f RARE(sources);
}

template <typename T>
Json json_of(const T& member);

/// Puts fields into an object.
struct Writer {
  Json& json;

  template <typename T>
  const Writer& operator()(const char* name,
                           const T& member,
                           Presence presence = Presence::kAlways) const {
    if constexpr (std::equality_comparable<T>) {
      if (presence == Presence::kRare && member == T{}) return *this;
    }
    json[name] = json_of(member);
    return *this;
  }
};

template <typename T>
Json json_of(const T& member) {
  if constexpr (std::is_same_v<T, double>) {
    return real_to_json(member);
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return member;
  } else if constexpr (std::is_same_v<T, Digest>) {
    return to_hex(member);
  } else if constexpr (std::is_same_v<T, Dtype>) {
    return dtype_name(member);
  } else if constexpr (std::is_same_v<T, NamedTensorKind>) {
    return name_of(member);
  } else if constexpr (std::is_same_v<T, OpRange>) {
    return Json::array({member.first, member.last});
  } else if constexpr (requires { member.value(); }) {
    return json_of(member.value());
  } else if constexpr (requires { member.begin(); }) {
    Json array = Json::array();
    for (const auto& item : member) array.push_back(json_of(item));
    return array;
  } else {
    Json object = Json::object();
    fields(Writer{object}, member);
    return object;
  }
}

/// The digest of a manifest's text, in which its own 32 characters count as zeros.
Digest digest_of_text(std::string text, std::size_t digest_at) {
  text.replace(digest_at, kDigestText, kDigestText, '0');
  return digest_bytes(text);
}

/// One node of a manifest being read: knows where it stands, so that every complaint can say so.
class Node {
 public:
  Node(const Json& json, std::string pointer, const std::string& origin)
      : json_(json), pointer_(std::move(pointer)), origin_(origin) {}

  [[nodiscard]] Error damaged(std::string_view what) const {
    return {ErrorKind::kDumpDamaged,
            fmt::format("{}: {}: {}", origin_, pointer_.empty() ? "/" : pointer_, what),
            "the manifest was edited or damaged; record the run again"};
  }

  [[nodiscard]] Node field(const char* name) const {
    if (!json_.is_object()) throw damaged("must be an object");
    const auto found = json_.find(name);
    if (found == json_.end()) throw damaged(fmt::format("\"{}\" is missing", name));
    return {*found, pointer_ + "/" + name, origin_};
  }

  void read(std::string& into) const {
    if (!json_.is_string()) throw damaged("must be a string");
    into = json_.get<std::string>();
  }
  void read(std::uint64_t& into) const {
    if (!json_.is_number_unsigned()) throw damaged("must be an integer, not negative");
    into = json_.get<std::uint64_t>();
  }
  void read(std::int64_t& into) const {
    std::uint64_t size = 0;
    read(size);
    if (std::cmp_greater(size, std::numeric_limits<std::int64_t>::max())) {
      throw damaged("is beyond 2^63-1");
    }
    into = static_cast<std::int64_t>(size);
  }
  void read(bool& into) const {
    if (!json_.is_boolean()) throw damaged("must be true or false");
    into = json_.get<bool>();
  }
  void read(double& into) const {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    if (json_.is_number()) {
      into = json_.get<double>();
    } else if (json_ == "nan") {
      into = std::numeric_limits<double>::quiet_NaN();
    } else if (json_ == "inf" || json_ == "-inf") {
      into = json_ == "inf" ? kInf : -kInf;
    } else {
      throw damaged("must be a number, \"nan\", \"inf\" or \"-inf\"");
    }
  }
  void read(Digest& into) const {
    std::string text;
    read(text);
    const std::optional<Digest> digest = parse_digest(text);
    if (!digest) throw damaged("must be a digest of 32 lower-case hexadecimal characters");
    into = *digest;
  }
  void read(Dtype& into) const {
    std::string text;
    read(text);
    const std::optional<Dtype> dtype = parse_dtype(text);
    if (!dtype && text != dtype_name(Dtype::kUnknown)) {
      throw damaged(fmt::format("\"{}\" is no dtype", printable(text, kDigestText)));
    }
    into = dtype.value_or(Dtype::kUnknown);
  }
  void read(NamedTensorKind& into) const {
    std::string text;
    read(text);
    const auto kind = parse_name<NamedTensorKind>(text);
    if (!kind) throw damaged("must be \"input\", \"parameter\" or \"buffer\"");
    into = *kind;
  }
  template <typename Item>
  void read(std::vector<Item>& into) const {
    if (!json_.is_array()) throw damaged("must be an array");
    into.clear();
    for (std::size_t i = 0; i < json_.size(); ++i) {
      Node(json_[i], fmt::format("{}/{}", pointer_, i), origin_).read(into.emplace_back());
    }
  }
  void read(OpRanges& into) const {
    std::vector<std::vector<std::uint64_t>> pairs;
    read(pairs);
    into.clear();
    for (const auto& pair : pairs) {
      if (pair.size() != 2 || pair[0] > pair[1]) throw damaged("must hold [first, last] pairs");
      into.push_back({pair[0], pair[1]});
    }
    if (into != united(into)) throw damaged("must ascend without overlaps");
  }
  template <typename Item>
  void read(std::optional<Item>& into) const {
    read(into.emplace());
  }
  template <typename Item>
  void read(Item& into) const {
    fields(*this, into);
  }
  template <typename T>
  const Node& operator()(const char* name, T& into, Presence presence = Presence::kAlways) const {
    const bool may_lack = presence != Presence::kAlways && json_.is_object();
    if (!may_lack || json_.contains(name)) field(name).read(into);
    return *this;
  }

 private:
  const Json& json_;
  std::string pointer_;
  const std::string& origin_;  // outlives every node: the caller's
};

/// Decides whether this program may read the manifest at all, before it looks at anything else.
void check_version(const Node& root, const Json& json, const std::string& origin) {
  const auto format = json.is_object() ? json.find("format") : json.end();
  if (!json.is_object() || format == json.end() || *format != kDumpFormatName) {
    throw unknown_dump(
        fmt::format(
            "{}: not the manifest of a dump (\"format\" is not \"{}\")", origin, kDumpFormatName),
        "give a directory that `repro-check record`, `run` or `exec` wrote");
  }
  std::string version;
  root.field("version").read(version);
  const std::string_view text = version;
  const std::size_t dot = std::min(text.find('.'), text.size());
  const auto major = parse_number<std::uint32_t>(text.substr(0, dot));
  const auto minor = parse_number<std::uint32_t>(text.substr(std::min(dot + 1, text.size())));
  if (!major || !minor) throw root.field("version").damaged("must be \"<major>.<minor>\"");
  if (*major != kDumpFormatMajor) {
    throw unknown_dump(fmt::format("{}: dump format {} cannot be read: this repro-check reads {}.x",
                                   origin,
                                   version,
                                   kDumpFormatMajor),
                       *major > kDumpFormatMajor
                           ? "use the repro-check that recorded it, or a newer one"
                           : "record the run again");
  }
}

/// @return the digest
Digest check_digest(const Node& root, const std::string& text) {
  std::string hex;
  Digest digest;
  root.field(kDigestField).read(digest);
  root.field(kDigestField).read(hex);
  const std::size_t at = text.rfind(hex);  // spelled with escapes it is not found at all
  if (at == std::string::npos || digest_of_text(text, at) != digest) {
    throw root.field(kDigestField).damaged("the manifest does not match its own digest");
  }
  return digest;
}

}  // namespace

namespace {

/// Old dumps hold them, and so do commands that others give us.
void hide_secrets(RunManifest& manifest) {
  if (keeps_values(manifest.configuration)) return;
  if (manifest.is_of_program()) {
    const std::vector<std::string> command = command_in(manifest.configuration);
    const bool is_command = fmt::format("{}", fmt::join(command, " ")) == manifest.model_path;
    manifest.model_path = is_command ? fmt::format("{}", fmt::join(without_secrets(command), " "))
                                     : without_secrets(manifest.model_path);
  }
  manifest.configuration = configuration_without_secrets(manifest.configuration);
  for (ChildProcess& process : manifest.processes) {
    process.command_line = without_secrets(process.command_line);
  }
}

}  // namespace

std::string to_json_text(const RunManifest& given) {
  RunManifest manifest = given;
  hide_secrets(manifest);
  Json json{{"format", kDumpFormatName},
            {"version", fmt::format("{}.{}", kDumpFormatMajor, kDumpFormatMinor)}};
  fields(Writer{json}, manifest);
  json[kDigestField] = std::string(kDigestText, '0');
  std::string text = tame_json(json.dump(1, ' ', false, Json::error_handler_t::replace)) + "\n";
  const std::size_t digest_at = text.rfind(std::string(kDigestText, '0'));
  text.replace(digest_at, kDigestText, to_hex(digest_of_text(text, digest_at)));
  return text;
}

std::string with_place(const RunManifest& manifest,
                       const std::string& function,
                       const std::string& given) {
  const std::string* place = environment_fact(manifest, std::string(kSetAt) + function);
  return place == nullptr ? given : given + " at " + *place;
}

std::string raised_text(const RunManifest& manifest) {
  const std::string* told = environment_fact(manifest, kRaised);
  if (told != nullptr) return *told;
  if (!manifest.end || !manifest.end->exception) return {};
  const RaisedException& raised = *manifest.end->exception;
  if (!raised.thread.empty()) return {};
  if (raised.file.empty()) return raised.type;
  return raised.type + " at " + line_text(raised.file, raised.line);
}

Digest manifest_digest(const std::string& text) {
  // It is the last field.
  const std::size_t quote = text.rfind('"');
  const std::size_t begin = quote - kDigestText;
  return parse_digest(std::string_view(text).substr(begin, kDigestText)).value();
}

RunManifest manifest_from_json_text(const std::string& text, const std::string& origin) {
  const Json json = parse_strict_json(text, origin);
  const Node root(json, "", origin);
  check_version(root, json, origin);
  RunManifest manifest;
  root.read(manifest);
  manifest.digest = check_digest(root, text);
  hide_secrets(manifest);
  return manifest;
}

std::vector<std::string_view> known_variables() {
  constexpr std::string_view kSorted =
      "ATB_LLM_LCOC_ENABLE ATB_MATMUL_SHUFFLE_K_ENABLE ATEN_CPU_CAPABILITY "
      "CAUSAL_CONV1D_DETERMINISTIC CLOSE_MATMUL_K_SHIFT CUBLASLT_WORKSPACE_SIZE "
      "CUBLAS_EMULATE_DOUBLE_PRECISION CUBLAS_EMULATE_SINGLE_PRECISION CUBLAS_EMULATION_STRATEGY "
      "CUBLAS_FIXEDPOINT_EMULATION_MANTISSA_BIT_COUNT CUBLAS_WORKSPACE_CONFIG CUDA_LAUNCH_BLOCKING "
      "CUDNN_ERRATA_JSON_FILE CUSTOM_MATMUL_SHUFFLE DISABLE_ADDMM_CUDA_LT DNNL_DEFAULT_FPMATH_MODE "
      "DNNL_MAX_CPU_ISA DNNL_PRIMITIVE_CACHE_CAPACITY FBGEMM_ENABLE_AVX512_256 "
      "FBGEMM_ENABLE_INSTRUCTIONS FBGEMM_NO_ASMJIT GOMP_CPU_AFFINITY GOTO_NUM_THREADS "
      "GRAPH_SDPA_FORCE_PRIMITIVE HCCL_DETERMINISTIC HIPBLASLT_ALLOW_TF32 LCCL_DETERMINISTIC "
      "LRU_CACHE_CAPACITY MAMBA_DETERMINISTIC MIOPEN_DEBUG_CONVOLUTION_DETERMINISTIC "
      "MIOPEN_FIND_ENFORCE MIOPEN_FIND_MODE MKLDNN_DEFAULT_FPMATH_MODE MKLDNN_MAX_CPU_ISA "
      "MKLDNN_PRIMITIVE_CACHE_CAPACITY MKL_CBWR MKL_DEBUG_CPU_TYPE MKL_DISABLE_FAST_MM "
      "MKL_DOMAIN_NUM_THREADS MKL_DYNAMIC MKL_ENABLE_INSTRUCTIONS MKL_FAST_MEMORY_LIMIT "
      "MKL_NUM_STRIPES MKL_NUM_THREADS NCCL_ALGO NCCL_COLLNET_ENABLE NCCL_MAX_NCHANNELS "
      "NCCL_MIN_NCHANNELS NCCL_NTHREADS NCCL_NVLS_ENABLE NCCL_PROTO NVIDIA_TF32_OVERRIDE "
      "NVTE_ALLOW_NONDETERMINISTIC_ALGO OMP_DYNAMIC OMP_NUM_THREADS OMP_PLACES OMP_PROC_BIND "
      "OMP_SCHEDULE OMP_THREAD_LIMIT OMP_WAIT_POLICY ONEDNN_DEFAULT_FPMATH_MODE ONEDNN_MAX_CPU_ISA "
      "ONEDNN_PRIMITIVE_CACHE_CAPACITY OPENBLAS_CORETYPE OPENBLAS_NUM_THREADS PYTHONHASHSEED "
      "PYTORCH_JIT_ENABLE_NVFUSER PYTORCH_MIOPEN_SUGGEST_NHWC PYTORCH_NVFUSER_DISABLE "
      "PYTORCH_TENSOREXPR PYTORCH_TENSOREXPR_DONT_FUSE PYTORCH_TUNABLEOP_ENABLED "
      "PYTORCH_TUNABLEOP_FILENAME PYTORCH_TUNABLEOP_TUNING ROCBLAS_DEFAULT_ATOMICS_MODE "
      "ROCBLAS_USE_HIPBLASLT TF_CUDNN_DETERMINISTIC TF_DETERMINISTIC_OPS TF_ENABLE_ONEDNN_OPTS "
      "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE TORCH_BLAS_PREFER_CUBLASLT "
      "TORCH_CUBLASLT_UNIFIED_WORKSPACE TORCH_CUBLAS_WORKSPACE_CACHE "
      "TORCH_CUDNN_SDPA_DEPRIORITIZED TORCH_CUDNN_USE_HEURISTIC_MODE_B TORCH_CUDNN_V8_API_DISABLED "
      "TORCH_CUDNN_V8_API_ENABLED TORCH_JIT_DISABLE_NEW_EXECUTOR TORCH_LINALG_PREFER_CUSOLVER "
      "TORCH_LINALG_PREFER_HIPSOLVER TORCH_LINEAR_FLATTEN_3D TORCH_MKLDNN_MATMUL_MIN_DIM "
      "TORCH_MKLDNN_MATMUL_MIN_SIZE TORCH_ROCM_FA_PREFER_CK XLA_FLAGS";
  return split(kSorted, ' ');
}

}  // namespace repro_check::core
