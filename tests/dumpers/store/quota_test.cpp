// SPDX-License-Identifier: Apache-2.0
// A quota that is used up, which the kernel is made to answer: quotas of a real file system need a
// machine that was set up for them. Where filters of system calls are forbidden, the cases say that
// nothing was tested, by which ctest knows that it was skipped.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "core/error.h"
#include "core/trace/dump.h"
#include "dumpers/journal/journal_writer.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/dump_writer.h"
#include "dumpers/store/recovery/recovery.h"
#include "tests/dumpers/store/sample_dump.h"
#include "tests/support/temp_directory.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;

constexpr int kRight = 42;
constexpr int kCannotFilter = 43;
constexpr std::uint64_t kWithinQuota = 20;

/// From now on no thread of this process gets another block for a file that is open. Pipes of later
/// are left alone: sanitizers ask through one what memory may be read.
bool use_up_quota() {
  constexpr std::uint32_t kNumber = offsetof(seccomp_data, nr);
  constexpr std::uint32_t kDescriptor = offsetof(seccomp_data, args);
  constexpr std::uint32_t kRefuse = SECCOMP_RET_ERRNO | EDQUOT;
  const int next = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (next < 0 || ::close(next) != 0) return false;
  std::array<sock_filter, 10> filter{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_fallocate, 7, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_pwrite64, 6, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_pwritev, 5, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_write, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kDescriptor),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, static_cast<std::uint32_t>(next), 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, STDERR_FILENO, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, kRefuse),
  }};
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

int in_child(const std::function<int()>& work) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    try {
      ::_exit(work());
    } catch (...) {
      ::_exit(1);
    }
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) != kCannotFilter) return WEXITSTATUS(status);
  MESSAGE("system calls cannot be filtered here: nothing was tested");
  return kRight;
}

template <typename Sink>
void record_one(Sink& sink, std::uint64_t i) {
  const auto [key, bytes] = test_support::make_content(core::Dtype::kFloat32, {100, 200}, i);
  core::OpRecord record = test_support::make_sample(1, 0).ops.front();
  record.index = i;
  record.tensors.resize(1);
  record.tensors[0].dtype = key.dtype;
  record.tensors[0].shape = key.shape;
  record.tensors[0].digest = key.digest;
  sink.enter(record);
  sink.put_content(key, bytes);
  sink.append(record);
}

/// Records within the quota, and then until the sink refuses, which must say why and how to mend
/// it.
template <typename Sink>
int record_beyond_quota(Sink& sink) {
  std::uint64_t next = 0;
  while (next < kWithinQuota) record_one(sink, next++);
  if (!use_up_quota()) return kCannotFilter;
  try {
    while (next < 100'000) record_one(sink, next++);
  } catch (const core::Error& error) {
    sink.fail(error.what());
    const bool told = error.kind() == core::ErrorKind::kIo && !error.hint().empty() &&
                      std::string(error.what()).find("quota") != std::string::npos;
    return told ? kRight : 2;
  }
  return 3;
}

TEST_CASE("a quota that is used up is told, and what was recorded before is recovered") {
  const test_support::TempDirectory directory;
  const fs::path dump = directory / "dump";
  const int code = in_child([&] {
    journal::JournalSink sink(dump);
    return record_beyond_quota(sink);
  });
  CHECK(code == kRight);
  if (!fs::exists(dump)) return;
  const core::TraceSummary summary = recover_dump(dump, directory / "copy", {});
  CHECK(summary.operators >= kWithinQuota);
  CHECK(summary.partial);
  core::verify_contents(*open_dump(directory / "copy"));
}

TEST_CASE("a quota that is used up is told by a dump as well") {
  const test_support::TempDirectory directory;
  const int code = in_child([&] {
    DumpWriter writer(directory / "dump", {});
    return record_beyond_quota(writer);
  });
  CHECK(code == kRight);
}

}  // namespace
}  // namespace repro_check::store
