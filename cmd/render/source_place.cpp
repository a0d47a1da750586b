// SPDX-License-Identifier: Apache-2.0
#include "cmd/render/source_place.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "cmd/render/escape.h"
#include "cmd/render/words.h"

namespace repro_check::cmd {
namespace {

using comparators::Report;

/// Empty where `file` is not below `root`.
std::string below(const std::filesystem::path& root, const std::string& file) {
  if (file.empty()) return {};
  std::filesystem::path path = std::filesystem::path(file).lexically_normal();
  if (path.is_absolute()) {
    if (root.empty()) return {};
    path = path.lexically_relative(root);
  }
  const bool is_outside = path.empty() || *path.begin() == ".." || path == ".";
  return is_outside || path.is_absolute() ? std::string() : path.generic_string();
}

bool is_installed(const std::filesystem::path& file) {
  return std::ranges::any_of(file, [](const std::filesystem::path& part) {
    return part == "site-packages" || part == "dist-packages" || part == "torch";
  });
}

std::optional<SourcePlace> place_of(const core::CallSite& site, const std::filesystem::path& root) {
  for (const core::SourceFrame& frame : site.frames) {
    if (frame.line == 0 || is_installed(frame.file)) continue;
    if (std::string file = below(root, frame.file); !file.empty()) {
      return SourcePlace{std::move(file), frame.line, true};
    }
  }
  return std::nullopt;
}

const core::RunManifest* last_manifest(const Report& report) {
  return report.runs.empty() ? nullptr : &report.runs.back().manifest;
}

std::string subject_of(const Report& report, const DocumentOptions& options, bool several) {
  std::string subject = options.subject;
  const core::RunManifest* manifest = last_manifest(report);
  if (subject.empty() && manifest != nullptr) {
    subject = std::filesystem::path(manifest->model_path).stem().string();
  }
  subject = identifier(subject.empty() ? "model" : subject);
  // A dot would make a package of the rest where readers split class names.
  std::ranges::replace(subject, '.', '_');
  if (!several || report.runs.empty()) return subject;
  std::string candidate = identifier(report.runs.back().name);
  std::ranges::replace(candidate, '.', '_');
  return subject + "-" + candidate;
}

std::string platform_of(const Report& report, const DocumentOptions& options) {
  if (!options.platform.empty()) return identifier(options.platform);
  const core::RunManifest* manifest = last_manifest(report);
  if (manifest == nullptr) return "unknown";
  const bool is_known = !manifest->created.empty() && !manifest->device.empty();
  return is_known ? identifier(manifest->device) : "unknown";
}

}  // namespace

SourcePlace source_place(const core::CallSite* site,
                         const Report& report,
                         const DocumentOptions& options) {
  const std::filesystem::path root(options.source_root);
  if (site != nullptr) {
    if (auto found = place_of(*site, root)) return *std::move(found);
  }
  const core::RunManifest* manifest = last_manifest(report);
  const std::string model = manifest == nullptr ? "" : manifest->model_path;
  for (const std::string& file : {options.fallback_file, model}) {
    if (std::string inside = below(root, file); !inside.empty())
      return {std::move(inside), 1, false};
  }
  // A reader drops what has no file at all.
  const std::string name = std::filesystem::path(model).filename().string();
  return {name.empty() ? "repro-check" : name, 1, false, false};
}

const core::CallSite* site_of(const Finding& finding, const Report& report) {
  if (finding.op != nullptr) return shown_record(*finding.op).site.get();
  const bool has_operator = finding.subject == Subject::kInputs ||
                            finding.subject == Subject::kWeights ||
                            finding.subject == Subject::kAlignment;
  if (!has_operator || !report.first_divergence) return nullptr;
  return shown_record(*report.first_divergence).site.get();
}

std::vector<CiReport> ci_reports(std::span<const Report> reports, const DocumentOptions& options) {
  std::vector<CiReport> views;
  for (const Report& report : reports) {
    const GateOutcome* gate = views.empty() ? options.gate : nullptr;
    views.push_back({report,
                     gate,
                     options,
                     subject_of(report, options, reports.size() > 1),
                     platform_of(report, options),
                     findings_of(report, gate)});
  }
  return views;
}

}  // namespace repro_check::cmd
