// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/recorder_messages.h"

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <type_traits>

namespace repro_check::cmd {
namespace {

using JsonLine = nlohmann::ordered_json;

/// In the order of RecorderMessage.
constexpr std::array kTypes{"phase", "progress", "done", "output", "error"};

/// Names the members of one message, for whoever reads them and for whoever writes them.
template <typename Visit>
void members(RecorderPhase& phase, Visit&& visit) {
  visit("name", phase.name);
}
template <typename Visit>
void members(RecorderCounts& counts, Visit&& visit) {
  visit("operators", counts.operators);
  visit("bytes", counts.bytes);
}
template <typename Visit>
void members(RecorderTotals& totals, Visit&& visit) {
  visit("operators", totals.operators);
  visit("tensors", totals.tensors);
  visit("bytes", totals.bytes);
  visit("seconds", totals.seconds);
  visit("dump", totals.dump);
}
template <typename Visit>
void members(RecorderOutput& output, Visit&& visit) {
  visit("name", output.name);
  visit("what", output.what);
  visit("digest", output.digest);
}
template <typename Visit>
void members(RecorderFailure& failure, Visit&& visit) {
  visit("kind", failure.kind);
  visit("message", failure.message);
  visit("hint", failure.hint);
}

struct MemberWriter {
  JsonLine& line;

  void operator()(const char* name, const auto& value) const { line[name] = value; }
  void operator()(const char* name, const core::ErrorKind& kind) const {
    line[name] = core::error_kind_name(kind);
  }
  void operator()(const char* name, const std::optional<core::Digest>& digest) const {
    line[name] = digest ? JsonLine(core::to_hex(*digest)) : JsonLine(nullptr);
  }
};

struct MemberReader {
  const JsonLine& line;
  bool partial;  ///< what is not there stays as it is

  void operator()(const char* name, auto& value) const {
    if (!partial || line.contains(name)) line.at(name).get_to(value);
  }
  void operator()(const char* name, core::ErrorKind& kind) const {
    kind = core::parse_error_kind(line.value(name, ""));
  }
  void operator()(const char* name, std::optional<core::Digest>& digest) const {
    const auto given = line.find(name);
    if (given != line.end() && given->is_string()) {
      digest = core::parse_digest(given->get<std::string>());
    }
  }
};

template <std::size_t I = 0>
std::optional<RecorderMessage> read_as(const std::string& type, const JsonLine& line) {
  if constexpr (I < std::variant_size_v<RecorderMessage>) {
    if (type != kTypes[I]) return read_as<I + 1>(type, line);
    std::variant_alternative_t<I, RecorderMessage> message;
    // A failure that says less of itself is a failure all the same.
    members(message, MemberReader{line, std::is_same_v<decltype(message), RecorderFailure>});
    return message;
  }
  return std::nullopt;
}

}  // namespace

std::string to_line(const RecorderMessage& message) {
  JsonLine line{{"type", kTypes[message.index()]}};
  std::visit([&](auto said) { members(said, MemberWriter{line}); }, message);
  // They quote file names and exceptions: what is not UTF-8 in them is replaced.
  return line.dump(-1, ' ', false, JsonLine::error_handler_t::replace) + "\n";
}

std::optional<RecorderMessage> parse_message(const std::string& line) {
  const JsonLine message = JsonLine::parse(line, nullptr, false);
  if (!message.is_object()) return std::nullopt;
  try {
    return read_as(message.value("type", ""), message);
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace repro_check::cmd
