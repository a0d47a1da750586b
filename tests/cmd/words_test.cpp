// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>
#include <string_view>

#include "cmd/words/catalogue.h"
#include "cmd/words/causes.h"
#include "cmd/words/finding_words.h"
#include "cmd/words/phrases.h"
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

/// The rows of one table of the documentation.
std::string table_of(FindingTable table) {
  std::string out = "| id | said | weight | when |\n|---|---|---|---|\n";
  for (const FindingRow& row : finding_catalogue()) {
    if (row.table != table) continue;
    out += "| `" + std::string(row.name) + "` | " + without_fields(row.title) + " | " +
           std::string(row.weight) + " | " + std::string(row.when) + " |\n";
  }
  return out;
}

struct Placed {
  FindingTable table;
  std::string_view page;
  std::string_view mark;
};
constexpr std::array kTables{
    Placed{FindingTable::kReplicas, "RANKS.md", "replicas"},
    Placed{FindingTable::kExchanges, "RANKS.md", "exchanges"},
    Placed{FindingTable::kData, "RANKS.md", "data"},
    Placed{FindingTable::kRanks, "RANKS.md", "ranks"},
    Placed{FindingTable::kRecording, "REPORTS.md", "recording"},
};

/// Puts the tables of a page between their marks.
std::string renewed(std::string_view page, std::string text) {
  for (const auto& [table, of, name] : kTables) {
    if (of != page) continue;
    const std::string begin = "<!-- findings: " + std::string(name) + " -->\n";
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
  for (const std::string_view page : {"RANKS.md", "REPORTS.md"}) {
    const std::string path = REPRO_CHECK_DOCS "/" + std::string(page);
    const std::string text = test_support::read_file(path);
    const std::string right = renewed(page, text);
    if (std::getenv("REPRO_CHECK_UPDATE_GOLDEN") != nullptr) {
      std::ofstream(path, std::ios::binary) << right;
    }
    CHECK(right == text);
  }
}

TEST_CASE("every finding has a name of its own, and words") {
  std::set<std::string_view> names;
  for (const FindingRow& row : finding_catalogue()) {
    CAPTURE(row.name);
    CHECK_FALSE(comparators::cause_of_id(row.name));
    CHECK(names.insert(row.name).second);
    CHECK(row.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") ==
          std::string_view::npos);
    for (const std::string_view text : {row.title, row.evidence, row.advice, row.when}) {
      CHECK_FALSE(text.empty());
      CHECK(std::count(text.begin(), text.end(), '{') == std::count(text.begin(), text.end(), '}'));
      CHECK(std::count(text.begin(), text.end(), '[') == std::count(text.begin(), text.end(), ']'));
    }
  }
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

TEST_CASE("phrases have keys of their own, and what belongs together stands together") {
  std::set<std::string_view> keys;
  for (const std::string_view key : phrase_keys()) {
    CAPTURE(key);
    CHECK(keys.insert(key).second);
    CHECK_FALSE(phrase_text(key).empty());
  }
  using comparators::Phrase;
  CHECK(
      sentence_of({Phrase("draws-apart"),
                   Phrase("seeds-apart", {{"baseline", "1"}, {"candidate", "2"}}),
                   Phrase("last-drawn-alike", {{"op", "op 3 aten::rand"}}),
                   Phrase("likely")}) ==
      "it draws random numbers, its inputs were bit-equal, and the generators started apart (seed "
      "1 against 2); op 3 aten::rand was the last to draw alike (likely)");
  Phrase unknown("no-such-phrase");
  CHECK_THROWS(
      describe(JsonReader(Json{{"key", "no-such-phrase"}, {"fields", Json::object()}}), unknown));
}

}  // namespace repro_check::cmd
