// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <string_view>

#include "configs/parser/sections.h"
#include "core/error.h"

namespace repro_check::configs {
namespace {

using detail::Json;

/// Tool and recorder may be of two builds; one that does not understand the other must say so.
constexpr std::string_view kFormat = "repro-check-request-1";

/// What a request holds, as the schema of a configuration says it.
const Json& request_schema() {
  static const Json schema = Json::parse(R"({"properties": {
      "format": {}, "run": {"$ref": "#/$defs/run"}, "dump_directory": {}, "replace_existing": {},
      "report_outputs": {}, "bare": {}, "found_environment": {"$ref": "#/$defs/env"}}})");
  return schema;
}

/// JSON is UTF-8; a path on Linux need not be.
std::string to_text(const Json& json) {
  constexpr int kIndent = 2;
  try {
    return json.dump(kIndent) + "\n";
  } catch (const Json::exception& error) {
    throw core::Error(core::ErrorKind::kUsage,
                      "a path or a text of this run is not UTF-8",
                      "rename the file or directory so that its whole path is UTF-8");
  }
}

}  // namespace

std::string to_json_text(const RunSpec& run) { return to_text(detail::to_json(run, false)); }

std::string to_json_text(const RecordRequest& request) {
  Json json = Json::object();
  json["format"] = std::string(kFormat);
  json["run"] = detail::to_json(request.run, true);
  json["dump_directory"] = request.dump_directory.string();
  json["replace_existing"] = request.replace_existing;
  if (request.report_outputs) json["report_outputs"] = true;
  if (request.bare) json["bare"] = true;
  for (const auto& [name, value] : request.found_environment) {
    json["found_environment"][name] = value ? Json(*value) : Json(nullptr);
  }
  return to_text(json);
}

// The same reader as a configuration has: what was checked once is checked again on the other side.
RecordRequest record_request_from_json_text(const std::string& text, const std::string& origin) {
  detail::Problems problems;
  RecordRequest request;
  if (const auto document = detail::parse_json(text, "", problems)) {
    const detail::ParseContext context{problems, {}, /*resolved=*/true};
    const detail::ObjectReader object({&*document, "", &request_schema()}, context);
    const auto format = object.find("format");
    if (object.is_object() && (!format || *format->json != kFormat)) {
      problems.add("/format", fmt::format("expected \"{}\"", kFormat));
    }
    const auto run = object.find("run");
    if (object.is_object() &&
        !(run && object.has("dump_directory") && object.has("replace_existing"))) {
      problems.add("", "run, dump_directory and replace_existing must all be there");
    }
    if (run) detail::read_resolved_run(*run, context, request.run);
    object("dump_directory",
           request.dump_directory,
           detail::PathKind::kDirectoryToMake,
           "a directory");
    object("report_outputs", request.report_outputs);
    object("found_environment", request.found_environment);
    object("bare", request.bare);
    object("replace_existing", request.replace_existing);
  }
  problems.refuse_any(
      origin, "the request is written by repro-check for its recorder; are both of one version?");
  return request;
}

}  // namespace repro_check::configs
