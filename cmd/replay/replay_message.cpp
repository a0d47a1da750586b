// SPDX-License-Identifier: Apache-2.0
#include "cmd/replay/replay_message.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "core/error.h"

/// Nothing is null; numbers that JSON has not are strings.
template <typename Value>
struct nlohmann::adl_serializer<std::optional<Value>> {
  static void to_json(nlohmann::json& json, const std::optional<Value>& value) {
    if (!value) return;
    json = *value;
    if constexpr (std::is_floating_point_v<Value>) {
      if (!std::isfinite(*value)) json = std::isnan(*value) ? "nan" : "inf";
    }
  }
  static void from_json(const nlohmann::json& json, std::optional<Value>& value) {
    if (json.is_null()) return;
    if constexpr (std::is_floating_point_v<Value>) {
      using Limits = std::numeric_limits<Value>;
      if (json.is_string()) {
        value = json == "nan" ? Limits::quiet_NaN() : Limits::infinity();
        return;
      }
    }
    value = json.get<Value>();
  }
};

namespace repro_check {

namespace core {

void to_json(nlohmann::json& json, const Digest& digest) { json = to_hex(digest); }
void from_json(const nlohmann::json& json, Digest& digest) {
  digest = parse_digest(json.get<std::string>()).value_or(Digest{});
}

}  // namespace core

namespace replay {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(
    OutputDistance, slot, elements, differing, incomparable, max_abs, rmse)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Result, digest, calls, first, as_recorded, to_recorded)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Round, threads, sequence, results)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ReferenceDistance, outputs, problem)

}  // namespace replay

namespace cmd {
namespace {

/// Both sides stand somewhere else than the one who reads.
nlohmann::json side_json(const ReplaySide& side) {
  nlohmann::json references = nlohmann::json::array();
  for (const auto& reference : side.references) {
    references.push_back(std::filesystem::absolute(reference).string());
  }
  return {{"dump", std::filesystem::absolute(side.dump).string()},
          {"references", std::move(references)},
          {"op", side.op}};
}

ReplaySide side_of(const nlohmann::json& json) {
  const auto references = json.at("references").get<std::vector<std::string>>();
  return {json.at("dump").get<std::string>(),
          {references.begin(), references.end()},
          json.at("op").get<std::uint64_t>()};
}

std::string one_line(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string to_text(const ReplayQuestion& question) {
  nlohmann::json json = side_json(question.recorded);
  json["calls"] = question.how.calls;
  json["threads"] = question.how.threads;
  json["device"] = question.how.device;
  json["float64"] = question.float64;
  if (question.against) json["against"] = side_json(*question.against);
  return one_line(json);
}

ReplayQuestion parse_question(std::string_view text) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    ReplayQuestion question;
    question.recorded = side_of(json);
    question.how = {question.recorded.op,
                    json.at("calls").get<unsigned>(),
                    json.at("threads").get<std::vector<int>>(),
                    json.at("device").get<std::string>()};
    question.float64 = json.value("float64", false);
    if (json.contains("against")) question.against = side_of(json.at("against"));
    return question;
  } catch (const nlohmann::json::exception& error) {
    throw core::Error(core::ErrorKind::kUsage,
                      fmt::format("no request to replay: {}", error.what()),
                      "a recorder is started by the `repro-check replay` of its own version");
  }
}

std::string to_text(const ReplayAnswer& answer) {
  nlohmann::json json{{"libtorch", answer.libtorch},
                      {"cpu_capability", answer.cpu_capability},
                      {"rounds", answer.rounds},
                      {"notes", answer.notes}};
  if (answer.baseline) json["float64"]["baseline"] = *answer.baseline;
  if (answer.candidate) json["float64"]["candidate"] = *answer.candidate;
  return one_line(json);
}

ReplayAnswer parse_answer(std::string_view line) {
  try {
    const nlohmann::json json = nlohmann::json::parse(line);
    ReplayAnswer answer{json.at("libtorch").get<std::string>(),
                        json.at("cpu_capability").get<std::string>(),
                        json.at("rounds").get<std::vector<replay::Round>>(),
                        {},
                        {},
                        json.at("notes").get<std::vector<std::string>>()};
    const nlohmann::json measured = json.value("float64", nlohmann::json::object());
    if (measured.contains("baseline")) {
      answer.baseline = measured["baseline"].get<replay::ReferenceDistance>();
    }
    if (measured.contains("candidate")) {
      answer.candidate = measured["candidate"].get<replay::ReferenceDistance>();
    }
    return answer;
  } catch (const nlohmann::json::exception& error) {
    throw core::Error(core::ErrorKind::kRunFailed,
                      fmt::format("the recorder's answer cannot be read: {}", error.what()),
                      "use the recorder that belongs to this repro-check");
  }
}

}  // namespace cmd
}  // namespace repro_check
