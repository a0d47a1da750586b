// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/tensor/npy.h"
#include "tests/support/temp_directory.h"

namespace repro_check::core {
namespace {

using test_support::TempDirectory;
using namespace std::string_literals;

std::string npy(const std::string& header, const std::string& data, char major = 1) {
  std::string text = "\x93NUMPY"s + major + '\0';
  text += static_cast<char>(header.size() & 0xffU);
  text += static_cast<char>(header.size() >> 8U & 0xffU);
  if (major > 1) text += "\0\0"s;
  return text + header + data;
}

std::string header(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }\n";
}

class Reader {
 public:
  HostTensor read(const std::string& content) const {
    const auto file = directory_ / "x.npy";
    std::ofstream(file, std::ios::binary) << content;
    return read_npy(file);
  }

  /// The message of the refusal.
  std::string refusal(const std::string& content) const {
    try {
      read(content);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::kUsage);
      CHECK_FALSE(error.hint().empty());
      return error.what();
    }
    return "accepted";
  }

  [[nodiscard]] bool refuses(const std::string& content, const std::string& why) const {
    const std::string message = refusal(content);
    INFO(message);
    return message.find(why) != std::string::npos;
  }

 private:
  TempDirectory directory_;
};

template <typename T>
std::vector<T> values(const HostTensor& tensor) {
  std::vector<T> result(tensor.bytes.size() / sizeof(T));
  std::memcpy(result.data(), tensor.bytes.data(), tensor.bytes.size());
  return result;
}

TEST_CASE("versions 1 to 3") {
  const Reader reader;
  for (const char version : {'\1', '\2', '\3'}) {
    const HostTensor tensor = reader.read(npy(header("<i2", "(2,)"), "\1\0\2\0"s, version));
    CHECK(tensor.dtype == Dtype::kInt16);
    CHECK(values<std::int16_t>(tensor) == std::vector<std::int16_t>{1, 2});
  }
  CHECK(reader.refuses(npy(header("<i2", "(2,)"), "\1\0\2\0"s, '\4'), "version 4.0"));
}

TEST_CASE("big-endian content is turned round, complex by halves") {
  const Reader reader;
  CHECK(values<std::int32_t>(reader.read(npy(header(">i4", "(1,)"), "\1\2\3\4"))) ==
        std::vector<std::int32_t>{0x01020304});
  const auto parts =
      values<float>(reader.read(npy(header(">c8", "()"), "\x3f\x80\0\0\xc0\0\0\0"s)));
  CHECK(parts == std::vector<float>{1.0F, -2.0F});
  CHECK(values<std::uint16_t>(reader.read(npy(header(">f2", "(1,)"), "\x3c\1"))) ==
        std::vector<std::uint16_t>{0x3c01});
  CHECK(values<std::uint8_t>(reader.read(npy(header(">u1", "(2,)"), "\1\2"))) ==
        std::vector<std::uint8_t>{1, 2});
}

TEST_CASE("Fortran order becomes C order") {
  const Reader reader;
  const HostTensor matrix = reader.read(npy(header("|u1", "(2, 3)", true), "\0\3\1\4\2\5"s));
  CHECK(values<std::uint8_t>(matrix) == std::vector<std::uint8_t>{0, 1, 2, 3, 4, 5});
  std::string column_major;
  for (int k = 0; k < 4; ++k) {
    for (int j = 0; j < 3; ++j) {
      for (int i = 0; i < 2; ++i) column_major += static_cast<char>((i * 3 + j) * 4 + k);
    }
  }
  const HostTensor cube = reader.read(npy(header("|u1", "(2, 3, 4)", true), column_major));
  for (std::size_t i = 0; i < cube.bytes.size(); ++i) {
    CHECK(std::to_integer<std::size_t>(cube.bytes[i]) == i);
  }
  CHECK(reader.read(npy(header("<f8", "(3, 0, 2)", true), "")).bytes.empty());
}

TEST_CASE("bool is 0 or 1 whatever byte stands for true") {
  const Reader reader;
  CHECK(values<std::uint8_t>(reader.read(npy(header("|b1", "(3,)"), "\0\1\xff"s))) ==
        std::vector<std::uint8_t>{0, 1, 1});
}

TEST_CASE("spellings of the header that other writers use") {
  const Reader reader;
  CHECK(reader.read(npy("{\"shape\":(2L,),\"descr\":\"=i2\",\"fortran_order\":False}", "\1\0\2\0"s))
            .shape == std::vector<std::int64_t>{2});
  CHECK(reader.read(npy(header("<b1", "( 2 , )"), "\1\0"s)).dtype == Dtype::kBool);
}

TEST_CASE("files that are none") {
  const Reader reader;
  CHECK(reader.refuses("", "truncated"));
  CHECK(reader.refuses("\x93NUM", "truncated"));
  CHECK(reader.refuses("PK\3\4 a zip archive", "not a .npy file"));
  CHECK(reader.refuses("\x93NUMPY\1\0\xff"s, "truncated"));
  CHECK(reader.refuses("\x93NUMPY\1\0\x40\0{'descr'"s, "truncated"));
  CHECK(reader.refuses("\x93NUMPY\2\0\xff\xff\xff\xff"s, "header of 4294967295 bytes"));
  const TempDirectory directory;
  CHECK_THROWS_AS(read_npy(directory / "nope.npy"), Error);
  CHECK_THROWS_AS(read_npy(directory.path()), Error);
}

TEST_CASE("headers that say nonsense") {
  const Reader reader;
  for (const std::string text :
       {"",
        "{",
        "{}",
        "{'descr': '<f4'}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1)",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1.5,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ()} __import__('os')",
        "{'descr': '<f4",
        "{'descr': '', 'fortran_order': False, 'shape': ()}"}) {
    CAPTURE(text);
    CHECK(reader.refusal(npy(text, "\0\0\0\0"s)) != "accepted");
  }
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "1,";
  CHECK(reader.refuses(npy(header("|u1", many + ")"), "\1"), "more than 64 dimensions"));
}

TEST_CASE("dtypes without counterpart are refused by name") {
  const Reader reader;
  for (const std::string descr :
       {"|O", "<U4", "|S3", "<M8[ns]", "|V2", "<f16", "<c32", "<f3", "f4"}) {
    CAPTURE(descr);
    CHECK(reader.refuses(npy(header(descr, "(1,)"), "\0\0\0\0"s), "no counterpart"));
  }
  CHECK(reader.refuses(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", ""),
                       "structured"));
}

TEST_CASE("a shape is believed only when the file holds as much, before memory is taken") {
  const Reader reader;
  CHECK(reader.refuses(npy(header("<f4", "(1000000000000,)"), "\0\0\0\0"s),
                       "needs 4000000000000 bytes"));
  CHECK(reader.refuses(npy(header("<f8", "(9223372036854775807,)"), ""), "impossible shape"));
  CHECK(reader.refuses(npy(header("<f8", "(4294967296, 4294967296)"), ""), "impossible shape"));
  CHECK(reader.refuses(npy(header("<f4", "(2,)"), "\0\0\0\0\0\0\0"s), "the file holds 7"));
  CHECK(reader.refuses(npy(header("<f4", "(1,)"), "\0\0\0\0\0"s), "the file holds 5"));
}

TEST_CASE("a message about a hostile header is printable") {
  const Reader reader;
  const std::string message = reader.refusal(npy("{'\x1b[31m': 1}", ""));
  CHECK(message.find('\x1b') == std::string::npos);
  CHECK(message.find("\\x1b[31m") != std::string::npos);
}

}  // namespace
}  // namespace repro_check::core
