// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/progress.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <regex>
#include <string>
#include <thread>

namespace repro_check::cmd {
namespace {

ReadVariable variables(const std::map<std::string, std::string>& set) {
  return [set](const char* name) -> const char* {
    static thread_local std::string value;
    const auto found = set.find(name);
    if (found == set.end()) return nullptr;
    value = found->second;
    return value.c_str();
  };
}

class Capture {
 public:
  Capture() : file_(std::tmpfile()) {}
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  Capture(Capture&&) = delete;
  Capture& operator=(Capture&&) = delete;
  ~Capture() { std::fclose(file_); }
  [[nodiscard]] std::FILE* stream() const { return file_; }
  [[nodiscard]] std::string text() const {
    std::string text(4096, '\0');
    std::rewind(file_);
    text.resize(std::fread(text.data(), 1, text.size(), file_));
    return text;
  }

 private:
  std::FILE* file_;
};

}  // namespace

TEST_CASE("the live line needs a terminal that is neither dumb nor a CI log") {
  GlobalOptions globals;
  CHECK(progress_style(globals, true, variables({})) == ProgressStyle::kLive);
  CHECK(progress_style(globals, false, variables({})) == ProgressStyle::kLines);
  CHECK(progress_style(globals, true, variables({{"TERM", "dumb"}})) == ProgressStyle::kLines);
  CHECK(progress_style(globals, true, variables({{"CI", "true"}})) == ProgressStyle::kLines);
  CHECK(progress_style(globals, true, variables({{"CI", ""}})) == ProgressStyle::kLive);
  globals.quiet = true;
  CHECK(progress_style(globals, true, variables({})) == ProgressStyle::kOff);
  globals.progress = ProgressMode::kAlways;
  CHECK(progress_style(globals, false, variables({{"CI", "1"}})) == ProgressStyle::kLive);
  globals.progress = ProgressMode::kNever;
  CHECK(progress_style(globals, true, variables({})) == ProgressStyle::kOff);
}

TEST_CASE("in a log there is one line a run") {
  const Capture capture;
  Progress progress(ProgressStyle::kLines, capture.stream());
  progress.begin(2, 2, "candidate");
  progress.update({"loading", 0, 0});
  progress.update({"recording", 0, 0});
  progress.update({"recording", 12, 100});
  progress.update({"finishing", 312, 1'100'000'000});
  CHECK(capture.text().empty());
  progress.end(RecorderTotals{313, 700, 1'100'000'000, 4.5, {}});
  progress.stage("comparing");
  progress.begin(2, 2, "candidate");
  progress.update({"recording", 12, 100});
  progress.end({});
  CHECK(capture.text() ==
        "[2/2] candidate  done  313 operators  1.1 GB  0 s\n"
        "[2/2] candidate  failed  12 operators  0 s\n");
}

TEST_CASE("the live line is rewritten in place and taken away at the end") {
  const Capture capture;
  {
    Progress progress(ProgressStyle::kLive, capture.stream());
    progress.begin(1, 2, "baseline");
    progress.update({"recording", 3, 0});
    progress.update({"recording", 4, 0});  // too soon after the last one
  }
  CHECK(capture.text() == "\r\x1b[K[1/2] baseline  recording  op 3  0 s\r\x1b[K");
}

TEST_CASE("a share is a bar on a terminal, and nothing in a log that it would only fill") {
  const auto text = [](std::uint64_t count) { return std::to_string(count); };
  const Capture live;
  {
    Progress progress(ProgressStyle::kLive, live.stream());
    progress.begin(1, 0, "");
    progress.share("verifying", 3, 4, text);
    progress.share("verifying", 4, 4, text);  // too soon
    progress.share("folding", 0, 0, text);
  }
  CHECK(live.text() ==
        "\r\x1b[Kverifying  [###############     ] 3 of 4  0 s"
        "\r\x1b[Kfolding  [####################] 0 of 0  0 s\r\x1b[K");
  const Capture log;
  Progress lines(ProgressStyle::kLines, log.stream());
  lines.begin(1, 0, "");
  lines.share("verifying", 3, 4, text);
  CHECK(log.text().empty());
}

TEST_CASE("what takes long says how fast it goes and how long it will take") {
  const auto text = [](std::uint64_t count) { return std::to_string(count); };
  const Capture live;
  {
    Progress progress(ProgressStyle::kLive, live.stream());
    progress.begin(1, 0, "");
    std::this_thread::sleep_for(std::chrono::milliseconds(1050));
    progress.share("verifying", 3'000, 4'000, text);
    progress.update({"recording", 7, 2'100'000'000});
    progress.share("verifying twice", 4'000, 4'000, text);
  }
  const std::string shown = live.text();
  CHECK(shown.find("s left", shown.find("op 7")) == std::string::npos);
  const auto shows = [&](const char* pattern) {
    return std::regex_search(shown, std::regex(pattern));
  };
  CHECK(shows("3000 of 4000  [12][0-9]{3}/s  [01] s left"));
  CHECK(shows("verifying twice  .#+. 4000 of 4000  0 s"));  // a phase has its own clock
  CHECK(shows("op 7  2[.]1 GB  [0-9.]+ GB/s  [0-9] s"));
}

TEST_CASE("a comparison shows its phases, and costs nothing where nothing is shown") {
  using comparators::ComparePhase;
  const Capture live;
  {
    Progress progress(ProgressStyle::kLive, live.stream());
    progress.begin(2, 3, "candidate");
    const auto tell = comparison_on(progress);
    tell({ComparePhase::kAligning, 0, 4'000});
    tell({ComparePhase::kComparing, 1'000, 2'000});
    tell({ComparePhase::kVerifying, 1'500'000, 6'000'000});
  }
  CHECK(live.text() ==
        "\r\x1b[K[2/3] candidate  aligning  [                    ] 0 of 4000  0 s"
        "\r\x1b[K[2/3] candidate  comparing  [##########          ] 1000 of 2000  0 s"
        "\r\x1b[K[2/3] candidate  verifying  [#####               ] 1.5 MB of 6.0 MB  0 s\r\x1b[K");
  Progress off(ProgressStyle::kOff, live.stream());
  CHECK(!comparison_on(off));
}

TEST_CASE("the second recording is measured by the first") {
  const Capture live;
  {
    Progress progress(ProgressStyle::kLive, live.stream());
    progress.begin(1, 2, "baseline");
    progress.update({"recording", 400, 0});
    progress.begin(2, 2, "candidate");
    std::this_thread::sleep_for(std::chrono::milliseconds(1050));
    progress.update({"recording", 200, 0});
  }
  const std::regex expected("candidate  recording  op 200  [0-9] s  [0-9] s left");
  CHECK(std::regex_search(live.text(), expected));
}

TEST_CASE("off is silent, and a hostile run name is escaped") {
  const Capture silent;
  Progress off(ProgressStyle::kOff, silent.stream());
  off.begin(1, 1, "baseline");
  off.update({"recording", 1, 1});
  off.stage("comparing");
  CHECK(silent.text().empty());

  const Capture capture;
  Progress lines(ProgressStyle::kLines, capture.stream());
  lines.begin(1, 1, "a\x1b[31mb");
  lines.end({});
  CHECK(capture.text() == "[1/1] a\\x1b[31mb  failed  0 s\n");
}

}  // namespace repro_check::cmd
