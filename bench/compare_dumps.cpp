// SPDX-License-Identifier: Apache-2.0
// repro-check-compare-dumps KIND DIRECTORY SIZE: makes the pairs of dumps that bench/compare
// compares, DIRECTORY/A and DIRECTORY/B. KIND and SIZE are one of
//   equal N       N operators, equal, each with a stored output
//   different M   float32 tensors of M MiB together, sized like a network's, no element the same
//   inserted N    N operators, of which B has 1,000 more
//   reversed N    N operators of distinct keys, in B the other way round
//   two-keys N    N operators of two keys, in an order of its own on each side
//   ranks N       N operators of a rank of its own each, no output the same
//   step N        a step of an optimizer with N parameters, none of which is the same behind it
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/digest/digest.h"
#include "core/trace/op_record.h"
#include "core/trace/program_records.h"
#include "dumpers/store/dump_writer.h"

namespace {

namespace core = repro_check::core;
namespace store = repro_check::store;
namespace fs = std::filesystem;

using Floats = std::vector<float>;

/// Writes records one after the other; the output of each is an input of the next.
class Recording {
 public:
  Recording(const fs::path& directory, store::DumpWriterOptions::Browse browse)
      : writer_(directory, options(browse)) {}

  /// @param key     which of many operators in many modules it is
  /// @param output  its bytes, or empty: then `seed` alone makes a digest
  void append(std::size_t key, std::uint64_t seed, const Floats& output, std::uint32_t rank = 0) {
    core::OpRecord record;
    record.index = count_++;
    record.rank = rank;
    record.op = operator_of(key);
    record.site = site_of(key);
    core::TensorRecord tensor;
    tensor.role = core::TensorRole::kOutput;
    tensor.slot = "0";
    tensor.dtype = core::Dtype::kFloat32;
    tensor.shape = {static_cast<std::int64_t>(std::max<std::size_t>(1, output.size()))};
    tensor.strides = {1};
    tensor.device = "cpu";
    tensor.state = core::ContentState::kHashed;
    tensor.producer = static_cast<std::int64_t>(record.index);
    tensor.storage = tensor.producer;
    const auto bytes = std::as_bytes(std::span(output));
    tensor.digest = output.empty() ? core::Digest{seed, ~seed} : core::digest_bytes(bytes);
    tensor.stored = !output.empty();
    writer_.enter(record);
    if (tensor.stored) writer_.put_content(tensor.content_key(), bytes);
    if (last_.state == core::ContentState::kHashed) record.tensors.push_back(last_);
    record.tensors.push_back(tensor);
    last_ = tensor;
    last_.role = core::TensorRole::kInput;
    last_.slot = "self";
    tensors_ += record.tensors.size();
    writer_.append(record);
  }

  /// A step of an optimizer that was given `count` parameters and left others.
  void append_step(std::size_t count, std::uint64_t seed) {
    core::OpRecord record;
    record.index = count_++;
    record.op = std::make_shared<core::OperatorInfo>(
        core::OperatorInfo{std::string(core::kStepRecord), "", false});
    record.site = site_of(0);
    for (const auto role : {core::TensorRole::kInput, core::TensorRole::kOutput}) {
      const bool is_output = role == core::TensorRole::kOutput;
      for (std::size_t i = 0; i < count; ++i) {
        core::TensorRecord& tensor = record.tensors.emplace_back();
        tensor.role = role;
        tensor.slot = fmt::format("param.layers.{}.weight", i);
        tensor.dtype = core::Dtype::kFloat32;
        tensor.shape = {1};
        tensor.strides = {1};
        tensor.device = "cpu";
        tensor.state = core::ContentState::kHashed;
        tensor.storage = static_cast<std::int64_t>(i);
        tensor.producer = is_output ? 0 : core::kNoProducer;
        tensor.digest = {i, is_output ? seed : 0};
      }
    }
    tensors_ += record.tensors.size();
    writer_.enter(record);
    writer_.append(record);
  }

  void finish(const std::string& name) {
    core::RunManifest manifest;
    manifest.run_name = name;
    manifest.trace.digest_algorithm = core::kDigestAlgorithm;
    manifest.trace.operators = count_;
    manifest.trace.tensors = tensors_;
    writer_.finish(std::move(manifest));
  }

 private:
  static store::DumpWriterOptions options(store::DumpWriterOptions::Browse browse) {
    store::DumpWriterOptions options;
    options.browse = browse;
    return options;
  }

  std::shared_ptr<const core::OperatorInfo> operator_of(std::size_t key) {
    constexpr std::size_t kOperators = 20;
    if (operators_.empty()) {
      for (std::size_t i = 0; i < kOperators; ++i) {
        operators_.push_back(std::make_shared<core::OperatorInfo>(
            core::OperatorInfo{fmt::format("aten::op{}", i), "", false}));
      }
    }
    return operators_[key % kOperators];
  }

  std::shared_ptr<const core::CallSite> site_of(std::size_t key) {
    while (sites_.size() <= key) {
      core::CallSite site;
      site.module_path = fmt::format("encoder.layers.{}", sites_.size());
      sites_.push_back(std::make_shared<core::CallSite>(std::move(site)));
    }
    return sites_[key];
  }

  store::DumpWriter writer_;
  std::uint64_t count_ = 0;
  std::uint64_t tensors_ = 0;
  core::TensorRecord last_;
  std::vector<std::shared_ptr<const core::OperatorInfo>> operators_;
  std::vector<std::shared_ptr<const core::CallSite>> sites_;
};

constexpr auto kNever = store::DumpWriterOptions::Browse::kNever;
constexpr std::size_t kKeys = 1000;  ///< of an ordinary trace

Floats values(std::mt19937_64& random, std::size_t count) {
  Floats floats(count);
  for (float& value : floats) {
    value = static_cast<float>(static_cast<std::int64_t>(random())) * 0x1p-62F;
  }
  return floats;
}

/// Every element some ULP away, most of them few.
void disturb(std::mt19937_64& random, Floats& floats) {
  for (float& value : floats) {
    const std::uint64_t bits = random();
    value *=
        1.0F + static_cast<float>(1 + bits % 64) * ((bits & 0x3F00U) == 0 ? 0x1p-16F : 0x1p-22F);
  }
}

/// Sizes like those of a convolutional network: 0.1 to 26 MB, most of them small, and no multiple
/// of anything.
std::vector<std::size_t> tensor_sizes(std::size_t mib) {
  const std::size_t count = std::max<std::size_t>(8, mib / 6);
  std::vector<double> shares;
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double step = static_cast<double>((i * 61) % count) / static_cast<double>(count);
    shares.push_back(0.1 + 26 * step * step);
    sum += shares.back();
  }
  std::vector<std::size_t> sizes;
  sizes.reserve(shares.size());
  for (const double share : shares) {
    sizes.push_back(static_cast<std::size_t>(share / sum * static_cast<double>(mib) * 0x1p18));
  }
  return sizes;
}

void make_equal(const fs::path& directory, std::size_t count) {
  constexpr std::size_t kElements = 64;
  for (const char* name : {"A", "B"}) {
    std::mt19937_64 random(1);
    Recording recording(directory / name, kNever);
    for (std::size_t i = 0; i < count; ++i) {
      recording.append(i % kKeys, i, values(random, kElements));
    }
    recording.finish(name);
  }
}

void make_different(const fs::path& directory, std::size_t mib) {
  for (const char* name : {"A", "B"}) {
    std::mt19937_64 random(2);
    std::mt19937_64 noise(3);
    Recording recording(directory / name, store::DumpWriterOptions::Browse::kAlways);
    std::size_t key = 0;
    for (const std::size_t size : tensor_sizes(mib)) {
      Floats floats = values(random, size);
      if (*name == 'B') disturb(noise, floats);
      recording.append(key++, 0, floats);
    }
    recording.finish(name);
  }
}

/// @param key_of  side and position -> key
template <typename KeyOf>
void make_streams(const fs::path& directory, std::size_t count, const KeyOf& key_of) {
  for (const bool is_candidate : {false, true}) {
    const std::string name = is_candidate ? "B" : "A";
    Recording recording(directory / name, kNever);
    for (std::size_t i = 0; i < count; ++i) {
      for (const std::size_t key : key_of(is_candidate, i)) recording.append(key, key, {});
    }
    recording.finish(name);
  }
}

void make_ranks(const fs::path& directory, std::uint32_t count) {
  for (const bool is_candidate : {false, true}) {
    const std::string name = is_candidate ? "B" : "A";
    Recording recording(directory / name, kNever);
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      recording.append(0, std::uint64_t{2} * rank + (is_candidate ? 1 : 0), {}, rank);
    }
    recording.finish(name);
  }
}

void make_step(const fs::path& directory, std::size_t count) {
  for (const char* name : {"A", "B"}) {
    Recording recording(directory / name, kNever);
    recording.append_step(count, static_cast<std::uint64_t>(*name));
    recording.finish(name);
  }
}

using Keys = std::vector<std::size_t>;

void make(const std::string& kind, const fs::path& directory, std::size_t size) {
  if (kind == "equal") return make_equal(directory, size);
  if (kind == "different") return make_different(directory, size);
  if (kind == "inserted") {
    const std::size_t step = std::max<std::size_t>(1, size / 1000);
    return make_streams(directory, size, [step](bool is_candidate, std::size_t i) {
      const std::size_t key = i % kKeys;
      return is_candidate && i % step == step / 2 ? Keys{(i * 7) % kKeys, key} : Keys{key};
    });
  }
  if (kind == "reversed") {
    return make_streams(directory, size, [size](bool is_candidate, std::size_t i) {
      return Keys{is_candidate ? size - 1 - i : i};
    });
  }
  if (kind == "ranks") return make_ranks(directory, static_cast<std::uint32_t>(size));
  if (kind == "step") return make_step(directory, size);
  if (kind == "two-keys") {
    std::mt19937_64 random(4);
    return make_streams(directory, size, [&](bool, std::size_t) { return Keys{random() % 2}; });
  }
  throw std::invalid_argument("no such kind: " + kind);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 || std::atoll(argv[3]) < 1) {
    std::fputs("usage: repro-check-compare-dumps KIND DIRECTORY SIZE\n", stderr);
    return 2;
  }
  try {
    make(argv[1], argv[2], static_cast<std::size_t>(std::atoll(argv[3])));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
