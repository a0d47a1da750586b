// SPDX-License-Identifier: Apache-2.0
#include "configs/noise_file.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "configs/parser/config_parser.h"
#include "core/digest/digest.h"
#include "core/error.h"
#include "core/text/printable.h"

namespace repro_check::configs {
namespace {

using Json = nlohmann::ordered_json;

std::string checksum_of(std::string_view text) {
  return core::to_hex(core::digest_bytes(std::as_bytes(std::span(text))));
}

/// What a dump holds may be of any bytes; JSON holds text.
std::string line_of(const Json& json) {
  return core::tame_json(json.dump(-1, ' ', false, Json::error_handler_t::replace)) + "\n";
}

Json head_of(const NoiseFloors& floors) {
  Json head;
  head["format"] = kNoiseFormat;
  head["version"] = kNoiseVersion;
  head["tool"] = floors.tool_version;
  head["runs"] = floors.runs;
  head["operators"] = floors.operators.size();
  head["model"] = Json{{"digest", floors.subject.model_digest}, {"method", floors.subject.method}};
  head["inputs"] = Json::object();
  for (const auto& [name, content] : floors.subject.inputs) head["inputs"][name] = content;
  head["libtorch"] = floors.subject.libtorch;
  head["configuration"] = Json::parse(floors.subject.configuration);
  return head;
}

Json operator_of(const OperatorFloors& floors, std::size_t index) {
  Json line;
  line["op"] = index;
  line["operator"] = floors.op;
  line["module"] = floors.module;
  line["floors"] = Json::object();
  for (const auto& [slot, floor] : floors.outputs) {
    line["floors"][slot] = floor.problem.empty()
                               ? Json{{"l2_rel", floor.l2_rel}, {"max_abs", floor.max_abs}}
                               : Json{{"none", floor.problem}};
  }
  return line;
}

/// Reads line after line of one text.
class NoiseReader {
 public:
  NoiseReader(const std::string& text, const std::string& origin) : text_(text), origin_(origin) {}

  NoiseFloors read() {
    NoiseFloors floors;
    floors.file = origin_;
    const std::size_t end = last_line();
    check_sum(end);
    try {
      const std::size_t operators = read_head(next_line(), floors);
      while (at_ < end) read_operator(next_line(), floors);
      if (floors.operators.size() != operators)
        refuse("it does not hold as many operators as it says");
    } catch (const Json::exception&) {
      refuse(fmt::format("line {} is not what `repro-check calibrate` writes", line_));
    }
    return floors;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw core::Error(core::ErrorKind::kUsage,
                      fmt::format("{}: {}", core::printable(origin_), why),
                      "make it anew with `repro-check calibrate -c config.json -n 10 -o FILE`");
  }

  [[nodiscard]] std::size_t last_line() const {
    if (text_.empty() || text_.back() != '\n') refuse("it is not whole");
    const std::size_t before =
        text_.size() < 2 ? std::string::npos : text_.rfind('\n', text_.size() - 2);
    if (before == std::string::npos) refuse("it is not whole");
    return before + 1;
  }

  void check_sum(std::size_t end) const {
    Json json = Json::parse(text_.substr(end), nullptr, false);
    const bool is_sum = json.is_object() && json.contains("checksum");
    if (!is_sum) refuse("it is not whole: its last line is no checksum");
    if (json["checksum"] != Json(checksum_of(std::string_view(text_).substr(0, end)))) {
      refuse("it does not match its checksum: it was changed after it was made");
    }
  }

  Json next_line() {
    const std::size_t end = text_.find('\n', at_);
    const Json json = Json::parse(text_.substr(at_, end - at_), nullptr, false);
    at_ = end + 1;
    ++line_;
    if (!json.is_object()) refuse(fmt::format("line {} is no JSON object", line_));
    return json;
  }

  std::size_t read_head(const Json& head, NoiseFloors& floors) const {
    if (head.value("format", "") != kNoiseFormat) refuse("it holds no noise floors");
    if (!head.at("version").get<std::string>().starts_with("1.")) {
      refuse(fmt::format("it is of version {}, and this tool reads 1",
                         core::printable(head.at("version").get<std::string>())));
    }
    floors.tool_version = head.at("tool").get<std::string>();
    floors.runs = head.at("runs").get<std::uint64_t>();
    floors.subject.model_digest = head.at("model").at("digest").get<std::string>();
    floors.subject.method = head.at("model").at("method").get<std::string>();
    floors.subject.inputs = head.at("inputs").get<std::map<std::string, std::string>>();
    floors.subject.libtorch = head.at("libtorch").get<std::string>();
    floors.subject.configuration = nlohmann::json(head.at("configuration")).dump();
    return head.at("operators").get<std::size_t>();
  }

  void read_operator(const Json& line, NoiseFloors& floors) const {
    if (line.at("op").get<std::size_t>() != floors.operators.size()) {
      refuse(fmt::format("line {} is not in its place", line_));
    }
    OperatorFloors& known = floors.operators.emplace_back();
    known.op = line.at("operator").get<std::string>();
    known.module = line.at("module").get<std::string>();
    for (const auto& [slot, json] : line.at("floors").items()) {
      OutputFloor& floor = known.outputs[slot];
      if (json.contains("none")) {
        floor.problem = json.at("none").get<std::string>();
        if (floor.problem.empty()) floor.problem = "it is not said why";
        continue;
      }
      floor.l2_rel = json.at("l2_rel").get<double>();
      floor.max_abs = json.at("max_abs").get<double>();
      for (const double number : {floor.l2_rel, floor.max_abs}) {
        if (!std::isfinite(number) || number < 0) {
          refuse(fmt::format("line {} holds a floor below 0", line_));
        }
      }
    }
  }

  const std::string& text_;
  const std::string& origin_;
  std::size_t at_ = 0;
  std::size_t line_ = 0;
};

}  // namespace

std::string to_noise_text(const NoiseFloors& floors) {
  std::string text = line_of(head_of(floors));
  for (std::size_t i = 0; i < floors.operators.size(); ++i) {
    text += line_of(operator_of(floors.operators[i], i));
  }
  return text + line_of(Json{{"checksum", checksum_of(text)}});
}

NoiseFloors parse_noise_text(const std::string& text, const std::string& origin) {
  return NoiseReader(text, origin).read();
}

NoiseFloors load_noise(const std::filesystem::path& file) {
  // About a million operators.
  constexpr std::uintmax_t kLargestFile = std::uintmax_t{256} << 20U;
  const std::string text = read_config_text(
      file,
      "noise floors are made by `repro-check calibrate -c config.json -n 10 -o FILE`",
      kLargestFile);
  return parse_noise_text(text, file.string());
}

}  // namespace repro_check::configs
