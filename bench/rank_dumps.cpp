// SPDX-License-Identifier: Apache-2.0
// repro-check-rank-dumps DIRECTORY RANKS STEPS TENSORS [RANK STEP KIND]: makes the dump of a
// training on RANKS ranks that never ran: TENSORS tensors a step (of each parameter its gradient,
// two of the optimizer's, and itself), with the same digests on every rank. With KIND, one of grad,
// state and param, one tensor of RANK has another digest at STEP; with own, one parameter is each
// rank's own, of which no wrapper makes replicas. Dumps of one DIRECTORY are of one run.
#include "dumpers/store/directory/rank_dumps.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/digest/digest.h"
#include "core/trace/op_record.h"
#include "core/trace/program_records.h"
#include "dumpers/store/dump_writer.h"

namespace {

namespace core = repro_check::core;
namespace store = repro_check::store;
namespace fs = std::filesystem;

struct Training {
  std::uint32_t ranks = 0;
  std::uint32_t steps = 0;
  std::size_t parameters = 0;
};

struct Fault {
  std::uint32_t rank = 0;
  std::uint32_t step = 0;
  std::string kind;
};

std::shared_ptr<const core::OperatorInfo> operator_called(std::string_view name) {
  return std::make_shared<core::OperatorInfo>(core::OperatorInfo{std::string(name), "", false});
}

class RankRecording {
 public:
  RankRecording(const fs::path& dump,
                std::uint32_t rank,
                const Training& training,
                const Fault* fault)
      : run_id_(run_of(dump.parent_path().filename().string())),
        writer_(dump, {.browse = store::DumpWriterOptions::Browse::kNever}),
        rank_(rank),
        training_(training),
        fault_(fault) {}

  void write() {
    for (std::uint32_t step = 0; step < training_.steps; ++step) {
      begin(replica_, step);
      for (std::size_t i = 0; i < training_.parameters; ++i) add("param", i, "", 0);
      end();
      begin(stepped_, step);
      for (std::size_t i = 0; i < training_.parameters; ++i) {
        add("grad", i, "", 1);
        add("state", i, ".exp_avg", 2);
        add("state", i, ".exp_avg_sq", 3);
        add("param", i, "", 4);
      }
      end();
    }
    core::RunManifest manifest;
    manifest.model_method = core::kProgramMethod;
    manifest.run_id = run_id_;
    if (has_own()) {
      manifest.environment.push_back(
          {fmt::format("{}layers.{}.weight", core::kUnwrapped, training_.parameters / 2), ""});
    }
    manifest.environment = {{std::string(core::kRank), std::to_string(rank_)},
                            {std::string(core::kRanks), std::to_string(training_.ranks)},
                            {std::string(core::kReplicaWrapper), "DistributedDataParallel"}};
    manifest.trace.operators = record_.index;
    manifest.trace.tensors = tensors_;
    manifest.trace.level = "digest";
    manifest.trace.digest_algorithm = core::kDigestAlgorithm;
    writer_.finish(manifest);
  }

 private:
  static std::string run_of(const std::string& name) {
    return core::to_hex(core::digest_leaf(std::as_bytes(std::span(name))));
  }

  [[nodiscard]] bool has_own() const { return fault_ != nullptr && fault_->kind == "own"; }

  void begin(const std::shared_ptr<const core::OperatorInfo>& op, std::uint32_t step) {
    record_.op = op;
    record_.step = step;
    record_.arguments.clear();
    record_.results.clear();
    record_.tensors.clear();
    writer_.enter(record_);
  }

  void add(std::string_view kind,
           std::size_t parameter,
           std::string_view ending,
           std::uint64_t salt) {
    const bool nudged = fault_ != nullptr && fault_->rank == rank_ &&
                        fault_->step == record_.step && fault_->kind == kind &&
                        parameter == training_.parameters / 2 && record_.op == stepped_;
    core::TensorRecord tensor;
    tensor.slot = fmt::format("{}.layers.{}.weight{}", kind, parameter, ending);
    tensor.dtype = core::Dtype::kFloat32;
    tensor.shape = {64};
    tensor.strides = {1};
    tensor.device = "cpu";
    tensor.state = core::ContentState::kHashed;
    if (has_own() && parameter == training_.parameters / 2) salt += 100 + rank_;
    tensor.digest = {salt + 1,
                     (std::uint64_t{record_.step} << 32U) + 2 * parameter + (nudged ? 1 : 0)};
    tensor.role = core::TensorRole::kOutput;
    record_.arguments.push_back({tensor.slot, core::Value{core::Opaque{"Tensor"}}});
    record_.results.push_back(
        core::Value{core::TensorSlot{static_cast<std::uint32_t>(record_.tensors.size())}});
    record_.tensors.push_back(std::move(tensor));
  }

  void end() {
    tensors_ += record_.tensors.size();
    writer_.append(record_);
    ++record_.index;
  }

  const std::shared_ptr<const core::OperatorInfo> replica_ = operator_called(core::kReplicaRecord);
  const std::shared_ptr<const core::OperatorInfo> stepped_ = operator_called(core::kStepRecord);
  std::string run_id_;
  store::DumpWriter writer_;
  std::uint32_t rank_;
  const Training& training_;
  const Fault* fault_;
  core::OpRecord record_;
  std::uint64_t tensors_ = 0;
};

std::uint32_t number(const char* text) {
  return static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5 && argc != 8) {
    std::fputs("usage: repro-check-rank-dumps DIRECTORY RANKS STEPS TENSORS [RANK STEP KIND]\n",
               stderr);
    return 2;
  }
  try {
    const fs::path directory = argv[1];
    const Training training{number(argv[2]), number(argv[3]), number(argv[4]) / 4};
    Fault fault;
    if (argc == 8) fault = {number(argv[5]), number(argv[6]), argv[7]};
    fs::create_directories(directory);
    for (std::uint32_t rank = 0; rank < training.ranks; ++rank) {
      RankRecording(
          store::rank_directory(directory, rank), rank, training, argc == 8 ? &fault : nullptr)
          .write();
    }
    store::write_rank_count(directory, training.ranks);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "repro-check-rank-dumps: %s\n", error.what());
    return 1;
  }
  return 0;
}
