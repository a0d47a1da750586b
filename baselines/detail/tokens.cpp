// SPDX-License-Identifier: Apache-2.0
#include "baselines/detail/tokens.h"

#include <fmt/format.h>

#include <charconv>
#include <cstddef>
#include <span>

namespace repro_check::baselines::detail {
namespace {

constexpr std::string_view kDigestPrefix = "xxh3:";

std::string escape(std::string_view text, bool inner_spaces) {
  if (text.empty()) return "-";
  if (text == "-") return "\\x2d";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_inner = i != 0 && i + 1 != text.size() && text[i - 1] != ' ';
    const bool is_plain = byte > 0x20 && byte < 0x7f && byte != '\\';
    if (is_plain || (byte == ' ' && inner_spaces && is_inner)) {
      out += text[i];
    } else {
      out += fmt::format("\\x{:02x}", byte);
    }
  }
  return out;
}

}  // namespace

std::string escape_token(std::string_view text) { return escape(text, false); }

std::string escape_rest(std::string_view text) { return escape(text, true); }

std::optional<std::string> unescape(std::string_view word) {
  if (word == "-") return std::string();
  std::string out;
  while (!word.empty()) {
    if (word.front() != '\\') {
      out += word.front();
      word.remove_prefix(1);
      continue;
    }
    constexpr std::size_t kEscape = 4;
    constexpr int kHexadecimal = 16;
    unsigned byte = 0;
    if (word.size() < kEscape || word[1] != 'x') return std::nullopt;
    const char* end = word.data() + kEscape;
    const auto read = std::from_chars(word.data() + 2, end, byte, kHexadecimal);
    if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
    out += static_cast<char>(byte);
    word.remove_prefix(kEscape);
  }
  return out;
}

core::Digest digest_text(std::string_view text) {
  return core::digest_bytes(std::as_bytes(std::span<const char>(text)));
}

std::string digest_word(const core::Digest& digest) {
  return std::string(kDigestPrefix) + core::to_hex(digest);
}

std::optional<core::Digest> parse_digest_word(std::string_view word) {
  if (!word.starts_with(kDigestPrefix)) return std::nullopt;
  return core::parse_digest(word.substr(kDigestPrefix.size()));
}

std::optional<std::uint64_t> parse_count(std::string_view word) {
  std::uint64_t count = 0;
  const auto read = std::from_chars(word.data(), word.data() + word.size(), count);
  const bool is_whole = read.ec == std::errc{} && read.ptr == word.data() + word.size();
  if (!is_whole || (word.size() > 1 && word.front() == '0')) return std::nullopt;
  return count;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace repro_check::baselines::detail
