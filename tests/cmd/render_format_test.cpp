// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <ctime>
#include <limits>
#include <map>

#include "cmd/render/color.h"
#include "cmd/render/page.h"
#include "cmd/render/text.h"
#include "core/text/text.h"
#include "tests/cmd/render_reports.h"

namespace repro_check::cmd {
namespace {

template <typename T>
std::string text_of(core::Dtype dtype, T value) {
  std::array<std::byte, sizeof(T)> bytes{};
  std::memcpy(bytes.data(), &value, sizeof(T));
  return element_text(dtype, bytes);
}

bool is_tame(std::string_view text) {
  while (!text.empty()) {
    const core::Utf8Char character = core::first_char(text);
    if (!character.valid || core::is_hostile(character.value)) {
      return false;
    }
    text.remove_prefix(character.bytes);
  }
  return true;
}

TEST_CASE("names lose what steers a terminal or a CI log") {
  CHECK(escape_name("encoder.layers.3") == "encoder.layers.3");
  CHECK(escape_name("aten::addmm") == "aten::addmm");
  CHECK(escape_name("a\x1b[2Jb") == "a\\x1b[2Jb");
  CHECK(escape_name("a\nb\r\x7f") == "a\\x0ab\\x0d\\x7f");
  CHECK(escape_name("\xc2\x9b") == "\\x9b");
  CHECK(escape_name("\xe2\x80\xae") == "\\u202e");
  CHECK(escape_name("\xf3\xa0\x80\x81") == "\\U000e0001");
  CHECK(escape_name("\xff\xc3") == "\\xff\\xc3");
  CHECK(escape_name("##[error]x") == "##\\x5berror]x");
  CHECK(escape_name("##vso[x]") == "##vso\\x5bx]");
  CHECK(escape_name("[3, 4]") == "[3, 4]");
  CHECK(escape_name("::error::x") == "\\x3a:error::x");
  CHECK(escape_name("  ::error") == "  \\x3a:error");
  CHECK(escape_name("\xe5\xb1\x82 \xc3\xa9") == "\xe5\xb1\x82 \xc3\xa9");
  for (const std::string& name : tests::hostile_names()) {
    const std::string once = escape_name(name);
    CHECK(is_tame(once));
    CHECK(escape_name(once) == once);
  }
}

TEST_CASE("what is not UTF-8 is replaced for JSON") {
  CHECK(clean_utf8("a\xff") == "a\xef\xbf\xbd");
}

std::vector<std::string> wrap(std::string_view text, std::size_t width) {
  std::vector<std::string> lines;
  for (const Line& line : Line(text).wrapped(width, width)) lines.push_back(line.str(false));
  return lines;
}

TEST_CASE("text is cut in the middle and wrapped at spaces") {
  CHECK(fit("short", 5) == "short");
  CHECK(fit("encoder.layers.3.linear1", 15) == "encode...inear1");
  CHECK(columns(fit("\xe5\xb1\x82\xe5\xb1\x82\xe5\xb1\x82\xe5\xb1\x82", 7)) <= 7);
  CHECK(wrap("one two three", 7) == std::vector<std::string>{"one two", "three"});
  CHECK(wrap("abcdefghij", 4) == std::vector<std::string>{"abcd", "efgh", "ij"});
  for (const std::string& line : wrap("abcd::error::x", 4)) {
    CHECK_FALSE(line.starts_with("::"));
  }
  for (const std::string& line : wrap("a:::::::::", 4)) {
    CHECK_FALSE(line.starts_with("::"));
  }
  CHECK(wrap("abcd::error", 6) == std::vector<std::string>{"abcd::", "error"});
  CHECK(wrap("abcdef::error", 6) == std::vector<std::string>{"abcdef", "\\x3a:e", "rror"});
  Line pieces("op 4 ");
  pieces.put("aten::mm", Role::kOperator).put(" (").put("a b", Role::kPlace).put("), 3");
  const std::vector<Line> lines = pieces.wrapped(14, 6);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].str(false) == "op 4 aten::mm");
  CHECK(lines[1].str(true) == "(\x1b[36ma b\x1b[0m),");
  CHECK(pieces.wrapped(0, 0).size() == 1);
}

TEST_CASE("a name of a million characters is cut in linear time") {
  const std::clock_t begin = std::clock();  // of the processor: the machine may be busy
  for (const char* unit : {"x", ":", "##[", "\xe5\xb1\x82", "a "}) {
    std::string name;
    while (name.size() < 1'000'000) name += unit;
    CHECK(columns(fit(name, 40)) <= 40);
    Page page;
    page.prose("label", name);
    for (const std::size_t width : {0U, 80U}) {
      CHECK(page.str(false, {}, width).find("##[") == std::string::npos);
    }
  }
  CHECK(std::clock() - begin < 30 * CLOCKS_PER_SEC);
}

TEST_CASE("a percentage is never rounded to a lie") {
  CHECK(format_percent(0, 10) == "0 %");
  CHECK(format_percent(0, 0) == "0 %");
  CHECK(format_percent(10, 10) == "100 %");
  CHECK(format_percent(3, 4096) == "0.073 %");
  CHECK(format_percent(1, 453120) == "<0.001 %");
  CHECK(format_percent(453119, 453120) == ">99.999 %");
  CHECK(format_percent(999, 1000) == "99.9 %");
  CHECK(format_percent(99996, 100000) == "99.996 %");
  CHECK(format_percent(1, 3) == "33 %");
  CHECK(format_percent(1, std::numeric_limits<std::uint64_t>::max()) == "<0.001 %");
  for (std::uint64_t whole : {7U, 1000U, 99999U, 1234567U}) {
    for (std::uint64_t part = 1; part < whole; part += 1 + whole / 97) {
      CHECK(format_percent(part, whole) != "0 %");
      CHECK(format_percent(part, whole) != "100 %");
    }
    CHECK(format_percent(whole - 1, whole) != "100 %");
  }
}

TEST_CASE("counts, sizes and errors") {
  CHECK(format_count(9999) == "9999");
  CHECK(format_count(10000) == "10,000");
  CHECK(format_count(1204113) == "1,204,113");
  CHECK(format_count(123456) == "123,456");
  CHECK(format_count(1, "operator") == "1 operator");
  CHECK(format_count(2, "operator") == "2 operators");
  CHECK(format_bytes(812) == "812 B");
  CHECK(format_bytes(1500000000) == "1.5 GB");
  CHECK(format_bytes(999999) == "1.0 MB");
  CHECK(format_bytes(std::numeric_limits<std::uint64_t>::max()) == "18 EB");
  CHECK(format_error(2.384185791015625e-07) == "2.384e-07");
  CHECK(format_error(-std::numeric_limits<double>::quiet_NaN()) == "nan");
  CHECK(format_error(-std::numeric_limits<double>::infinity()) == "-inf");
  CHECK(format_ulp(999999) == "999999");
  CHECK(format_ulp(1234567) == "1.2e+06");
  CHECK(format_seconds(4.1) == "4.1 s");
  CHECK(format_seconds(75) == "75 s");
  CHECK(format_seconds(723) == "12 min 3 s");
  const std::array<std::int64_t, 2> shape = {8, 512};
  CHECK(format_tensor_type(core::Dtype::kFloat32, shape) == "float32 [8, 512]");
}

TEST_CASE("elements read back in their own dtype") {
  using core::Dtype;
  CHECK(text_of(Dtype::kFloat32, 0.1F) == "0.1");
  CHECK(text_of(Dtype::kFloat64, 0.1) == "0.1");
  CHECK(text_of(Dtype::kFloat32, -0.0F) == "-0");
  CHECK(text_of(Dtype::kFloat64, -std::numeric_limits<double>::infinity()) == "-inf");
  CHECK(text_of(Dtype::kFloat32, -std::numeric_limits<float>::quiet_NaN()) == "nan");
  CHECK(text_of<std::uint16_t>(Dtype::kFloat16, 0x3C00) == "1");
  CHECK(text_of<std::uint16_t>(Dtype::kFloat16, 0x7BFF) == "65504");
  CHECK(text_of<std::uint16_t>(Dtype::kFloat16, 0x0001) == "5.9604645e-08");
  CHECK(text_of<std::uint16_t>(Dtype::kFloat16, 0xFC00) == "-inf");
  CHECK(text_of<std::uint16_t>(Dtype::kBFloat16, 0x3F81) == "1.0078125");
  CHECK(text_of<std::uint8_t>(Dtype::kFloat8E4M3FN, 0x7E) == "448");
  CHECK(text_of<std::uint8_t>(Dtype::kFloat8E4M3FN, 0xFF) == "nan");
  CHECK(text_of<std::uint8_t>(Dtype::kFloat8E5M2, 0x7B) == "57344");
  CHECK(text_of<std::uint8_t>(Dtype::kFloat8E4M3FNUZ, 0x80) == "nan");
  CHECK(text_of<std::uint8_t>(Dtype::kFloat8E4M3FNUZ, 0x7F) == "240");
  CHECK(text_of<std::uint8_t>(Dtype::kFloat8E8M0FNU, 0x7F) == "1");
  CHECK(text_of<std::uint8_t>(Dtype::kBool, 1) == "True");
  CHECK(text_of<std::uint8_t>(Dtype::kBool, 2) == "True (byte 2)");
  CHECK(text_of(Dtype::kInt8, std::int8_t{-5}) == "-5");
  CHECK(text_of(Dtype::kInt64, std::numeric_limits<std::int64_t>::min()) == "-9223372036854775808");
  CHECK(text_of(Dtype::kUInt64, std::numeric_limits<std::uint64_t>::max()) ==
        "18446744073709551615");
  CHECK(text_of(Dtype::kComplex64, std::array<float, 2>{1.5F, -2.0F}) == "1.5-2j");
  CHECK(text_of(Dtype::kComplex64, std::array<float, 2>{0.0F, 1.0F}) == "0+1j");
  CHECK(text_of<std::uint8_t>(Dtype::kFloat4E2M1FNX2, 0x5A) == "0x5a");
  CHECK(text_of<std::uint16_t>(Dtype::kFloat32, 0x0102) == "0x0102");
}

TEST_CASE("words are quoted for a shell") {
  CHECK(shell_quote("out/candidate") == "out/candidate");
  CHECK(shell_quote("out:0") == "out:0");
  CHECK(shell_quote("") == "''");
  CHECK(shell_quote("two words") == "'two words'");
  CHECK(shell_quote("it's") == "'it'\\''s'");
  CHECK(shell_quote("$(reboot)") == "'$(reboot)'");
  CHECK(shell_quote("a\nb") == "$'a\\012b'");
  CHECK(shell_quote("##[x'\\") == "$'##\\133x\\'\\\\'");
}

TEST_CASE("the place of a call") {
  core::CallSite site;
  CHECK(place_text(nullptr).empty());
  CHECK(place_text(&site).empty());
  site.module_path = "encoder";
  CHECK(place_text(&site) == "encoder");
  site.frames = {{"/home/ann/model.py", 123, "forward"}};
  CHECK(place_text(&site) == "encoder, model.py:123");
  site.frames = {{"\x1b", 0, ""}, {"/home/ann/b\n.py", 7, ""}};
  CHECK(place_text(&site).find('\n') == std::string::npos);
}

TEST_CASE("colour is decided in the documented order") {
  std::map<std::string, std::string> variables;
  const auto read = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  const auto is_on = [&](bool terminal) { return use_color(ColorMode::kAuto, terminal, read); };
  CHECK(is_on(true));
  CHECK_FALSE(is_on(false));
  variables = {{"TERM", "dumb"}};
  CHECK_FALSE(is_on(true));
  variables = {{"CLICOLOR", "0"}};
  CHECK_FALSE(is_on(true));
  variables = {{"CLICOLOR", "0"}, {"TERM", "dumb"}, {"CLICOLOR_FORCE", "1"}};
  CHECK(is_on(false));
  variables = {{"FORCE_COLOR", "1"}};
  CHECK(is_on(false));
  variables = {{"FORCE_COLOR", "0"}, {"CLICOLOR_FORCE", ""}};
  CHECK_FALSE(is_on(false));
  variables = {{"NO_COLOR", "1"}, {"CLICOLOR_FORCE", "1"}};
  CHECK_FALSE(is_on(true));
  variables = {{"NO_COLOR", ""}};
  CHECK(is_on(true));
  variables = {{"NO_COLOR", "1"}};
  CHECK(use_color(ColorMode::kAlways, false, read));
  variables = {{"FORCE_COLOR", "1"}};
  CHECK_FALSE(use_color(ColorMode::kNever, true, read));
}

TEST_CASE("text is wrapped to COLUMNS, and to nothing in a pipe") {
  const auto columns_with = [](const char* value) {
    return text_columns(false, [&](const char*) { return value; });
  };
  CHECK(columns_with(nullptr) == 0);
  CHECK(columns_with("132") == 132);
  for (const char* text : {"", "0", "-3", "80x", "99999999999999999999999"}) {
    CHECK(columns_with(text) == 0);
  }
}

TEST_CASE("links are for terminals that are known to take them") {
  using Variables = std::map<std::string, std::string>;
  const auto decide = [](ColorMode mode, bool is_terminal, Variables variables) {
    return use_links(mode, is_terminal, [&](const char* name) -> const char* {
      const auto found = variables.find(name);
      return found == variables.end() ? nullptr : found->second.c_str();
    });
  };
  CHECK_FALSE(decide(ColorMode::kAuto, true, {}));
  CHECK(decide(ColorMode::kAuto, true, {{"VTE_VERSION", "7006"}}));
  CHECK_FALSE(decide(ColorMode::kAuto, true, {{"VTE_VERSION", "4999"}}));
  CHECK(decide(ColorMode::kAuto, true, {{"TERM_PROGRAM", "WezTerm"}}));
  CHECK(decide(ColorMode::kAuto, true, {{"TERM", "xterm-kitty"}}));
  CHECK_FALSE(decide(ColorMode::kAuto, false, {{"TERM", "xterm-kitty"}}));
  CHECK_FALSE(decide(ColorMode::kNever, true, {{"TERM", "xterm-kitty"}}));
  CHECK_FALSE(decide(ColorMode::kAuto, true, {{"TERM", "xterm-kitty"}, {"CI", "1"}}));
  CHECK_FALSE(decide(ColorMode::kAuto, true, {{"TERM", "tmux-256color"}, {"VTE_VERSION", "7006"}}));
  CHECK(decide(ColorMode::kAuto, false, {{"FORCE_HYPERLINK", "1"}}));
  CHECK_FALSE(decide(ColorMode::kAuto, true, {{"FORCE_HYPERLINK", "0"}, {"TERM", "foot"}}));
}

TEST_CASE("a link holds nothing that could end it") {
  Line line;
  line.put("op 1 ").link("model.py:3", Role::kPlace, "/a b/\x1b\\c\x07/model.py");
  CHECK(line.str(false, "host") == "op 1 model.py:3");
  CHECK(line.str(true, "host") ==
        "op 1 \x1b]8;;file://host/a%20b/%1B%5Cc%07/model.py\x1b\\"
        "\x1b[36mmodel.py:3\x1b[0m\x1b]8;;\x1b\\");
  Line relative;
  relative.link("model.py:3", Role::kPlace, "model.py");
  CHECK(relative.str(true, "host") == relative.str(true));
}

}  // namespace
}  // namespace repro_check::cmd
