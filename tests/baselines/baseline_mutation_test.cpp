// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <span>
#include <string>

#include "baselines/baseline.h"
#include "core/error.h"
#include "tests/baselines/sample_baseline.h"
#include "tests/support/fuzz_budget.h"

namespace repro_check::baselines::baseline_mutation_test {
namespace {

std::string mutated(std::string text, std::mt19937_64& random) {
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random() % bound); };
  switch (below(5)) {
    case 0:
      text[below(text.size())] = static_cast<char>(random());
      break;
    case 1:
      text.erase(below(text.size()), below(40));
      break;
    case 2:
      text.insert(below(text.size()), text.substr(below(text.size()), below(40)));
      break;
    case 3:
      text.resize(below(text.size()));
      break;
    default: {
      const std::string words = " =/[]:,\\-*0123456789fgmiwbpckut\n";
      text.insert(below(text.size()), 1, words[below(words.size())]);
    }
  }
  return text;
}

std::string resealed(const std::string& text) {
  const std::size_t end = text.rfind("\nend ");
  if (end == std::string::npos) return text;
  const std::string body = text.substr(0, end + 1);
  const core::Digest sum = core::digest_bytes(std::as_bytes(std::span<const char>(body)));
  return body + text.substr(end + 1, text.find(' ', end + 5) - end) + "xxh3:" + core::to_hex(sum) +
         "\n";
}

// Whatever happened to a file: it is refused as a file, or it is exactly what would be written.
template <typename Read>
void check_closed(const std::string& text, Read read) {
  try {
    const std::string again = to_text(read(text));
    CHECK(again == text);
  } catch (const core::Error& error) {
    CHECK(core::exit_code_for(error.kind()) == core::ExitCode::kDumpUnusable);
  }
}

void mutate(const Baseline& sample, const char* name) {
  test_support::FuzzBudget budget(name, 20260110, 6000);
  const std::string text = to_text(sample);
  const std::string pending = to_text(Pending{true, 2, {test_support::digest(1), "m.pt"}, sample});
  const auto read_baseline = [](const std::string& t) { return baseline_from_text(t, "b"); };
  const auto read_pending = [](const std::string& t) { return pending_from_text(t, "p"); };
  while (budget.next()) {
    const std::string raw = mutated(text, budget.random());
    // Without the right checksum nothing but the original passes.
    if (raw != text) CHECK_THROWS_AS(read_baseline(raw), core::Error);
    check_closed(resealed(raw), read_baseline);
    check_closed(mutated(pending, budget.random()), read_pending);
  }
}

TEST_CASE("a mutated baseline is refused, or is another baseline in full") {
  mutate(test_support::sample_baseline(), "baseline");
  mutate(test_support::sample_of_blocks(), "baseline of blocks");
}

}  // namespace
}  // namespace repro_check::baselines::baseline_mutation_test
