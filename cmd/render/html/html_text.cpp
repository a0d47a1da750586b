// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/html/html_text.h"

#include <zlib.h>

#include <cstdint>

#include "cmd/render/escape.h"
#include "cmd/render/text.h"
#include "core/error.h"

namespace repro_check::cmd {

std::string html_text(std::string_view name) { return xml_text(escape_name(name)); }

std::string script_json(const Json& json) {
  const bool only_ascii = true;
  std::string out;
  for (const char c : json.dump(-1, ' ', only_ascii, Json::error_handler_t::replace)) {
    switch (c) {
      case '<':
        out += "\\u003c";
        break;
      case '>':
        out += "\\u003e";
        break;
      case '&':
        out += "\\u0026";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      const std::size_t at = i + k;
      group = group << 8U | (at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      const bool is_padding = i + k > bytes.size();
      out += is_padding ? '=' : kDigits[group >> (18U - 6U * k) & 63U];
    }
  }
  return out;
}

std::string deflated(std::string_view bytes) {
  constexpr int kLevel = 6;
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  const int result = compress2(reinterpret_cast<Bytef*>(out.data()),
                               &size,
                               reinterpret_cast<const Bytef*>(bytes.data()),
                               static_cast<uLong>(bytes.size()),
                               kLevel);
  if (result != Z_OK) {
    throw core::Error(
        core::ErrorKind::kInternal,
        "the data of the HTML report cannot be packed: zlib error " + std::to_string(result));
  }
  out.resize(size);
  return out;
}

}  // namespace repro_check::cmd
