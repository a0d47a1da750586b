// SPDX-License-Identifier: Apache-2.0
#include "core/trace/run_manifest.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/text/printable.h"
#include "core/text/strict_json.h"

namespace repro_check::core {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kDigestText = 32;
constexpr const char* kDigestField = "manifest_digest";

std::string_view kind_name(NamedTensorKind kind) noexcept {
  switch (kind) {
    case NamedTensorKind::kInput:
      return "input";
    case NamedTensorKind::kParameter:
      return "parameter";
    case NamedTensorKind::kBuffer:
      return "buffer";
  }
  return "input";
}

/// JSON has no NaN and no infinity: they are written as text.
Json real_to_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

Json to_json(const std::vector<Setting>& settings) {
  Json array = Json::array();
  for (const Setting& setting : settings) {
    array.push_back({{"name", setting.name}, {"found", setting.found}, {"used", setting.used}});
  }
  return array;
}

Json to_json(const std::vector<EnvironmentFact>& facts) {
  Json array = Json::array();
  for (const EnvironmentFact& fact : facts) {
    array.push_back({{"name", fact.name}, {"value", fact.value}});
  }
  return array;
}

Json to_json(const std::vector<NamedTensor>& tensors) {
  Json array = Json::array();
  for (const NamedTensor& tensor : tensors) {
    array.push_back({{"kind", kind_name(tensor.kind)},
                     {"name", tensor.name},
                     {"dtype", dtype_name(tensor.dtype)},
                     {"shape", tensor.shape},
                     {"digest", to_hex(tensor.digest)}});
  }
  return array;
}

Json to_json(const PartialTrace& partial) {
  return {{"reason", partial.reason},
          {"last", partial.last},
          {"last_operator", partial.last_operator},
          {"unfinished", partial.unfinished},
          {"lost_contents", partial.lost_contents}};
}

Json to_json(const TraceReference& reference) {
  return {{"run_name", reference.run_name},
          {"index_digest", to_hex(reference.index_digest)},
          {"contents", reference.contents},
          {"bytes", reference.bytes}};
}

Json to_json(const OpRanges& ranges) {
  Json array = Json::array();
  for (const OpRange& range : ranges) array.push_back({range.first, range.last});
  return array;
}

Json to_json(const TraceSummary& trace) {
  Json json{{"operators", trace.operators},
            {"tensors", trace.tensors},
            {"contents", trace.contents},
            {"stored_bytes", trace.stored_bytes},
            {"substitutions", trace.substitutions},
            {"drawing_operators", trace.drawing_operators},
            {"level", trace.level},
            {"depth", trace.depth},
            {"include", trace.include},
            {"exclude", trace.exclude},
            {"digest_algorithm", trace.digest_algorithm},
            {"io", trace.io},
            {"index_digest", to_hex(trace.index_digest)}};
  if (trace.bytes_limit_reached_at) json["bytes_limit_reached_at"] = *trace.bytes_limit_reached_at;
  if (trace.partial) json["partial"] = to_json(*trace.partial);
  if (!trace.keep_ops.empty()) json["keep_ops"] = to_json(trace.keep_ops);
  if (trace.slices != 0) json["slices"] = trace.slices;
  if (trace.reference) json["reference"] = to_json(*trace.reference);
  if (trace.returned != 0) json["returned"] = trace.returned;
  return json;
}

/// The digest of a manifest's text, in which its own 32 characters count as zeros.
Digest digest_of_text(std::string text, std::size_t digest_at) {
  text.replace(digest_at, kDigestText, kDigestText, '0');
  return digest_bytes(std::as_bytes(std::span<const char>(text)));
}

/// One node of a manifest being read: knows where it stands, so that every complaint can say so.
class Node {
 public:
  Node(const Json& json, std::string pointer, const std::string& origin)
      : json_(json), pointer_(std::move(pointer)), origin_(origin) {}

  [[nodiscard]] Error damaged(std::string_view what) const {
    return {ErrorKind::kDumpDamaged,
            fmt::format("{}: {}: {}", origin_, pointer_.empty() ? "/" : pointer_, what),
            "the manifest was edited or damaged; record the run again"};
  }

  [[nodiscard]] Node field(const char* name) const {
    if (!json_.is_object()) throw damaged("must be an object");
    const auto found = json_.find(name);
    if (found == json_.end()) throw damaged(fmt::format("\"{}\" is missing", name));
    return {*found, pointer_ + "/" + name, origin_};
  }

  [[nodiscard]] bool has(const char* name) const {
    return json_.is_object() && json_.contains(name);
  }

  void read(std::string& into) const {
    if (!json_.is_string()) throw damaged("must be a string");
    into = json_.get<std::string>();
  }
  void read(std::uint64_t& into) const {
    if (!json_.is_number_unsigned()) throw damaged("must be an integer, not negative");
    into = json_.get<std::uint64_t>();
  }
  void read(std::int64_t& into) const {
    std::uint64_t size = 0;
    read(size);
    if (std::cmp_greater(size, std::numeric_limits<std::int64_t>::max())) {
      throw damaged("is beyond 2^63-1");
    }
    into = static_cast<std::int64_t>(size);
  }
  void read(bool& into) const {
    if (!json_.is_boolean()) throw damaged("must be true or false");
    into = json_.get<bool>();
  }
  void read(double& into) const {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    if (json_.is_number()) {
      into = json_.get<double>();
    } else if (json_ == "nan") {
      into = std::numeric_limits<double>::quiet_NaN();
    } else if (json_ == "inf" || json_ == "-inf") {
      into = json_ == "inf" ? kInf : -kInf;
    } else {
      throw damaged("must be a number, \"nan\", \"inf\" or \"-inf\"");
    }
  }
  void read(Digest& into) const {
    std::string text;
    read(text);
    const std::optional<Digest> digest = parse_digest(text);
    if (!digest) throw damaged("must be a digest of 32 lower-case hexadecimal characters");
    into = *digest;
  }
  void read(Dtype& into) const {
    std::string text;
    read(text);
    const std::optional<Dtype> dtype = parse_dtype(text);
    if (!dtype && text != dtype_name(Dtype::kUnknown)) {
      throw damaged(fmt::format("\"{}\" is no dtype", printable(text, kDigestText)));
    }
    into = dtype.value_or(Dtype::kUnknown);
  }
  void read(NamedTensorKind& into) const {
    std::string text;
    read(text);
    using enum NamedTensorKind;
    for (const NamedTensorKind kind : {kInput, kParameter, kBuffer}) {
      if (kind_name(kind) == text) {
        into = kind;
        return;
      }
    }
    throw damaged("must be \"input\", \"parameter\" or \"buffer\"");
  }
  void read(Setting& into) const {
    field("name").read(into.name);
    field("found").read(into.found);
    field("used").read(into.used);
  }
  void read(EnvironmentFact& into) const {
    field("name").read(into.name);
    field("value").read(into.value);
  }
  void read(NamedTensor& into) const {
    field("kind").read(into.kind);
    field("name").read(into.name);
    field("dtype").read(into.dtype);
    field("shape").read(into.shape);
    field("digest").read(into.digest);
  }
  template <typename Item>
  void read(std::vector<Item>& into) const {
    if (!json_.is_array()) throw damaged("must be an array");
    into.clear();
    for (std::size_t i = 0; i < json_.size(); ++i) {
      Node(json_[i], fmt::format("{}/{}", pointer_, i), origin_).read(into.emplace_back());
    }
  }
  void read(PartialTrace& into) const {
    field("reason").read(into.reason);
    field("last").read(into.last);
    field("last_operator").read(into.last_operator);
    field("unfinished").read(into.unfinished);
    field("lost_contents").read(into.lost_contents);
  }
  void read(TraceReference& into) const {
    field("run_name").read(into.run_name);
    field("index_digest").read(into.index_digest);
    field("contents").read(into.contents);
    field("bytes").read(into.bytes);
  }
  void read_ranges(OpRanges& into) const {
    std::vector<std::vector<std::uint64_t>> pairs;
    read(pairs);
    into.clear();
    for (const auto& pair : pairs) {
      if (pair.size() != 2 || pair[0] > pair[1]) throw damaged("must hold [first, last] pairs");
      into.push_back({pair[0], pair[1]});
    }
    if (into != united(into)) throw damaged("must ascend without overlaps");
  }
  void read(TraceSummary& into) const {
    field("operators").read(into.operators);
    field("tensors").read(into.tensors);
    field("contents").read(into.contents);
    field("stored_bytes").read(into.stored_bytes);
    field("substitutions").read(into.substitutions);
    field("drawing_operators").read(into.drawing_operators);
    field("level").read(into.level);
    field("depth").read(into.depth);
    field("include").read(into.include);
    field("exclude").read(into.exclude);
    if (has("keep_ops")) field("keep_ops").read_ranges(into.keep_ops);  // since 1.1
    field("digest_algorithm").read(into.digest_algorithm);
    field("index_digest").read(into.index_digest);
    if (has("io")) field("io").read(into.io);  // since 1.1, as what follows
    if (has("bytes_limit_reached_at")) {
      field("bytes_limit_reached_at").read(into.bytes_limit_reached_at.emplace());
    }
    if (has("partial")) field("partial").read(into.partial.emplace());
    if (has("slices")) field("slices").read(into.slices);  // since 1.2, as what follows
    if (has("reference")) field("reference").read(into.reference.emplace());
    if (has("returned")) field("returned").read(into.returned);  // since 1.3
  }

 private:
  const Json& json_;
  std::string pointer_;
  const std::string& origin_;  // outlives every node: the caller's
};

/// Decides whether this program may read the manifest at all, before it looks at anything else.
void check_version(const Node& root, const Json& json, const std::string& origin) {
  const auto format = json.is_object() ? json.find("format") : json.end();
  if (!json.is_object() || format == json.end() || *format != kDumpFormatName) {
    throw Error(
        ErrorKind::kDumpUnknown,
        fmt::format(
            "{}: not the manifest of a dump (\"format\" is not \"{}\")", origin, kDumpFormatName),
        "give a directory that `repro-check record` or `repro-check run` has written");
  }
  std::string version;
  root.field("version").read(version);
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  const char* end = version.data() + version.size();
  const auto first = std::from_chars(version.data(), end, major);
  bool whole = first.ec == std::errc() && first.ptr != end && *first.ptr == '.';
  if (whole) {
    const auto second = std::from_chars(first.ptr + 1, end, minor);
    whole = second.ec == std::errc() && second.ptr == end;
  }
  if (!whole) throw root.field("version").damaged("must be \"<major>.<minor>\"");
  if (major != kDumpFormatMajor) {
    throw Error(ErrorKind::kDumpUnknown,
                fmt::format("{}: dump format {} cannot be read: this repro-check reads {}.x",
                            origin,
                            version,
                            kDumpFormatMajor),
                major > kDumpFormatMajor ? "use the repro-check that recorded it, or a newer one"
                                         : "record the run again");
  }
}

/// @return the digest
Digest check_digest(const Node& root, const std::string& text) {
  std::string hex;
  Digest digest;
  root.field(kDigestField).read(digest);
  root.field(kDigestField).read(hex);
  const std::size_t at = text.rfind(hex);  // spelled with escapes it is not found at all
  if (at == std::string::npos || digest_of_text(text, at) != digest) {
    throw root.field(kDigestField).damaged("the manifest does not match its own digest");
  }
  return digest;
}

}  // namespace

std::string to_json_text(const RunManifest& manifest) {
  const Json json{
      {"format", kDumpFormatName},
      {"version", fmt::format("{}.{}", kDumpFormatMajor, kDumpFormatMinor)},
      {"tool_version", manifest.tool_version},
      {"run_name", manifest.run_name},
      {"created", manifest.created},
      {"model_path", manifest.model_path},
      {"model_method", manifest.model_method},
      {"model_digest", to_hex(manifest.model_digest)},
      {"seed", manifest.seed},
      {"device", manifest.device},
      {"determinism", manifest.determinism},
      {"disable_dropout", manifest.disable_dropout},
      {"rng", manifest.rng},
      {"grad", manifest.grad},
      {"seconds", real_to_json(manifest.seconds)},
      {"load_seconds", real_to_json(manifest.load_seconds)},
      {"trace", to_json(manifest.trace)},
      {"warnings", manifest.warnings},
      {"settings", to_json(manifest.settings)},
      {"environment", to_json(manifest.environment)},
      {"named_tensors", to_json(manifest.named_tensors)},
      {"configuration", manifest.configuration},
      {kDigestField, std::string(kDigestText, '0')},
  };
  std::string text = tame_json(json.dump(1, ' ', false, Json::error_handler_t::replace)) + "\n";
  const std::size_t digest_at = text.rfind(std::string(kDigestText, '0'));
  text.replace(digest_at, kDigestText, to_hex(digest_of_text(text, digest_at)));
  return text;
}

Digest manifest_digest(const std::string& text) {
  // It is the last field.
  const std::size_t quote = text.rfind('"');
  const std::size_t begin = quote - kDigestText;
  return parse_digest(std::string_view(text).substr(begin, kDigestText)).value();
}

RunManifest manifest_from_json_text(const std::string& text, const std::string& origin) {
  const Json json = parse_strict_json(text, origin);
  const Node root(json, "", origin);
  check_version(root, json, origin);
  RunManifest manifest;
  root.field("tool_version").read(manifest.tool_version);
  root.field("run_name").read(manifest.run_name);
  root.field("created").read(manifest.created);
  root.field("model_path").read(manifest.model_path);
  root.field("model_method").read(manifest.model_method);
  root.field("model_digest").read(manifest.model_digest);
  root.field("seed").read(manifest.seed);
  root.field("device").read(manifest.device);
  root.field("determinism").read(manifest.determinism);
  root.field("disable_dropout").read(manifest.disable_dropout);
  root.field("rng").read(manifest.rng);
  root.field("grad").read(manifest.grad);
  root.field("seconds").read(manifest.seconds);
  root.field("load_seconds").read(manifest.load_seconds);
  root.field("trace").read(manifest.trace);
  root.field("warnings").read(manifest.warnings);
  root.field("settings").read(manifest.settings);
  root.field("environment").read(manifest.environment);
  root.field("named_tensors").read(manifest.named_tensors);
  root.field("configuration").read(manifest.configuration);
  manifest.digest = check_digest(root, text);
  return manifest;
}

}  // namespace repro_check::core
