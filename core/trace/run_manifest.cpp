// SPDX-License-Identifier: Apache-2.0
#include "core/trace/run_manifest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text/secrets.h"
#include "core/text/strict_json.h"
#include "core/trace/json_fields.h"
#include "core/trace/op_record.h"
#include "core/trace/program_records.h"

namespace repro_check::core {

// What a manifest and its parts consist of, once for writing and reading: a form `f` takes one
// field of `it` after another.
#define LATER(name) (#name, it.name, Presence::kLater)
#define RARE(name) (#name, it.name, Presence::kRare)

void fields(const auto& f, Of<Setting> auto& it) { f FIELD(name) FIELD(found) FIELD(used); }

void fields(const auto& f, Of<EnvironmentFact> auto& it) { f FIELD(name) FIELD(value); }

void fields(const auto& f, Of<NamedTensor> auto& it) {
  f FIELD(kind) FIELD(name) FIELD(dtype) FIELD(shape) FIELD(digest);
}

void fields(const auto& f, Of<PartialTrace> auto& it) {
  f FIELD(reason) FIELD(last) FIELD(last_operator) FIELD(unfinished) FIELD(lost_contents);
  f RARE(stopped);
}

void fields(const auto& f, Of<TraceReference> auto& it) {
  f FIELD(run_name) FIELD(index_digest) FIELD(contents) FIELD(bytes);
}

void fields(const auto& f, Of<UnopenedType> auto& it) { f FIELD(type) FIELD(count); }

void fields(const auto& f, Of<BlockSummary> auto& it) {
  f FIELD(rows) FIELD(parameters) FIELD(every) RARE(unopened) RARE(not_seen);
}

void fields(const auto& f, Of<RaisedException> auto& it) {
  f FIELD(type) FIELD(file) FIELD(line) FIELD(text) RARE(thread);
}

void fields(const auto& f, Of<ProgramEnd> auto& it) {
  f RARE(exit_code) RARE(signal) RARE(exception);
}

void fields(const auto& f, Of<ChildProcess> auto& it) {
  f FIELD(name) FIELD(how) FIELD(command_line) FIELD(operators) FIELD(recorded);
  f RARE(pool);
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
  f RARE(blocks);                               // since 1.5
}

void fields(const auto& f, Of<RunManifest> auto& it) {
  f FIELD(tool_version) FIELD(run_name) FIELD(created) FIELD(model_path) FIELD(model_method);
  f FIELD(model_digest) FIELD(seed) FIELD(device) FIELD(determinism) FIELD(disable_dropout);
  f FIELD(rng) FIELD(grad) FIELD(seconds) FIELD(load_seconds) FIELD(trace) FIELD(warnings);
  f FIELD(settings) FIELD(environment) FIELD(named_tensors) FIELD(configuration);
  f RARE(run_id) RARE(attempt) RARE(end) RARE(processes) RARE(notes);  // since 1.4
  f RARE(sources);
}

namespace {

constexpr std::size_t kDigestText = 32;
constexpr const char* kDigestField = "manifest_digest";

/// The digest of a manifest's text, in which its own 32 characters count as zeros.
Digest digest_of_text(std::string text, std::size_t digest_at) {
  text.replace(digest_at, kDigestText, kDigestText, '0');
  return digest_bytes(text);
}

/// Decides whether this program may read the manifest at all, before it looks at anything else.
void check_version(const JsonNode& root, const Json& json, const std::string& origin) {
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
Digest check_digest(const JsonNode& root, const std::string& text) {
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
  fields(JsonFields{json}, manifest);
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
  const JsonOrigin from{
      origin, ErrorKind::kDumpDamaged, "the manifest was edited or damaged; record the run again"};
  const JsonNode root(json, "", from);
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
