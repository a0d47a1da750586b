// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json/report_reader.h"

#include <stdexcept>
#include <utility>

#include "cmd/render/json/report_json.h"
#include "core/error.h"

namespace repro_check::cmd {
namespace {

using comparators::Report;

core::Error refused(const std::string& origin, const std::string& why) {
  return {core::ErrorKind::kUsage,
          origin + " cannot be rendered: " + why,
          "give a JSON report as `--format json` or `--report json=FILE` wrote it"};
}

/// Takes out what is made of things that the JSON does not hold.
Json comparable(Json json) {
  for (const char* key : {"name", "version", "dump_format"}) json["tool"].erase(key);
  for (Json& run : json["runs"]) {
    for (const char* key : {"inputs_digest", "weights_digest", "platform_key"}) run.erase(key);
  }
  for (Json& pass : json["passes"]) pass.erase("headline");
  return json;
}

/// The first member in which two documents differ, in whatever order; empty where they do not.
std::string first_difference(const Json& read, const Json& made) {
  const Json changes = Json::diff(read, made);
  return changes.empty() ? std::string() : changes.front().at("path").get<std::string>();
}

/// No report of ours is as deep, and copying one that is much deeper takes the stack.
Json parse(std::string_view document, const std::string& origin) {
  constexpr int kDeepest = 64;
  bool is_too_deep = false;
  const auto look = [&](int depth, Json::parse_event_t, const Json&) {
    is_too_deep = is_too_deep || depth > kDeepest;
    return !is_too_deep;
  };
  Json json = Json::parse(document, look, false);
  if (json.is_discarded() && !is_too_deep) throw refused(origin, "it is no JSON, or not whole");
  if (is_too_deep) throw refused(origin, "it is nested too deeply for a report");
  return json;
}

void require_report(const Json& json, const std::string& origin) {
  if (!json.is_object() || !json.contains("format") || json.at("format") != "repro-check-report") {
    throw refused(origin, "it is no JSON report");
  }
  const Json version = json.value("version", Json());
  if (version == kReportVersion) return;
  throw refused(origin,
                "it is of version " + (version.is_string() ? version.get<std::string>() : "?") +
                    ", and this repro-check renders " + kReportVersion);
}

}  // namespace

ReadReports read_reports(std::string_view document, const std::string& origin) {
  const Json json = parse(document, origin);
  ReadReports read;
  const Json list = json.is_array() ? json : Json::array({json});
  if (list.empty()) throw refused(origin, "it holds no report");
  for (const Json& each : list) {
    require_report(each, origin);
    std::string difference;
    try {
      const bool is_first = read.reports.empty();
      Report& report = read.reports.emplace_back();
      std::string hdf5_version;
      GateOutcome gate;
      read_report(each, report, hdf5_version, gate);
      if (is_first) read.hdf5_version = hdf5_version;
      if (is_first && !each.at("gate").is_null()) read.gate = std::move(gate);
      RenderOptions options;
      options.hdf5_version = read.hdf5_version;
      options.gate = is_first && read.gate ? &*read.gate : nullptr;
      const Json again = Json::parse(render_json(report, options));
      difference = first_difference(comparable(each), comparable(again));
    } catch (const Json::exception& error) {
      throw refused(origin, std::string("a member is missing or of another type: ") + error.what());
    } catch (const std::logic_error& error) {
      throw refused(origin, error.what());
    }
    if (!difference.empty()) {
      throw refused(origin, difference + " does not agree with the rest of the report");
    }
  }
  return read;
}

}  // namespace repro_check::cmd
