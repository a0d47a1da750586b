// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace repro_check::core {

/// Objects and lists inside of each other: whatever reads them recurses.
inline constexpr std::size_t kDeepestJson = 64;

/// Something that the library would let pass, or that is no JSON.
struct JsonFlaw {
  enum class Kind {
    kSyntax,     ///< nothing is read after it
    kDepth,      ///< as above
    kDuplicate,  ///< a key given again; its first value is kept
    kInteger,    ///< beyond 64 bits: the library makes a floating number of it without a word
  };
  Kind kind = Kind::kSyntax;
  std::string pointer;       ///< JSON pointer
  std::string what;          ///< the library's sentence, the key, or the digits; as they are
  std::size_t position = 0;  ///< of a flaw of syntax, in bytes
};

/// Parses JSON more strictly, and faster, than the library does by itself, which looks through all
/// members of an object for each of them.
/// @param report  may throw
/// @return empty where there is no document to go on with
std::optional<nlohmann::ordered_json> read_strict_json(
    std::string_view text, const std::function<void(const JsonFlaw&)>& report);

/// As above, of a manifest, in which nothing of it may be.
/// @param origin  path, named in the message
/// @throws Error{kDumpDamaged}
nlohmann::ordered_json parse_strict_json(const std::string& text, const std::string& origin);

/// `parent` and one more reference token, escaped as RFC 6901 has it.
std::string child_pointer(std::string_view parent, std::string_view token);

}  // namespace repro_check::core
