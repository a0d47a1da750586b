// SPDX-License-Identifier: Apache-2.0
#include "dumpers/capture/settings/environment.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <omp.h>
#include <sched.h>
#include <sys/utsname.h>

#include <atomic>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "core/digest/digest.h"
#include "core/error.h"
#include "core/text/text.h"
#include "dumpers/capture/settings/determinism.h"
#include "dumpers/capture/torch/torch_compat.h"

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

#ifndef _OPENMP
#error "environment.cpp needs -fopenmp"
#endif

namespace repro_check::capture {

ThreadTeam measure_team() {
  const int reported = at::get_num_threads();  // the first call on a thread sizes its team
  std::atomic<int> measured = 0;
#pragma omp parallel
  {
    if (omp_get_thread_num() == 0) measured = omp_get_num_threads();
  }
  return {reported, measured};
}

bool set_flush_denormal(bool on) {
  std::atomic<bool> supported = true;
#pragma omp parallel
  {
    if (!at::Context::setFlushDenormal(on)) supported = false;
  }
  return supported;
}

std::uint32_t read_mxcsr() noexcept {
#if defined(__SSE2__)
  return _mm_getcsr();
#else
  return 0;
#endif
}

namespace {

std::atomic<bool>& threads_pinned() {
  static std::atomic<bool> pinned = false;
  return pinned;
}

/// The rest of the first line that contains `key`, up to `end`; empty when there is none.
std::string text_after(const std::string& text, const std::string& key, char end) {
  const std::size_t at = text.find(key);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + key.size();
  std::string found = text.substr(begin, text.find_first_of(std::string{end, '\n'}, begin) - begin);
  const std::size_t first = found.find_first_not_of(" \t:=\"");
  if (first == std::string::npos) return {};
  found.erase(0, first);
  found.erase(found.find_last_not_of(" \t\"") + 1);
  return found;
}

std::string line_of_file(const char* file, const std::string& key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(key, 0) == 0) return text_after(line, key, '\n');
  }
  return "unknown";
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// The first number of `4` or `4,2`; empty when it is none, which is what libgomp makes of it.
std::optional<int> thread_count(const std::string& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = end == text.data() + text.size() || *end == ',';
  if (error != std::errc{} || !whole || number < 1) return std::nullopt;
  return number;
}

void disagree(const std::string& asked, const std::string& reported, const std::string& hint) {
  throw core::run_failed(fmt::format("{} was requested, but LibTorch reports {}", asked, reported),
                         hint);
}

void check_thread_variables(const ThreadTeam& team) {
  if (threads_pinned()) return;
  // MKL's variable wins over OpenMP's where LibTorch was built with MKL.
  for (const char* name : {"MKL_NUM_THREADS", "OMP_NUM_THREADS"}) {
    if (std::string_view(name) == "MKL_NUM_THREADS" && !at::Context::hasMKL()) continue;
    const std::optional<int> asked = thread_count(variable(name));
    if (!asked) continue;
    if (*asked != team.reported) {
      disagree(fmt::format("{}={}", name, *asked),
               fmt::format("{} threads", team.reported),
               "set the variable before the process starts; changes after LibTorch is loaded are "
               "not seen");
    }
    return;
  }
}

/// A LibTorch that splits work by its own pool or by TBB has no OpenMP team to check.
bool splits_work_by_openmp() {
  return at::get_parallel_info().find("ATen parallel backend: OpenMP") != std::string::npos;
}

void check_team(const ThreadTeam& team) {
  if (team.measured == team.reported || !splits_work_by_openmp()) return;
  std::string cause = fmt::format("{} threads", team.reported);
  for (const char* name : {"OMP_THREAD_LIMIT", "OMP_DYNAMIC"}) {
    const std::string value = variable(name);
    if (!value.empty()) cause += fmt::format(" with {}={}", name, value);
  }
  throw core::run_failed(
      fmt::format("{} were requested, but a parallel region gets {}", cause, team.measured),
      "unset OMP_THREAD_LIMIT and OMP_DYNAMIC, or request as many as there are");
}

void check_capability() {
  const std::string asked = core::lower(variable("ATEN_CPU_CAPABILITY"));
  if (asked.empty()) return;
  const std::string used = cpu_capability();
  if (used == asked || used == "unknown") return;
  disagree("ATEN_CPU_CAPABILITY=" + asked,
           used,
           "this processor or build has no such kernels: take default, avx2 or avx512");
}

std::size_t usable_cores() {
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return std::thread::hardware_concurrency();
  return static_cast<std::size_t>(CPU_COUNT(&mask));
}

std::string or_none(const std::string& text) { return text.empty() ? "none" : text; }

void append_libraries(std::vector<core::EnvironmentFact>& facts) {
  const std::string config = at::show_config();
  facts.push_back({"libtorch.version", TORCH_VERSION});
  facts.push_back({"blas", or_none(text_after(config, "BLAS_INFO=", ','))});
  facts.push_back({"lapack", or_none(text_after(config, "LAPACK_INFO=", ','))});
  const std::string mkl = at::get_mkl_version();
  facts.push_back({"mkl", at::Context::hasMKL() ? mkl.substr(0, mkl.find('\n')) : "none"});
  const std::string onednn = at::get_mkldnn_version();
  facts.push_back({"onednn", at::Context::hasMKLDNN() ? onednn : "none"});
  facts.push_back({"openmp", or_none(at::get_openmp_version())});
  facts.push_back({"cuda", or_none(text_after(config, "CUDA Runtime", '\n'))});
  facts.push_back({"cudnn", or_none(text_after(config, "CuDNN", '\n'))});
  facts.push_back({"compiler", or_none(text_after(config, "- GCC", '\n'))});
}

}  // namespace

std::vector<c10::Device> present_devices() {
  std::vector<c10::Device> devices;
  for (int type = 1; type < c10::COMPILE_TIME_MAX_DEVICE_TYPES; ++type) {
    const auto device_type = static_cast<c10::DeviceType>(type);
    if (device_type == c10::DeviceType::Meta || !c10::impl::hasDeviceGuardImpl(device_type)) {
      continue;
    }
    const c10::DeviceIndex count = c10::impl::getDeviceGuardImpl(device_type)->deviceCount();
    for (c10::DeviceIndex i = 0; i < count; ++i) devices.emplace_back(device_type, i);
  }
  return devices;
}

void note_pinned_threads(bool pinned) noexcept { threads_pinned() = pinned; }

std::string cpu_capability() {
#if REPRO_CHECK_TORCH_AT_LEAST(2, 1)
  std::string used = core::lower(at::get_cpu_capability());
#else
  std::string used = core::lower(text_after(at::show_config(), "CPU capability usage", '\n'));
#endif
  if (used.empty()) return "unknown";
  return used == "no avx" ? "default" : used;
}

std::vector<core::EnvironmentFact> read_environment() {
  std::vector<core::EnvironmentFact> facts;
  append_libraries(facts);
  const ThreadTeam team = measure_team();
  facts.push_back({"openmp.team", std::to_string(team.measured)});
  facts.push_back({"cpu.model", line_of_file("/proc/cpuinfo", "model name")});
  facts.push_back({"cpu.microcode", line_of_file("/proc/cpuinfo", "microcode")});
  facts.push_back({"cpu.cores", std::to_string(std::thread::hardware_concurrency())});
  facts.push_back({"cpu.usable_cores", std::to_string(usable_cores())});
  facts.push_back({"cpu.capability", cpu_capability()});
  // The six lowest bits say which exceptions have come up: what the program did, not how it runs.
  constexpr std::uint32_t kExceptions = 0x3f;
  facts.push_back({"cpu.mxcsr", fmt::format("0x{:04x}", read_mxcsr() & ~kExceptions)});
  const std::vector<c10::Device> devices = present_devices();
  std::string names;
  for (const c10::Device& device : devices) {
    if (!names.empty()) names += ' ';
    names += device.str();
  }
  facts.push_back({"devices", or_none(names)});
  utsname system{};
  if (uname(&system) == 0) {
    facts.push_back({"os.kernel", fmt::format("{} {}", system.sysname, system.release)});
    facts.push_back({"os.machine", system.machine});
  }
  facts.push_back({"os.name", line_of_file("/etc/os-release", "PRETTY_NAME")});
  facts.push_back({"libc", fmt::format("glibc {}", gnu_get_libc_version())});
  return facts;
}

void check_variables() {
  const ThreadTeam team = measure_team();
  check_thread_variables(team);
  check_team(team);
  check_capability();
}

namespace {

/// Multiples of 1/256 between -2 and 2: the same bits everywhere, without a generator or libm.
at::Tensor numbers(at::IntArrayRef shape, const c10::Device& device) {
  constexpr std::int64_t kStep = 7919;
  constexpr std::int64_t kModulus = 1021;
  constexpr double kScale = 1.0 / 256;
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  const at::Tensor steps = at::arange(count, at::TensorOptions(at::kLong)).mul(kStep);
  const at::Tensor whole = steps.remainder(kModulus).sub(kModulus / 2);
  return whole.to(at::kFloat).mul(kScale).reshape(shape).to(device);
}

std::string digest_of(const at::Tensor& tensor) {
  const at::Tensor bytes = tensor.to(at::kCPU).contiguous();
  return core::to_hex(core::digest_bytes(
      std::span(static_cast<const std::byte*>(bytes.data_ptr()), bytes.nbytes())));
}

}  // namespace

std::vector<core::EnvironmentFact> probe_numbers(const std::string& device) {
  const c10::NoGradGuard no_grad;
  const c10::Device where(device);
  // Large enough to be split over threads, small enough for a few milliseconds.
  using Computation = std::function<at::Tensor()>;
  const std::vector<std::pair<std::string, Computation>> computations{
      {"probe.convolution",
       [&] {
         return at::conv2d(numbers({2, 16, 32, 32}, where), numbers({32, 16, 3, 3}, where));
       }},
      {"probe.matmul",
       [&] {
         return at::matmul(numbers({192, 320}, where), numbers({320, 256}, where));
       }},
      {"probe.softmax",
       [&] {
         return at::softmax(numbers({64, 1000}, where), 1);
       }},
      {"probe.exp", [&] { return at::exp(numbers({65537}, where)); }},
      {"probe.sum", [&] { return at::sum(numbers({262147}, where)); }},
  };
  std::vector<core::EnvironmentFact> facts;
  for (const auto& [name, compute] : computations) {
    std::string value = "unavailable";
    try {
      // The first call of a vector function of MKL has been seen to take another kernel in one of
      // its threads; the second is the one that a platform repeats.
      static_cast<void>(compute());
      value = digest_of(compute());
    } catch (const std::exception&) {
      // Some device has no such kernel. That it has none is part of what the device is.
    }
    facts.push_back({name, std::move(value)});
  }
  return facts;
}

}  // namespace repro_check::capture
