// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/json/report_reader.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "cmd/render/json/json_report.h"
#include "cmd/render/json/json_returned.h"
#include "cmd/render/json/json_sections_reader.h"
#include "cmd/render/words.h"
#include "core/error.h"

namespace repro_check::cmd {
namespace {

using comparators::Report;
using comparators::RunSummary;
using comparators::Status;

core::Error refused(const std::string& origin, const std::string& why) {
  return {core::ErrorKind::kUsage,
          origin + " cannot be rendered: " + why,
          "give a JSON report as `--format json` or `--report json=FILE` wrote it"};
}

core::OpRanges read_ranges(const Json& json) {
  core::OpRanges ranges;
  if (json.is_null()) return ranges;
  for (const Json& range : json) {
    ranges.push_back({read_whole(range.at(0)), read_whole(range.at(1))});
  }
  return ranges;
}

void read_reference(const Json& json, RunSummary& run) {
  if (json.is_null()) return;
  core::TraceReference reference;
  reference.run_name = read_text(json.at("run"));
  const auto digest = core::parse_digest(read_text(json.at("index_digest")));
  if (!digest) throw std::invalid_argument("index_digest is no digest");
  reference.index_digest = *digest;
  reference.contents = read_whole(json.at("contents"));
  reference.bytes = read_whole(json.at("bytes"));
  run.manifest.trace.reference = reference;
  if (!json.at("given").get<bool>()) run.missing_reference = "it was not given";
}

RunSummary read_run(const Json& json, const Json& libtorch) {
  RunSummary run;
  run.name = read_text(json.at("name"));
  run.location = read_text(json.at("dump"));
  run.status = read_text(json.at("status"));
  run.signal = read_text(json.at("signal"));
  run.message = read_text(json.at("message"));
  run.last_op = read_optional_whole(json.at("last_op"));
  core::RunManifest& m = run.manifest;
  m.model_path = read_text(json.at("model"));
  m.trace.include = read_texts(json.at("include"));
  m.trace.exclude = read_texts(json.at("exclude"));
  m.trace.keep_ops = read_ranges(json.at("keep_ops"));
  if (!libtorch.is_null()) m.environment.push_back({"libtorch.version", read_text(libtorch)});
  read_reference(json.at("reference"), run);
  if (json.at("device").is_null()) return run;  // there was no manifest
  m.created = "unknown";
  m.device = read_text(json.at("device"));
  if (const Json& threads = json.at("threads"); !threads.is_null()) {
    const std::string count = std::to_string(read_whole(threads));
    m.settings.push_back({"threads.intra_op", count, count});
  }
  m.seed = read_whole(json.at("seed"));
  m.determinism = read_text(json.at("determinism"));
  m.trace.level = read_text(json.at("level"));
  const auto digest = core::parse_digest(read_text(json.at("model_digest")));
  if (!digest) throw std::invalid_argument("model_digest is no digest");
  m.model_digest = *digest;
  m.seconds = read_number(json.at("seconds"));
  return run;
}

void read_verdict(const Json& json, Report& report) {
  report.status = read_enum(json.at("status"), Status::kNoBaseline, status_name);
  report.kind = read_enum(json.at("kind"), comparators::DivergenceKind::kExpectation, kind_name);
  report.reasons = read_texts(json.at("reasons"));
  for (const Json& status : json.at("also")) {
    report.also.push_back(read_enum(status, Status::kNoBaseline, status_name));
  }
  report.mend = read_text(json.at("mend"));
  report.policy = read_text(json.at("policy"));
  report.from_accepted = json.at("from_accepted").get<bool>();
}

void read_coverage_and_rules(const Json& json, Report& report) {
  report.coverage = read_coverage(json.at("coverage"));
  for (const Json& rule : json.at("rules")) {
    report.rules.push_back({read_text(rule.at("match")),
                            read_text(rule.at("policy")),
                            read_whole(rule.at("tensors"))});
  }
  const Json& screened = json.at("screened");
  report.screened = {read_whole(screened.at("tensors")),
                     read_whole(screened.at("elements")),
                     read_whole(screened.at("beyond"))};
}

void read_divergences(const Json& json, Report& report) {
  const Json& items = json.at("divergences").at("items");
  report.divergences_total = read_whole(json.at("divergences").at("total"));
  const bool has_first = !json.at("first_divergence").is_null();
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (has_first && i == 0) {
      report.first_divergence = read_op(items[i]);
    } else {
      report.divergences.push_back(read_op(items[i]));
    }
  }
  const auto generators_of = [&](comparators::OpDivergence& op) {
    for (const Json& each : json.at("rng")) {
      const Json& index = each.at("op_index");
      if (read_optional_whole(index.at("baseline")) != op.baseline_index ||
          read_optional_whole(index.at("candidate")) != op.candidate_index) {
        continue;
      }
      read_generators(each, op);
      return;
    }
  };
  if (report.first_divergence) generators_of(*report.first_divergence);
  for (comparators::OpDivergence& op : report.divergences) generators_of(op);
}

Report read_pass(const Json& json) {
  Report pass;
  pass.status = read_enum(json.at("status"), Status::kNoBaseline, status_name);
  pass.kind = read_enum(json.at("kind"), comparators::DivergenceKind::kExpectation, kind_name);
  pass.coverage = read_coverage(json.at("coverage"));
  if (const Json& first = json.at("first_divergence"); !first.is_null()) {
    pass.first_divergence = read_op(first);
  }
  for (const Json& each : json.at("runs")) {
    RunSummary run;
    run.name = read_text(each.at("name"));
    run.location = read_text(each.at("dump"));
    run.manifest.trace.keep_ops = read_ranges(each.at("keep_ops"));
    if (!each.at("level").is_null()) {
      run.manifest.created = "unknown";
      run.manifest.trace.level = read_text(each.at("level"));
    }
    pass.runs.push_back(std::move(run));
  }
  return pass;
}

comparators::RandomDraws read_random(const Json& json) {
  comparators::RandomDraws draws;
  draws.operators = read_whole(json.at("operators"));
  draws.devices = read_texts(json.at("devices"));
  for (const Json& seed : json.at("seeds")) draws.seeds.push_back(read_whole(seed));
  draws.parting = read_text(json.at("parting"));
  return draws;
}

Report read_report(const Json& json) {
  Report report;
  read_verdict(json.at("verdict"), report);
  report.returned = read_returned(json.at("returned"));
  read_coverage_and_rules(json, report);
  const Json& runs = json.at("runs");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    report.runs.push_back(read_run(runs[i], json.at("tool").at("libtorch").at(i)));
  }
  read_differences(json.at("differences"), report);
  report.first_bit_difference = read_optional_whole(json.at("first_bit_difference"));
  read_divergences(json, report);
  if (json.contains("random")) report.draws = read_random(json.at("random"));
  read_spread(json.at("origins"), json.at("growth"), report);
  for (const Json& pass : json.at("passes")) report.passes.push_back(read_pass(pass));
  read_repeat(json.at("repeat"), report);
  read_control_flow(json.at("control_flow"), report);
  read_alignment(json.at("alignment"), report);
  read_ranks(json.at("ranks"), report);
  read_replay(json.at("replay"), report);
  read_observer(json.at("observer"), report);
  report.warnings = read_texts(json.at("warnings"));
  report.seconds = read_number(json.at("timing").at("compare_seconds"));
  return report;
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
std::string first_difference(const Json& read, const Json& made, const std::string& pointer) {
  if (read.is_object() && made.is_object()) {
    for (const auto& [key, value] : read.items()) {
      std::string place = fmt::format("{}/{}", pointer, key);
      if (!made.contains(key)) return place;
      std::string below = first_difference(value, made.at(key), place);
      if (!below.empty()) return below;
    }
    return read.size() == made.size() ? std::string() : pointer + "/";
  }
  if (read.is_array() && made.is_array() && read.size() == made.size()) {
    for (std::size_t i = 0; i < read.size(); ++i) {
      std::string below = first_difference(read[i], made[i], fmt::format("{}/{}", pointer, i));
      if (!below.empty()) return below;
    }
    return {};
  }
  return read == made ? std::string() : pointer;
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
      read.reports.push_back(read_report(each));
      if (read.reports.size() == 1) {
        read.hdf5_version = read_text(each.at("tool").at("hdf5"));
        if (!each.at("gate").is_null()) read.gate = read_gate(each.at("gate"), each.at("expected"));
      }
      RenderOptions options;
      options.hdf5_version = read.hdf5_version;
      options.gate = read.gate && read.reports.size() == 1 ? &*read.gate : nullptr;
      const Json again = Json::parse(render_json(read.reports.back(), options));
      difference = first_difference(comparable(each), comparable(again), "");
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
