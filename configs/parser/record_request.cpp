// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "configs/parser/config_parser.h"
#include "configs/parser/json_reader.h"
#include "configs/parser/keys.h"
#include "configs/parser/parse_context.h"
#include "configs/parser/run_parser.h"
#include "configs/parser/run_serializer.h"
#include "core/error.h"

namespace repro_check::configs {
namespace {

using detail::Json;

/// Tool and recorder may be of two builds; one that does not understand the other must say so.
constexpr std::string_view kFormat = "repro-check-request-1";
constexpr auto kRequestKeys = std::to_array<std::string_view>({"format",
                                                               "run",
                                                               "dump_directory",
                                                               "replace_existing",
                                                               "report_outputs",
                                                               "bare",
                                                               "found_environment"});

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

/// The same reader as a configuration has: what was checked once is checked again on the other
/// side.
void read_run(const detail::Node& node, const detail::ParseContext& context, RunSpec& run) {
  const detail::ObjectReader object(node, detail::kResolvedRunKeys, context.problems);
  if (const auto name = object.find("name")) {
    detail::read_run_name(*name, context.problems, run);
  } else {
    context.problems.add(node.pointer, "\"name\" is missing");
  }
  const detail::Given given = detail::read_run_members(object, context, run);
  if (!given.model_path) context.problems.add(node.pointer, "\"model\" is missing");
  if (!given.calls) context.problems.add(node.pointer, "\"calls\" is missing");
  if (const auto dump = object.find("dump")) detail::read_resolved_dump(*dump, context, run.dump);
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

RecordRequest record_request_from_json_text(const std::string& text, const std::string& origin) {
  detail::Problems problems;
  RecordRequest request;
  const auto document = detail::parse_json(text, "", problems);
  if (document) {
    const detail::ParseContext context{problems, {}, /*resolved=*/true};
    const detail::ObjectReader object({&*document, ""}, kRequestKeys, problems);
    const auto format = object.find("format");
    if (object.is_object() && (!format || *format->json != kFormat)) {
      problems.add("/format", fmt::format("expected \"{}\"", kFormat));
    }
    const auto run = object.find("run");
    const auto directory = object.find("dump_directory");
    const auto replace = object.find("replace_existing");
    if (object.is_object() && (!run || !directory || !replace)) {
      problems.add("", "run, dump_directory and replace_existing must all be there");
    }
    if (run) read_run(*run, context, request.run);
    if (directory) {
      detail::assign(
          read_path(*directory, detail::PathKind::kDirectoryToMake, "a directory", context),
          request.dump_directory);
    }
    if (const auto member = object.find("report_outputs")) {
      detail::assign(detail::read_bool(*member, problems), request.report_outputs);
    }
    if (const auto member = object.find("found_environment")) {
      detail::read_variables(*member, problems, request.found_environment);
    }
    if (const auto member = object.find("bare")) {
      detail::assign(detail::read_bool(*member, problems), request.bare);
    }
    if (replace) detail::assign(detail::read_bool(*replace, problems), request.replace_existing);
  }
  if (problems.empty()) return request;
  std::string lines;
  for (const ConfigProblem& problem : problems.all()) {
    if (!lines.empty()) lines += '\n';
    lines += problem_line(origin, problem);
  }
  throw core::Error(
      core::ErrorKind::kUsage,
      lines,
      "the request is written by repro-check for its recorder; are both of one version?");
}

}  // namespace repro_check::configs
