// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cmd/words/catalogue.h"
#include "cmd/words/causes.h"
#include "cmd/words/finding_words.h"
#include "comparators/report/finding.h"
#include "tests/support/files.h"

namespace repro_check::cmd {
namespace {

using comparators::Finding;
using comparators::FindingId;

/// `missing {missing:*rank}` as `missing ...`, for a table.
std::string without_fields(std::string_view text) {
  std::string out;
  bool inside = false;
  for (const char c : text) {
    if (c == '{') out += "...";
    inside = (inside && c != '}') || c == '{';
    if (!inside && c != '}' && c != '[' && c != ']') out += c;
  }
  return out;
}

std::vector<FindingId> all_findings() {
  std::vector<FindingId> ids;
  for (int i = 0; i <= static_cast<int>(comparators::kLastFinding); ++i) {
    ids.push_back(static_cast<FindingId>(i));
  }
  return ids;
}

/// The rows of one table of the documentation.
std::string table_of(std::string_view table) {
  std::string out = "| id | said | weight | when |\n|---|---|---|---|\n";
  for (const FindingId id : all_findings()) {
    const FindingRow& row = row_of(id);
    if (row.table != table) continue;
    out += "| `" + std::string(comparators::finding_id(id)) + "` | " + without_fields(row.title) +
           " | " + row.weight + " | " + row.when + " |\n";
  }
  return out;
}

struct Placed {
  std::string_view page;
  std::string_view table;
};
constexpr std::array kTables{
    Placed{"RANKS.md", "replicas"},
    Placed{"RANKS.md", "exchanges"},
    Placed{"RANKS.md", "data"},
    Placed{"RANKS.md", "ranks"},
    Placed{"AUDIT.md", "audit"},
    Placed{"AUDIT.md", "sweep"},
    Placed{"PRECISION.md", "precision"},
    Placed{"REPORTS.md", "recording"},
    Placed{"REPORTS.md", "resume"},
    Placed{"REPORTS.md", "loaders"},
    Placed{"RELATE.md", "relate"},
    Placed{"RELATE.md", "weights"},
    Placed{"RELATE.md", "training"},
    Placed{"RELATE.md", "compiled"},
};

/// Puts the tables of a page between their marks.
std::string renewed(std::string_view page, std::string text) {
  for (const auto& [of, table] : kTables) {
    if (of != page) continue;
    const std::string begin = "<!-- findings: " + std::string(table) + " -->\n";
    const std::size_t from = text.find(begin);
    REQUIRE(from != std::string::npos);
    const std::size_t start = from + begin.size();
    const std::size_t end = text.find("<!-- end of findings -->", start);
    REQUIRE(end != std::string::npos);
    text.replace(start, end - start, table_of(table));
  }
  return text;
}

}  // namespace

TEST_CASE("the tables of the documentation are those of the catalogue") {
  for (const std::string_view page :
       {"RANKS.md", "REPORTS.md", "AUDIT.md", "PRECISION.md", "RELATE.md"}) {
    const std::string path = REPRO_CHECK_DOCS "/" + std::string(page);
    const std::string text = test_support::read_file(path);
    const std::string right = renewed(page, text);
    if (std::getenv("REPRO_CHECK_UPDATE_GOLDEN") != nullptr) {
      std::ofstream(path, std::ios::binary) << right;
    }
    CHECK(right == text);
  }
}

TEST_CASE("every finding and every cause has an id of its own, and words") {
  std::set<std::string_view> tables;
  for (const Placed& placed : kTables) tables.insert(placed.table);
  std::set<std::string_view> ids;
  for (const FindingId id : all_findings()) {
    const std::string_view text_of_id = comparators::finding_id(id);
    CAPTURE(text_of_id);
    CHECK_FALSE(comparators::cause_of_id(text_of_id));
    CHECK(ids.insert(text_of_id).second);
    CHECK(text_of_id.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") ==
          std::string_view::npos);
    const FindingRow& row = row_of(id);
    CHECK(tables.contains(row.table));
    CHECK(row.advice.empty() == (row.table == "loaders" && row.weight == "note"));
    for (const std::string_view text : {row.title, row.evidence, row.advice, row.when}) {
      CHECK((!text.empty() || text == row.advice));
      CHECK(std::count(text.begin(), text.end(), '{') == std::count(text.begin(), text.end(), '}'));
      CHECK(std::count(text.begin(), text.end(), '[') == std::count(text.begin(), text.end(), ']'));
      CHECK(text.find("{+") == std::string_view::npos);
    }
  }
  CHECK(catalogue().findings.size() == ids.size());
  for (int i = 1; i <= static_cast<int>(comparators::kLastCause); ++i) {
    CHECK_FALSE(row_of(static_cast<comparators::CauseKind>(i)).title.empty());
  }
  CHECK(catalogue().causes.size() == static_cast<std::size_t>(comparators::kLastCause));
}

TEST_CASE("a finding is read back as it was written, whatever its fields hold") {
  Finding finding{FindingId::kRankMissing, Finding::Weight::kProof};
  finding.where = {3, 7, 41, "train.py:3", "body.weight"};
  finding.with("incomplete", true)
      .with("collective", 3)
      .with("norm", 0.5)
      .with("operator", "c10d::allreduce_")
      .with("missing", comparators::RankList{0, 2})
      .with("names", std::vector<std::string>{"a", "b"});
  const Json written = json_of(finding);
  CHECK(written["id"] == "rank-missing");
  CHECK(written["weight"] == "proof");
  CHECK(written["where"]["line"] == "train.py:3");
  Finding read;
  describe(JsonReader(written), read);
  CHECK(read == finding);
  Json unknown = written;
  unknown["id"] = "no-such-finding";
  CHECK_THROWS(describe(JsonReader(unknown), read));
}

TEST_CASE("words are made of the fields, and say nothing where one is not known") {
  Finding finding{FindingId::kMessageMissing, Finding::Weight::kProof};
  finding.where = {0, 1, {}, "train.py:42", ""};
  finding.with("group", "1")
      .with("ranks", comparators::RankList{0, 1})
      .with("message", 1)
      .with("from", 0)
      .with("to", 1)
      .with("tag", 7)
      .with("operator", "c10d::send")
      .with("what", "recv")
      .with("is_sent", true)
      .with("missing_rank", 1);
  CHECK(
      words_of(finding).whole() ==
      "missing recv: message 1 from rank 0 to rank 1, of group 1 (ranks 0, 1), tag 7, was sent at "
      "step 1 as c10d::send (train.py:42), and rank 1 never received it");
  finding.with("raised", "ValueError (train.py:9)");
  CHECK(words_of(finding).evidence.ends_with("; ValueError (train.py:9) ended rank 1"));
}

TEST_CASE("phrases within a phrase are said with it, and read back as they were") {
  using comparators::Phrase;
  using comparators::Phrases;
  const Phrase ends("ended-otherwise",
                    {{"baseline", Phrases{Phrase("program-end", {{"exit_code", 0}})}},
                     {"candidate",
                      Phrases{Phrase("program-end",
                                     {{"exit_code", 1},
                                      {"is_known", true},
                                      {"exception", "ValueError"},
                                      {"line", "train.py:7"}})}},
                     {"was_ended", true}});
  CHECK(words_of(ends) ==
        "the programs ended otherwise: the baseline by exit code 0, the candidate by exit code 1, "
        "by ValueError at train.py:7");
  CHECK(fix_of(ends) == "mend what ended the program, and record again");
  Phrase read;
  describe(JsonReader(json_of(ends)), read);
  CHECK(read == ends);
  for (const auto& [key, fix] : catalogue().fixes) {
    CAPTURE(key);
    CHECK(catalogue().phrases.contains(key));
    CHECK_FALSE(fix.empty());
    CHECK(fix.find("{+") == std::string::npos);
  }
}

TEST_CASE("phrases have a text, and what belongs together stands together") {
  for (const auto& [key, text] : catalogue().phrases) {
    CAPTURE(key);
    CHECK_FALSE(text.empty());
    CHECK(text.find("{+") == std::string::npos);
  }
  using comparators::Phrase;
  CHECK(
      sentence_of({Phrase("draws-apart"),
                   Phrase("seeds-apart", {{"baseline", "1"}, {"candidate", "2"}}),
                   Phrase("last-drawn-alike", {{"op", "op 3 aten::rand"}}),
                   Phrase("likely")}) ==
      "it draws random numbers, its inputs were bit-equal, and the generators started apart (seed "
      "1 against 2); op 3 aten::rand was the last to draw alike (likely)");
  using comparators::CauseKind;
  const Phrase told("optimizer-told-otherwise",
                    {{"arguments", std::vector<std::string>{"eps[0]"}}});
  CHECK(headline_of({CauseKind::kArgument, {told}}) == "the optimizer was told other numbers");
  CHECK(headline_of({CauseKind::kArgument, {}}) == "an operator was called with other arguments");
  Phrase unknown("no-such-phrase");
  CHECK_THROWS(
      describe(JsonReader(Json{{"key", "no-such-phrase"}, {"fields", Json::object()}}), unknown));
}

}  // namespace repro_check::cmd
