// SPDX-License-Identifier: Apache-2.0
#include "cmd/audit/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "cmd/audit/sweep.h"
#include "cmd/audit/sweep_message.h"
#include "cmd/options/config_options.h"
#include "cmd/replay/replay.h"
#include "cmd/terminal/logging.h"
#include "comparators/align/pairing.h"
#include "comparators/report/divergence.h"
#include "core/error.h"
#include "core/text/text.h"

namespace repro_check::cmd {
namespace {

constexpr std::string_view kBatch = "batch";
constexpr std::string_view kPlace = "{batch}";
/// Prime, so that it is hardly the size of another dimension.
constexpr std::uint64_t kItems = 7;
constexpr std::uint64_t kMostItems = 100'000;

std::uint64_t number_of_items(std::string_view word) {
  const auto count = core::parse_number<std::uint64_t>(word);
  if (!count || *count < 2 || *count > kMostItems) {
    throw core::usage_error(fmt::format("--sweep batch={}: expected a number of items from 2 to {}",
                                        core::printable(word),
                                        kMostItems),
                            "for example --sweep batch=7");
  }
  return *count;
}

/// @return how often it was replaced
std::size_t put_items(std::vector<std::string>& words, std::uint64_t items) {
  const std::string number = std::to_string(items);
  std::size_t places = 0;
  for (std::string& word : words) {
    for (std::size_t at = word.find(kPlace); at != std::string::npos;
         at = word.find(kPlace, at + number.size())) {
      word.replace(at, kPlace.size(), number);
      ++places;
    }
  }
  return places;
}

void put_items(configs::RunSpec& run, std::uint64_t items, bool is_needed) {
  const std::size_t places = run.program ? put_items(run.program->command, items) : 0;
  if (places != 0 || !is_needed) return;
  throw core::usage_error(
      "--sweep batch needs a program that is told how many items its batches have",
      "write {batch} where it is told, as in: repro-check audit --sweep batch -- python eval.py "
      "--batch-size {batch}; or record both by hand: audit DUMP --sweep batch --alone DUMP");
}

std::vector<replay::BatchCall> paired_calls(const core::DumpSource& batch,
                                            const core::DumpSource& alone) {
  const comparators::Pairing pairing = comparators::pair_records(batch, alone);
  std::vector<replay::BatchCall> calls;
  for (std::uint64_t op = 0; op < batch.op_count(); ++op) {
    const auto other =
        comparators::counterpart_in(pairing.candidate_of, static_cast<std::int64_t>(op));
    if (other) calls.push_back({op, *other});
  }
  return calls;
}

}  // namespace

std::optional<std::uint64_t> batch_asked(const std::vector<std::string>& words) {
  std::optional<std::uint64_t> items;
  for (const std::string& word : words) {
    if (word == kBatch) items = kItems;
    if (word.starts_with("batch=")) items = number_of_items(std::string_view(word).substr(6));
  }
  if (items && words.size() > 1) {
    throw core::usage_error("--sweep batch is a verdict of its own, and takes no other setting",
                            "sweep the others with a second command");
  }
  return items;
}

configs::Config with_batch(configs::Config config, std::uint64_t items) {
  const configs::RunSpec* chosen = &choose_run(config, std::nullopt);
  if (config.base) put_items(*config.base, items, &*config.base == chosen);
  for (configs::RunSpec& run : config.runs) put_items(run, items, &run == chosen);
  return config;
}

comparators::SweptDump sweep_batch(const DumpAt& batch,
                                   const DumpAt& alone,
                                   const std::optional<std::filesystem::path>& recorder) {
  BatchQuestion question;
  question.batch.dump = batch.place;
  question.alone.dump = alone.place;
  question.calls = paired_calls(batch.dump, alone.dump);
  const auto answer = read_answer<BatchAnswer>(
      ask_about_dump({"batch", message_text(question), recorder}, batch.dump.manifest()));
  for (const std::string& note : answer.notes) log_info(note);
  const replay::BatchOutcome& outcome = answer.outcome;
  const auto said = [&](std::uint64_t op) { return comparators::op_text(batch.dump.op_head(op)); };
  comparators::SweptDump swept;
  swept.dump = &batch.dump;
  comparators::BatchCoverage& items = swept.coverage.batch.emplace();
  items.items = outcome.items;
  items.told_apart = outcome.told_apart;
  items.without_items = outcome.without_items;
  for (const std::uint64_t op : outcome.mixing) items.mixing.push_back(said(op));
  for (const std::uint64_t item : outcome.tried) {
    swept.had.push_back(swept.settings.size());
    swept.settings.push_back(
        {comparators::FindingId::kVariesWithBatch, fmt::format("item {}", item)});
  }
  for (const replay::BatchDifference& each : outcome.differing) {
    const auto at = std::ranges::find(outcome.tried, each.item);
    swept.differences.push_back(
        difference_of(each.op, each.output, static_cast<std::size_t>(at - outcome.tried.begin())));
  }
  swept.coverage.judged = outcome.judged;
  for (const std::uint64_t op : outcome.unrepeated) swept.coverage.unrepeated.push_back(said(op));
  for (const replay::UnsweptCall& call : outcome.unswept) {
    swept.coverage.unswept.push_back(core::printable(call.why));
  }
  return swept;
}

}  // namespace repro_check::cmd
