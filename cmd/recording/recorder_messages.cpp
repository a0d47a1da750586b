// SPDX-License-Identifier: Apache-2.0
#include "cmd/recording/recorder_messages.h"

#include <array>
#include <cstddef>
#include <exception>

#include "cmd/render/json_form.h"

namespace repro_check::cmd {

void describe(JsonWriter f, core::ErrorKind kind) { f.json() = core::error_kind_name(kind); }
void describe(JsonReader f, core::ErrorKind& kind) {
  kind = core::parse_error_kind(f.json().get<std::string>());
}

DESCRIBE(RecorderPhase, MEMBER(name))
DESCRIBE(RecorderCounts, MEMBER(operators) MEMBER(bytes))
DESCRIBE(RecorderOutput, MEMBER(name) MEMBER(what) MEMBER(digest))

void describe(auto f, Of<decltype(f), RecorderTotals>& it) {
  f MEMBER(operators) MEMBER(tensors) MEMBER(bytes) MEMBER(seconds);
  if (f.has("dump", true)) f MEMBER(dump);
}

/// One that says less of itself is a failure all the same.
void describe(auto f, Of<decltype(f), RecorderFailure>& it) {
  if (f.has("kind", true)) f MEMBER(kind);
  if (f.has("message", true)) f MEMBER(message);
  if (f.has("hint", true)) f MEMBER(hint);
}

namespace {

/// In the order of RecorderMessage.
constexpr std::array kTypes{"phase", "progress", "done", "output", "error"};

template <std::size_t I = 0>
std::optional<RecorderMessage> read_as(const std::string& type, const Json& line) {
  if constexpr (I < std::variant_size_v<RecorderMessage>) {
    if (type != kTypes[I]) return read_as<I + 1>(type, line);
    std::variant_alternative_t<I, RecorderMessage> message;
    describe(JsonReader(line), message);
    return message;
  }
  return std::nullopt;
}

}  // namespace

std::string to_line(const RecorderMessage& message) {
  Json line{{"type", kTypes[message.index()]}};
  std::visit([&](const auto& said) { describe(JsonWriter(line), said); }, message);
  return to_document(line, false);
}

std::optional<RecorderMessage> parse_message(const std::string& line) {
  const Json message = Json::parse(line, nullptr, false);
  if (!message.is_object()) return std::nullopt;
  try {
    return read_as(message.value("type", ""), message);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace repro_check::cmd
