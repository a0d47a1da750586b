// SPDX-License-Identifier: Apache-2.0
// Recordings that die, as processes of their own: what a call had returned for must be there.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include "core/error.h"
#include "core/tensor/dtype.h"
#include "core/tensor/tensor_record.h"
#include "core/trace/dump.h"
#include "dumpers/journal/journal_writer.h"
#include "dumpers/store/dump_reader.h"
#include "dumpers/store/dump_writer.h"
#include "dumpers/store/recovery/recovery.h"
#include "tests/dumpers/journal/same_record.h"
#include "tests/dumpers/store/sample_dump.h"
#include "tests/support/shared_counter.h"
#include "tests/support/temp_directory.h"

namespace repro_check::store {
namespace {

namespace fs = std::filesystem;
using core::ErrorKind;
using test_support::Sample;
using test_support::SharedCounter;
using test_support::TempDirectory;
using Clock = std::chrono::steady_clock;

/// Passes everything on, and counts the records whose append() has returned.
class CountingSink final : public core::DumpSink {
 public:
  CountingSink(core::DumpSink& sink, std::atomic<std::uint64_t>& appended)
      : sink_(sink), appended_(appended) {}

  void begin(const core::RunManifest& manifest) override { sink_.begin(manifest); }
  void enter(const core::OpHead& call) override { sink_.enter(call); }
  [[nodiscard]] bool has_content(const core::ContentKey& key) const override {
    return sink_.has_content(key);
  }
  void block(const core::BlockRow& row) override { sink_.block(row); }
  void parameter(const core::ParameterRow& row) override { sink_.parameter(row); }
  using core::DumpSink::put_content;
  bool put_content(const core::ContentKey& key, const core::ContentBytes& bytes) override {
    return sink_.put_content(key, bytes);
  }
  void append(const core::OpRecord& record) override {
    sink_.append(record);
    appended_.fetch_add(1);
  }
  void fail(const std::string& message) override { sink_.fail(message); }

 private:
  core::DumpSink& sink_;
  std::atomic<std::uint64_t>& appended_;
};

template <typename Writer>
void record(Writer& writer, const Sample& sample, std::atomic<std::uint64_t>& appended) {
  CountingSink sink(writer, appended);
  test_support::play(sink, sample);
  writer.finish(sample.manifest);
}

using Recorder = std::function<void(const fs::path&, std::atomic<std::uint64_t>&)>;

/// Runs `work` in a child, kills it after `delay`, and waits for its end.
void kill_after(std::chrono::microseconds delay, const std::function<void()>& work) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    work();
    ::_exit(0);
  }
  ::usleep(static_cast<useconds_t>(delay.count()));
  ::kill(child, SIGKILL);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
}

constexpr std::size_t kEveryContent = std::numeric_limits<std::size_t>::max();

struct Expectation {
  const Sample& sample;
  std::uint64_t promised = 0;  ///< records whose append() returned
  std::size_t bytes = 0;       ///< their contents up to this size were promised too
};

std::size_t size_of(const core::TensorRecord& tensor) {
  return static_cast<std::size_t>(core::element_count(tensor.shape)) *
         core::element_size(tensor.dtype);
}

/// Whether `dump` begins as the sample does, as far as was promised.
bool keeps_promise(const core::DumpSource& dump, const Expectation& expected) {
  bool right = dump.op_count() >= expected.promised;
  for (std::uint64_t i = 0; right && i < dump.op_count(); ++i) {
    core::OpRecord wanted = expected.sample.ops.at(i);
    core::OpRecord found = dump.op(i);
    for (std::size_t t = 0; t < wanted.tensors.size(); ++t) {
      right = right && t < found.tensors.size();
      const bool promised = size_of(wanted.tensors[t]) <= expected.bytes;
      if (right && !promised) found.tensors[t].stored = wanted.tensors[t].stored;
    }
    right = right && test_support::same_record(found, wanted);
  }
  return right;
}

enum class End { kNothing, kRecovered, kWhole };

/// What a kill left: a reader refuses it, and it can be recovered with all that was promised.
End judge(const fs::path& place, const fs::path& copy, const Expectation& expected) {
  try {
    const bool kept =
        keeps_promise(*open_dump(place), expected);  // CHECK would catch what it throws
    CHECK(kept);
    return End::kWhole;
  } catch (const core::Error& refusal) {
    INFO(refusal.what());
    CHECK((refusal.kind() == ErrorKind::kDumpIncomplete ||
           refusal.kind() == ErrorKind::kDumpUnknown));
  }
  if (!fs::exists(place / "journal.bin")) {
    CHECK(expected.promised == 0);
    return End::kNothing;
  }
  CHECK(keeps_promise(*open_partial(place), expected));
  recover_dump(place, copy, {});
  const auto recovered = open_dump(copy);
  core::verify_contents(*recovered);
  CHECK(keeps_promise(*recovered, expected));
  const bool whole = !recovered->manifest().trace.partial.has_value();
  CHECK((!whole || recovered->op_count() == expected.sample.ops.size()));
  return End::kRecovered;
}

void kill_at_random(const Recorder& recorder,
                    const Sample& sample,
                    std::size_t bytes,
                    std::uint64_t seed) {
  constexpr int kTrials = 50;
  const TempDirectory unharmed;
  const SharedCounter ignored;
  const auto begin = Clock::now();
  recorder(unharmed / "dump", *ignored);
  const auto whole_time =
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
  std::mt19937_64 random(seed);
  std::array<int, 3> ends{};
  for (int trial = 0; trial < kTrials; ++trial) {
    const TempDirectory directory;
    const fs::path place = directory / "dump";
    const SharedCounter appended;
    kill_after(
        std::chrono::microseconds(random() % static_cast<std::uint64_t>(whole_time * 5 / 4 + 1)),
        [&] { recorder(place, *appended); });
    CAPTURE(trial);
    const End end = judge(place, directory / "copy", {sample, (*appended).load(), bytes});
    ++ends.at(static_cast<std::size_t>(end));
  }
  MESSAGE("nothing yet ", ends[0], ", recovered ", ends[1], ", already whole ", ends[2]);
  CHECK(ends[0] + ends[1] + ends[2] == kTrials);
}

TEST_CASE("killed at 50 random instants, a recording without HDF5 loses nothing") {
  const Sample sample = test_support::make_sample(11, 150);
  kill_at_random(
      [&](const fs::path& place, std::atomic<std::uint64_t>& appended) {
        journal::JournalSink sink(place);
        record(sink, sample, appended);
      },
      sample,
      kEveryContent,
      411);
}

TEST_CASE("killed at 50 random instants of recording or folding, a dump loses no record") {
  const Sample sample = test_support::make_sample(12, 150);
  kill_at_random(
      [&](const fs::path& place, std::atomic<std::uint64_t>& appended) {
        DumpWriter writer(place, {});
        record(writer, sample, appended);
      },
      sample,
      journal::kSmallContent,
      412);
}

/// What nobody catches: std::bad_alloc.
void run_out_of_memory() noexcept {
  volatile std::size_t size = std::numeric_limits<std::ptrdiff_t>::max();
  volatile const char* memory = new char[size];
  static_cast<void>(memory);
}

/// How models die.
const std::array<std::pair<const char*, std::function<void()>>, 4> kDeaths{{
    {"SIGSEGV", [] { std::raise(SIGSEGV); }},
    {"abort", [] { std::abort(); }},
    {"bad_alloc", [] { run_out_of_memory(); }},
    {"exit", [] { ::_exit(3); }},
}};

[[noreturn]] void die_in_operator(core::DumpSink& sink,
                                  const Sample& sample,
                                  const std::function<void()>& death) {
  // Neither the test's own handlers nor a core file.
  std::signal(SIGSEGV, SIG_DFL);
  std::signal(SIGABRT, SIG_DFL);
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
  test_support::play(sink, sample);
  const core::OperatorInfo conv{"aten::conv2d", "", false};
  sink.enter({sample.ops.size(), std::make_shared<core::OperatorInfo>(conv), nullptr});
  death();
  ::_exit(1);
}

TEST_CASE("whatever a model dies of, the operator is named and all before it is kept") {
  const Sample sample = test_support::make_sample(13, 5);
  for (const auto& [name, death] : kDeaths) {
    for (const bool with_hdf5 : {false, true}) {
      CAPTURE(name);
      CAPTURE(with_hdf5);
      const TempDirectory directory;
      const fs::path place = directory / "dump";
      const pid_t child = ::fork();
      REQUIRE(child >= 0);
      if (child == 0 && with_hdf5) {
        DumpWriter writer(place, {});
        die_in_operator(writer, sample, death);
      } else if (child == 0) {
        journal::JournalSink sink(place);
        die_in_operator(sink, sample, death);
      }
      int status = 0;
      REQUIRE(::waitpid(child, &status, 0) == child);
      CHECK(status != 0);
      const End end =
          judge(place,
                directory / "copy",
                {sample, sample.ops.size(), with_hdf5 ? journal::kSmallContent : kEveryContent});
      CHECK(end == End::kRecovered);
      const auto partial = open_dump(directory / "copy")->manifest().trace.partial;
      REQUIRE(partial.has_value());
      CHECK(partial->reason == "stopped in op 30 aten::conv2d");
    }
  }
}

}  // namespace
}  // namespace repro_check::store
