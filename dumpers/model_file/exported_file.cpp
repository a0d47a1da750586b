// SPDX-License-Identifier: Apache-2.0
#include "dumpers/model_file/exported_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "core/text/strict_json.h"
#include "dumpers/model_file/model_file.h"

namespace repro_check::model_file {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostJson = std::size_t{1} << 30U;
constexpr std::int64_t kKnownMajor = 8;
constexpr const char* kExportAgain = "export the model again with PyTorch 2.9 or later";

Json parsed(const std::string& text, const std::filesystem::path& file) {
  std::string flaw = "a part of it is no JSON";
  auto document = core::read_strict_json(text, [&](const core::JsonFlaw& found) {
    if (found.kind == core::JsonFlaw::Kind::kDepth) flaw = "it lies too deep in itself";
  });
  if (document) return std::move(*document);
  throw core::usage_error(file.string() + ": " + flaw, kExportAgain);
}

std::vector<std::int64_t> integers_of(const Json& list) {
  std::vector<std::int64_t> numbers;
  for (const Json& each : list) numbers.push_back(each.at("as_int"));
  return numbers;
}

void require_known_version(const Json& model, const std::filesystem::path& file) {
  const Json& version = model.at("schema_version");
  const std::int64_t major = version.at("major");
  if (major == kKnownMajor) return;
  throw core::usage_error(file.string() + ": its schema has version " + std::to_string(major) +
                              ", and version " + std::to_string(kKnownMajor) + " is known",
                          kExportAgain);
}

/// `File "m.py", line 12, in forward`.
std::optional<core::SourceFrame> frame_of(std::string_view line) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  constexpr std::string_view kIn = ", in ";
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::size_t end = line.rfind(kLine);
  if (!line.starts_with(kFile) || end == std::string_view::npos) return std::nullopt;
  const std::size_t digits = end + kLine.size();
  std::uint32_t number = 0;
  const auto read = std::from_chars(line.data() + digits, line.data() + line.size(), number);
  if (read.ec != std::errc{}) return std::nullopt;
  const auto after = static_cast<std::size_t>(read.ptr - line.data());
  const std::string_view rest = line.substr(after);
  return core::SourceFrame{std::string(line.substr(kFile.size(), end - kFile.size())),
                           number,
                           std::string(rest.starts_with(kIn) ? rest.substr(kIn.size()) : "")};
}

}  // namespace

ExportedFile read_exported_file(const std::filesystem::path& file) {
  std::string model;
  std::string weights;
  std::string constants;
  std::string order = "little";
  bool is_compiled = false;
  visit_entries(file, [&](const std::string& name, const EntryReader& read) {
    if (name.ends_with("/byteorder")) order = read(order.size());
    if (name.ends_with("/models/model.json")) model = read(kMostJson);
    if (name.ends_with("/model_weights_config.json")) weights = read(kMostJson);
    if (name.ends_with("/model_constants_config.json")) constants = read(kMostJson);
    if (!entry_below(name, "aotinductor").empty()) is_compiled = true;
  });
  if (order != "little") {
    throw core::usage_error(file.string() + ": was written by a machine of another byte order",
                            "export the model on one like this");
  }
  if (model.empty() && is_compiled) {
    throw core::usage_error(
        file.string() + ": holds compiled code (AOTInductor), and no graph of operators",
        "record the ExportedProgram that it was compiled of: torch.export.save(program, path)");
  }
  if (model.empty() || weights.empty() || constants.empty()) {
    throw core::usage_error(file.string() + ": is of another version of torch.export than is known",
                            kExportAgain);
  }
  try {
    const auto document = [](Json json) { return std::make_shared<const Json>(std::move(json)); };
    Json program = parsed(model, file);
    require_known_version(program, file);
    return {document(std::move(program)),
            document(parsed(weights, file).at("config")),
            document(parsed(constants, file).at("config"))};
  } catch (const Json::exception& error) {
    throw not_as_exported(file, error);
  }
}

core::Error not_as_exported(const std::filesystem::path& file, const std::exception& error) {
  return core::usage_error(file.string() + ": is not as torch.export writes it: " + error.what(),
                           kExportAgain);
}

ExportedItem item_of(const Json& object) {
  if (!object.is_object() || object.empty()) {
    throw core::usage_error("a part of it is not as torch.export writes it", kExportAgain);
  }
  const auto first = object.begin();
  return {first.key(), first.value()};
}

core::Dtype exported_dtype(std::int64_t number) noexcept {
  using core::Dtype;
  constexpr std::array kFirst{Dtype::kUnknown,
                              Dtype::kUInt8,
                              Dtype::kInt8,
                              Dtype::kInt16,
                              Dtype::kInt32,
                              Dtype::kInt64,
                              Dtype::kFloat16,
                              Dtype::kFloat32,
                              Dtype::kFloat64,
                              Dtype::kComplex32,
                              Dtype::kComplex64,
                              Dtype::kComplex128,
                              Dtype::kBool,
                              Dtype::kBFloat16};
  constexpr std::array kLater{Dtype::kUInt16,
                              Dtype::kFloat8E4M3FN,
                              Dtype::kFloat8E5M2,
                              Dtype::kFloat8E4M3FNUZ,
                              Dtype::kFloat8E5M2FNUZ,
                              Dtype::kFloat8E8M0FNU,
                              Dtype::kUInt32,
                              Dtype::kUInt64};
  constexpr std::int64_t kLaterBegin = 28;
  const auto at = [](const auto& table, std::int64_t index) {
    const bool is_known = index >= 0 && std::cmp_less(index, table.size());
    return is_known ? table[static_cast<std::size_t>(index)] : Dtype::kUnknown;
  };
  return number < kLaterBegin ? at(kFirst, number) : at(kLater, number - kLaterBegin);
}

std::optional<PickledTensor> tensor_of(const Json& payload) {
  const Json& meta = payload.at("tensor_meta");
  if (payload.value("use_pickle", true) || !meta.is_object()) return std::nullopt;
  return PickledTensor{exported_dtype(meta.at("dtype")),
                       payload.at("path_name"),
                       meta.at("storage_offset").at("as_int"),
                       integers_of(meta.at("sizes")),
                       integers_of(meta.at("strides"))};
}

std::string entry_below(const std::string& name, const std::string& folder) {
  const std::size_t at = name.find("/" + folder + "/");
  return at == std::string::npos ? std::string() : name.substr(at + 1);
}

std::vector<core::SourceFrame> frames_of_stack(const std::string& stack) {
  std::vector<core::SourceFrame> frames;
  for (std::string_view rest(stack); !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    if (auto frame = frame_of(rest.substr(0, end))) frames.push_back(std::move(*frame));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  std::ranges::reverse(frames);
  return frames;
}

}  // namespace repro_check::model_file
