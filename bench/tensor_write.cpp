// SPDX-License-Identifier: Apache-2.0
// repro-check-tensor-write DIRECTORY [ROUNDS] [GIB]: what a recording of tensors reaches of what
// the same disk takes. Alternates three ways of writing the same distinct bytes: direct writes from
// one aligned buffer, the dump writer, and ordinary writes; all with what it takes to have the
// bytes on the disk (fsync, and the whole of finish()).
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "core/digest/digest.h"
#include "core/error.h"
#include "core/trace/op_record.h"
#include "dumpers/store/dump_writer.h"

namespace {

namespace core = repro_check::core;
namespace store = repro_check::store;
namespace fs = std::filesystem;

constexpr std::size_t kBuffer = std::size_t{16} << 20U;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kTensorsPerGiB = 170;

struct Content {
  core::ContentKey key;
  std::span<const std::byte> bytes;
};

/// Sizes like those of a convolutional network: 0.1 to 26 MB, most of them small, and no multiple
/// of anything.
std::vector<std::size_t> tensor_sizes(std::size_t total) {
  std::vector<std::size_t> sizes;
  const std::size_t count = std::max<std::size_t>(8, kTensorsPerGiB * total >> 30U);
  double sum = 0;
  std::vector<double> shares;
  shares.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const double step = static_cast<double>((i * 61) % count) / static_cast<double>(count);
    shares.push_back(0.1 + 26 * step * step);
    sum += shares.back();
  }
  sizes.reserve(count);
  for (const double share : shares) {
    sizes.push_back(static_cast<std::size_t>(share / sum * static_cast<double>(total)) / 4 * 4);
  }
  return sizes;
}

class Bytes {
 public:
  explicit Bytes(std::size_t total)
      : size_((total + kBuffer - 1) / kBuffer * kBuffer),
        memory_(static_cast<std::byte*>(std::aligned_alloc(kPage, size_)), &std::free) {
    auto* words = reinterpret_cast<std::uint64_t*>(memory_.get());
    std::uint64_t state = 0x9e3779b97f4a7c15U;
    for (std::size_t i = 0; i < size_ / sizeof(std::uint64_t); ++i) {
      state ^= state << 13U;
      state ^= state >> 7U;
      state ^= state << 17U;
      words[i] = state;
    }
  }
  [[nodiscard]] std::span<const std::byte> all() const { return {memory_.get(), size_}; }

 private:
  std::size_t size_;
  std::unique_ptr<std::byte, decltype(&std::free)> memory_;
};

void write_plain(const fs::path& file, std::span<const std::byte> bytes, int flags) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | flags, 0666);
  int code = fd < 0 ? errno : 0;
  for (std::size_t done = 0; code == 0 && done < bytes.size();) {
    const std::size_t length = std::min(kBuffer, bytes.size() - done);
    const ssize_t written = ::pwrite(fd, bytes.data() + done, length, static_cast<off_t>(done));
    if (written < 0) code = errno;
    if (written > 0) done += static_cast<std::size_t>(written);
  }
  if (code == 0 && ::fsync(fd) != 0) code = errno;
  if (fd >= 0) ::close(fd);
  if (code != 0) throw std::system_error(code, std::generic_category(), file.string());
}

void write_dump(const fs::path& directory, const std::vector<Content>& contents) {
  store::DumpWriter writer(directory, {});
  core::OpRecord record;
  record.op = std::make_shared<core::OperatorInfo>(core::OperatorInfo{"aten::relu", "", false});
  for (const Content& content : contents) {
    writer.enter(record);
    writer.put_content(content.key, content.bytes);
    writer.append(record);
    ++record.index;
  }
  core::RunManifest manifest;
  manifest.trace.digest_algorithm = core::kDigestAlgorithm;
  manifest.trace.operators = record.index;
  writer.finish(std::move(manifest));
}

double seconds_of(const std::function<void()>& work) {
  ::sync();  // what an earlier round left behind is not this one's to wait for
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

void measure(const fs::path& directory, int rounds, std::size_t total) {
  const Bytes bytes(total);
  std::vector<Content> contents;
  std::size_t at = 0;
  for (const std::size_t size : tensor_sizes(total)) {
    const auto part = bytes.all().subspan(at, size);
    contents.push_back(
        {{core::Dtype::kFloat32, {static_cast<std::int64_t>(size / 4)}, core::digest_bytes(part)},
         part});
    at += size;
  }
  const auto whole = bytes.all().first((at + kPage - 1) / kPage * kPage);
  const double gb = static_cast<double>(at) / 1e9;
  std::vector<double> ratios;
  fmt::print("{} tensors, {:.2f} GB; GB/s\nround  direct  dump  ordinary  dump/direct\n",
             contents.size(),
             gb);
  for (int round = 0; round < rounds; ++round) {
    const fs::path file = directory / "plain";
    const double direct = seconds_of([&] { write_plain(file, whole, O_DIRECT); });
    fs::remove(file);
    const double dump = seconds_of([&] { write_dump(directory / "dump", contents); });
    fs::remove_all(directory / "dump");
    const double ordinary = seconds_of([&] { write_plain(file, whole, 0); });
    fs::remove(file);
    ratios.push_back(direct / dump);
    fmt::print("{:5}  {:6.2f}  {:4.2f}  {:8.2f}  {:11.2f}\n",
               round,
               gb / direct,
               gb / dump,
               gb / ordinary,
               ratios.back());
    std::fflush(stdout);
  }
  fmt::print("median of dump/direct: {:.2f} (target 0.90)\n", median(ratios));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: repro-check-tensor-write DIRECTORY [ROUNDS] [GIB]\n", stderr);
    return 2;
  }
  constexpr int kRounds = 5;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : kRounds;
  const int gib = argc > 3 ? std::atoi(argv[3]) : 1;
  std::string scratch = (fs::path(argv[1]) / "tensor-write-XXXXXX").string();
  if (rounds < 1 || gib < 1 || ::mkdtemp(scratch.data()) == nullptr) {
    std::fprintf(stderr, "cannot measure in %s\n", argv[1]);
    return 1;
  }
  int code = 0;
  try {
    measure(scratch, rounds, static_cast<std::size_t>(gib) << 30U);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    code = 1;
  }
  fs::remove_all(scratch);
  return code;
}
