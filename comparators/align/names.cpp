// SPDX-License-Identifier: Apache-2.0
#include "comparators/align/names.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include "comparators/align/pairing.h"
#include "comparators/report/report.h"

namespace repro_check::comparators {

using configs::NameRewrite;

NameRewriter::Name NameRewriter::operator_name(const core::OperatorInfo& op) const {
  const std::string full = op.full_name();
  if (map_ == nullptr) return {full, std::nullopt, false};
  for (std::size_t i = 0; i < map_->entries.size(); ++i) {
    const NameRewrite& entry = map_->entries[i];
    if (entry.kind != NameRewrite::Kind::kOperator) continue;
    auto text = entry.pattern.rewrite(full, entry.replacement);
    if (!text && !op.overload.empty()) {
      text = entry.pattern.rewrite(op.name, entry.replacement);
      if (text) *text += "." + op.overload;
    }
    if (text) return {*text, i, *text != full};
  }
  return {full, std::nullopt, false};
}

NameRewriter::Name NameRewriter::module_path(const std::string& path) const {
  if (without_modules_) return {{}, std::nullopt, false};
  for (std::size_t i = 0; i < entries(); ++i) {
    const NameRewrite& entry = map_->entries[i];
    if (entry.kind != NameRewrite::Kind::kModule) continue;
    if (const auto text = entry.pattern.rewrite(path, entry.replacement)) {
      return {*text, i, *text != path};
    }
  }
  if (renames_ != nullptr) {
    const auto renamed = renames_->find(path);
    if (renamed != renames_->end()) return {renamed->second, std::nullopt, true};
  }
  return {path, std::nullopt, false};
}

NameRewriter::Name NameRewriter::tensor_name(const std::string& name) const {
  const std::size_t dot = name.rfind('.');
  const std::string owner = dot == std::string::npos ? std::string() : name.substr(0, dot);
  const std::string own = dot == std::string::npos ? name : name.substr(dot + 1);
  Name module = module_path(owner);
  module.text += (module.text.empty() ? "" : ".") + own;
  return module;
}

std::string NameRewriter::module_of(const core::OpRecord& head) const {
  return module_path(head.site ? head.site->module_path : std::string()).text;
}

namespace {

constexpr std::size_t kMostNotes = 4;

using Paths = std::set<std::string, std::less<>>;

std::string parent_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return std::string(path.substr(0, dot == std::string_view::npos ? 0 : dot));
}

/// What makes one path of another: `enc` and `encoder` of `enc.0.lin` and `encoder.0.lin`.
struct Renamed {
  std::string candidate;
  std::string baseline;

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 misreads the default
  auto operator<=>(const Renamed&) const = default;
};

/// Leaves out the last components that both have in common, and nothing before.
Renamed renamed_part(std::string candidate, std::string baseline) {
  while (!candidate.empty() && !baseline.empty()) {
    const std::string outer = parent_of(candidate);
    const std::string other = parent_of(baseline);
    if (std::string_view(candidate).substr(outer.empty() ? 0 : outer.size() + 1) !=
        std::string_view(baseline).substr(other.empty() ? 0 : other.size() + 1)) {
      break;
    }
    candidate = outer;
    baseline = other;
  }
  return {std::move(candidate), std::move(baseline)};
}

/// `path` with `part.baseline` where it begins with `part.candidate`.
std::optional<std::string> rewritten(const std::string& path, const Renamed& part) {
  if (path == part.candidate) return part.baseline;
  const std::string prefix = part.candidate.empty() ? "" : part.candidate + ".";
  if (!path.starts_with(prefix)) return std::nullopt;
  return (part.baseline.empty() ? "" : part.baseline + ".") + path.substr(prefix.size());
}

/// The modules that one side is known to have.
struct Modules {
  Paths running;  ///< that made calls
  Paths owners;   ///< of parameters and buffers
  Paths known;    ///< owners, and all that encloses them but the root

  explicit Modules(const core::DumpSource& source) {
    for (std::uint64_t i = 0; i < source.op_count(); ++i) {
      const core::OpRecord head = source.op_head(i);
      if (core::is_returned(head)) continue;  // of the run, whatever its root is called
      const std::string_view path = module_of(head);
      if (!running.contains(path)) running.emplace(path);
    }
    for (const core::NamedTensor& tensor : source.manifest().named_tensors) {
      if (tensor.kind == core::NamedTensorKind::kInput) continue;
      std::string path = parent_of(tensor.name);
      owners.insert(path);
      while (!path.empty() && known.insert(path).second) path = parent_of(path);
    }
  }
};

bool any_apart(const Paths& left, const Paths& right) {
  return std::ranges::any_of(left, [&](const std::string& path) { return !right.contains(path); });
}

class Search {
 public:
  Search(const core::DumpSource& baseline,
         const core::DumpSource& candidate,
         const PairingOptions& options)
      : baseline_(baseline), candidate_(candidate), options_(options) {}

  ModuleRenames run() {
    if (!any_apart(here_.running, there_.running) || !any_apart(there_.running, here_.running)) {
      return {};
    }
    count();
    for (const auto& [path, names] : of_candidate_) {
      if (names.size() == 1 && of_baseline_[*names.begin()].size() == 1) {
        propose(path, *names.begin());
      }
    }
    rename_owners();
    return std::move(renames_);
  }

 private:
  static std::string path_of(const core::OpRecord& head) { return std::string(module_of(head)); }

  void count() {
    PairingOptions options = options_;
    options.without_modules = true;
    options.pace = nullptr;
    const Pairing pairing = pair_records(baseline_, candidate_, options);
    for (std::uint32_t i = 0; i < pairing.candidate_of.size(); ++i) {
      if (pairing.candidate_of[i] == kUnmatched) continue;
      const core::OpRecord head = baseline_.op_head(i);
      if (core::is_returned(head)) continue;
      const std::string path = path_of(candidate_.op_head(pairing.candidate_of[i]));
      const std::string name = path_of(head);
      of_candidate_[path].insert(name);
      of_baseline_[name].insert(path);
    }
  }

  void propose(const std::string& path, const std::string& name) {
    if (path == name || here_.running.contains(path) || there_.running.contains(name)) return;
    Renamed part = renamed_part(path, name);
    // A branch of the model that the other one has as well was not renamed: it was not taken.
    if (is_other(part.candidate, here_, part.baseline) ||
        is_other(part.baseline, there_, part.candidate)) {
      return;
    }
    renames_.emplace(path, name);
    parts_.insert(std::move(part));
  }

  /// Whether the other side has a module of this path too, and not only as what encloses `like`.
  static bool is_other(const std::string& path, const Modules& modules, const std::string& like) {
    return modules.known.contains(path) && !like.starts_with(path + ".");
  }

  /// Those whose parameters are read by others run no operator of their own.
  void rename_owners() {
    for (const std::string& owner : there_.owners) {
      if (here_.owners.contains(owner) || renames_.contains(owner)) continue;
      std::set<std::string> names;
      for (const Renamed& part : parts_) {
        const auto name = rewritten(owner, part);
        if (name && here_.owners.contains(*name) && !there_.owners.contains(*name)) {
          names.insert(*name);
        }
      }
      if (names.size() == 1) renames_.emplace(owner, *names.begin());
    }
  }

  const core::DumpSource& baseline_;
  const core::DumpSource& candidate_;
  const PairingOptions& options_;
  Modules here_{baseline_};
  Modules there_{candidate_};
  std::map<std::string, Paths> of_candidate_;  ///< by its paths, whose place they are in
  std::map<std::string, Paths> of_baseline_;
  std::set<Renamed> parts_;
  ModuleRenames renames_;
};

bool calls_in_modules(const core::DumpSource& source) {
  for (std::uint64_t i = 0; i < source.op_count(); ++i) {
    const core::OpRecord head = source.op_head(i);
    if (!core::is_returned(head) && !module_of(head).empty()) return true;
  }
  return false;
}

std::string text_of(const std::string& path) { return path.empty() ? "the root" : path; }

}  // namespace

ModuleRenames find_renames(const core::DumpSource& baseline,
                           const core::DumpSource& candidate,
                           const PairingOptions& options) {
  if (baseline.manifest().model_digest == candidate.manifest().model_digest) return {};
  return Search(baseline, candidate, options).run();
}

std::optional<bool> side_without_modules(const core::DumpSource& baseline,
                                         const core::DumpSource& candidate) {
  if (baseline.manifest().model_digest == candidate.manifest().model_digest) return std::nullopt;
  const bool here = calls_in_modules(baseline);
  if (baseline.op_count() == 0 || candidate.op_count() == 0 ||
      here == calls_in_modules(candidate)) {
    return std::nullopt;
  }
  return !here;
}

Phrases rename_notes(const ModuleRenames& renames) {
  std::map<Renamed, std::uint64_t> parts;
  for (const auto& [candidate, baseline] : renames) ++parts[renamed_part(candidate, baseline)];
  Phrases notes;
  for (const auto& [part, count] : parts) {
    if (notes.size() == kMostNotes) {
      notes.push_back(Phrase("more-renamed", {{"modules", parts.size() - kMostNotes}}));
      break;
    }
    notes.push_back(Phrase("renamed",
                           {{"candidate", text_of(part.candidate)},
                            {"baseline", text_of(part.baseline)},
                            {"modules", count}}));
  }
  return notes;
}

}  // namespace repro_check::comparators
