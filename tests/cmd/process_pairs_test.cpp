// SPDX-License-Identifier: Apache-2.0
#include "cmd/reports/process_pairs.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "cmd/words/causes.h"

namespace repro_check::cmd {
namespace {

using Names = std::vector<std::pair<std::string, std::string>>;

core::ChildProcess process(std::string name, std::string how, std::string command = "python t.py") {
  return {std::move(name), std::move(how), std::move(command), 3, true};
}

Names names_of(const ProcessPairs& found) {
  Names names;
  for (const ProcessPair& pair : found.pairs) names.emplace_back(pair.baseline, pair.candidate);
  return names;
}

TEST_CASE("processes are paired by how they were made, in their order") {
  const auto found = pair_processes({process("proc-1", "Process-1"),
                                     process("proc-2", "Process-2"),
                                     process("proc-3", "fork at a.py:3"),
                                     process("proc-4", "fork at a.py:3")},
                                    {process("proc-1", "fork at a.py:3"),
                                     process("proc-2", "Process-2"),
                                     process("proc-3", "Process-1"),
                                     process("proc-4", "fork at a.py:3")});
  CHECK(names_of(found) == Names{{"proc-1", "proc-3"},
                                 {"proc-2", "proc-2"},
                                 {"proc-3", "proc-1"},
                                 {"proc-4", "proc-4"}});
  CHECK(found.pairs.front().how == "Process-1");
  CHECK(found.reasons.empty());
}

TEST_CASE("of programs that were started the command line tells, as long as both have the same") {
  const auto found = pair_processes(
      {process("proc-1", "exec", "python a.py"), process("proc-2", "exec", "python b.py --port 1")},
      {process("proc-1", "exec", "python b.py --port 2"),
       process("proc-2", "exec", "python a.py")});
  CHECK(names_of(found) == Names{{"proc-1", "proc-2"}, {"proc-2", "proc-1"}});
  CHECK(found.reasons.empty());
}

TEST_CASE("a process of one run alone, and one that was not recorded, are no pass") {
  const std::vector<core::ChildProcess> one{process("proc-1", "exec", "python a.py")};
  CHECK(pair_processes(one, one).reasons.empty());
  for (const auto& found : {pair_processes(one, {}), pair_processes({}, one)}) {
    CHECK(found.pairs.empty());
    REQUIRE(found.reasons.size() == 1);
    CHECK(words_of(found.reasons.front()).find("python a.py") != std::string::npos);
  }
  std::vector<core::ChildProcess> unseen = one;
  unseen.front().recorded = false;
  CHECK(pair_processes(unseen, unseen).reasons.size() == 2);
}

TEST_CASE("ten processes keep their order") {
  std::vector<core::ChildProcess> many;
  for (int i = 1; i <= 11; ++i) many.push_back(process("proc-" + std::to_string(i), "exec"));
  const Names names = names_of(pair_processes(many, many));
  CHECK(names.at(1).first == "proc-2");
  CHECK(names.at(10) == std::pair<std::string, std::string>{"proc-11", "proc-11"});
}

}  // namespace
}  // namespace repro_check::cmd
