// SPDX-License-Identifier: Apache-2.0
// How much slower a forward gets while it is recorded, at each level. Bare and recorded forwards
// alternate, each on a freshly loaded model, and medians are compared: on a busy machine single
// figures say little.
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/runtime/profiling_graph_executor_impl.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "configs/spec/run_config.h"
#include "core/error.h"
#include "dumpers/store/dump_writer.h"
#include "dumpers/store/file/hdf5_tensor.h"
#include "dumpers/torchscript/torchscript_run.h"

namespace repro_check::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kThreads = 2;

struct Subject {
  std::string title;
  std::string file;
  std::vector<configs::InputSpec> inputs;
  std::string peers;      ///< the same ratio as other tools have it, from the design's measurements
  std::size_t calls = 1;  ///< forwards in a row: short ones are lost in what a run costs once
};

struct Timing {
  double forward = 0;   ///< seconds of the forward alone
  double complete = 0;  ///< with the dump finished on disk
  std::uint64_t operators = 0;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

configs::InputSpec generated(configs::Distribution distribution,
                             std::vector<std::int64_t> shape,
                             core::Dtype dtype,
                             double high) {
  configs::GeneratedInput input;
  input.distribution = distribution;
  input.shape = std::move(shape);
  input.dtype = dtype;
  input.seed = 7;
  input.high = high;
  return {"", "/inputs", input};
}

std::vector<Subject> subjects() {
  using configs::Distribution;
  using core::Dtype;
  const auto image = generated(Distribution::kNormal, {8, 3, 224, 224}, Dtype::kFloat32, 1);
  const auto tokens = generated(Distribution::kRandint, {8, 128}, Dtype::kInt64, 30000);
  const auto mask = generated(Distribution::kOnes, {8, 128}, Dtype::kInt64, 1);
  const auto small = generated(Distribution::kNormal, {16}, Dtype::kFloat32, 1);
  return {
      {"ResNet-50, batch 8",
       "resnet50.pt",
       {image},
       "msprobe 26.2 statistics 1.84, md5 3.01, tensor 17.2; DebugMode hashes 2.34 to 3.40"},
      {"BERT-base, batch 8 x 128",
       "bert-base.pt",
       {tokens, mask},
       "msprobe 26.2 statistics 1.38, md5 2.00, tensor 7.8; DebugMode hashes 1.96 to 2.84"},
      {"2,000 additions of 16 numbers, 50 times",
       "tiny.pt",
       {small},
       "not measured; the design asks for 1.0 us/operator at level digest",
       50},
  };
}

std::vector<c10::IValue> tensors_for(const Subject& subject) {
  std::vector<c10::IValue> tensors;
  for (const configs::InputSpec& input : subject.inputs) {
    const auto& spec = std::get<configs::GeneratedInput>(input.source);
    if (spec.distribution == configs::Distribution::kRandint) {
      tensors.emplace_back(
          at::randint(static_cast<std::int64_t>(spec.high), spec.shape, at::kLong));
    } else if (spec.dtype == core::Dtype::kInt64) {
      tensors.emplace_back(at::ones(spec.shape, at::kLong));
    } else {
      tensors.emplace_back(at::randn(spec.shape));
    }
  }
  return tensors;
}

Timing time_bare(const Subject& subject, const fs::path& models) {
  torch::jit::setGraphExecutorOptimize(false);
  torch::jit::getProfilingMode() = false;
  at::set_num_threads(kThreads);
  const c10::AutoGradMode no_grad(false);
  torch::jit::Module module = torch::jit::load((models / subject.file).string());
  module.eval();
  const std::vector<c10::IValue> inputs = tensors_for(subject);
  if (subject.calls > 1) module.forward(inputs);
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t call = 0; call < subject.calls; ++call) module.forward(inputs);
  Timing timing;
  timing.forward = timing.complete = seconds_since(start);
  return timing;
}

Timing time_recorded(const Subject& subject,
                     const fs::path& models,
                     core::DumpLevel level,
                     const fs::path& scratch) {
  configs::RunSpec spec;
  spec.name = "bench";
  spec.model.path = models / subject.file;
  spec.calls.assign(subject.calls, subject.inputs);
  spec.threads = kThreads;
  spec.dump.level = level;
  const fs::path dump = scratch / "dump";
  fs::remove_all(dump);
  Timing timing;
  const auto run = torchscript::prepare_run(spec, store::read_hdf5_tensor);
  const auto start = std::chrono::steady_clock::now();
  {
    store::DumpWriter writer(dump, {});
    core::RunManifest manifest = run->record(writer, {});
    timing.forward = manifest.seconds;
    timing.operators = manifest.trace.operators;
    writer.finish(std::move(manifest));
  }
  timing.complete = seconds_since(start);
  fs::remove_all(dump);
  return timing;
}

double median_of(std::vector<double> values) {
  std::nth_element(values.begin(),
                   values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

template <typename Member>
double median(const std::vector<Timing>& timings, Member member) {
  std::vector<double> values;
  values.reserve(timings.size());
  for (const Timing& timing : timings) values.push_back(timing.*member);
  return median_of(values);
}

long peak_kilobytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

/// What the kernel calls the peak starts anew from what is held now.
void forget_peak() {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << 5;
}

std::uint64_t peak_since() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::uint64_t kilobytes = 0;
  while (status >> word && word != "VmHWM:") {
  }
  status >> kilobytes;
  return kilobytes << 10U;
}

/// What a recording holds above a bare run, against what the design allows it.
void measure_memory(const Subject& subject, const fs::path& models, const fs::path& scratch) {
  constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20U;
  forget_peak();
  time_bare(subject, models);
  const std::uint64_t bare = peak_since();
  for (const core::DumpLevel level : {core::DumpLevel::kDigest, core::DumpLevel::kTensor}) {
    forget_peak();
    const Timing timing = time_recorded(subject, models, level, scratch);
    const std::uint64_t peak = peak_since();
    const std::uint64_t allowed = store::kDefaultMemory + 64 * kMebibyte + 200 * timing.operators;
    fmt::print("  memory   {}: {} MiB above the {} MiB of a bare run; {} MiB are allowed\n",
               core::name_of(level),
               (peak > bare ? peak - bare : 0) / kMebibyte,
               bare / kMebibyte,
               allowed / kMebibyte);
  }
}

/// Seconds an operator of a recording `calls` forwards long, dump and all.
double seconds_an_operator(Subject subject,
                           std::size_t calls,
                           const fs::path& models,
                           const fs::path& scratch) {
  subject.calls = calls;
  const Timing timing = time_recorded(subject, models, core::DumpLevel::kDigest, scratch);
  return timing.forward / static_cast<double>(timing.operators);
}

/// Whether an operator costs the same at the end of a long recording as in a short one.
void measure_length(const Subject& subject,
                    const fs::path& models,
                    const fs::path& scratch,
                    int rounds) {
  constexpr std::size_t kShort = 5;
  constexpr std::size_t kLong = 500;
  std::vector<double> ratios;
  long peak_before = 0;
  long peak_after = 0;
  for (int round = 0; round < rounds; ++round) {
    const double brief = seconds_an_operator(subject, kShort, models, scratch);
    if (round == 0) peak_before = peak_kilobytes();
    const double lengthy = seconds_an_operator(subject, kLong, models, scratch);
    if (round == 0) peak_after = peak_kilobytes();
    ratios.push_back(lengthy / brief);
  }
  fmt::print(
      "1,000,000 operators against 10,000, digest: {:.2f} of the time an operator, {:.0f} bytes of "
      "memory more an operator\n\n",
      median_of(ratios),
      static_cast<double>(peak_after - peak_before) * 1024 / 1e6);
  std::fflush(stdout);
}

void print_level(std::string_view level,
                 const std::vector<Timing>& bare,
                 const std::vector<Timing>& recorded,
                 std::uint64_t operators) {
  std::vector<double> ratios;
  std::vector<double> differences;
  std::vector<double> complete;
  for (std::size_t i = 0; i < bare.size(); ++i) {
    ratios.push_back(recorded[i].forward / bare[i].forward);
    differences.push_back(recorded[i].forward - bare[i].forward);
    complete.push_back(recorded[i].complete / bare[i].forward);
  }
  std::ranges::sort(ratios);
  fmt::print("  {:<8} {:>6.2f} {:>8.2f} to {:.2f} {:>12.2f} {:>18.2f}\n",
             level,
             median_of(ratios),
             ratios[ratios.size() / 4],
             ratios[ratios.size() * 3 / 4],
             median_of(differences) / static_cast<double>(operators) * 1e6,
             median_of(complete));
}

void measure(const Subject& subject, const fs::path& models, const fs::path& scratch, int rounds) {
  constexpr std::array<core::DumpLevel, 3> kLevels{
      core::DumpLevel::kDigest, core::DumpLevel::kStats, core::DumpLevel::kTensor};
  // Each recording is held against the bare run before it: what a machine does slower for a while
  // it does slower for both.
  std::array<std::vector<Timing>, kLevels.size()> bare;
  std::array<std::vector<Timing>, kLevels.size()> recorded;
  time_bare(subject, models);  // pays for what a process pays once
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < kLevels.size(); ++i) {
      bare[i].push_back(time_bare(subject, models));
      recorded[i].push_back(time_recorded(subject, models, kLevels[i], scratch));
    }
  }
  const std::uint64_t operators = recorded[0].front().operators;
  fmt::print("{}: {} operators, bare forward {:.4f} s\n",
             subject.title,
             operators,
             median(bare[0], &Timing::forward));
  fmt::print("  {:<8} {:>6} {:>16} {:>12} {:>18}\n",
             "level",
             "ratio",
             "middle half",
             "us/operator",
             "with dump on disk");
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    print_level(core::name_of(kLevels[i]), bare[i], recorded[i], operators);
  }
  measure_memory(subject, models, scratch);
  fmt::print("  peers    {}\n\n", subject.peers);
  std::fflush(stdout);
}

int run(int argc, char** argv) {
  if (argc < 4 || argc > 5) {
    fmt::print(stderr, "usage: {} MODELS SCRATCH ROUNDS [PART-OF-TITLE]\n", argv[0]);
    return 2;
  }
  const int rounds = std::max(1, std::atoi(argv[3]));
  fmt::print(
      "Recorded forward against the bare one before it: medians of {} alternating runs, {} "
      "threads.\n"
      "Peers: ratios as measured for the design, LibTorch 2.13, two cores.\n\n",
      rounds,
      kThreads);
  const std::string only = argc > 4 ? argv[4] : "";
  for (const Subject& subject : subjects()) {
    if (subject.title.find(only) == std::string::npos) continue;
    measure(subject, argv[1], argv[2], rounds);
    if (subject.calls > 1) measure_length(subject, argv[1], argv[2], rounds);
  }
  return 0;
}

}  // namespace
}  // namespace repro_check::bench

int main(int argc, char** argv) {
  try {
    return repro_check::bench::run(argc, argv);
  } catch (const repro_check::core::Error& error) {
    std::fprintf(stderr, "%s\n%s\n", error.what(), error.hint().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  return 70;
}
