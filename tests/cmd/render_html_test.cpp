// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cmd/render/html/html_page.h"
#include "cmd/render/render.h"
#include "cmd/words/causes.h"
#include "tests/cmd/render_reports.h"

namespace repro_check::cmd::render_html_test {
namespace {

constexpr std::uint32_t kRandomReports = 40;

std::string page_of(const comparators::Report& report) {
  return render_html(std::span(&report, 1), RenderOptions{});
}

std::size_t occurrences(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos;
       at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

TEST_CASE("base64 of RFC 4648") {
  CHECK(base64("").empty());
  CHECK(base64("f") == "Zg==");
  CHECK(base64("fo") == "Zm8=");
  CHECK(base64("foo") == "Zm9v");
  CHECK(base64("foob") == "Zm9vYg==");
  CHECK(base64("fooba") == "Zm9vYmE=");
  CHECK(base64("foobar") == "Zm9vYmFy");
  CHECK(base64("\xff\xfe\xfd") == "//79");
}

TEST_CASE("what is packed is smaller and begins as zlib's format does") {
  const std::string packed = deflated(std::string(100'000, 'a'));
  CHECK(packed.size() < 1000);
  CHECK(static_cast<unsigned char>(packed.front()) == 0x78);
}

TEST_CASE("no name ends a script or begins a tag") {
  const Json hostile = {"</script><script>", "<!--<script>", "a & b", "\u2028"};
  const std::string text = script_json(hostile);
  CHECK(text.find_first_of("<>&") == std::string::npos);
  CHECK(text.find("\\u2028") != std::string::npos);
  CHECK(Json::parse(text) == hostile);
  CHECK(html_text("\"><img src='x'>&") == "&quot;&gt;&lt;img src=&apos;x&apos;&gt;&amp;");
  CHECK(html_text("\x1b[31m\u202e") == "\\x1b[31m\\u202e");
}

TEST_CASE("a page and a text list so many warnings, and say how many more there are") {
  comparators::Report report = tests::random_report(1);
  report.warnings.assign(50'000, as_said("a warning"));
  const std::string page = page_of(report);
  CHECK(occurrences(page, "<li>a warning</li>") == kMostWarnings);
  CHECK(occurrences(page, "a warning") == 2 * kMostWarnings);
  CHECK(occurrences(page, "49,000 more") == 2);
}

TEST_CASE("every page has one heading and as many elements as it opens") {
  for (std::uint32_t seed = 0; seed < kRandomReports; ++seed) {
    const std::string page = page_of(tests::random_report(seed));
    CAPTURE(seed);
    CHECK(page.starts_with("<!DOCTYPE html>\n"));
    CHECK(page.ends_with("</html>\n"));
    CHECK(occurrences(page, "<h1>") == 1);
    for (const char* name : {"article", "section", "table", "tr", "td", "dl", "dd", "li", "pre"}) {
      const std::string tag(name);
      const std::size_t opened =
          occurrences(page, "<" + tag + ">") + occurrences(page, "<" + tag + " ");
      CHECK_MESSAGE(opened == occurrences(page, "</" + tag + ">"), tag);
    }
    // Two elements of data, and a script for every digest of the policy.
    const std::string policy = page.substr(0, page.find("</head>"));
    const std::size_t allowed = occurrences(policy, "'sha256-") - occurrences(page, "<style>");
    CHECK(occurrences(page, "<script>") == allowed);
    CHECK(occurrences(page, "<script type=") == 2);
    CHECK(page == page_of(tests::random_report(seed)));
  }
}

TEST_CASE("the verdict stands there for those who run no script") {
  for (const tests::NamedReport& each : tests::handmade_reports()) {
    CAPTURE(each.name);
    const std::string page = page_of(each.report);
    const std::string line = headline(each.report);
    CHECK(page.find("<title>" + html_text(line) + "</title>") != std::string::npos);
    CHECK(page.find("unsafe-inline") == std::string::npos);
  }
}

TEST_CASE("no verbosity changes a byte") {
  const comparators::Report report = tests::random_report(3);
  RenderOptions loud;
  loud.verbosity = 2;
  loud.color = true;
  loud.all = true;
  loud.top = 3;
  CHECK(render_html(std::span(&report, 1), loud) == page_of(report));
}

}  // namespace
}  // namespace repro_check::cmd::render_html_test
